"""Recurrent layers. Semantics: coremltools/converters/mil/mil/ops/defs/{iOS15, iOS17, iOS18}/recurrent.py.

Weights change their order of gates to that of the canonical operators. Going in reverse, one direction alone gives
its states in the order in which it came to them; beside a forward one, in the order of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...ir import Value
from .call import Call
from .common import reals
from .signatures import CHOICES, rule

LSTM = (0, 2, 1, 3)
"""Canonical gates (input, output, forget, cell) of MIL's (input, forget, output, cell); peepholes likewise."""

GRU = (2, 0, 1)
"""Canonical gates (update, reset, hidden) of MIL's (reset, output, update)."""


class _Layer(NamedTuple):
    """`order`: the canonical order of gates. `suffixes`: what the names of parameters end in, for each direction."""

    c: Call
    hidden: int
    order: Sequence[int]
    direction: str
    suffixes: tuple[str, ...]

    def parts(self, key: str | None, count: int = 4) -> list[np.ndarray | None]:
        """Constant parameter `key` of each direction, with its `count` gates in canonical order; None when absent."""
        return [None if key is None else self._part(key + suffix, self.order[:count]) for suffix in self.suffixes]

    def _part(self, key: str, order: Sequence[int]) -> np.ndarray | None:
        value = self.c.value(key)
        if value is None:
            return None
        array = np.asarray(reals(self.c, value, key), np.float32)
        if array.shape[:1] != (len(order) * self.hidden,):
            self.c.fail(
                f"expected {key!r} with {len(order)} parts for {self.hidden} states, found shape {list(array.shape)}"
            )
        parts = array.reshape(len(order), self.hidden, *array.shape[1:])
        return np.ascontiguousarray(parts[list(order)]).reshape(array.shape)

    def weights(self) -> list[Value]:
        """w and r [directions, gates * states, ...]."""
        found = []
        for key in ("weight_ih", "weight_hh"):
            parts = self.parts(key)
            if any(part is None or part.ndim != 2 for part in parts):
                self.c.fail(f"expected its parameters {', '.join(key + s for s in self.suffixes)} as matrices")
            found.append(self.c.const(np.stack(parts)))  # type: ignore[arg-type]
        return found

    def vectors(self, *keys: str | None, count: int = 4) -> Value | None:
        """Parameters side by side, [directions, keys * gates * states], zeros for one that is absent; None for none."""
        parts = list(zip(*(self.parts(key, count) for key in keys), strict=True))
        if all(part is None for row in parts for part in row):
            return None
        zeros = np.zeros(len(self.order[:count]) * self.hidden, np.float32)
        return self.c.const(np.stack([np.concatenate([zeros if p is None else p for p in row]) for row in parts]))

    def state(self, value: Value) -> Value:
        """[B, directions * states] to [directions, B, states]."""
        split = self.c("reshape", value, self.c.vector(0, len(self.suffixes), self.hidden))
        return self.c.transpose(split, 1, 0, 2)

    def write(self, inputs: Sequence[Value | None], **attrs: Any) -> list[Value]:
        """Write the layer; its states side by side: of every step or the last, then those of the last without steps."""
        c, wide = self.c, len(self.suffixes) * self.hidden
        attrs |= {"direction": self.direction, "hidden_size": self.hidden}
        every, *last = c.several(c.op, 3 if c.op == "lstm" else 2, *inputs, **attrs)
        finals = [c("reshape", c.transpose(value, 1, 0, 2), c.vector(0, wide)) for value in last]
        if not c.known("output_sequence", False):
            return [c("unsqueeze", finals[0], c.vector(0)), *finals]
        found = c("reshape", c.transpose(every, 0, 2, 1, 3), c.vector(0, 0, wide))
        if self.direction == "reverse":
            found = c.cut(found, 0, -1, np.iinfo(np.int64).min, -1)
        return [found, *finals]


def _layer(c: Call, order: Sequence[int]) -> _Layer:
    shape = c.x("weight_hh").type.shape
    if shape is None or len(shape) != 2 or not isinstance(shape[1], int) or shape[1] < 1:
        c.fail(f"expected 'weight_hh' as [gates * states, states], found {c.x('weight_hh').type}")
    direction = c.text("direction", *CHOICES["Direction"], default="forward")
    return _Layer(c, shape[1], order, direction, ("", "_back") if direction == "bidirectional" else ("",))


def _activation(c: Call, key: str, default: str) -> str:
    return CHOICES["Activation"][c.text(key, *CHOICES["Activation"], default=default)]


@rule("lstm: x initial_h initial_c clip:float?")
def lstm(c: Call, x: Value, initial_h: Value, initial_c: Value, clip: float | None) -> list[Value]:
    layer = _layer(c, LSTM)
    inputs = [x, *layer.weights(), layer.vectors("bias", None), None, layer.state(initial_h), layer.state(initial_c)]
    activations = (
        _activation(c, "recurrent_activation", "sigmoid"),
        _activation(c, "cell_activation", "tanh"),
        _activation(c, "activation", "tanh"),
    )
    inputs.append(layer.vectors("peephole", count=3))
    return layer.write(inputs, activations=activations * len(layer.suffixes), cell_clip=clip)


@rule("gru: x initial_h reset_after:flag=0")
def gru(c: Call, x: Value, initial_h: Value, reset_after: bool) -> list[Value]:
    """`reset_after`: the reset gate is applied to the product with the states, and to its bias."""
    layer = _layer(c, GRU)
    inputs = [x, *layer.weights(), layer.vectors("input_bias", "bias"), None, layer.state(initial_h)]
    activations = _activation(c, "recurrent_activation", "sigmoid"), _activation(c, "activation", "tanh")
    return layer.write(inputs, activations=activations, linear_before_reset=int(reset_after))


@rule("rnn: x initial_h")
def rnn(c: Call, x: Value, initial_h: Value) -> list[Value]:
    layer = _layer(c, (0,))
    inputs = [x, *layer.weights(), layer.vectors("bias", None), None, layer.state(initial_h)]
    return layer.write(inputs, activations=(_activation(c, "activation", "tanh"),))
