"""Casts around nodes whose kernels compute in another element type, and rounding to formats of few bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import BOOL, FLOAT16, FLOAT32, INT32, UINT8, Node, TensorType, Value
from ...ops.narrow import INTEGERS, is_narrow
from ...ops.registry import OPS, Layout, attr
from ...rules.operands import known
from ...rules.rule import Rule, rule
from ...rules.sweep import Sweep

AS_HALVES = frozenset(
    """
    bit_cast cast cast_like constant_of_shape dequantize_linear dynamic_quantize_linear eye_like is_inf is_nan
    optional_get_element optional_has_element qlinear_conv qlinear_matmul quantize_linear range requantize sequence_at
    sequence_construct sequence_insert shape size
    """.split()
)
"""Operators that keep float16: what they give depends on the rounding, or only types are asked for."""
BOOLS = {"add": "max", "mul": "min", "max": "max", "min": "min"}
"""The reductions of numbers that reductions of bools are."""


def halves() -> Rule:
    """A rule for one sweep: y = softmax(x) in f16 is y = cast(softmax(cast(x))), computed in f32. What reads
    y next reads the f32, so that values are rounded where the graph gives them, or casts them.
    """
    wide: dict[Value, Value] = {}

    @rule("", lambda op: op.name not in AS_HALVES and op.pure)
    def half(g: Sweep, node: Node) -> bool:
        op = OPS[node.op]
        own = [v for v in node.inputs if v is not None and v.type.dtype == FLOAT16]
        if node.graphs or not own:
            return False
        moves = op.moves and op.layout not in (Layout.WINDOW, Layout.AXES) or op.layout is Layout.ORDER
        if (moves or node.op == "identity") and wide.keys().isdisjoint(own):
            return False
        return _in_type(g, node, FLOAT32, FLOAT16, wide)

    return half


def _in_type(
    g: Sweep, node: Node, other: np.dtype, own: np.dtype, known: dict[Value, Value] | None = None, **attrs: Any
) -> bool:
    """Write the node in another element type, between casts of its operands and results."""
    cast = {} if known is None else known
    for value in node.inputs:
        if value is not None and value.type.dtype == own and value not in cast:
            cast[value] = g.cast(value, other)
    kinds = [TensorType(other, v.type.shape) if v.type.dtype == own else v.type for v in node.outputs]
    inputs = [v if v is None else cast.get(v, v) for v in node.inputs]
    results = g.several(node.op, kinds, *inputs, **{**node.attrs, **attrs})
    narrow = [g.cast(y, v.type.dtype) for y, v in zip(results, node.outputs, strict=True)]
    if known is not None:
        known.update((v, y) for v, y in zip(narrow, results, strict=True) if v is not y)
    return g.becomes(*narrow)


@rule("exponents", "pow")
def exponent(g: Sweep, node: Node) -> bool:
    """The exponent of a float in its type; also that of a whole number, where its type holds it."""
    x, n = node.x, node.y
    base, own = x.type.dtype, n.type.dtype
    if base is None or own is None or base == own or base.kind not in "iuf" or own.kind not in "iuf":
        return False
    if base.kind != "f" and (own.kind == "f" and (n.data is None or (n.data < 0).any()) or not _fits(n, base)):
        return False
    return g.again(node, [x, g.cast(n, base)])


def _fits(value: Value, dtype: np.dtype) -> bool:
    """Whether one type of whole numbers holds all numbers of another."""
    if value.data is not None:
        return bool(np.all(value.data.astype(dtype) == value.data))
    return np.can_cast(value.type.element, dtype)


@rule("narrow_types", "reduce_sum reduce_prod reduce_max reduce_min arg_max arg_min cum_sum cum_prod matmul")
def narrow(g: Sweep, node: Node) -> bool:
    """Whole numbers of one and two bytes in int32, truncated in the end; their extremes as they are."""
    dtype = node.x.type.dtype
    if dtype is None or dtype.kind not in "iu" or dtype.itemsize > 2 or not node.x.type.size:
        return False
    bytes_have_own = node.op in ("reduce_max", "reduce_min", "arg_max", "arg_min") and dtype.itemsize == 1
    if any(v is not None and v.type.dtype != dtype for v in node.inputs[: 2 if node.op == "matmul" else 1]):
        return False
    if bytes_have_own and not node.attrs.get("select_last_index"):
        return False
    kept = node.inputs[1:] if node.op != "matmul" else []
    return _in_type(g, node, INT32, dtype, {v: v for v in kept if v is not None and v is not node.x})


@rule("other_types", "scatter_elements scatter_nd scatter_slices")
def scattered_bools(g: Sweep, node: Node) -> bool:
    """Given ``y = scatter(x, places, updates)`` of bools with reduction add (or) or mul (and); result a scatter in
    uint8 with reduction max or min."""
    reduction = BOOLS.get(attr(node, "reduction"))
    return node.x.type.dtype == BOOL and reduction is not None and _in_type(g, node, UINT8, BOOL, reduction=reduction)


@rule("early", "cast")
def formatted(g: Sweep, node: Node) -> bool:
    """Rounding to floats of few bits, by way of f32; whole numbers of few bits are the low bits of a byte."""
    x, byte, kind = node.x, node.out.type.dtype, attr(node, "format")
    if kind == "float8e8m0":
        return _power_of_two(g, node)
    if x.type.dtype is None or byte is None or x.type.dtype.kind not in "biuf" or not is_narrow(kind):
        return False
    if kind not in INTEGERS:
        return x.type.dtype != FLOAT32 and x.type.dtype.itemsize <= 2 and g.again(node, [g.cast(x, FLOAT32)])
    bits = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}[kind]
    if byte.kind not in "iu" or byte.itemsize != 1:
        return False
    y = g.cast(x, byte)
    if kind[0] == "u":
        return g.becomes(g("bitwise_and", y, (1 << bits) - 1))
    return g.becomes(_shifted(g, _shifted(g, y, 8 - bits, "LEFT"), 8 - bits, "RIGHT"))


def _shifted(g: Sweep, x: Value, bits: int, direction: str) -> Value:
    return g("bit_shift", x, bits, direction=direction)


ROUND_EXPONENT = {"up": (0x7FFFFF, 0x400001), "nearest": (0x400000, 0x600000), "down": (0, 0x800000)}
"""(the number to add to the bits of an f32 before its exponent is taken; the bits from which on a subnormal number
becomes the least normal one)."""


def _power_of_two(g: Sweep, node: Node) -> bool:
    """x rounded to a power of two: to its exponent. The least, 2**-127, is a subnormal number."""
    x, (part, least) = node.x, ROUND_EXPONENT[attr(node, "round_mode")]
    if not known(x, dtypes=[FLOAT32, np.float16]) or node.out.type.dtype != FLOAT32:
        return False
    cast: Any = {"format": "", "from_format": "", "resize": 0}
    size = g("bitwise_and", g("bit_cast", g.cast(x, FLOAT32), to="int32", **cast), 0x7FFFFFFF)
    power = _shifted(g, size + part, 23, "RIGHT")
    power = g.choose(size < 1 << 23, g.cast(size >= least, np.int32), power)
    bits = g.choose(power < 1, 1 << 22, _shifted(g, g.min(power, 254), 23, "LEFT"))
    none = size > 0x7F800000
    if not attr(node, "saturate"):
        none = none | (g.equal(size, 0) | (power > 254))
    return g.becomes(g("bit_cast", g.choose(none, 0x7FC00000, bits), to="float32", **cast))


@rule("other_types", "resize")
def resized_whole(g: Sweep, node: Node) -> bool:
    """A resize of whole numbers of one and two bytes that are not quantized: in f32, truncated in the end."""
    x, dtype = node.x, node.x.type.dtype
    if dtype is None or dtype.kind not in "iu" or dtype.itemsize > 2 or attr(node, "mode") == "nearest":
        return False
    if x.type.quant is not None or not known(node.out):
        return False
    y = g("resize", g.cast(x, FLOAT32), *node.inputs[1:], type=TensorType(FLOAT32, node.out.type.shape), **node.attrs)
    return g.becomes(g.cast(g.clip(y, np.iinfo(dtype).min, np.iinfo(dtype).max), dtype))
