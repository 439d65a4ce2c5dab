"""An LSTM layer with all that TensorFlow Lite's has, and SVDF. Semantics: tflite/kernels/lstm_eval.cc, svdf.cc.

`state_type`, `cell_type`: what a quantized state is stored as. Each step rounds it, so that what the next step reads is
what a device that stores it would read. `hidden_type`: what the output is rounded to before its projection.
`dynamic`: the output is rounded to 8 bits, row by row, before it is multiplied by recurrent weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..ir import Node, TensorType
from ..ir.quantization import to_real, to_stored
from .activation import sigmoid
from .common import FLOAT, Types, average, fail, fits, need_kind, need_rank, one_of
from .recurrent import by_row
from .registry import REQUIRED, attr, define
from .work import squares

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "relu_n1_to_1": lambda x: np.clip(x, -1, 1),
    "relu6": lambda x: np.clip(x, 0, 6),
    "tanh": np.tanh,
    "sigmoid": sigmoid,
}

INPUT, FORGET, CELL, OUTPUT = range(4)
H, C, W, R, PEEPHOLE, BIAS, PROJECTION, PROJECTION_BIAS, NORM = 1, 2, 3, 7, 11, 14, 18, 19, 20
"""Where the inputs begin, x being 0: the states, then weights, peepholes, biases and norms by gate, in the order
input, forget, cell, output. Without weights for the input gate, it is 1 - forget.
"""

EPSILON = 1e-8
"""Added to the variance by layer normalization."""


def rounded(array: np.ndarray, t: TensorType | None) -> np.ndarray:
    """The reals nearest to `array` that a value of type `t` can hold."""
    if t is None or t.quant is None or t.dtype is None:
        return array
    return to_real(to_stored(array, t.dtype, t.quant), t.quant)


class Gate(NamedTuple):
    """One gate's parameters; all but the weights may be None. Recurrent weights of rank 1 are a diagonal."""

    w: Any
    r: Any
    peephole: Any
    bias: Any
    norm: Any

    def __call__(self, x: np.ndarray, h: np.ndarray, c: np.ndarray | None) -> np.ndarray:
        """Before the activation, [B, units]; `x` is projected already, `c` is None where no cell is looked at."""
        total = x + (h * self.r if self.r.ndim == 1 else h @ self.r.T)
        if self.peephole is not None and c is not None:
            total = total + c * self.peephole
        if self.norm is not None:
            centered = total - average(total, (1,))
            total = centered / np.sqrt(average(centered**2, (1,)) + EPSILON) * self.norm
        return total if self.bias is None else total + self.bias


def _infer_lstm(node: Node, types: Types) -> list[TensorType]:
    x, w, h, c = types[0], types[W + FORGET], types[H], types[C]
    need_rank(node, x, 2, 3, "x")
    for index in (W + FORGET, W + CELL, W + OUTPUT, R + FORGET, R + CELL, R + OUTPUT):
        if types[index] is None:
            fail(node, f"input {index}, a weight that every LSTM has, is absent")
    if (types[W] is None) != (types[R] is None):
        fail(node, "the input gate has weights of the input or of the state, but not both")
    need_rank(node, w, 2, 2, "weights")
    need_rank(node, h, 2, 2, "the output state")
    need_rank(node, c, 2, 2, "the cell state")
    for index, t in enumerate(types):
        need_kind(node, t, FLOAT, f"input {index}")
    one_of(node, "activation", attr(node, "activation"), ACTIVATIONS)
    _check_weights(node, types)
    width = h.shape[1] if h.shape else None
    y = None if x.shape is None else (*x.shape[:-1], width)
    return [TensorType(x.dtype, y), TensorType(h.dtype, h.shape), TensorType(c.dtype, c.shape)]


def _check_weights(node: Node, types: Types) -> None:
    """ModelError unless the extents of weights and states that are known fit together."""
    x, h, c = types[0].shape, types[H].shape, types[C].shape
    units = c[1] if c else None
    sizes = {"input": x[-1] if x else None, "state": h[1] if h else None}

    def check(index: int, *wanted: Any) -> None:
        fits(node, types[index], f"input {index}", *wanted)

    for gate in range(4):
        check(W + gate, units, sizes["input"])
        diagonal = types[R + gate] is not None and types[R + gate].shape and len(types[R + gate].shape) == 1
        check(R + gate, *((units,) if diagonal else (units, sizes["state"])))
        check(BIAS + gate, units)
        check(NORM + gate, units)
    for index in range(PEEPHOLE, PEEPHOLE + 3):
        check(index, units)
    check(PROJECTION, sizes["state"], units)
    check(PROJECTION_BIAS, sizes["state"])
    late = len(x) == 2 or not attr(node, "time_major") if x else True
    check(H, x[0 if late else 1] if x else None, sizes["state"])
    check(C, x[0 if late else 1] if x else None, units)
    if types[PROJECTION] is None and sizes["state"] != units and isinstance(sizes["state"], int):
        fail(node, f"without a projection the states must be equally wide, found {sizes['state']} and {units}")


