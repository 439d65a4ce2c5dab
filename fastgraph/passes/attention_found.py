"""Attention that a file writes as products and a softmax, as one operator that keeps no scores in memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..ir import Graph, Node, TensorType, Value
from ..ops.registry import attr
from ..rules.rule import rule
from ..rules.sweep import Sweep, sweep
from .attention_operand import Dims, factor_of, operand_of
from .layout import layout

F32 = np.dtype(np.float32)


def attention(graph: Graph) -> bool:
    """Given ``y = matmul(softmax(add(matmul(q, transpose(k)), m)), v)``; result ``y = attention(q, k, v, m)``."""
    changed = sweep(graph, "splits")
    if sweep(graph, "attention"):
        layout(graph)
        return True
    return changed


@rule("splits", "split")
def split_of_reshape(g: Sweep, node: Node) -> bool:
    """Given ``a, b = split(reshape(x: [.., n]): [.., i, j, k]) {axis of i}``; result the parts of ``split(x)``,
    reshaped: parts of rows can be read where they lie.
    """
    before = g.maker.get(node.x)
    if before is None or before.op != "reshape" or not all(v.type.concrete for v in (before.x, node.x)):
        return False
    dims, whole, axis = node.x.type.dims, before.x.type.dims, node.attrs["axis"] % len(node.x.type.dims)
    if axis == len(dims) - 1 or whole[:-1] != dims[:axis] or not node.x.type.size:
        return False
    inner = prod(dims[axis + 1 :])
    sizes = [v.type.dims[axis] * inner for v in node.outputs]
    kinds = [v.type.with_shape((*whole[:-1], size)) for v, size in zip(node.outputs, sizes, strict=True)]
    parts = g.several("split", kinds, before.x, g.vector(*sizes), **{**node.attrs, "axis": len(whole) - 1})
    return g.becomes(*parts)


class Scores(NamedTuple):
    """scale * q x k, plus masks: each with axes for all of `lead`, queries and keys."""

    product: Node
    lead: Dims
    scale: float = 1.0
    masks: tuple[tuple[Value, Dims], ...] = ()


@rule("attention", "matmul")
def found_attention(g: Sweep, node: Node) -> bool:
    """Given ``y = matmul(softmax(scale * matmul(q, transpose(k)) + m), v)``; result ``y = attention(q, k, v, m)``.

    Transposes and scales on the way to q, k and v are its own, and keys and values that are expanded to more heads.
    """
    weights, values = node.inputs[:2]
    if values is None or len(node.inputs) > 2 or not _plain(node):
        return False
    softmax, blind = _softmax(g, weights)
    if softmax is None:
        return False
    dims = softmax.x.type.dims
    scores = _scores(g, softmax.x, dims[-2:], _without_ones(dims[:-2]))
    if scores is None or not _plain(scores.product) or len(scores.product.inputs) > 2:
        return False
    q, k = (operand_of(g, v, i) for i, v in enumerate(scores.product.inputs))
    v = operand_of(g, values, 2)
    if q is None or k is None or v is None or k.share != v.share or q.share != 1:
        return False
    if (q.images, q.size) != (k.images, k.size) or (k.heads != 1 and q.heads != k.heads * k.share):
        return False
    if scores.masks and _without_ones((q.images, q.heads)) != scores.lead:
        return False
    if (k.images, k.heads, k.rows) != (v.images, v.heads, v.rows):
        return False
    mask = _mask(g, scores, (q.images, q.heads, q.rows, k.rows))
    attrs = {"scale": scores.scale * q.scale * k.scale, "blind": blind}
    attrs |= {"q_num_heads": q.heads if q.flat else None, "kv_num_heads": k.heads if k.flat or v.flat else None}
    shape = (q.images, q.rows, q.heads * v.size) if q.flat else (q.images, q.heads, q.rows, v.size)
    y = g("attention", *(x.written(g) for x in (q, k, v)), mask, type=TensorType(F32, shape), **attrs)
    y = y if v.scale == 1 else y * v.scale
    return g.becomes(g.turn(g.shape(y, q.images, q.rows, q.heads, v.size), 0, 2, 1, 3) if q.flat else y)


def _plain(node: Node) -> bool:
    """Whether it is a product of as many f32 matrices, or of those of several heads with that of one."""
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    if not all(v.type.concrete and v.type.dtype == F32 and v.type.size for v in values):
        return False
    a, b = (v.type.dims for v in values[:2])
    return len(a) >= 2 and b[:-2] in (a[:-2], (*a[:-3], 1))


def _softmax(g: Sweep, weights: Value | None) -> tuple[Node | None, str]:
    """The softmax over keys that makes the weights, and what it gives where all scores are -inf."""
    maker = g.sole_maker(weights)
    blind = "nan"
    if maker is not None and maker.op == "where":
        condition, zero, kept = maker.inputs
        test = g.sole_maker(condition)
        if test is None or test.op != "is_nan" or test.x is not kept or zero is None or not _is_zero(zero):
            return None, blind
        maker = g.sole_maker(kept, own=2)
        blind = "never nan"
    if maker is None or maker.op != "softmax" or not maker.x.type.concrete:
        return None, blind
    rank = len(maker.x.type.dims)
    return (maker if attr(maker, "axis") % rank == rank - 1 and rank >= 2 else None), blind


def _is_zero(value: Value) -> bool:
    return value.data is not None and value.data.size == 1 and not value.data.any()


def _without_ones(dims: Sequence[int]) -> Dims:
    return tuple(d for d in dims if d != 1)


def _scores(g: Sweep, value: Value, plane: Dims, lead: Dims) -> Scores | None:
    """What makes scores [.., queries, keys], read backwards; lead: their other axes without those of 1."""
    dims, maker = value.type.dims, g.sole_maker(value)
    if maker is None or value.type.dtype != F32 or dims[-2:] != plane or _without_ones(dims[:-2]) != lead:
        return None
    if maker.op == "matmul":
        return Scores(maker, lead)
    if maker.op == "reshape":
        return _scores(g, maker.x, plane, lead)
    factor = factor_of(maker)
    if factor is not None:
        inner = _scores(g, factor[0], plane, lead)
        return None if inner is None or inner.masks else inner._replace(scale=inner.scale * factor[1])
    if maker.op != "add" or len(maker.inputs) != 2:
        return None
    for x, mask in (maker.inputs, maker.inputs[::-1]):
        assert x is not None and mask is not None
        inner = _scores(g, x, plane, lead) if x.type.shape == dims and x is not mask else None
        known = mask.type.concrete and mask.type.dtype == F32
        if inner is not None and known:
            return inner._replace(masks=(*inner.masks, _spread(mask, dims)))
    return None


def _spread(mask: Value, dims: Dims) -> tuple[Value, Dims]:
    """The mask, and its extents for each axis of scores of these extents that isn't 1, but for the last two."""
    own = (1,) * (len(dims) - len(mask.type.dims)) + mask.type.dims
    kept = tuple(d for d, whole in zip(own[:-2], dims[:-2], strict=True) if whole != 1)
    return mask, (*kept, *own[-2:])


def _mask(g: Sweep, scores: Scores, dims: Dims) -> Value | None:
    """The sum of all masks, with axes for images, heads, queries and keys."""
    total: Value | None = None
    for value, own in scores.masks:
        axes, at = [1, 1], 0
        for i, whole in enumerate(dims[:2]):
            if whole != 1:
                axes[i], at = own[at], at + 1
        one = g.shape(value, *axes, *own[-2:])
        total = one if total is None else total + one
    return None if total is None else g.spread(total, *total.type.dims[:-1], dims[-1])
