"""What kernels compute in another element type than a file has: casts around nodes, and reductions in simpler ones."""

from __future__ import annotations

from math import prod

import numpy as np

from ..ir import Node, TensorType, Value
from ..ir.weights import once
from ..ops.registry import OPS, Layout, attr
from .moves import shaped
from .rewrite import Rule, Sweep, constant, sees

F16, F32, F64, I32, I64 = (np.dtype(t) for t in (np.float16, np.float32, np.float64, np.int32, np.int64))
AS_HALVES = frozenset(
    """
    abs add and bit_cast cast cast_like ceil clip constant_of_shape cum_prod cum_sum dequantize_linear div
    dynamic_quantize_linear equal eye_like floor floor_div greater greater_or_equal identity is_inf is_nan less
    less_or_equal max mean min mod mul neg optional_get_element optional_has_element prelu qlinear_conv qlinear_matmul
    quantize_linear range reciprocal relu requantize round sequence_at sequence_construct sequence_insert shape sign
    size sqrt sub sum where
    """.split()
)
"""Operators that keep float16: kernels round after each, or only types are asked for."""


def halves() -> Rule:
    """A rule for one sweep: y = softmax(x) in f16 is y = cast(softmax(cast(x))), computed in f32."""
    wide: dict[Value, Value] = {}

    @sees(lambda op: op.name not in AS_HALVES and op.pure)
    def half(state: Sweep, node: Node) -> bool:
        op = OPS[node.op]
        moves = op.moves and op.layout not in (Layout.WINDOW, Layout.AXES)
        if moves or op.layout is Layout.ORDER or node.graphs:
            return False
        if not any(v is not None and v.type.dtype == F16 for v in node.inputs):
            return False
        _through(state, node, F32, F16, wide)
        return True

    return half


def _through(state: Sweep, node: Node, other: np.dtype, own: np.dtype, known: dict[Value, Value] | None = None) -> None:
    """Write the node in another element type, between casts of what it has of its own."""
    found = {} if known is None else known
    for value in node.inputs:
        if value is not None and value.type.dtype == own and value not in found:
            found[value] = cast(state, node, value, other)
    inputs = [v if v is None else found.get(v, v) for v in node.inputs]
    names = [Value(f"{v.name}.{other}", TensorType(other, v.type.shape)) for v in node.outputs]
    outputs = [w if v.type.dtype == own else v for v, w in zip(node.outputs, names, strict=True)]
    state.write(Node(node.op, inputs, outputs, node.attrs, node.name))
    for value, made in zip(node.outputs, outputs, strict=True):
        if made is not value:
            state.write(Node("cast", [made], [value], {"to": own.name}, node.name))


def cast(state: Sweep, node: Node, value: Value, dtype: np.dtype) -> Value:
    """The value in another element type, at once where it is constant."""
    if value.type.dtype == dtype:
        return value
    if value.data is not None:
        data = value.data
        return constant(value, once(lambda: data.astype(dtype), data, dtype.name), dtype.name)
    return state.add("cast", [value], TensorType(dtype, value.type.shape), node, to=dtype.name)


@sees("pow")
def exponent(state: Sweep, node: Node) -> bool:
    """The exponent of a float is of its type; so is that of a whole number, where it fits."""
    x, n = node.x, node.inputs[1]
    assert n is not None
    base, own = x.type.dtype, n.type.dtype
    if base is None or own is None or base == own or base.kind not in "iuf" or own.kind not in "iuf":
        return False
    if base.kind != "f" and (own.kind == "f" or not _fits(n, base)):
        return False
    state.write(Node("pow", [x, cast(state, node, n, base)], node.outputs, node.attrs, node.name))
    return True


def _fits(value: Value, dtype: np.dtype) -> bool:
    """Whether whole numbers keep their meaning in a type of others."""
    assert value.type.dtype is not None
    if value.data is not None:
        return bool(np.all(value.data.astype(dtype) == value.data))
    return np.can_cast(value.type.dtype, dtype)


@sees("cast")
def formatted(state: Sweep, node: Node) -> bool:
    """Rounding to floats of few bits begins with f32; whole numbers of few bits are the low ones of a byte."""
    from ..ops.narrow import INTEGERS, is_narrow

    x, out, kind = node.x, node.out, attr(node, "format")
    if x.type.dtype is None or out.type.dtype is None or x.type.dtype.kind not in "biuf" or not is_narrow(kind):
        return False
    if kind not in INTEGERS:
        if x.type.dtype == F32 or x.type.dtype.itemsize > 2:
            return False
        state.write(Node("cast", [cast(state, node, x, F32)], node.outputs, node.attrs, node.name))
        return True
    bits, byte = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}[kind], out.type.dtype
    if byte.kind not in "iu" or byte.itemsize != 1:
        return False
    y = state.add("cast", [x], out.type, node, to=byte.name) if x.type.dtype != byte else x
    if kind[0] == "u":
        y = state.add("bitwise_and", [y, constant(out, np.array((1 << bits) - 1, byte), "mask")], out.type, node)
    else:
        far = constant(out, np.array(8 - bits, byte), "shift")
        for direction in ("LEFT", "RIGHT"):
            y = state.add("bit_shift", [y, far], out.type, node, direction=direction)
    state.replace(out, y)
    return True


