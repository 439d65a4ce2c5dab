"""Arithmetic, comparisons, logic and casts, element by element with broadcasting.

Semantics: coremltools/converters/mil/mil/ops/defs/iOS15/{elementwise_unary, elementwise_binary}.py and their iOS17
forms, which let parameters have another floating point type than x.
"""

from __future__ import annotations

import math

import numpy as np

from ...ir import Value
from ..core.common import scalar
from .call import Call, Rule, rule
from .common import alike, one_to_one

ARITHMETIC = {"add": "add", "sub": "sub", "mul": "mul", "maximum": "max", "minimum": "min", "mod": "mod", "pow": "pow"}
COMPARE = {
    "equal": "equal", "less": "less", "less_equal": "less_or_equal", "greater": "greater",
    "greater_equal": "greater_or_equal",
}  # fmt: skip
DTYPES = {
    "bool": np.bool_, "fp16": np.float32, "fp32": np.float32, "fp64": np.float64,
    "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64,
}  # fmt: skip
"""How the graph holds what `cast` names."""

SMALLEST = float(np.finfo(np.float32).tiny)

one_to_one(
    {name: name for name in (
        "abs", "acos", "asin", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "floor", "round", "sign", "sin",
        "sinh", "sqrt", "tan", "tanh",
    )},
    "x",
)  # fmt: skip
one_to_one({"logical_not": "not"}, "x")
one_to_one({"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}, "x", "y")


def _binary(op: str) -> Rule:
    return lambda c: c.finish(op, alike(c, c.x("x"), c.x("y")))


for _name, _op in (ARITHMETIC | COMPARE).items():
    rule(_name)(_binary(_op))


@rule("not_equal")
def not_equal(c: Call) -> None:
    c.finish("not", [c.add("equal", alike(c, c.x("x"), c.x("y")))])


@rule("real_div")
def real_div(c: Call) -> None:
    """Of integers, the quotient is cut towards 0, as what is declared is an integer."""
    c.finish("div", alike(c, c.x("x"), c.x("y")))


@rule("floor_div")
def floor_div(c: Call) -> None:
    x, y = alike(c, c.x("x"), c.x("y"))
    if x.type.dtype is not None and x.type.dtype.kind in "iu":
        c.finish("floor_div", [x, y])
    else:
        c.finish("floor", [c.add("div", [x, y])])


@rule("square")
def square(c: Call) -> None:
    c.finish("mul", [c.x(), c.x()])


@rule("exp2")
def exp2(c: Call) -> None:
    c.finish("pow", [scalar(c, 2, c.x()), c.x()])


def _raised(c: Call, default: float) -> Value:
    """x + epsilon, in x's type."""
    x, epsilon = c.x(), _epsilon(c, default)
    return c.add("add", [x, scalar(c, epsilon, x)]) if epsilon else x


def _epsilon(c: Call, default: float) -> float:
    """What the parameter is in the program's type: the default is 0 in FLOAT16."""
    half = c.element(c.x()) == "FLOAT16"
    return float(c.known("epsilon", float((np.float16 if half else np.float32)(default))))


@rule("inverse")
def inverse(c: Call) -> None:
    c.finish("reciprocal", [_raised(c, 1e-4)])


@rule("rsqrt")
def rsqrt(c: Call) -> None:
    c.finish("reciprocal", [c.add("sqrt", [_raised(c, 1e-12)])])


@rule("log")
def log(c: Call) -> None:
    """log(x + epsilon). The usual epsilon is denormal: it changes the result where x is 0, and nowhere else."""
    epsilon = _epsilon(c, 1e-45)
    if not 0 < epsilon < SMALLEST:
        c.finish("log", [_raised(c, 0)])
        return
    x = c.x()
    c.finish("clip", [c.add("log", [x]), scalar(c, math.log(epsilon), x)])


@rule("clip")
def clip(c: Call) -> None:
    x = c.x()
    c.finish("clip", [x, scalar(c, c.known("alpha"), x), scalar(c, c.known("beta"), x)])


@rule("threshold")
def threshold(c: Call) -> None:
    x = c.x()
    c.finish("max", [x, scalar(c, c.known("alpha"), x)])


@rule("cast")
def cast(c: Call) -> None:
    """Floating point to integers is cut towards 0. FLOAT16 is held in float32: nothing is rounded to it inside."""
    name = c.text("dtype")
    if name not in DTYPES:
        c.fail(f"expected its parameter 'dtype' as one of {', '.join(DTYPES)}, found {name!r}")
    c.give(c.cast(c.x(), DTYPES[name]))


@rule("select")
def select(c: Call) -> None:
    """`a` where `cond` holds, else `b`; without them, the places where it holds, a row each."""
    cond, a, b = c.cast(c.x("cond"), np.bool_), c.value("a"), c.value("b")
    if a is None or b is None:
        if a is not b:
            c.fail("expected both of its parameters 'a' and 'b', or neither")
        c.finish("transpose", [c.add("non_zero", [cond])], perm=(1, 0))
        return
    c.finish("where", [cond, *alike(c, a, b)])


@rule("identity")
def identity(c: Call) -> None:
    c.give(c.x())
