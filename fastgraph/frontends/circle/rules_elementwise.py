"""Arithmetic, comparisons, logic and casts, element by element with broadcasting. Semantics: TFLite's kernels."""

from __future__ import annotations

import numpy as np

from ...ir import TensorType
from ..core.common import BOOL
from .call import Call, Rule, rule
from .common import alike, computed, inputs_alike, matched, on_stored, one_to_one, real, same_dtype, scalar

UNARY = {
    "ABS": "abs", "CEIL": "ceil", "FLOOR": "floor", "ROUND": "round", "SQRT": "sqrt", "EXP": "exp", "LOG": "log",
    "SIN": "sin", "COS": "cos", "NEG": "neg", "SIGN": "sign",
}  # fmt: skip
FUSED = {"ADD": "add", "SUB": "sub", "MUL": "mul", "DIV": "div"}
BINARY = {"POW": "pow", "FLOOR_MOD": "mod", "ATAN2": "atan2"}
COMPARE = {
    "EQUAL": "equal", "LESS": "less", "LESS_EQUAL": "less_or_equal", "GREATER": "greater",
    "GREATER_EQUAL": "greater_or_equal",
}  # fmt: skip


def _fused(op: str) -> Rule:
    def translate(c: Call) -> None:
        c.count(2)
        same_dtype(c, *c.inputs, c.outputs[0])
        wraps = op in ("add", "mul") and c.x().type.dtype == np.int16 and c.options.fused_activation_function == "NONE"
        if not wraps:
            computed(c, *c.inputs, *c.outputs)
        c.activate(op, c.inputs)

    return translate


for _name, _op in FUSED.items():
    rule(_name)(_fused(_op))
one_to_one(UNARY, 1, alike)
one_to_one(BINARY, 2, alike)
one_to_one(COMPARE, 2, inputs_alike)
one_to_one({"ADD_N": "sum"}, (1, 1 << 16), alike)
one_to_one({"LOGICAL_NOT": "not", "REAL": "real", "IMAG": "imag", "COMPLEX_ABS": "complex_abs"})
one_to_one({"LOGICAL_AND": "and", "LOGICAL_OR": "or"}, inputs=2)


@rule("MAXIMUM", "MINIMUM")
def _extreme(c: Call) -> None:
    c.count(2)
    operands = [matched(c, c.x(i), c.outputs[0]) for i in range(2)]
    same_dtype(c, *operands, c.outputs[0])
    c.write("max" if c.op == "MAXIMUM" else "min", operands)


@rule("NOT_EQUAL")
def _not_equal(c: Call) -> None:
    c.count(2)
    same_dtype(c, *c.inputs)
    c.write("not", [c.add("equal", c.inputs, type=TensorType(BOOL))])


@rule("RSQRT")
def _rsqrt(c: Call) -> None:
    c.count(1)
    same_dtype(c, c.x(), c.outputs[0])
    c.write("reciprocal", [c.add("sqrt", [c.x()], type=real(c))])


@rule("FLOOR_DIV")
def _floor_div(c: Call) -> None:
    c.count(2)
    same_dtype(c, *c.inputs, c.outputs[0])
    x = c.x().type
    if x.quant is None and x.dtype is not None and x.dtype.kind in "iu":
        c.write("floor_div")
    else:
        c.write("floor", [c.add("div", c.inputs, type=real(c))])


@rule("BITWISE_XOR")
def _bitwise_xor(c: Call) -> None:
    c.count(2)
    on_stored(c, "bitwise_xor", c.inputs)


@rule("RIGHT_SHIFT")
def _right_shift(c: Call) -> None:
    c.count(2)
    on_stored(c, "bit_shift", c.inputs, direction="RIGHT")


@rule("SQUARE")
def _square(c: Call) -> None:
    c.count(1)
    same_dtype(c, c.x(), c.outputs[0])
    c.write("mul", [c.x(), c.x()])


@rule("SQUARED_DIFFERENCE")
def _squared_difference(c: Call) -> None:
    c.count(2)
    same_dtype(c, *c.inputs, c.outputs[0])
    difference = c.add("sub", c.inputs, type=real(c))
    c.write("mul", [difference, difference])


@rule("ZEROS_LIKE")
def _zeros_like(c: Call) -> None:
    c.count(1)
    same_dtype(c, c.x(), c.outputs[0])
    shape = c.add("shape", [c.x()], type=TensorType(np.dtype(np.int64)))
    c.write("expand", [scalar(c, 0), shape])


@rule("SELECT", "SELECT_V2")
def _select(c: Call) -> None:
    """A condition of rank 1 chooses whole rows for SELECT, and broadcasts like any other for SELECT_V2."""
    c.count(3)
    condition, (x, y) = c.x(0), (matched(c, c.x(i), c.outputs[0], both=True) for i in (1, 2))
    same_dtype(c, x, y, c.outputs[0])
    if c.x(0).type.dtype != BOOL:
        c.fail(f"expected a condition of bools, found {c.x(0).type}")
    rank, shape = len(c.x(1).type.shape or ()), c.x(0).type.shape
    if c.op == "SELECT" and rank > 1 and shape is not None and len(shape) == 1:
        rows = c.const(np.array([-1] + [1] * (rank - 1), np.int64))
        condition = c.add("reshape", [condition, rows], type=TensorType(BOOL))
    c.write("where", [condition, x, y])


@rule("CAST")
def _cast(c: Call) -> None:
    """A quantized tensor is taken, and made, as the numbers that are stored."""
    c.count(1)
    on_stored(c, "cast", c.inputs, to=c.outputs[0].type.dtype)


@rule("BITCAST")
def _bitcast(c: Call) -> None:
    """Elements that get narrower gain an axis at the end, and those that get wider lose it."""
    c.count(1)
    on_stored(c, "bit_cast", c.inputs, to=c.outputs[0].type.dtype, resize=1)


@rule("QUANTIZE", "DEQUANTIZE")
def _requantize(c: Call) -> None:
    """Between reals and stored numbers, or from one quantization to another."""
    c.count(1)
    x, out = c.x(), c.outputs[0]
    named = out if c.op == "QUANTIZE" else x
    halves = c.op == "DEQUANTIZE" and named.type.dtype == np.float16
    if named.type.quant is None and not halves:
        c.fail(f"expected a scale and a zero point of {named}, found {named.type} without them")
    c.write("requantize")


@rule("BUCKETIZE")
def _bucketize(c: Call) -> None:
    """How many of the ascending boundaries are at most each element."""
    c.count(1)
    boundaries = tuple(c.options.boundaries)
    if list(boundaries) != sorted(boundaries):
        c.fail(f"expected boundaries in ascending order, found {list(boundaries)}")
    c.write("bucketize", boundaries=boundaries)


@rule("DENSIFY")
def _densify(c: Call) -> None:
    """Sparse constants are decoded as they are read."""
    c.count(1)
    if c.x().data is None:
        c.fail(f"expected a sparse constant, found {c.x()} that is computed")
    c.write("identity")
