"""Blocks that compute in other element types, between casts."""

from typing import Any

import numpy as np

from .grow import Grow
from .nodes import Piece, kind
from .shapes import need

WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
WIDE = ("int32", "int64")


def whole(g: Grow, x: str) -> str:
    """Rounded, and a chain of operators on whole numbers of some size; of what comes of it, remainders go on."""
    dtype = g.pick(*WHOLE, *WIDE)
    p = Piece(g, x, opset=22)
    v = p.whole(x, dtype, g.pick(1, 1, 2))
    kept = [v]
    for _ in range(g.pick(2, 3, 5)):
        v = g.pick(*(step for step, types in STEPS if dtype in types))(p, v, g.pick(*kept), dtype, g.shapes[x])
        kept.append(v)
    if dtype in NO_REST:
        v, dtype = p.cast(v, np.int64), "int64"
    return _join(g, x, p, p.cast(p("Mod", v, p.const(13, dtype)), np.float32))


NO_REST = ("int16", "uint16")


def _join(g: Grow, x: str, p: Piece, y: str) -> str:
    """What came of it, in the range of activations, beside what was there."""
    y = p.end(p("Mul", y, p.const(1 / 8)))
    return y if g.chance(0.4) else g.op(g.pick("add", "mul", "sub"), *g.random.sample([x, y], 2))


def binary(p: Piece, v: str, w: str, dtype: str, shape: Any) -> str:
    return p(p.g.pick("Add", "Sub", "Mul"), *p.g.random.sample([v, w], 2))


def quotient(p: Piece, v: str, w: str, dtype: str, shape: Any) -> str:
    return p(p.g.pick("Div", "Mod"), v, p.const(p.g.pick(1, 2, 3, 7), dtype))


def extreme(p: Piece, v: str, w: str, dtype: str, shape: Any) -> str:
    return p(p.g.pick("Min", "Max"), v, p.g.pick(w, p.const(3, dtype)))


def power(p: Piece, v: str, w: str, dtype: str, shape: Any) -> str:
    """The exponent in some element type."""
    return p("Pow", v, p.const(p.g.pick(0, 1, 2, 3), p.g.pick(dtype, "int64", "int32")))


def bits(p: Piece, v: str, w: str, dtype: str, shape: Any) -> str:
    if p.g.chance(0.3):
        return p("BitwiseNot", v)
    return p(p.g.pick("BitwiseAnd", "BitwiseOr", "BitwiseXor"), v, p.g.pick(w, p.const(5, dtype)))


def shift(p: Piece, v: str, w: str, dtype: str, shape: Any) -> str:
    return p("BitShift", v, p.const(p.g.pick(0, 1, 3), dtype), direction=p.g.pick("LEFT", "RIGHT"))


def sign(p: Piece, v: str, w: str, dtype: str, shape: Any) -> str:
    return p(p.g.pick("Abs", "Sign"), v)


def negative(p: Piece, v: str, w: str, dtype: str, shape: Any) -> str:
    return p("Neg", v)


def bounded(p: Piece, v: str, w: str, dtype: str, shape: Any) -> str:
    if dtype in ("int8", "int32") and p.g.chance(0.4):
        return p("Relu", v)
    low = p.const(0, dtype) if p.g.chance(0.7) else ""
    return p("Clip", v, low, p.const(9, dtype))


def chosen(p: Piece, v: str, w: str, dtype: str, shape: Any) -> str:
    tests = [p(p.g.pick(*TESTS), v, other) for other in (w, p.const(2, dtype))]
    holds = p.g.pick(p(p.g.pick("And", "Or", "Xor"), *tests), p("Not", tests[1]), tests[0])
    return p("Where", holds, v, p.g.pick(w, p.const(1, dtype)))


TESTS = ("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal")


def other_type(p: Piece, v: str, w: str, dtype: str, shape: Any) -> str:
    """There and back: whole numbers of fewer bits wrap."""
    return p.cast(p.cast(v, p.g.pick(*WHOLE, "bool")), dtype)


def reduced(p: Piece, v: str, w: str, dtype: str, shape: Any) -> str:
    hows = ("Max", "Min") if dtype not in WIDE else ("Max", "Min", "Sum", "Prod", "Mean", "L1", "SumSquare")
    axes = sorted(p.g.random.sample(range(len(shape)), p.g.pick(*range(1, len(shape) + 1))))
    how, small = p.g.pick(*hows), v
    if how not in ("Max", "Min"):  # onnxruntime's sums end at the greatest number, where they don't fit
        small = p("Mod", v, p.const(13, dtype))
    if how == "Prod":
        small = p("Sign", p("Sub", small, p.const(5, dtype)))
    return p(p.g.pick("Add", "Sub"), v, p(f"Reduce{how}", small, p.ints(*axes), keepdims=1))


