"""The kernel of lstm_sequence: for f32, constant weights, no projection and no normalized gates."""

from __future__ import annotations

from math import inf

import numpy as np

from ..ir import Node, Value
from ..ir.weights import once
from ..ops.registry import attr
from ..plan.lower.emit import Strided
from ..plan.lower.recurrent.layer import Buffers, Recurrence, element_of, emit_layer, grid
from ..plan.lower.recurrent.weights import Constants, constant, reals, signed, stored, symmetric
from ..plan.lower.registry import Emit, is_f32, lowers
from .lstm_sequence import BIAS, CELL, FORGET, INPUT, NORM, OUTPUT, PEEPHOLE, PEEPHOLES, PROJECTION, C, H, R, W

GATES = (INPUT, OUTPUT, FORGET, CELL)
"""In the order of the canonical lstm."""
COUPLED = 2
"""The input gate is 1 - forget."""


def _f32(node: Node, rounded: bool) -> bool:
    """Whether the node is all f32; where the state is rounded, but for weights: those of the state are bytes."""
    if not rounded:
        return is_f32(node)
    others = [v for v in (*node.inputs[:W], *node.inputs[BIAS:], *node.outputs) if v is not None]
    plain = all(v.type.concrete and v.type.dtype == np.float32 and v.type.quant is None for v in others)
    return plain and all(v is None or symmetric(v) for v in node.inputs[R:PEEPHOLE])


def _layer(node: Node) -> Recurrence | None:
    """The layer, where it is f32, its weights are constant, and there is something to compute."""
    weights = [node.input(i) for i in range(W, NORM + 4)]
    fixed = all(v is None or v.data is not None for v in weights)
    beyond = any(node.input(i) is not None for i in (PROJECTION, *range(NORM, NORM + 4)))
    rounded = attr(node, "dynamic")
    if beyond or not fixed or not all(v.type.size for v in (node.x, *node.outputs)) or not _f32(node, bool(rounded)):
        return None
    state, diagonal = node.input(C), any(v is not None and len(v.type.dims) == 1 for v in weights[R - W : R - W + 4])
    if diagonal or state is None:
        return None
    dims, (batch, hidden) = node.x.type.dims, state.type.dims
    act = {"none": "affine"}.get(attr(node, "activation"), attr(node, "activation"))
    inner, clip = (act, 1.0 if act == "affine" else 0.0, 0.0), attr(node, "cell_clip")
    return Recurrence(
        "lstm_bytes" if rounded else "lstm", node.x.type.size // (batch * dims[-1]), batch, dims[-1], hidden,
        (bool(attr(node, "reverse")),),
        ((("sigmoid", 0.0, 0.0), inner, inner),), cell_clip=clip if clip > 0 else inf,
        coupled=COUPLED if node.inputs[W + INPUT] is None else 0, state_grid=grid(attr(node, "state_type")),
        cell_grid=grid(attr(node, "cell_type")),
    )  # fmt: skip


@lowers("lstm_sequence", match=_layer, strided_in=True, strided_out=True)
def lstm_sequence(e: Emit, node: Node, layer: Recurrence) -> None:
    late = len(node.x.type.dims) == 3 and not attr(node, "time_major")

    def state(value: Value | None) -> Strided:
        assert value is not None
        return Strided(e.address(value), (0, e.strides(value)[0]))

    y = (0, *e.strides(node.out))[-3:]
    buffers = Buffers(
        x=e.address(node.x), ldx=e.stride(node.x), batch_first=late,
        y=Strided(e.address(node.out), (y[1], 0, y[0]) if late else (y[0], 0, y[1])),
        first=state(node.inputs[H]), first_cell=state(node.inputs[C]),
        last=state(node.outputs[1]), last_cell=state(node.outputs[2]),
    )  # fmt: skip
    emit_layer(e, layer, constant(e, layer.cell, _weights(node, layer), element_of(e, layer)), buffers)


def _weights(node: Node, layer: Recurrence) -> Constants:
    """The weights and biases of all gates side by side; zeros for those that are absent."""

    def joined(places: tuple[int, ...], *shape: int) -> np.ndarray | None:
        parts = [node.input(i) for i in places]
        if all(v is None for v in parts):
            return None
        return once(_joined, tuple(parts), shape)

    hidden = layer.hidden
    w = joined(tuple(W + g for g in GATES), hidden, layer.inputs)
    bias = joined(tuple(BIAS + g for g in GATES), hidden)
    peepholes = joined(tuple(PEEPHOLES[g] for g in GATES if g in PEEPHOLES), hidden)
    r, scales = _recurrent([node.input(R + g) for g in GATES], layer)
    assert w is not None
    return Constants(w, r, bias, None, peepholes, scales)


def _joined(parts: tuple[Value | None, ...], shape: tuple[int, ...]) -> np.ndarray:
    """[1, ...]: the reals of these constants one after the other, zeros of a shape for those that are missing."""
    none = np.zeros(shape, np.float32)
    return np.concatenate([none if v is None else reals(v) for v in parts])[None]


def _joined_bytes(parts: tuple[Value | None, ...], hidden: int) -> np.ndarray:
    """[1, ...]: the stored numbers of these constants as s8, one after the other."""
    none = np.zeros((hidden, hidden), np.int8)
    return np.concatenate([none if v is None or v.data is None else signed(v.data) for v in parts])[None]


def _recurrent(parts: list[Value | None], layer: Recurrence) -> tuple[np.ndarray, np.ndarray | None]:
    """Recurrent weights of all gates; with their scales, where they are bytes."""
    hidden = layer.hidden
    if layer.cell != "lstm_bytes":
        return once(_joined, tuple(parts), (hidden, hidden)), None
    scales = [np.broadcast_to(np.zeros(1) if v is None else stored(v)[1], hidden) for v in parts]
    return once(_joined_bytes, tuple(parts), hidden), np.concatenate(scales)[None].astype(np.float32)
