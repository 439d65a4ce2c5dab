"""The activations of recurrent layers on vectors: the usual one in line, the others behind a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..isa.functions import clamp
from ..isa.math import OPS
from ..isa.vector import F32, I32, I64, Vector
from .rows import ACTIVATIONS

WORDS = 3
"""Of an activation in memory: its place in ACTIVATIONS, bits of alpha and beta."""

FUNCTIONS: dict[str, Callable[[Vector, Any, Any, Any], Any]] = {
    "sigmoid": lambda v, x, alpha, beta: OPS["sigmoid"].emit(v, x),
    "tanh": lambda v, x, alpha, beta: OPS["tanh"].emit(v, x),
    "relu": lambda v, x, alpha, beta: OPS["relu"].emit(v, x),
    "softsign": lambda v, x, alpha, beta: OPS["softsign"].emit(v, x),
    "softplus": lambda v, x, alpha, beta: OPS["softplus"].emit(v, x),
    "relu6": lambda v, x, alpha, beta: clamp(v, x, 0, 6),
    "relu_n1_to_1": lambda v, x, alpha, beta: clamp(v, x, -1, 1),
    "leakyrelu": lambda v, x, alpha, beta: OPS["leaky_relu"].emit(v, x, alpha),
    "thresholdedrelu": lambda v, x, alpha, beta: OPS["thresholded_relu"].emit(v, x, alpha),
    "elu": lambda v, x, alpha, beta: OPS["elu"].emit(v, x, alpha),
    "hardsigmoid": lambda v, x, alpha, beta: OPS["hard_sigmoid"].emit(v, x, alpha, beta),
    "scaledtanh": lambda v, x, alpha, beta: v.b.fmul(alpha, OPS["tanh"].emit(v, v.b.fmul(beta, x))),
    "affine": lambda v, x, alpha, beta: v.fma(alpha, x, beta),
}


def usual(v: Vector, name: str, x: Any) -> Any:
    """The activation of this name."""
    return FUNCTIONS[name](v, x, v.const(0), v.const(0))


def activated(v: Vector, table: Any, place: int, x: Any) -> Any:
    """What the activation at `place` of the table at an address makes of x."""
    words = [v.b.load(v.at(v.pointer(table, I64), WORDS * place + i)) for i in range(WORDS)]
    number, alpha, beta = words[0], *(v.b.bitcast(v.b.trunc(word, I32), F32) for word in words[1:])
    return v.b.call(_any(v), [number, alpha, beta, x])


def _any(v: Vector) -> Any:
    """A function of (place in ACTIVATIONS, alpha, beta, x), once in a module."""
    name = "activation"
    if name in v.b.module.globals:
        return v.b.module.globals[name]
    function = ir.Function(v.b.module, ir.FunctionType(v.type, [I64, F32, F32, v.type]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    number, alpha, beta, x = function.args
    b = ir.IRBuilder(function.append_basic_block())
    w = Vector(b, v.tier)
    a, c = w.splat(alpha), w.splat(beta)
    same = function.append_basic_block("same")
    switch = b.switch(number, same)
    for place, each in enumerate(ACTIVATIONS):
        block = function.append_basic_block(each)
        switch.add_case(I64(place), block)
        b.position_at_end(block)
        b.ret(FUNCTIONS[each](w, x, a, c))
    b.position_at_end(same)
    b.ret(x)
    return function
