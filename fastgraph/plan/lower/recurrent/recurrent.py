"""rnn, gru and lstm."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from ....ir import Node, Value
from ....kernels.recurrent.rows import GATES, USUAL
from ....ops.recurrent import DIRECTIONS, ROUNDS_INPUT, activations
from ....ops.registry import attr
from ..emit import Strided
from ..registry import Emit, lowers
from .layer import Buffers, Recurrence, element_of, emit_layer
from .weights import Constants, Given, Panels, constant, given, stored, symmetric

X, W, R, B, LENGTHS, H, C, P = range(8)


def _rounds_input(node: Node) -> bool:
    return node.op == "lstm" and attr(node, "dynamic") == ROUNDS_INPUT


def _layer(node: Node) -> Recurrence | None:
    return None if _rounds_input(node) else _described(node)


def _layer_of_bytes(node: Node) -> Recurrence | None:
    """A layer that rounds its input, whose rows lie in order."""
    return _described(node) if _rounds_input(node) and not attr(node, "layout") else None


def _described(node: Node) -> Recurrence | None:
    """The layer, where `_fits`."""
    r, rounded = node.inputs[R], node.op == "lstm" and attr(node, "dynamic")
    if r is None or not _fits(node, r, rounded):
        return None
    dims = node.x.type.dims
    steps, batch = dims[:2][::-1] if attr(node, "layout") else dims[:2]
    cell = "gru_after" if node.op == "gru" and attr(node, "linear_before_reset") else node.op
    cell = "lstm_bytes" if rounded else cell
    direction, clip = attr(node, "direction"), attr(node, "clip")
    cell_clip = attr(node, "cell_clip") if node.op == "lstm" else None
    found, each = activations(node), len(USUAL[cell])
    reverse = (direction == "reverse",) if DIRECTIONS[direction] == 1 else (False, True)
    by_direction = tuple(tuple(found[d * each : (d + 1) * each]) for d in range(len(reverse)))
    layer = Recurrence(cell, steps, batch, dims[2], r.type.dims[2], reverse, by_direction)
    coupled = int(node.op == "lstm" and attr(node, "input_forget"))
    return replace(layer, clip=inf if clip is None else clip, cell_clip=cell_clip or inf, coupled=coupled)


def _fits(node: Node, r: Value, rounded: bool) -> bool:
    """Whether all operands are f32 but lengths, and weights of bytes where states are rounded; and nothing is empty."""
    lengths = node.input(LENGTHS)
    stored = [v for v in (r, node.inputs[W] if _rounds_input(node) else None) if rounded and v is not None]
    if rounded and any(v and v.data is None for v in (node.input(i) for i in (W, B, P))):
        return False
    if not all(map(symmetric, stored)) or (lengths is not None and lengths.type.dtype != np.int32):
        return False
    values = [v for i, v in enumerate(node.inputs) if v is not None and i != LENGTHS and v not in stored]
    kinds = [v.type for v in (*values, *node.outputs)]
    return all(t.quant is None and t.concrete and t.dtype == np.float32 and t.size for t in kinds)


@lowers("rnn", "gru", "lstm", match=_layer, strided_in=True, strided_out=True)
def recurrent(e: Emit, node: Node, layer: Recurrence) -> None:
    batch_first, lengths = attr(node, "layout"), node.input(LENGTHS)

    def state(value: Value | None) -> Strided | None:
        if value is None:
            return None
        batch, direction = e.strides(value)[:2] if batch_first else e.strides(value)[1::-1]
        return Strided(e.address(value), (direction, batch))

    y = e.strides(node.out)
    result = Strided(e.address(node.out), (y[1], y[2], y[0]) if batch_first else y[:3])
    buffers = Buffers(e.address(node.x), e.stride(node.x), bool(batch_first), result, first=state(node.input(H)))
    buffers.last = state(node.outputs[1] if len(node.outputs) > 1 else None)
    buffers.lengths = None if lengths is None else e.address(lengths)
    if node.op == "lstm":
        buffers.first_cell = state(node.input(C))
        buffers.last_cell = state(node.outputs[2] if len(node.outputs) > 2 else None)
    emit_layer(e, layer, _panels(e, node, layer), buffers)


@lowers("lstm", match=_layer_of_bytes, strided_out=True)
def of_bytes(e: Emit, node: Node, layer: Recurrence) -> None:
    recurrent(e, node, layer)


def _panels(e: Emit, node: Node, layer: Recurrence) -> Panels:
    w, r, b, p = values = (node.operand(W), node.operand(R), node.input(B), node.input(P))
    if all(v is None or v.data is not None for v in values):
        constants = _constants(values, layer)
        found = constant(e, layer.cell, constants, element_of(e, layer))
        if constants.input_scales is None:
            return found
        from .rounded_inputs import for_bytes  # what few layers need

        return for_bytes(e, GATES[layer.cell], constants, found)

    def place(value: Value, axes: int = 2) -> Strided:
        return Strided(e.address(value), e.strides(value)[:axes])

    ours = Given(place(w), place(r), None if b is None else place(b, 1), None if p is None else place(p, 1))
    return given(e, layer.cell, layer.directions, layer.inputs, layer.hidden, ours)


def _constants(values: tuple[Value, Value, Value | None, Value | None], layer: Recurrence) -> Constants:
    w, r = values[0].array, values[1].array
    b, peepholes = (None if v is None else v.data for v in values[2:])
    scales = input_scales = None
    if layer.cell == "lstm_bytes":
        r, scales = _signed(values[1])
    if values[0].type.quant is not None:
        w, input_scales = _signed(values[0])
    bias = state = None
    if b is not None:
        own = 2 * layer.hidden if layer.cell == "gru_after" else b.shape[1] // 2
        bias, state = (half.copy() for half in np.split(b, 2, axis=1))
        bias[:, :own] += state[:, :own]
    return Constants(w, r, bias, state if layer.cell == "gru_after" else None, peepholes, scales, input_scales)


def _signed(value: Value) -> tuple[np.ndarray, np.ndarray]:
    """Weights as s8, and their scales in f32 by direction and row."""
    numbers, scales = stored(value)
    return numbers, np.broadcast_to(scales, numbers.shape[:2]).astype(np.float32)