@sees("cum_sum", "cum_prod")
def axis_at_run_time(state: Sweep, node: Node) -> bool:
    """A running sum along an axis that is told at run time: along each of up to three, of which one is chosen."""
    x, at, rank = node.x, node.inputs[1], len(node.x.type.shape or ())
    assert at is not None
    if at.data is not None or not x.type.concrete or not 1 <= rank <= 3 or not x.type.size:
        return False
    if at.type.shape not in ((), (1,)):
        return False
    sums: list[Value | None] = []
    for i in range(rank):
        number = constant(node.out, np.array(i, np.int64), f"axis{i}")
        one = state.add(node.op, [x, number], x.type, node, **node.attrs)
        sums.append(shaped(state, node, one, (1, *x.type.dims)))
    stack = state.add("concat", sums, x.type.with_shape((rank, *x.type.dims)), node, axis=0)
    axis = shaped(state, node, cast(state, node, at, I64), ())
    state.replace(node.out, state.add("gather", [stack, axis], x.type, node, axis=0))
    return True


NARROW = {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "arg_max", "arg_min", "cum_sum", "cum_prod",
          "matmul", "gemm"}  # fmt: skip


@sees(*NARROW)
def narrow(state: Sweep, node: Node) -> bool:
    """Whole numbers of one and two bytes in int32, whose low bits are theirs; their extremes as they are."""
    dtype = node.x.type.dtype
    if dtype is None or dtype.kind not in "iu" or dtype.itemsize > 2 or not node.x.type.size:
        return False
    bytes_have_own = node.op in ("reduce_max", "reduce_min", "arg_max", "arg_min") and dtype.itemsize == 1
    if any(v is not None and v.type.dtype != dtype for v in node.inputs[: 3 if node.op in ("matmul", "gemm") else 1]):
        return False
    if bytes_have_own and not node.attrs.get("select_last_index"):
        return False
    kept = node.inputs[1:] if node.op not in ("matmul", "gemm") else []
    known = {v: v for v in kept if v is not None and v is not node.x}
    _through(state, node, I32, dtype, known)
    return True


@sees("resize")
def resized_whole(state: Sweep, node: Node) -> bool:
    """Weighted sums of whole numbers of one and two bytes, which stand for themselves, in f32; truncated in the end."""
    x, out, sizes = node.x, node.out, node.inputs[1:]
    dtype = x.type.dtype
    if dtype is None or dtype.kind not in "iu" or dtype.itemsize > 2 or x.type.quant is not None:
        return False
    if attr(node, "mode") == "nearest" or not out.type.concrete or not out.type.size:
        return False
    real, limits = TensorType(F32, out.type.shape), np.iinfo(dtype)
    y = state.add("resize", [cast(state, node, x, F32), *sizes], real, node, **node.attrs)
    ends = [constant(out, np.array(n, F32), "end") for n in (limits.min, limits.max)]
    y = state.add("clip", [y, *ends], real, node)
    state.replace(out, state.add("cast", [y], out.type, node, to=dtype.name))
    return True


