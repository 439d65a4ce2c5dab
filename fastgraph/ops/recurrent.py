"""Recurrent layers over time. Semantics: ONNX RNN, GRU and LSTM.

x [T, B, I], w [D, gates * H, I], r [D, gates * H, H], b [D, 2 * gates * H] (of w, then of r),
states [D, B, H], y [T, D, B, H]; D is the number of directions. With layout 1, B comes first everywhere but
in the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..ir import Node, TensorType
from . import check
from .activation import FUNCTIONS, sigmoid
from .dynamic import dynamic_rounded
from .inference import Types
from .registry import attr, define, fail
from .work import gates

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
DEFAULT = {"rnn": ("Tanh",), "gru": ("Sigmoid", "Tanh"), "lstm": ("Sigmoid", "Tanh", "Tanh")}
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}

ROUNDS_INPUT = 2
"""The `dynamic` of an lstm that rounds its input as well as its state."""

ACTIVATIONS: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "tanh": (np.tanh, ()),
    "sigmoid": (sigmoid, ()),
    "relu": (lambda x: np.maximum(x, 0), ()),
    "relu6": (lambda x: np.clip(x, 0, 6), ()),
    "relu_n1_to_1": (lambda x: np.clip(x, -1, 1), ()),
    "softsign": (FUNCTIONS["softsign"][0], ()),
    "softplus": (FUNCTIONS["softplus"][0], ()),
    "leakyrelu": (FUNCTIONS["leaky_relu"][0], (0.01,)),
    "thresholdedrelu": (FUNCTIONS["thresholded_relu"][0], (1.0,)),
    "elu": (FUNCTIONS["elu"][0], (1.0,)),
    "hardsigmoid": (FUNCTIONS["hard_sigmoid"][0], (0.2, 0.5)),
    "scaledtanh": (lambda x, alpha, beta: alpha * np.tanh(beta * x), (1.0, 1.0)),
    "affine": (lambda x, alpha, beta: alpha * x + beta, (1.0, 0.0)),
}
"""Lower-case name -> (function, default alpha and beta)."""


def activations(node: Node) -> list[tuple[str, float, float]]:
    """(name, alpha, beta) by direction and gate; 0 where the function has no parameter. Alphas and betas go in order to
    the functions that have one."""
    count = len(DEFAULT[node.op]) * DIRECTIONS[attr(node, "direction")]
    names = attr(node, "activations") or DEFAULT[node.op] * 2
    given = [list(attr(node, "activation_alpha") or ()), list(attr(node, "activation_beta") or ())]
    found: list[tuple[str, float, float]] = []
    for name in map(str.lower, names[:count]):
        if name not in ACTIVATIONS:
            fail(node, f"unknown activation {name}")
        values = [g.pop(0) if g else d for g, d in zip(given, ACTIVATIONS[name][1], strict=False)]
        alpha, beta = (*values, 0.0, 0.0)[:2]
        found.append((name, alpha, beta))
    if len(found) < count:
        fail(node, f"needs {count} activations, found {len(found)}")
    return found


def _applied(name: str, values: Sequence[float], x: np.ndarray) -> Any:
    function, defaults = ACTIVATIONS[name]
    return function(x, *values[: len(defaults)])


@check.takes("x f 3, w 3, r 3, b?, sequence_lens? iu 1, initial_h?, initial_c?, p?")
def _infer(node: Node, types: Types) -> list[TensorType]:
    x, w, r = types[:3]
    check.one_of(node, "direction", attr(node, "direction"), DIRECTIONS)
    activations(node)
    dtype = check.one_dtype(node, [*types[:4], *types[5:]])
    directions, first = DIRECTIONS[attr(node, "direction")], attr(node, "layout")
    hidden = r.shape[2] if r.shape else attr(node, "hidden_size")
    if attr(node, "hidden_size") not in (None, hidden) and isinstance(hidden, int):
        fail(node, f"hidden_size is {attr(node, 'hidden_size')}, but R is of {hidden}")
    for name in ("clip", "cell_clip") if node.op == "lstm" else ("clip",):
        if attr(node, name) is not None:
            check.at_least(node, name, attr(node, name), 0)
    steps, batch = (x.shape[:2][::-1] if first else x.shape[:2]) if x.shape else (None, None)
    state = TensorType(dtype, (batch, directions, hidden) if first else (directions, batch, hidden))
    rows = GATES[node.op] * hidden if isinstance(hidden, int) else None
    check.shape(node, w, "W", directions, rows, x.shape[2] if x.shape else None)
    check.shape(node, r, "R", directions, rows, hidden)
    check.shape(node, types[3], "B", directions, 2 * rows if rows is not None else None)
    check.shape(node, types[4], "sequence_lens", batch)
    check.inside(node, "sequence_lens", node.const(4), 0, steps + 1 if isinstance(steps, int) else None)
    for t in types[5:7]:
        check.shape(node, t, "an initial state", *(state.shape or ()))
    if node.op == "lstm":
        check.shape(node, types[7], "P", directions, 3 * hidden if isinstance(hidden, int) else None)
    y = (batch, steps, directions, hidden) if first else (steps, directions, batch, hidden)
    return [TensorType(dtype, y), state, *([state] if node.op == "lstm" else [])]


def _recurrent(node: Node, inputs: list[Any]) -> list[Any]:
    x, w, r, b, lengths, *initial = inputs
    first, op = attr(node, "layout"), node.op
    if op == "lstm" and attr(node, "dynamic") == ROUNDS_INPUT:
        x = dynamic_rounded(x, "tensor", "onnx")
    wide = np.promote_types(x.dtype, np.float32)
    x = (x.swapaxes(0, 1) if first else x).astype(wide, copy=False)
    steps, batch = x.shape[:2]
    hidden, directions = r.shape[2], DIRECTIONS[attr(node, "direction")]
    peepholes = initial.pop() if op == "lstm" else None
    states = [s if s is None or not first else s.swapaxes(0, 1) for s in initial]
    lengths = np.full(batch, steps) if lengths is None else lengths
    check.inside(node, "sequence_lens", lengths, 0, steps + 1)
    functions = [partial(_applied, name, values) for name, *values in activations(node)]
    each = len(functions) // directions
    outputs, finals = [], []
    for d in range(directions):
        bias = np.zeros(2 * GATES[op] * hidden, wide) if b is None else b[d]
        zero = np.zeros((batch, hidden), wide)
        state = [zero if s is None else s[d].astype(wide, copy=False) for s in states]
        step = STEPS[op](
            node, r[d], bias, functions[d * each : (d + 1) * each], None if peepholes is None else peepholes[d]
        )
        order = _reversed(lengths, steps) if d == 1 or attr(node, "direction") == "reverse" else None
        y, state = _scan(step, _ordered(x, order) @ w[d].T, state, lengths)
        outputs.append(_ordered(y, order))
        finals.append(state)
    y = np.stack(outputs, 1)
    last = [np.stack(parts, 0) for parts in zip(*finals, strict=True)]
    results = [y.transpose(2, 0, 1, 3), *(s.swapaxes(0, 1) for s in last)] if first else [y, *last]
    return [v.astype(inputs[0].dtype, copy=False) for v in results]


def _reversed(lengths: np.ndarray, steps: int) -> np.ndarray:
    """[T, B]: the time to read at each step when every sequence runs backwards within its length."""
    t = np.arange(steps)[:, None]
    return np.where(t < lengths, lengths - 1 - t, t)


def _ordered(x: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    return x if order is None else x[order, np.arange(x.shape[1])]


def _scan(step: Any, projected: np.ndarray, state: list[np.ndarray], lengths: np.ndarray) -> Any:
    """(y [T, B, H], final state). A sequence that has ended keeps its state and gives zeros."""
    out = np.zeros((*projected.shape[:2], state[0].shape[-1]), projected.dtype)
    with np.errstate(over="ignore"):
        for t, x in enumerate(projected):
            alive = (t < lengths)[:, None]
            new = step(x, *state)
            state = [np.where(alive, n, s) for n, s in zip(new, state, strict=True)]
            out[t] = np.where(alive, new[0], 0)
    return out, state


def _clipped(node: Node) -> Callable[[np.ndarray], np.ndarray]:
    clip = attr(node, "clip")
    return (lambda x: x) if clip is None else (lambda x: np.clip(x, -clip, clip))


def _rnn_step(node: Node, r: np.ndarray, bias: np.ndarray, functions: Any, _: Any) -> Any:
    clip, total = _clipped(node), bias[: len(r)] + bias[len(r) :]
    return lambda x, h: [functions[0](clip(x + h @ r.T + total))]


def _gru_step(node: Node, r: np.ndarray, bias: np.ndarray, functions: Any, _: Any) -> Any:
    """Gates in the order update z, reset, hidden."""
    f, g = functions
    clip, n = _clipped(node), r.shape[1]
    w_bias, r_bias = bias[: 3 * n], bias[3 * n :]

    def step(x: np.ndarray, h: np.ndarray) -> list[np.ndarray]:
        gates = f(clip(x[:, : 2 * n] + h @ r[: 2 * n].T + w_bias[: 2 * n] + r_bias[: 2 * n]))
        z, reset = gates[:, :n], gates[:, n:]
        if attr(node, "linear_before_reset"):
            inner = reset * (h @ r[2 * n :].T + r_bias[2 * n :])
        else:
            inner = (reset * h) @ r[2 * n :].T + r_bias[2 * n :]
        return [(1 - z) * g(clip(x[:, 2 * n :] + inner + w_bias[2 * n :])) + z * h]

    return step


def _lstm_step(node: Node, r: np.ndarray, bias: np.ndarray, functions: Any, peepholes: Any) -> Any:
    """Gates in the order input, output, forget, cell; peepholes in the order input, output, forget.

    `clip` bounds what goes into the gates, `cell_clip` the cell's state. `dynamic`: the state is rounded to 8 bits, row
    by row, before it is multiplied, and where it is ROUNDS_INPUT so is all of x, as DynamicQuantizeLinear does.
    """
    f, g, last = functions
    clip, total, n = _clipped(node), bias[: len(r)] + bias[len(r) :], r.shape[1]
    bound = attr(node, "cell_clip") or np.inf
    peep = np.zeros((3, n), r.dtype) if peepholes is None else peepholes.reshape(3, n)

    def step(x: np.ndarray, h: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
        h = by_row(h) if attr(node, "dynamic") else h
        i, o, forget, cell = np.split(x + h @ r.T + total, 4, axis=1)
        i = f(clip(i + peep[0] * c))
        forget = 1 - i if attr(node, "input_forget") else f(clip(forget + peep[2] * c))
        c = np.clip(forget * c + i * g(clip(cell)), -bound, bound)
        return [f(clip(o + peep[1] * c)) * last(c), c]

    return step


def by_row(h: np.ndarray) -> np.ndarray:
    """Rows rounded to multiples of a 127th of their greatest magnitude."""
    step = np.abs(h).max(axis=1, keepdims=True) / h.dtype.type(127)
    with np.errstate(all="ignore"):
        return np.where(step == 0, 0, np.rint(h / step) * step).astype(h.dtype)


STEPS: dict[str, Any] = {"rnn": _rnn_step, "gru": _gru_step, "lstm": _lstm_step}
_ATTRS = {
    "activations": None, "activation_alpha": None, "activation_beta": None, "clip": None,
    "direction": "forward", "hidden_size": None, "layout": 0,
}  # fmt: skip
define("rnn", _infer, _recurrent, inputs=(3, 6), attrs=_ATTRS, work=gates)
define("gru", _infer, _recurrent, inputs=(3, 6), attrs={**_ATTRS, "linear_before_reset": 0}, work=gates)
define("lstm", _infer, _recurrent, attrs={**_ATTRS, "input_forget": 0, "cell_clip": None, "dynamic": 0}, work=gates)
