"""TensorFlow's operators that files carry as custom ones: "AddV2" as Circle's tools write it, "FlexAddV2" as TensorFlow
Lite's converter does. Semantics: tf.raw_ops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import TensorType, Value
from ..core.common import BOOL, INT64, axis_in, ints
from .call import Call, Rule, custom
from .common import known, narrowed, one_to_one, vector
from .nodedef import attributes

UNARY = {
    "Abs": "abs", "Ceil": "ceil", "Cos": "cos", "Elu": "elu", "Erf": "erf", "Exp": "exp", "Floor": "floor",
    "Identity": "identity", "Log": "log", "LogicalNot": "not", "Neg": "neg", "Relu": "relu", "Rint": "round",
    "Round": "round", "Selu": "selu", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Softplus": "softplus",
    "Softsign": "softsign", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh", "IsNan": "is_nan", "IsInf": "is_inf",
    "Reciprocal": "reciprocal", "Inv": "reciprocal", "Sinh": "sinh", "Cosh": "cosh", "Atan": "atan", "Asin": "asin",
    "Acos": "acos", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Expm1": "expm1", "Log1p": "log1p",
    "StopGradient": "identity",
}  # fmt: skip
BINARY = {
    "Add": "add", "AddV2": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "RealDiv": "div", "Maximum": "max",
    "Minimum": "min", "Pow": "pow", "LogicalAnd": "and", "LogicalOr": "or", "Equal": "equal", "Less": "less",
    "LessEqual": "less_or_equal", "Greater": "greater", "GreaterEqual": "greater_or_equal",
}  # fmt: skip
REDUCTIONS = {"Sum": "reduce_sum", "Mean": "reduce_mean", "Prod": "reduce_prod", "Max": "reduce_max",
              "Min": "reduce_min"}  # fmt: skip


def tensorflow(*names: str) -> Any:
    """Register a rule for operators under TensorFlow's name, plain and as the Flex delegate's."""
    return custom(*names, *(f"Flex{name}" for name in names))


one_to_one(UNARY, register=tensorflow)
one_to_one(BINARY, 2, register=tensorflow)


@tensorflow("NotEqual")
def _not_equal(c: Call) -> None:
    c.count(2)
    c.write("not", [c.add("equal", c.inputs, type=TensorType(BOOL))])


@tensorflow("Square")
def _square(c: Call) -> None:
    c.count(1)
    c.write("mul", [c.x(), c.x()])


@tensorflow("SquaredDifference")
def _squared_difference(c: Call) -> None:
    c.count(2)
    difference = c.add("sub", c.inputs)
    c.write("mul", [difference, difference])


@tensorflow("Rsqrt")
def _rsqrt(c: Call) -> None:
    c.count(1)
    c.write("reciprocal", [c.add("sqrt", [c.x()])])


@tensorflow("Relu6")
def _relu6(c: Call) -> None:
    c.count(1)
    c.apply("RELU6", c.x(), c.outputs[0])


def _axes(c: Call) -> Value:
    """The axes of input 1 as a vector."""
    axes, shape = vector(c, 1), c.x().type.shape
    if axes.data is None or shape is None:
        return axes
    rank = len(shape)
    return ints(c, [*dict.fromkeys(axis_in(c, int(a), rank) for a in axes.data)])


def _reduction(op: str) -> Rule:
    def translate(c: Call) -> None:
        c.count(2)
        keep = int(bool(attributes(c).get("keep_dims", False)))
        c.write(op, [c.x(), _axes(c)], keepdims=keep, noop_with_empty_axes=1)

    return translate


for _name, _op in REDUCTIONS.items():
    tensorflow(_name)(_reduction(_op))


@tensorflow("All", "Any")
def _all_any(c: Call) -> None:
    """Of bools; some files carry them as floats."""
    c.count(2)
    keep, flag = int(bool(attributes(c).get("keep_dims", False))), TensorType(BOOL)
    x = c.x() if c.x().type.dtype == BOOL else c.add("cast", [c.x()], type=flag, to=BOOL)
    op = "reduce_min" if c.op.removeprefix("Flex") == "All" else "reduce_max"
    settings: dict[str, Any] = {"keepdims": keep, "noop_with_empty_axes": 1}
    if c.outputs[0].type.dtype == BOOL:
        c.write(op, [x, _axes(c)], **settings)
    else:
        c.write("cast", [c.add(op, [x, _axes(c)], type=flag, **settings)], to=c.outputs[0].type.dtype)


def _transposed(c: Call, x: Value, yes: bool) -> Value:
    if not yes:
        return x
    rank = c.rank(x)
    if rank < 2:
        c.fail(f"expected a matrix to transpose, found {x.type}")
    return c.add("transpose", [x], type=x.type.with_shape(None), perm=(*range(rank - 2), rank - 1, rank - 2))


@tensorflow("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _matmul(c: Call) -> None:
    """Where a file tells nothing of its operands, the declared result says whether the first is transposed."""
    c.count(2)
    told = attributes(c)
    names = ("transpose_a", "transpose_b") if c.op.endswith("MatMul") and "Batch" not in c.op else ("adj_x", "adj_y")
    flags = [bool(told.get(name, False)) for name in names]
    shapes = [v.type.shape for v in (c.x(0), c.x(1), c.outputs[0])]
    if not told and all(s is not None and len(s) >= 2 and all(isinstance(d, int) for d in s[-2:]) for s in shapes):
        (m, k), (n, o), wanted = ((s or ())[-2:] for s in shapes)
        fits = [(ta, tb) for ta in (False, True) for tb in (False, True)
                if (m if ta else k) == (o if tb else n) and (k if ta else m, n if tb else o) == wanted]  # fmt: skip
        flags = list(fits[0]) if fits else flags
    c.write("matmul", [_transposed(c, c.x(i), flag) for i, flag in enumerate(flags)])


@tensorflow("BroadcastTo")
def _broadcast_to(c: Call) -> None:
    c.count(2)
    c.write("expand", [c.x(), vector(c, 1)])


@tensorflow("Reshape")
def _reshape(c: Call) -> None:
    c.count(2)
    c.write("reshape", [c.x(), vector(c, 1)], allowzero=1)


@tensorflow("Transpose")
def _transpose(c: Call) -> None:
    c.count(2)
    c.write("transpose", [c.x()], perm=tuple(known(c, 1, "permutations")))


@tensorflow("Cast")
def _cast(c: Call) -> None:
    c.count(1)
    c.write("cast", to=c.outputs[0].type.dtype)


@tensorflow("Softmax", "LogSoftmax")
def _softmax(c: Call) -> None:
    c.count(1)
    c.write("softmax" if c.op.endswith("Softmax") and "Log" not in c.op else "log_softmax", axis=-1)


@tensorflow("SelectV2", "Select")
def _select(c: Call) -> None:
    c.count(3)
    c.write("where")


@tensorflow("Cumsum")
def _cumsum(c: Call) -> None:
    c.count(2)
    told = attributes(c)
    axis = known(c, 1, "axes")[0]
    c.write("cum_sum", [c.x(), c.const(np.int64(axis))], exclusive=int(told.get("exclusive", False)),
            reverse=int(told.get("reverse", False)))  # fmt: skip


@tensorflow("SplitV")
def _split(c: Call) -> None:
    c.count(3, (1, 1 << 16))
    c.write("split", [c.x(), vector(c, 1)], axis=known(c, 2, "axes")[0])


@tensorflow("Einsum", "XlaEinsum")
def _einsum(c: Call) -> None:
    equation = attributes(c).get("equation")
    if not isinstance(equation, str):
        c.fail("expected an equation in its custom options, found none")
    c.write("einsum", equation=equation)


@tensorflow("MatrixBandPart")
def _matrix_band_part(c: Call) -> None:
    """Zero further than `lower` below and `upper` above the diagonal; a negative number keeps all."""
    c.count(3)
    x = c.x()
    lower, upper = (known(c, i, "bands")[0] for i in (1, 2))
    for keep_upper, k in ((1, -lower), (0, upper)):
        if (lower if keep_upper else upper) >= 0:
            x = c.add("trilu", [x, c.const(np.int64(k))], type=x.type.with_shape(None), upper=keep_upper)
    c.write("identity", [x])


@tensorflow("MaxPoolWithArgmax")
def _max_pool_with_argmax(c: Call) -> None:
    """(maxima, their flat places in the image, or with `include_batch_in_index` in the batch)."""
    c.count(1, 2)
    told = attributes(c)
    kernel, strides, padding = (told.get(name, []) for name in ("ksize", "strides", "padding"))
    if not all(isinstance(v, list) and len(v) == 4 and v[0] == v[3] == 1 for v in (kernel, strides)):
        c.fail(f"expected ksize and strides [1, height, width, 1] in its custom options, found {kernel} and {strides}; "
               "without them nobody can tell what it computes")  # fmt: skip
    if padding not in ("SAME", "VALID"):
        c.fail(f"expected padding SAME or VALID in its custom options, found {padding}")
    dtype = c.outputs[1].type.dtype or INT64
    results = [c.outputs[0], c.fresh(TensorType(INT64))]
    c.add(
        "max_pool_places", [c.x()], results, kernel_shape=tuple(kernel[1:3]), strides=tuple(strides[1:3]),
        same=int(padding == "SAME"), with_batch=int(bool(told.get("include_batch_in_index", False))),
        places_dtype=INT64,
    )  # fmt: skip
    if dtype == INT64:
        c.add("identity", [results[1]], [c.outputs[1]])
    else:
        narrowed(c, results[1], c.outputs[1])