@sees("reduce_mean", "reduce_l1", "reduce_l2", "reduce_sum_square", "reduce_log_sum", "reduce_log_sum_exp")
def composed(state: Sweep, node: Node) -> bool:
    """Reductions of whole numbers and f64 as sums, with elementwise work before and after; of f32 where the axes do not
    lie side by side.
    """
    from ..ops.reduce import reduced_axes

    x, out = node.x, node.out
    dtype = x.type.dtype
    if not x.type.concrete or not out.type.concrete or dtype is None or not x.type.size or "chain" in node.attrs:
        return False
    if dtype.kind not in "iuf" or (node.has(1) and node.const(1) is None):
        return False
    axes = reduced_axes(node, len(x.type.dims), node.const(1)) or ()
    if dtype == F32 and (node.op == "reduce_mean" or not _apart(axes, x.type.dims)):
        return False
    real = F32 if dtype == F32 else F64
    wide = real if dtype.kind == "f" else np.dtype(np.uint64) if dtype.kind == "u" else I64

    def reduce(op: str, value: Value, keep: bool = False) -> Value:
        at = constant(out, np.array(axes, np.int64), "axes")
        dims = tuple(1 if i in axes else d for i, d in enumerate(x.type.dims)) if keep else out.type.dims
        kept = 1 if keep else attr(node, "keepdims")
        if not axes:
            return value
        kind = TensorType(value.type.dtype, dims)
        return state.add(op, [value, at], kind, node, keepdims=kept, noop_with_empty_axes=0)

    def each(op: str, *values: Value, dtype: np.dtype | None = None) -> Value:
        dims = np.broadcast_shapes(*(v.type.dims for v in values))
        return state.add(op, [*values], TensorType(dtype or values[0].type.dtype, dims), node)

    def number(like: Value, n: float) -> Value:
        return constant(out, np.array(n, like.type.dtype), "number")

    match node.op:
        case "reduce_mean":
            total = reduce("reduce_sum", cast(state, node, x, wide))
            y = each("div", total, number(total, prod(x.type.dims[a] for a in axes)))
        case "reduce_l1":
            y = reduce("reduce_sum", each("abs", x))
        case "reduce_sum_square":
            y = reduce("reduce_sum", each("mul", x, x))
        case "reduce_l2":
            total = reduce("reduce_sum", cast(state, node, each("mul", x, x), wide))
            y = each("sqrt", cast(state, node, total, real))
        case "reduce_log_sum":
            y = each("log", cast(state, node, reduce("reduce_sum", cast(state, node, x, wide)), real))
        case _:
            x = cast(state, node, x, real)
            top = reduce("reduce_max", x, keep=True)
            finite = each("less", each("abs", top), number(top, np.inf), dtype=np.dtype(np.bool_))
            top = each("where", finite, top, number(top, 0), dtype=real)
            total = reduce("reduce_sum", each("exp", each("sub", x, top)), keep=True)
            y = each("add", each("log", total), top)
            if y.type.shape != out.type.shape:
                shape = constant(out, np.array(out.type.dims, np.int64), "shape")
                y = state.add("reshape", [y, shape], TensorType(real, out.type.shape), node, allowzero=1)
    state.replace(out, cast(state, node, y, dtype))
    return True


def _apart(axes: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    """Whether there are no axes, or an axis that stays lies between them."""
    chosen = [a for a in axes if dims[a] != 1]
    between = range(min(chosen, default=0), max(chosen, default=-1) + 1)
    return not chosen or any(dims[a] != 1 and a not in axes for a in between)


@sees("softmax", "log_softmax")
def softmax(state: Sweep, node: Node) -> bool:
    """Of f64: exp(x - max), divided by its sum."""
    x, out = node.x, node.out
    if x.type.dtype != F64 or not x.type.concrete or not x.type.size:
        return False
    at = attr(node, "axis") % len(x.type.dims)
    axes = constant(out, np.array([at], np.int64), "axes")
    small = x.type.with_shape(tuple(1 if i == at else d for i, d in enumerate(x.type.dims)))
    top = state.add("reduce_max", [x, axes], small, node, keepdims=1, noop_with_empty_axes=0)
    moved = state.add("sub", [x, top], x.type, node)
    power = state.add("exp", [moved], x.type, node)
    total = state.add("reduce_sum", [power, axes], small, node, keepdims=1, noop_with_empty_axes=0)
    if node.op == "softmax":
        y = state.add("div", [power, total], x.type, node)
    else:
        y = state.add("sub", [moved, state.add("log", [total], small, node)], x.type, node)
    state.replace(out, y)
    return True


RARE = frozenset({"tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "expm1", "log1p"})


@sees(*RARE)
def rare(state: Sweep, node: Node) -> bool:
    """Functions that few networks have, of f32 and f64, by those that kernels have in f64."""
    dtype = node.x.type.dtype
    if dtype not in (F32, F64) or not node.x.type.concrete:
        return False

    def do(op: str, *values: Value | float) -> Value:
        own = [v if isinstance(v, Value) else constant(node.out, np.array(v, F64), "number") for v in values]
        return state.add(op, [*own], TensorType(F64, node.out.type.shape), node)

    x = node.x
    if node.op == "tan":
        if dtype == F64:
            return False
        y = state.add("div", [state.add(f, [x], x.type, node) for f in ("sin", "cos")], x.type, node)
    else:
        x = cast(state, node, x, F64)
        if dtype == F64 and node.op in ("expm1", "log1p", "atan"):
            return False
        from .rare_functions import by_f64

        y = by_f64(node.op, x, do)
    state.replace(node.out, cast(state, node, y, dtype))
    return True
