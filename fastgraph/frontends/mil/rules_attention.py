"""Products beyond matmul, and windows. Semantics: .../ops/defs/iOS15/linear.py (einsum), iOS18/transformers.py,
iOS15/tensor_transformation.py (sliding_windows)."""

from __future__ import annotations

import math

import numpy as np

from ...ir import Value
from ...limits import current
from .call import Call
from .common import extents
from .signatures import rule


@rule("einsum: values* equation:str")
def einsum(c: Call, values: list[Value], equation: str) -> Value:
    """ONNX's einsum. The form that coremltools writes, [.., C, H, W] by [.., W, H, U], is a matmul, and broadcasts."""
    equation = c.known("equation").replace(" ", "")
    if len(values) != 2 or not _is_product(equation):
        return c("einsum", *values, equation=equation)
    rank = len(equation.split(",")[0])
    swap = (*range(rank - 3), rank - 2, rank - 3, rank - 1)
    a, b = (c("transpose", value, perm=swap) for value in values)
    return c("transpose", a @ b, perm=swap)


def _is_product(equation: str) -> bool:
    """Whether it is nchw,nwhu->nchu or chw,whu->chu in other letters."""
    sides = equation.replace("->", ",").split(",")
    if [len(side) for side in sides] not in ([4, 4, 4], [3, 3, 3]) or "." in equation:
        return False
    batch, (c, h, w), u = sides[0][:-3], tuple(sides[0][-3:]), sides[1][-1]
    distinct = len({*sides[0], u}) == len(sides[0]) + 1
    return distinct and sides[1:] == [batch + w + h + u, batch + c + h + u]


@rule("scaled_dot_product_attention: query key value attn_mask?")
def attention(c: Call, query: Value, key: Value, value: Value, attn_mask: Value | None) -> Value:
    """softmax(query keys' / sqrt(E) + mask) values; where a mask of flags is False, nothing is looked at."""
    rank = c.rank(query)
    if rank < 3 or c.rank(key) != rank or c.rank(value) != rank:
        c.fail(f"expected query, key and value of one rank from 3 on, found {query.type}, {key.type}, {value.type}")
    (width,) = extents(query, -1)
    if isinstance(width, int):
        factor = c.number(1 / math.sqrt(max(width, 1)), query)
    else:
        factor = c.reciprocal(c.sqrt(c.cast(c("shape", query, start=rank - 1, end=rank), query.type.dtype)))
    scores = (query * factor) @ c.transpose(key, *range(rank - 2), rank - 1, rank - 2)
    if attn_mask is not None:
        flags = attn_mask.type.dtype == np.bool_
        scores = scores + (c("where", attn_mask, *(c.number(n, scores) for n in (0, -np.inf))) if flags else attn_mask)
    return c("softmax", scores, axis=rank - 1) @ value


@rule("sliding_windows: x axis:Axis size:int stride:int=1")
def sliding_windows(c: Call, x: Value, axis: int, size: int, stride: int) -> Value:
    """All windows along `axis`, `stride` elements from one to the next, along a new axis behind it."""
    (extent,) = extents(x, axis)
    if size < 1 or stride < 1 or (isinstance(extent, int) and size > extent):
        c.fail(f"expected windows of 1 to {extent} and strides from 1 on, found {size} and {stride}")
    within = np.arange(size)
    if isinstance(extent, int):
        starts = np.arange(0, extent - size + 1, stride)[:, None]
        current().hold(8 * len(starts) * size, c.where)
        return c.pick(x, starts + within, axis)
    length = c("reshape", c("shape", x, start=axis, end=axis + 1), c.vector())
    firsts = c("range", c.number(np.array(0)), length - (size - 1), c.number(np.array(stride)))
    return c.pick(x, c("reshape", firsts, c.vector(-1, 1)) + within, axis)
