"""Products beyond matmul, and windows. Semantics: .../ops/defs/iOS15/linear.py (einsum), iOS18/transformers.py,
iOS15/tensor_transformation.py (sliding_windows)."""

from __future__ import annotations

import math

import numpy as np

from ...ir import Value
from ...limits import current
from ..core.common import axis_in, ints, scalar
from .call import Call, rule


@rule("einsum")
def _einsum(c: Call) -> None:
    """What einsum says in general. The form that coremltools writes, [.., C, H, W] by [.., W, H, U], is a matmul, and
    broadcasts."""
    equation, values = c.known("equation").replace(" ", ""), c.values("values")
    if len(values) == 2 and _is_product(equation):
        rank = len(equation.split(",")[0])
        swap = (*range(rank - 3), rank - 2, rank - 3, rank - 1)
        product = c.add("matmul", [c.add("transpose", [value], perm=swap) for value in values])
        c.finish("transpose", [product], perm=swap)
        return
    c.finish("einsum", values, equation=equation)


def _is_product(equation: str) -> bool:
    """Whether it is nchw,nwhu->nchu or chw,whu->chu in other letters."""
    sides = equation.replace("->", ",").split(",")
    if [len(side) for side in sides] not in ([4, 4, 4], [3, 3, 3]) or "." in equation:
        return False
    batch, (c, h, w), u = sides[0][:-3], tuple(sides[0][-3:]), sides[1][-1]
    distinct = len({*sides[0], u}) == len(sides[0]) + 1
    return distinct and sides[1:] == [batch + w + h + u, batch + c + h + u]


@rule("scaled_dot_product_attention")
def _attention(c: Call) -> None:
    """softmax(query keys' / sqrt(E) + mask) values; where a mask of flags is False, nothing is looked at."""
    query, key, value, mask = c.x("query"), c.x("key"), c.x("value"), c.value("attn_mask")
    rank = c.rank(query)
    width = None if query.type.shape is None else query.type.shape[-1]
    if rank < 3 or c.rank(key) != rank or c.rank(value) != rank:
        c.fail(f"expected query, key and value of one rank from 3 on, found {query.type}, {key.type}, {value.type}")
    turned = c.add("transpose", [key], perm=(*range(rank - 2), rank - 1, rank - 2))
    factor = _factor(c, query, rank) if not isinstance(width, int) else scalar(c, 1 / math.sqrt(max(width, 1)), query)
    scores = c.add("matmul", [c.add("mul", [query, factor]), turned])
    if mask is not None:
        if mask.type.dtype == np.bool_:
            mask = c.add("where", [mask, scalar(c, 0, scores), scalar(c, -np.inf, scores)])
        scores = c.add("add", [scores, mask])
    c.finish("matmul", [c.add("softmax", [scores], axis=rank - 1), value])


def _factor(c: Call, query: Value, rank: int) -> Value:
    width = c.cast(c.add("shape", [query], start=rank - 1, end=rank), query.type.dtype)
    return c.add("reciprocal", [c.add("sqrt", [width])])


@rule("sliding_windows")
def _windows(c: Call) -> None:
    """All windows along `axis`, `stride` apart; their elements lie along a new axis behind it."""
    x, size, stride = c.x(), int(c.known("size")), int(c.known("stride", 1))
    axis = axis_in(c, c.known("axis"), c.rank(x))
    extent = x.type.shape[axis] if x.type.shape else None
    if size < 1 or stride < 1 or (isinstance(extent, int) and size > extent):
        c.fail(f"expected windows of 1 to {extent} and strides from 1 on, found {size} and {stride}")
    count = (extent - size) // stride + 1 if isinstance(extent, int) else 1
    current().hold(8 * count * size, c.where)
    within = np.arange(size)
    if isinstance(extent, int):
        c.finish("gather", [x, c.const(np.arange(0, extent - size + 1, stride)[:, None] + within)], axis=axis)
        return
    length = c.add("reshape", [c.add("shape", [x], start=axis, end=axis + 1), ints(c, [])])
    end = c.add("sub", [length, c.const(np.int64(size - 1))])
    starts = c.add("range", [c.const(np.int64(0)), end, c.const(np.int64(stride))])
    rows = c.add("add", [c.add("reshape", [starts, ints(c, [-1, 1])]), c.const(within)])
    c.finish("gather", [x, rows], axis=axis)