def _gates(inputs: list[Any]) -> list[Gate | None]:
    peepholes = {INPUT: PEEPHOLE, FORGET: PEEPHOLE + 1, OUTPUT: PEEPHOLE + 2}
    return [
        None if inputs[W + g] is None else Gate(
            inputs[W + g], inputs[R + g], inputs[peepholes[g]] if g in peepholes else None, inputs[BIAS + g],
            inputs[NORM + g],
        )
        for g in range(4)
    ]  # fmt: skip


def _clipped(x: np.ndarray, limit: float) -> np.ndarray:
    return np.clip(x, -limit, limit) if limit > 0 else x


def _lstm(node: Node, inputs: list[Any]) -> list[Any]:
    x, h, c = inputs[0], inputs[H], inputs[C]
    single, late = x.ndim == 2, not attr(node, "time_major")
    steps = x[None] if single else x.swapaxes(0, 1) if late else x
    gates, act = _gates(inputs), ACTIVATIONS[attr(node, "activation")]
    projected = [None if gate is None else steps @ gate.w.T for gate in gates]
    types = [attr(node, name) for name in ("state_type", "cell_type", "hidden_type")]
    out = np.zeros((*steps.shape[:2], h.shape[1]), np.result_type(h, steps))

    def step(t: int, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        h = by_row(h) if attr(node, "dynamic") else h

        def value(gate: int, cell: np.ndarray | None) -> np.ndarray:
            return gates[gate](projected[gate][t], h, cell)  # type: ignore[misc, index]

        forget = sigmoid(value(FORGET, c))
        take = 1 - forget if gates[INPUT] is None else sigmoid(value(INPUT, c))
        c = rounded(_clipped(forget * c + take * act(value(CELL, None)), attr(node, "cell_clip")), types[1])
        h = sigmoid(value(OUTPUT, c)) * act(c)
        if inputs[PROJECTION] is not None:
            h = rounded(h, types[2]) @ inputs[PROJECTION].T
            h = _clipped(h if inputs[PROJECTION_BIAS] is None else h + inputs[PROJECTION_BIAS], attr(node, "proj_clip"))
        return rounded(h, types[0]), c

    with np.errstate(over="ignore"):
        for t in range(len(steps))[:: -1 if attr(node, "reverse") else 1]:
            h, c = step(t, h, c)
            out[t] = h
    states = [s.astype(first.dtype) for s, first in ((h, inputs[H]), (c, inputs[C]))]
    return [out[0] if single else out.swapaxes(0, 1) if late else out, *states]


def _infer_svdf(node: Node, types: Types) -> list[TensorType]:
    x, state, feature, time, _ = types
    for t, what in ((x, "x"), (feature, "feature weights"), (time, "time weights"), (state, "the state")):
        need_rank(node, t, 2, 2, what)
        need_kind(node, t, FLOAT, what)
    need_kind(node, types[4], FLOAT, "the bias")
    filters, rank = (feature.shape[0] if feature.shape else None), attr(node, "rank")
    if rank < 1 or (isinstance(filters, int) and filters % rank):
        fail(node, f"rank {rank} does not divide {filters} filters")
    units = filters // rank if isinstance(filters, int) else None
    memory = time.shape[1] if time.shape else None
    columns = filters * memory if isinstance(filters, int) and isinstance(memory, int) else None
    fits(node, feature, "the feature weights", filters, x.shape[1] if x.shape else None)
    fits(node, time, "the time weights", filters, memory)
    fits(node, types[4], "the bias", units)
    fits(node, state, "the state", x.shape[0] if x.shape else None, columns)
    return [TensorType(x.dtype, (x.shape[0] if x.shape else None, units)), TensorType(state.dtype, state.shape)]


def _svdf(node: Node, inputs: list[Any]) -> list[Any]:
    """(y [B, units], state): each filter remembers its last outputs and weighs them; a unit sums `rank` filters."""
    x, state, feature, time, bias = inputs
    filters, memory = time.shape
    state_value = node.inputs[1]
    assert state_value is not None
    newest = rounded(x @ feature.T, state_value.type)
    kept = np.concatenate([state.reshape(-1, filters, memory)[:, :, 1:], newest[:, :, None]], axis=2)
    y = (kept * time).sum(axis=2).reshape(len(x), -1, attr(node, "rank")).sum(axis=2)
    return [(y if bias is None else y + bias).astype(x.dtype), kept.reshape(state.shape).astype(state.dtype)]


define(
    "lstm_sequence", _infer_lstm, _lstm, inputs=(3, 24),
    attrs={
        "activation": "tanh", "cell_clip": 0.0, "proj_clip": 0.0, "time_major": 0, "reverse": 0, "state_type": None,
        "cell_type": None, "hidden_type": None, "dynamic": 0,
    },
    work=squares,
)  # fmt: skip
define("svdf", _infer_svdf, _svdf, inputs=(4, 5), attrs={"rank": REQUIRED}, work=squares)
