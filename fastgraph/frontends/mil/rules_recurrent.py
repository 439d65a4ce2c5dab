"""Recurrent layers. Semantics: coremltools/converters/mil/mil/ops/defs/{iOS15, iOS17, iOS18}/recurrent.py.

Weights change their order of gates to that of the canonical operators. Going in reverse, one direction alone gives
its states in the order in which it came to them; beside a forward one, in the order of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir import Value
from ..core.common import ints
from .call import Call, rule
from .common import reals

ACTIVATIONS = {
    "tanh": "Tanh", "scaled_tanh": "Tanh", "sigmoid": "Sigmoid", "hard_sigmoid": "HardSigmoid",
    "sigmoid_hard": "HardSigmoid", "relu": "Relu", "linear": "Affine",
}  # fmt: skip
"""Scaled tanh and linear with their defaults: factors 1, offset 0."""

LSTM = (0, 2, 1, 3)
"""Canonical gates (input, output, forget, cell) of MIL's (input, forget, output, cell); peepholes likewise."""

GRU = (2, 0, 1)
"""Canonical gates (update, reset, hidden) of MIL's (reset, output, update)."""


def _blocks(c: Call, key: str, order: Sequence[int], hidden: int) -> np.ndarray | None:
    """Constant parameter `key`, a part per gate, with its gates in canonical order; None when absent."""
    value = c.value(key)
    if value is None:
        return None
    array = np.asarray(reals(c, value), np.float32)
    if array.shape[:1] != (len(order) * hidden,):
        c.fail(f"expected {key!r} with {len(order)} parts for {hidden} states, found shape {list(array.shape)}")
    parts = array.reshape(len(order), hidden, *array.shape[1:])
    return np.ascontiguousarray(parts[list(order)]).reshape(array.shape)


def _hidden(c: Call) -> int:
    shape = c.x("weight_hh").type.shape
    if shape is None or len(shape) != 2 or not isinstance(shape[1], int) or shape[1] < 1:
        c.fail(f"expected 'weight_hh' as [gates * states, states], found {c.x('weight_hh').type}")
    return shape[1]


def _weights(c: Call, order: Sequence[int], hidden: int, suffixes: Sequence[str]) -> list[Value]:
    """w and r [directions, gates * states, ...]."""
    found = []
    for name in ("weight_ih", "weight_hh"):
        parts = [_blocks(c, name + suffix, order, hidden) for suffix in suffixes]
        if any(part is None or part.ndim != 2 for part in parts):
            c.fail(f"expected its parameters {', '.join(name + suffix for suffix in suffixes)} as matrices")
        found.append(c.const(np.stack([part for part in parts if part is not None])))
    return found


def _biases(c: Call, pairs: Sequence[tuple[np.ndarray | None, np.ndarray | None]], size: int) -> Value | None:
    """b [directions, 2 * gates * states], of (that of the input, that of the states)."""
    if all(part is None for pair in pairs for part in pair):
        return None
    none = np.zeros(size, np.float32)
    return c.const(np.stack([np.concatenate([none if b is None else b for b in pair]) for pair in pairs]))


def _state(c: Call, key: str, directions: int, hidden: int) -> Value:
    """[B, directions * states] to [directions, B, states]."""
    split = c.add("reshape", [c.x(key), ints(c, [0, directions, hidden])])
    return c.add("transpose", [split], perm=(1, 0, 2))


def _activation(c: Call, key: str, default: str) -> str:
    return ACTIVATIONS[c.text(key, *ACTIVATIONS, default=default)]


def _finish(c: Call, op: str, inputs: list[Value | None], directions: int, hidden: int, **attrs: Any) -> None:
    """Write the layer; its states side by side: of every step or the last, then those of the last without steps."""
    count = 3 if op == "lstm" else 2
    made = [c.fresh() for _ in range(count)]
    direction = c.text("direction", "forward", "reverse", "bidirectional", default="forward")
    c.add(op, inputs, made, direction=direction, hidden_size=hidden, **attrs)
    finals = []
    for value in made[1:]:
        moved = c.add("transpose", [value], perm=(1, 0, 2))
        finals.append(c.add("reshape", [moved, ints(c, [0, directions * hidden])]))
    if c.known("output_sequence", False):
        moved = c.add("transpose", [made[0]], perm=(0, 2, 1, 3))
        steps = c.add("reshape", [moved, ints(c, [0, 0, directions * hidden])])
        if direction == "reverse":
            far = np.iinfo(np.int64).min
            steps = c.add("slice", [steps, ints(c, [-1]), ints(c, [far]), ints(c, [0]), ints(c, [-1])])
    else:
        steps = c.add("unsqueeze", [finals[0], ints(c, [0])])
    for index, value in enumerate([steps, *finals][: len(c.outputs)]):
        c.give(value, index)


@rule("lstm")
def _lstm(c: Call) -> None:
    hidden = _hidden(c)
    suffixes = ("", "_back") if c.text("direction", default="forward") == "bidirectional" else ("",)
    w, r = _weights(c, LSTM, hidden, suffixes)
    b = _biases(c, [(_blocks(c, "bias" + s, LSTM, hidden), None) for s in suffixes], 4 * hidden)
    peepholes = [_blocks(c, "peephole" + s, LSTM[:3], hidden) for s in suffixes]
    p = None
    if any(part is not None for part in peepholes):
        p = c.const(np.stack([np.zeros(3 * hidden, np.float32) if part is None else part for part in peepholes]))
    states = [_state(c, key, len(suffixes), hidden) for key in ("initial_h", "initial_c")]
    activations = (
        _activation(c, "recurrent_activation", "sigmoid"), _activation(c, "cell_activation", "tanh"),
        _activation(c, "activation", "tanh"),
    )  # fmt: skip
    clip = c.known("clip", None)
    _finish(c, "lstm", [c.x(), w, r, b, None, *states, p], len(suffixes), hidden,
            activations=activations * len(suffixes), cell_clip=None if clip is None else float(clip))  # fmt: skip


@rule("gru")
def _gru(c: Call) -> None:
    """`reset_after`: the reset gate is applied to the product with the states, and to its bias."""
    hidden = _hidden(c)
    w, r = _weights(c, GRU, hidden, ("",))
    b = _biases(c, [(_blocks(c, "input_bias", GRU, hidden), _blocks(c, "bias", GRU, hidden))], 3 * hidden)
    activations = _activation(c, "recurrent_activation", "sigmoid"), _activation(c, "activation", "tanh")
    _finish(c, "gru", [c.x(), w, r, b, None, _state(c, "initial_h", 1, hidden)], 1, hidden,
            activations=activations, linear_before_reset=int(c.known("reset_after", False)))  # fmt: skip


@rule("rnn")
def _rnn(c: Call) -> None:
    hidden = _hidden(c)
    w, r = _weights(c, (0,), hidden, ("",))
    b = _biases(c, [(_blocks(c, "bias", (0,), hidden), None)], hidden)
    _finish(c, "rnn", [c.x(), w, r, b, None, _state(c, "initial_h", 1, hidden)], 1, hidden,
            activations=(_activation(c, "activation", "tanh"),))  # fmt: skip