def running(p: Piece, v: str, w: str, dtype: str, shape: Any) -> str:
    """Along an axis that is known, or told at run time."""
    rank = len(shape)
    if p.g.chance(0.4):
        axis = p.g.input(1, below=rank)
        return p("CumSum", v, p("Squeeze", axis), reverse=p.g.pick(0, 1))
    axis, op = p.const(p.g.pick(*range(-rank, rank)), p.g.pick("int64", "int32")), "CumSum"
    if p.g.chance(0.4):
        p.opset, op = 26, "CumProd"
    return p(op, v, axis, exclusive=p.g.pick(0, 1), reverse=p.g.pick(0, 1))


def place(p: Piece, v: str, w: str, dtype: str, shape: Any) -> str:
    at = p(p.g.pick("ArgMax", "ArgMin"), v, axis=p.g.pick(*range(len(shape))), keepdims=1,
           select_last_index=p.g.pick(0, 1))  # fmt: skip
    return p("Add", v, p.cast(at, dtype))


def product(p: Piece, v: str, w: str, dtype: str, shape: Any) -> str:
    need(len(shape) > 1 and shape[-1] <= 40, "a long row")
    low = 0 if dtype[0] == "u" else -3
    return p("MatMul", v, p.const(_numbers(p.g, low, 4, shape[-1], shape[-1]), dtype))


