"""rnn, gru and lstm."""

from __future__ import annotations

from math import inf

import numpy as np

from ....ir import Node, Value
from ....ops.recurrent import DIRECTIONS, activations
from ....ops.registry import attr
from ....kernels.recurrent.rows import USUAL
from ..registry import Emit, lowers
from .layer import Layer, Place, Places, Weights, emit_layer

X, W, R, B, LENGTHS, H, C, P = range(8)


def _at(node: Node, index: int) -> Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _layer(node: Node) -> Layer | None:
    """The layer, where all but the lengths is f32, weights are constant, and there is something to compute."""
    values = [v for i, v in enumerate(node.inputs) if v is not None and i != LENGTHS]
    lengths = _at(node, LENGTHS)
    full = all(v.type.concrete and v.type.dtype == np.float32 and v.type.size for v in (*values, *node.outputs))
    if not full or (lengths is not None and lengths.type.dtype != np.int32):
        return None
    fixed = (_at(node, i) for i in (W, R, B, P))
    if any(v is not None and v.data is None for v in fixed):
        return None
    dims, r = node.x.type.dims, node.inputs[R]
    assert r is not None
    steps, batch = dims[:2][::-1] if attr(node, "layout") else dims[:2]
    cell = "gru_after" if node.op == "gru" and attr(node, "linear_before_reset") else node.op
    direction, clip = attr(node, "direction"), attr(node, "clip")
    cell_clip = attr(node, "cell_clip") if node.op == "lstm" else None
    found, each = activations(node), len(USUAL[cell])
    return Layer(
        cell, steps, batch, dims[2], r.type.dims[2],
        (direction == "reverse",) if DIRECTIONS[direction] == 1 else (False, True),
        tuple(tuple(found[d * each : (d + 1) * each]) for d in range(DIRECTIONS[direction])),
        inf if clip is None else clip, cell_clip or inf, int(node.op == "lstm" and attr(node, "input_forget")),
    )  # fmt: skip


def _weights(node: Node, layer: Layer) -> Weights:
    w, r, b = (None if v is None else v.data for v in (_at(node, W), _at(node, R), _at(node, B)))
    peepholes = _at(node, P)
    assert w is not None and r is not None
    bias = state_bias = None
    if b is not None:
        bias, state_bias = (half.copy() for half in np.split(b, 2, axis=1))
        own = 2 * layer.hidden if layer.cell == "gru_after" else bias.shape[1]
        bias[:, :own] += state_bias[:, :own]
        state_bias[:, :own] = 0
    after = state_bias if layer.cell == "gru_after" else None
    return Weights(w, r, bias, after, None if peepholes is None else peepholes.data)


@lowers("rnn", "gru", "lstm", match=_layer, strided_in=True, strided_out=True)
def recurrent(e: Emit, node: Node, layer: Layer) -> None:
    batch_first, lengths = attr(node, "layout"), _at(node, LENGTHS)

    def state(value: Value | None) -> Place | None:
        if value is None:
            return None
        batch, direction = e.strides(value)[:2] if batch_first else e.strides(value)[1::-1]
        return Place(e.address(value), (direction, batch))

    y = e.strides(node.out)
    places = Places(
        x=e.address(node.x), ldx=e.stride(node.x), x_step=1 if batch_first else layer.batch,
        x_row=layer.steps if batch_first else 1,
        y=Place(e.address(node.out), (y[1], y[2], y[0]) if batch_first else y[:3]),
        first=state(_at(node, H)), last=state(node.outputs[1] if len(node.outputs) > 1 else None),
        lengths=None if lengths is None else e.address(lengths),
    )  # fmt: skip
    if node.op == "lstm":
        places.first_cell = state(_at(node, C))
        places.last_cell = state(node.outputs[2] if len(node.outputs) > 2 else None)
    key = tuple(_at(node, i) for i in (W, R, B, P))
    emit_layer(e, layer, _weights(node, layer), places, (*key, layer.cell))
