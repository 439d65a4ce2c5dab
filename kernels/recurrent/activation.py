"""The activations of recurrent layers on vectors: the usual one in line, the others behind a call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..isa.functions import clamp
from ..isa.math import OPS, VectorOp
from ..lang import F32, I32, I64, Value, cases, fma, outlined, register
from .rows import ACTIVATIONS

WORDS = 3
"""Of an activation in memory: its place in ACTIVATIONS, bits of alpha and beta."""

_OPERATIONS = "sigmoid tanh relu softsign softplus leaky_relu thresholded_relu elu hard_sigmoid"


def _operation(op: VectorOp, x: Value, *numbers: Value) -> Value:
    return op.emit(x, *numbers[: op.arity - 1])  # type: ignore[no-any-return]


FUNCTIONS: dict[str, Callable[[Value, Value, Value], Value]] = {
    **{name.replace("_", ""): partial(_operation, OPS[name]) for name in _OPERATIONS.split()},
    "relu6": lambda x, alpha, beta: clamp(x, 0, 6),
    "relu_n1_to_1": lambda x, alpha, beta: clamp(x, -1, 1),
    "scaledtanh": lambda x, alpha, beta: alpha * OPS["tanh"].emit(beta * x),
    "affine": lambda x, alpha, beta: fma(alpha, x, beta),
}


def usual(name: str, x: Value) -> Value:
    nothing = x.type(0)
    return FUNCTIONS[name](x, nothing, nothing)


def activated(table: Value, place: int, x: Value) -> Value:
    """The activation number `place` of the table at an address, of x."""
    number, alpha, beta = (I64.at(table)[WORDS * place + i] for i in range(WORDS))
    alpha, beta = (word.to(I32).bits(F32) for word in (alpha, beta))
    return outlined("activation", x.type, _any, number, alpha, beta, x)


def _any(number: Value, alpha: Value, beta: Value, x: Value) -> Value:
    """The activation at this place in ACTIVATIONS; x itself where there is none."""
    y, alpha, beta = register(x), x.type(alpha), x.type(beta)

    def one(name: str) -> None:
        y.value = FUNCTIONS[name](x, alpha, beta)

    cases(number, {place: partial(one, name) for place, name in enumerate(ACTIVATIONS)})
    return y.value