def _numbers(g: Grow, low: int, end: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(g.random.randrange(1 << 16)).integers(low, end, shape)


ALL = frozenset(WHOLE)
STEPS = (
    (binary, ALL), (binary, ALL), (quotient, ALL), (extreme, ALL - {"int16", "uint16"}), (power, frozenset(WIDE)),
    (bits, ALL), (shift, frozenset({"uint8", "uint32", "uint64"})), (sign, ALL),
    (negative, frozenset({"int8", "int16", *WIDE})), (bounded, ALL - {"int16", "uint16"}),
    (chosen, ALL - {"int16", "uint16", "uint64"}), (other_type, ALL), (reduced, frozenset({"int8", "uint8", *WIDE})),
    (running, frozenset(WIDE)), (place, frozenset({"int8", "uint8", *WIDE})),
    (product, frozenset({"uint32", "uint64", *WIDE})),
)  # fmt: skip
"""What onnxruntime has for which element types."""


def double(g: Grow, x: str) -> str:
    """Smooth functions in f64."""
    shape, p = g.shapes[x], Piece(g, x, opset=22)
    v = p.cast(x, np.float64)
    kept = [v]
    for _ in range(g.pick(2, 3, 4)):
        match g.pick("of one", "of one", "of two", "reduced", "softmax", "running", "product", "select"):
            case "of one":
                v = _smooth(g, p, v)
            case "of two":
                v = p(g.pick("Add", "Sub", "Mul", "Max", "Min"), *g.random.sample([v, g.pick(*kept)], 2))
            case "reduced":
                axes = sorted(g.random.sample(range(len(shape)), g.pick(*range(1, len(shape) + 1))))
                how = g.pick("Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp")
                r = p(f"Reduce{how}", v, p.ints(*axes), keepdims=1)
                v = p("Div", v, p("Add", p("Abs", r), p.const(1, "float64")))
            case "softmax":
                v = p(g.pick("Softmax", "LogSoftmax"), v, axis=g.pick(*range(len(shape))))
            case "running":
                axis = p.const(g.pick(*range(len(shape))), np.int64)
                if g.chance(0.5):
                    axis = p("Squeeze", g.input(1, below=len(shape)))
                v = p("CumSum", p("Tanh", v), axis)
            case "product":
                need(len(shape) > 1 and shape[-1] <= 40, "a long row")
                v = p("MatMul", v, p.const(_numbers(g, -3, 4, shape[-1], shape[-1]) / shape[-1], "float64"))
            case _:
                v = p("Where", p("Less", p("Abs", v), p.const(1.25, "float64")), v, g.pick(*kept))
        kept.append(v)
    return _join(g, x, p, p.cast(p("Tanh", v), np.float32))


def _smooth(g: Grow, p: Piece, v: str) -> str:
    def number(n: float) -> str:
        return p.const(n, "float64")

    match g.pick("Exp", "Log", "Sqrt", "Reciprocal", "Pow", "Neg", "Abs", "Div", "Sigmoid", "Sin", "Cos"):
        case "Exp":
            return p("Exp", p("Min", v, number(2)))
        case "Pow":
            return p("Pow", v, p.const(g.pick(2, 3), g.pick("float64", "int64", "float32")))
        case "Log" | "Sqrt" | "Reciprocal" as op:
            return p(op, p("Add", p("Abs", v), number(0.5)))
        case "Div":
            return p("Div", v, p("Add", p("Mul", v, v), number(1)))
        case op:
            return p(op, v)


def half(g: Grow, x: str) -> str:
    """Operators of f16 on numbers that it has, or near none that they are cut at: onnxruntime rounds some later."""
    p = Piece(g, x, opset=22)
    v = p.whole(x, np.float16)
    kept = [v]

    def number(n: float) -> str:
        return p.const(n, "float16")

    for _ in range(g.pick(2, 3, 4)):
        match g.pick("two", "two", "root", "reciprocal", "near", "sign", "slope", "select", "extreme"):
            case "two":
                v = p(g.pick("Add", "Sub", "Mul"), v, g.pick(*kept, number(3)))
                v = p("Max", p("Min", v, number(64)), number(-64))
            case "root":
                v = p("Floor", p("Sqrt", p("Add", p("Abs", v), number(0.5))))
            case "reciprocal":
                v = p("Floor", p("Mul", p("Reciprocal", p("Add", p("Abs", v), number(0.5))), number(32)))
            case "near":
                v = p(g.pick("Floor", "Ceil", "Round"), p("Mul", v, number(0.25)))
            case "sign":
                v = p(g.pick("Neg", "Abs", "Sign", "Relu"), v)
            case "slope":
                v = p("PRelu", v, number(g.pick(0, 2)))
            case "select":
                v = p("Where", p(g.pick(*TESTS), v, number(1)), v, g.pick(*kept))
            case _:
                v = p(g.pick("Min", "Max"), v, g.pick(*kept))
        kept.append(v)
    return _join(g, x, p, p.cast(v, np.float32))


def odd_numbers(g: Grow, x: str) -> str:
    """Infinities and what is no number, found and taken out again."""
    dtype = g.pick("float16", "float64", "float32")
    p = Piece(g, x, opset=22)
    v = p.whole(x, dtype)
    y = p("Div", p.const(1, dtype) if g.chance(0.5) else v, v)
    tests = p("IsNaN", y), p("IsInf", y, detect_negative=g.pick(0, 1)), p("IsInf", y)
    bad = p("Or", p(g.pick("Or", "Xor"), *tests[:2]), tests[2])
    y = p("Where", bad, v, p("Sign", y) if dtype == "float16" else y)
    return _join(g, x, p, p.cast(y, np.float32))


def rare_functions(g: Grow, x: str) -> str:
    p = Piece(g, x)
    match g.pick("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"):
        case "Acosh":
            y = p("Acosh", p("Add", p("Abs", x), p.const(1.5)))
        case "Asin" | "Acos" | "Atanh" | "Tan" as op:
            y = p(op, p("Mul", p("Tanh", x), p.const(0.75)))
        case "Sinh" | "Cosh" as op:
            y = p(op, p("Clip", x, p.const(-3), p.const(3)))
        case op:
            y = p(op, x)
    return p.end(y)


def few_bits(g: Grow, x: str) -> str:
    """Rounded to floats or whole numbers of few bits, which a model keeps in wider ones."""
    names = g.pick("FLOAT8E4M3FN", "FLOAT8E5M2", "BFLOAT16", "INT4", "UINT4")
    p = Piece(g, x, opset=23)
    v = p.whole(x, np.float32, 1 if "INT" in names else g.pick(1, 4))
    if "INT" in names:
        v = p("Clip", p("Abs", v) if names[0] == "U" else v, p.const(-7), p.const(7))
    elif names == "BFLOAT16":
        v = p("Mul", v, p.const(1.37))
    return _join(g, x, p, p("Cast", p("Cast", v, to=KINDS[names]), to=kind(np.float32)))


KINDS = {"FLOAT8E4M3FN": 17, "FLOAT8E5M2": 19, "BFLOAT16": 16, "INT4": 22, "UINT4": 21}


def as_bits(g: Grow, x: str) -> str:
    """The bits of a float, of which some are changed."""
    p = Piece(g, x, opset=26)
    v = p("BitCast", x, to=kind(np.int32))
    if g.chance(0.5):
        v = p("BitwiseAnd", v, p.const(0x7FFFFFFF, np.int32))
    else:
        v = p("BitwiseXor", v, p.const(-0x80000000, np.int32))
    return p.end(p("BitCast", v, to=kind(np.float32)))


TYPES = (whole, whole, whole, whole, double, double, half, odd_numbers, rare_functions, few_bits, as_bits)
