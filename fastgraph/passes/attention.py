"""Attention written as products and a softmax becomes one operator, which keeps no scores in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from operator import add
from typing import NamedTuple

import numpy as np

from ..ir import FLOAT32, LENGTHS, Graph, Node, TensorType, Value
from ..ops.registry import attr
from ..ops.shape import permutation
from ..rules.operands import known
from ..rules.rule import rule
from ..rules.sweep import Sweep, sweep
from .layout import layout

Dims = tuple[int, ...]


def factor_of(node: Node) -> tuple[Value, float] | None:
    """(x, c) of a node that is x * c with one number c."""
    if node.op not in ("mul", "div") or len(node.inputs) != 2:
        return None
    x, c = node.inputs
    if x is not None and x.data is not None and node.op == "mul":
        x, c = c, x
    if x is None or c is None or c.data is None or c.data.size != 1 or x.type.shape != node.out.type.shape:
        return None
    number = float(c.data.item())
    if node.op == "div":
        number = 1 / number if number else float("inf")
    return (x, number) if np.isfinite(number) and x.data is None and x.type.dtype == node.out.type.dtype else None


class Operand(NamedTuple):
    """scale * x, where x has the elements [images, heads, rows, size], or (flat) [images, rows, heads, size]; each head
    is for `share` heads of queries. inner: in the product the last axis of images is behind that of heads.
    """

    x: Value
    flat: bool
    images: int
    heads: int
    rows: int
    size: int
    scale: float
    share: int
    inner: bool

    def written(self, g: Sweep) -> Value:
        if self.flat:
            return g.shape(self.x, self.images, self.rows, self.heads * self.size)
        return g.shape(self.x, self.images, self.heads, self.rows, self.size)


def operand_of(g: Sweep, value: Value | None, number: int, inner: bool) -> Operand | None:
    """The operand of a product, seen through transposes, reshapes, expansions and scales. number: 0 for q, 1 for k
    (transposed), 2 for v; inner: whether the axis behind that of heads is one of images."""
    assert value is not None
    best: Operand | None = None
    moves: list[Node] = []
    x, scale, share = value, 1.0, 1
    while True:
        found = _as_view(x, moves, share, number == 1, inner)
        if found is not None and (best is None or found.flat or not best.flat):
            best = found._replace(scale=scale, inner=inner)
        maker = g.maker.get(x)
        if maker is None or not maker.x.type.concrete:
            return best
        factor = factor_of(maker)
        if factor is not None:
            x, scale = factor[0], scale * factor[1]
        elif maker.op in ("transpose", "reshape"):
            moves.insert(0, maker)
            x = maker.x
        elif maker.op == "expand" and share == 1 and (often := _repeats(maker)) is not None:
            moves.insert(0, maker)
            x, share = maker.x, often
        else:
            return best


def _repeats(node: Node) -> int | None:
    """How often an expand repeats each head of [images, heads, 1, rows, size]."""
    dims, out = node.x.type.dims, node.out.type.dims
    fits = len(dims) == len(out) == 5 and dims[2] == 1 and dims == (*out[:2], 1, *out[3:])
    return out[2] if fits else None


def _as_view(x: Value, moves: Sequence[Node], share: int, turned: bool, inner: bool) -> Operand | None:
    """The operand as a view of x, with the moves folded into its strides; None where attention can't read it in that
    order."""
    view: np.ndarray = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), x.type.dims, _dense(x.type.dims))
    repeated = False
    for node in moves:
        if node.op == "transpose":
            view = view.transpose(permutation(node))
        elif node.op == "expand":
            repeated = True
        else:
            dims = node.out.type.dims
            if repeated:
                images, heads, _, *rest = view.shape
                if dims != (images, heads * share, *rest):
                    return None
                dims, repeated = (images, heads, *rest), False
            found = _reshaped(view, dims)
            if found is None:
                return None
            view = found
    if repeated or view.ndim < 2 + 2 * inner:
        return None
    view = view.swapaxes(-4, -3) if inner else view
    lead = view.shape[:-2]
    found = _reshaped(view, (prod(lead[:-1]), lead[-1] if lead else 1, *view.shape[-2:]))
    return None if found is None else _ordered(x, found, share, turned)


def _ordered(x: Value, view: np.ndarray, share: int, turned: bool) -> Operand | None:
    images, heads, rows, size = view.shape if not turned else (*view.shape[:2], view.shape[3], view.shape[2])
    steps = view.strides if not turned else (*view.strides[:2], view.strides[3], view.strides[2])
    made = Operand(x, True, images, heads, rows, size, 1.0, share, False)
    extents = (images, heads, rows, size)

    def lies(wanted: Dims) -> bool:
        return all(n == 1 or a == b for n, a, b in zip(extents, steps, wanted, strict=True))

    if lies((rows * heads * size, size, heads * size, 1)):
        return made
    if lies((heads * rows * size, rows * size, size, 1)):
        return made._replace(flat=False)
    return None


def _dense(dims: Dims) -> Dims:
    return tuple(prod(dims[i + 1 :]) for i in range(len(dims)))


def _reshaped(view: np.ndarray, dims: Dims) -> np.ndarray | None:
    """A view of the elements in another shape, without a copy."""
    moved = view[...]
    try:
        moved.shape = dims
    except (AttributeError, ValueError):
        return None
    return moved


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
    before = g.made_by(node.x, "reshape")
    if before is None or not all(v.type.concrete for v in (before.x, node.x)):
        return False
    dims, whole, axis = node.x.type.dims, before.x.type.dims, node.attrs["axis"] % len(node.x.type.dims)
    if axis == len(dims) - 1 or whole[:-1] != dims[:axis] or not node.x.type.size:
        return False
    inner = prod(dims[axis + 1 :])
    sizes = [v.type.dims[axis] * inner for v in node.outputs]
    kinds = [v.type.with_shape((*whole[:-1], size)) for v, size in zip(node.outputs, sizes, strict=True)]
    parts = g.several("split", kinds, before.x, g.vector(*sizes), **{**node.attrs, "axis": len(whole) - 1})
    return g.becomes(*parts)


@rule("splits", "matmul")
def product_of_turned_weights(g: Sweep, node: Node) -> bool:
    """Given ``y = matmul(v, transpose(softmax(x)))``; result ``y = transpose(matmul(softmax(x), transpose(v)))``, where
    the weights stand before the values, as in attention.
    """
    turned = g.made_by(node.inputs[1], "transpose")
    if turned is None or len(node.inputs) > 2 or not _plain(node):
        return False
    rank = len(turned.x.type.dims)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    if permutation(turned) != swapped or g.made_by(turned.x, "softmax") is None or len(node.x.type.dims) != rank:
        return False
    return g.becomes(g.transpose(turned.x @ g.transpose(node.x, *swapped), *swapped))


class Mask(NamedTuple):
    """The sum of `values` as it is added to scores of shape `dims`; `extents`: those along all axes of `lead`, queries
    and keys, to which it is expanded where `dims` divides these."""

    values: tuple[Value, ...]
    dims: Dims
    extents: Dims
    divided: bool


class Scores(NamedTuple):
    """scale * q x k, plus masks; lead: the extents that are neither 1 nor queries nor keys; each: factors of heads."""

    product: Node
    lead: Dims
    scale: float = 1.0
    masks: tuple[Mask, ...] = ()
    each: np.ndarray | None = None


@rule("attention", "matmul")
def attention_of_products(g: Sweep, node: Node) -> bool:
    """Given ``y = matmul(softmax(scale * matmul(q, transpose(k)) + m), v)``; result ``y = attention(q, k, v, m)``.

    Transposes and scales on the way to q, k and v are its own, and keys and values that are expanded to more heads.
    """
    weights, values = node.inputs[:2]
    if values is None or len(node.inputs) > 2 or not _plain(node):
        return False
    limit = _limit(g, weights)
    softmax, blind = _softmax(g, weights if limit is None else limit.kept)
    if softmax is None:
        return False
    dims = softmax.x.type.dims
    limited = softmax.x if limit is None else _within(g, softmax.x, limit.condition)
    scores = None if limited is None else _scores(g, limited, dims[-2:], _without_ones(dims[:-2]))
    if scores is None or not _plain(scores.product) or len(scores.product.inputs) > 2:
        return False
    found = _operands(g, scores, values, inner=False)
    if found is None and scores.product.out.type.dims[-4:-2] == node.out.type.dims[-4:-2]:
        found = _operands(g, scores, values, inner=True)
    if found is None:
        return False
    q, k, v = found
    mask = _mask(g, scores, (q.images, q.heads, q.rows, k.rows))
    attrs = {"scale": scores.scale * q.scale * k.scale, "blind": blind}
    attrs |= {"q_num_heads": q.heads if q.flat else None, "kv_num_heads": k.heads if k.flat or v.flat else None}
    shape = (q.images, q.rows, q.heads * v.size) if q.flat else (q.images, q.heads, q.rows, v.size)
    valid = () if limit is None else (None, None, g.broadcast(g.shape(limit.number, 1), q.images))
    queries = q.written(g)
    if scores.each is not None:
        each = np.repeat(scores.each, q.size) if q.flat else scores.each[:, None, None]
        queries = g("mul", queries, g.held(each), type=queries.type)
    others = k.written(g), v.written(g), mask, *valid
    y = g("attention", queries, *others, type=TensorType(FLOAT32, shape), **attrs)
    y = y if v.scale == 1 else y * v.scale
    return g.becomes(_in_order(g, y, q, node.out.type.dims))


def _operands(g: Sweep, scores: Scores, values: Value, inner: bool) -> tuple[Operand, Operand, Operand] | None:
    """Queries, keys and values where attention can read them; inner: as `operand_of` says, of scores without masks."""
    q, k = (operand_of(g, value, i, inner) for i, value in enumerate(scores.product.inputs))
    v = operand_of(g, values, 2, inner)
    if q is None or k is None or v is None or k.share != v.share or q.share != 1:
        return None
    if (q.images, q.size) != (k.images, k.size) or (k.heads != 1 and q.heads != k.heads * k.share):
        return None
    if scores.masks and (inner or _without_ones((q.images, q.heads)) != scores.lead):
        return None
    if scores.each is not None and (inner or scores.each.size != q.heads):
        return None
    return (q, k, v) if (k.images, k.heads, k.rows) == (v.images, v.heads, v.rows) else None


def _in_order(g: Sweep, y: Value, q: Operand, dims: Dims) -> Value:
    """A result of attention with its elements in the order of those of the product, of shape `dims`."""
    *_, rows, size = dims
    behind = dims[-3] if q.inner else 1
    each = (rows, q.heads, size) if q.flat else (q.heads, rows, size)
    if not q.flat and not q.inner:
        return y
    return g.transpose(g.shape(y, q.images // behind, behind, *each), *((0, 3, 1, 2, 4) if q.flat else (0, 2, 1, 3, 4)))


def _plain(node: Node) -> bool:
    """Whether a product is in f32, of equally many matrices, or of those of several heads with one that they share."""
    if not known(*node.inputs, *node.outputs, dtypes=[FLOAT32]):
        return False
    a, b = (v.type.dims for v in node.operands[:2])
    return len(a) >= 2 and b[:-2] in (a[:-2], (*a[:-3], 1))


class Limit(NamedTuple):
    """Weights of the first keys, `number` of them, where `condition` holds; those of others are 0."""

    kept: Value
    condition: Value
    number: Value


def _limit(g: Sweep, weights: Value | None) -> Limit | None:
    """Given ``w = where(i < n, softmax(where(i < n, x, -inf)), 0)`` for the places i of keys; result ``n``.

    None where n may be 0: then all weights are 0, and not what `blind` says.
    """
    maker = g.sole_maker(weights)
    if maker is None or maker.op != "where":
        return None
    condition, kept, zero = maker.operands
    if not _is_zero(zero) or not kept.type.dims:
        return None
    less, keys = condition, kept.type.dims[-1]
    while (before := g.made_by(less, "reshape")) is not None:
        less = before.x
    test = g.made_by(less, "less")
    if test is None or condition.type.dims[-1:] != (keys,) or condition.type.size != keys:
        return None
    places, count = test.operands
    known = places.data is not None and places.type.dims == (keys,) and np.array_equal(places.data, np.arange(keys))
    return Limit(kept, condition, count) if known and _counts(g, count) else None


def _counts(g: Sweep, count: Value) -> bool:
    """Whether a number is an open extent of the inputs, none of which is 0, a larger one, or of a table of such."""
    picked, more = g.made_by(count, "gather"), g.made_by(count, "add")
    if picked is not None:
        return picked.x.data is not None and bool(picked.x.data.min() >= 1)
    if more is None:
        return count.name in LENGTHS
    a, b = more.operands
    return b.data is not None and b.data.size == 1 and bool(b.data.min() >= 0) and _counts(g, a)


def _within(g: Sweep, scores: Value, condition: Value) -> Value | None:
    """The scores that are -inf where the condition does not hold, without it."""
    maker = g.sole_maker(scores)
    if maker is None or maker.op != "where" or maker.inputs[0] is not condition or maker.inputs[1] is None:
        return None
    low = maker.inputs[2]
    return maker.inputs[1] if low is not None and low.data is not None and np.all(np.isneginf(low.data)) else None


def _softmax(g: Sweep, weights: Value | None) -> tuple[Node | None, str]:
    """The softmax over keys that gives the weights, and its result for rows that are -inf throughout."""
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
    """The product, scale and masks that scores [.., queries, keys] are computed from; lead: their other extents,
    without those of 1.

    Masks that are computed may be added while queries and keys are several axes each, as those of relative rows and
    columns are (Li et al. 2022, MViTv2).
    """
    dims, maker = value.type.dims, g.sole_maker(value)
    if maker is None or value.type.dtype != FLOAT32:
        return None
    divided = dims[-2:] != plane or _without_ones(dims[:-2]) != lead
    if maker.op == "matmul":
        return None if divided else Scores(maker, lead)
    if maker.op == "reshape":
        return _scores(g, maker.x, plane, lead)
    factor = factor_of(maker)
    if factor is not None:
        inner = _scores(g, factor[0], plane, lead)
        return None if inner is None or inner.masks else inner._replace(scale=inner.scale * factor[1])
    factors = _factors_of_heads(maker)
    if factors is not None:
        inner = None if divided else _scores(g, factors[0], plane, lead)
        return None if inner is None or inner.masks or inner.each is not None else inner._replace(each=factors[1])
    if maker.op != "add" or len(maker.inputs) != 2:
        return None
    for x, mask in (maker.operands, maker.operands[::-1]):
        inner = _scores(g, x, plane, lead) if x.type.shape == dims and x is not mask else None
        known = mask.type.concrete and mask.type.dtype == FLOAT32 and (mask.data is None or not divided)
        if inner is not None and known:
            extents = (*lead, *plane) if divided else _mask_extents(mask, dims)
            return _masked(inner, Mask((mask,), dims, extents, divided))
    return None


def _factors_of_heads(node: Node) -> tuple[Value, np.ndarray] | None:
    """(x, factors) of a node that multiplies [.., heads, queries, keys] by a constant for each head."""
    if node.op not in ("mul", "div") or len(node.inputs) != 2 or len(node.out.type.dims) < 3:
        return None
    x, c = node.operands[::-1] if node.op == "mul" and node.operands[0].data is not None else node.operands
    heads, dims = node.out.type.dims[-3], node.out.type.dims
    if c.data is None or c.data.size != heads or c.data.shape[-3:] != (heads, 1, 1) or x.type.shape != dims:
        return None
    with np.errstate(divide="ignore"):
        each = c.data.reshape(heads) if node.op == "mul" else 1 / c.data.reshape(heads)
    return (x, each) if c.type.dtype == FLOAT32 and np.isfinite(each).all() and x.data is None else None


def _masked(scores: Scores, mask: Mask) -> Scores:
    """The scores with one mask more; those that are expanded are added before."""
    last = scores.masks[-1] if scores.masks else None
    if last is not None and last.divided and last.dims == mask.dims:
        return scores._replace(masks=(*scores.masks[:-1], last._replace(values=last.values + mask.values)))
    return scores._replace(masks=(*scores.masks, mask))


def _mask_extents(mask: Value, dims: Dims) -> Dims:
    """The extents of a mask along the axes of scores that are not 1, queries and keys."""
    own = (1,) * (len(dims) - len(mask.type.dims)) + mask.type.dims
    kept = tuple(d for d, whole in zip(own[:-2], dims[:-2], strict=True) if whole != 1)
    return (*kept, *own[-2:])


def _mask(g: Sweep, scores: Scores, dims: Dims) -> Value | None:
    """The sum of all masks, with axes for images, heads, queries and keys."""
    total: Value | None = None
    for mask in scores.masks:
        value, own = reduce(add, mask.values), mask.extents
        value = g.broadcast(value, *mask.dims) if mask.divided else value
        axes, at = [1, 1], 0
        for i, whole in enumerate(dims[:2]):
            if whole != 1:
                axes[i], at = own[at], at + 1
        one = g.shape(value, *axes, *own[-2:])
        total = one if total is None else total + one
    return None if total is None else g.broadcast(total, *total.type.dims[:-1], dims[-1])
