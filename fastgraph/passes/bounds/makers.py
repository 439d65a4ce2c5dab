"""Where bounded values begin: how many elements there are is found in the run."""

from __future__ import annotations

import numpy as np

from ...ir import Graph, Node, Value
from ...ops.control import BRANCHES
from ...ops.registry import OPS, Layout, attr
from . import visit
from .state import RULES, Bounds, follows
from .values import Below, Bounded, Extent, Unbounded, same


@follows("non_zero")
def non_zero(bounds: Bounds, node: Node) -> list[Bounded]:
    x = bounds.take(node.x)
    if not x.dims:
        raise Unbounded
    places, count = bounds.found(bounds.masked(x, 0), node.out)
    return [Bounded(places, {1: count}, True, Below(0, tuple(x.extents.get(a) for a in range(len(x.dims)))))]


@follows("compress")
def compress(bounds: Bounds, node: Node) -> list[Bounded]:
    x, wanted, axis = bounds.take(node.x), bounds.take(node.inputs[1]), attr(node, "axis")
    value, extents = x.value, dict(x.extents)
    if axis is None:
        if extents and len(x.dims) > 1:
            raise Unbounded
        value, axis = bounds.shaped(value, (value.type.size,), node.out), 0
    axis %= len(value.type.dims)
    if axis in extents and not same(extents[axis], wanted.extents.get(0)):
        raise Unbounded
    if axis not in extents and wanted.value.type.dims[0] > value.type.dims[axis]:
        raise Unbounded
    places, count = bounds.found(bounds.masked(wanted, 0), node.out)
    places = bounds.shaped(places, wanted.value.type.dims, node.out)
    return [Bounded(bounds.add("gather", [value, places], node.out, axis=axis), {**extents, axis: count})]


@follows("non_max_suppression")
def non_max_suppression(bounds: Bounds, node: Node) -> list[Bounded]:
    boxes, scores = (bounds.take(v) for v in node.inputs[:2])
    most, limit, least = (None if v is None else bounds.fixed(v) for v in (*node.inputs[2:], None, None, None)[:3])
    there = boxes.extents.get(1)
    if boxes.extents.keys() - {1} or scores.extents.keys() - {2}:
        raise Unbounded
    if there is not scores.extents.get(2) and not same(there, scores.extents.get(2)):
        raise Unbounded
    attrs = dict(node.attrs)
    if most is not None and most.data is None:
        attrs["most"] = boxes.value.type.dims[1]
        most = most if most.type.dtype == np.int64 else bounds.add("cast", [most], node.out, to="int64")
    inputs = [boxes.value, scores.value, most, limit, least, None if there is None else there.count]
    places, counts = bounds.add_many(node.op, inputs, node.out, 2, **attrs)
    bounds.memo["counts", places] = counts
    return [Bounded(places, below=Below(None, (there,))), Bounded(counts)]


@follows("listed_places")
def listed_places(bounds: Bounds, node: Node) -> list[Bounded]:
    """(batch, class, place) of each place that is not below 0."""
    found, like = bounds.take(node.x), node.out
    if found.extents:
        raise Unbounded
    zero, dims = bounds.const(np.zeros((), found.value.type.dtype), like), found.value.type.dims
    counts = bounds.memo.get(("counts", found.value))
    if counts is not None and dims[:2] == (1, 1):  # they are in a row
        count = Extent(bounds.shaped(counts, (), like), dims[2])
        pairs = bounds.whole(np.zeros((dims[2], 2)), like)
        places = bounds.add("max", [found.value, zero], like)
    else:
        at, count = bounds.found(bounds.add("greater_or_equal", [found.value, zero], like), like)
        rows = bounds.add("transpose", [at], like, perm=(1, 0))
        pairs = bounds.add("slice", [rows, *(bounds.whole([n], like) for n in (0, 2, 1, 1))], like)
        places = bounds.add("gather_nd", [found.value, rows], like, batch_dims=0)
        places = bounds.masked(Bounded(places, {0: count}), 0)
    y = bounds.add("concat", [pairs, bounds.shaped(places, (count.most, 1), like)], like, axis=1)
    limit = found.below.extents[0] if found.below is not None else None
    return [Bounded(y, {0: count}, True, Below(1, (None, None, limit)))]


@follows("top_k")
def top_k(bounds: Bounds, node: Node) -> list[Bounded]:
    x, like = bounds.take(node.x), node.out
    axis = attr(node, "axis") % len(x.dims)
    size, there = x.value.type.dims[axis], x.extents.get(axis)
    try:
        (wanted,) = bounds.numbers_of(node.inputs[1]).flat
    except Unbounded:
        wanted = _checked(bounds, node, size)
    if not isinstance(wanted, Extent):
        if there is not None:
            raise Unbounded
        found = bounds.again(node, [x.value, bounds.whole([wanted], like)])
        return [Bounded(v, x.extents) for v in found]
    if wanted.most > size or there is not None and not _within(bounds, wanted, there):
        raise Unbounded
    attrs = {**node.attrs, "most": wanted.most}
    count = None if there is None else there.count
    values, places = bounds.add_many("top_k", [x.value, wanted.count, count], like, 2, **attrs)
    extents = {**x.extents, axis: wanted}
    clean = len(extents) == 1
    below = Below(None, (there,)) if clean else None
    return [Bounded(values, extents, clean), Bounded(places, extents, clean, below)][: len(node.outputs)]


def _within(bounds: Bounds, a: Extent, b: Extent) -> bool:
    return same(a, b) or b.count in bounds.within.get(a.count, ())


def _checked(bounds: Bounds, node: Node, size: int) -> Extent:
    """A number that the run computes, which is an error if the axis has not so many elements."""
    k = bounds.fixed(node.inputs[1])
    if k.type.dtype != np.int64 or node.x in bounds.known:
        raise Unbounded
    k = bounds.shaped(k, (), node.out)
    range_ = bounds.const(np.zeros(size + 1, np.int8), node.out)
    return Extent(bounds.add("checked_indices", [k, range_], node.out, axis=0), size)


@follows("range")
def range_(bounds: Bounds, node: Node) -> list[Bounded]:
    start, limit, delta = (bounds.numbers_of(v).item() for v in node.inputs)
    if isinstance(start, Extent) or start != 0 or isinstance(delta, Extent) or delta != 1:
        raise Unbounded
    dtype = node.out.type.dtype
    if not isinstance(limit, Extent) or dtype is None:
        raise Unbounded
    return [Bounded(bounds.const(np.arange(limit.most, dtype=dtype), node.out), {0: limit}, False,
                    Below(None, (limit,)) if dtype.kind in "iu" else None)]  # fmt: skip


@follows("constant_of_shape")
def constant_of_shape(bounds: Bounds, node: Node) -> list[Bounded]:
    dims = list(bounds.numbers_of(node.x).reshape(-1))
    room = [n.most if isinstance(n, Extent) else int(n) for n in dims]
    fill = np.asarray(attr(node, "value")).reshape(-1)[0]
    if np.prod(room) * fill.nbytes > bounds.limit:
        raise Unbounded
    extents = {a: n for a, n in enumerate(dims) if isinstance(n, Extent)}
    return [Bounded(bounds.const(np.full(room, fill), node.out), extents, not fill)]


@follows("unique")
def unique(bounds: Bounds, node: Node) -> list[Bounded]:
    """Sorted, those that differ from the one before; unsorted, by where they are first."""
    x, like, axis = bounds.take(node.x), node.out, attr(node, "axis")
    dtype = x.value.type.dtype
    if x.extents or axis is not None and len(x.dims) != 1 or dtype is None or dtype.kind not in "iuf":
        raise Unbounded
    n = x.value.type.size
    if not n:
        raise Unbounded
    flat = bounds.shaped(x.value, (n,), like)
    by_value, places = bounds.add_many("top_k", [flat, bounds.whole([n], like)], like, 2, axis=0, largest=0)
    before = bounds.whole(np.maximum(np.arange(n) - 1, 0), like)
    previous = bounds.add("gather", [by_value, before], like, axis=0)
    same_ = bounds.add("equal", [by_value, previous], like)
    if dtype.kind == "f":  # NaN is the same as NaN
        nans: list[Value | None] = [bounds.add("is_nan", [v], like) for v in (by_value, previous)]
        same_ = bounds.add("or", [same_, bounds.add("and", nans, like)], like)
    first = bounds.const(np.arange(n) == 0, like)
    new = bounds.add("or", [bounds.add("not", [same_], like), first], like)
    starts, count = bounds.found(new, like)
    starts = bounds.shaped(starts, (n,), like)
    firsts = bounds.add("gather", [places, starts], like, axis=0)
    rank = _scattered(bounds, places, _ranks(bounds, new, like), n, like)
    if not attr(node, "sorted"):
        met = _scattered(bounds, places, bounds.add("cast", [new], like, to="int64"), n, like)
        firsts, count = bounds.found(met, like)
        firsts = bounds.shaped(firsts, (n,), like)
        among = _ranks(bounds, met, like)
        # The place among all first ones of that of the equal elements.
        own = bounds.add("gather", [places, starts], like, axis=0)
        rank = bounds.add("gather", [bounds.add("gather", [among, own], like, axis=0), rank], like, axis=0)
    values = bounds.add("gather", [flat, firsts], like, axis=0)
    real = {0: count}
    counts = bounds.add("scatter_elements", [bounds.whole(np.zeros(n), like), rank, bounds.whole(np.ones(n), like)],
                        like, axis=0, reduction="add")  # fmt: skip
    found = [Bounded(values, real), Bounded(firsts, real), Bounded(rank), Bounded(counts, real, True)]
    return found[: len(node.outputs)]


def _ranks(bounds: Bounds, new: Value, like: Value) -> Value:
    """How many are new up to each, less one."""
    ones = new if new.type.dtype == np.int64 else bounds.add("cast", [new], like, to="int64")
    sums = bounds.add("cum_sum", [ones, bounds.whole(0, like)], like)
    return bounds.add("sub", [sums, bounds.whole(1, like)], like)


def _scattered(bounds: Bounds, places: Value, values: Value, n: int, like: Value) -> Value:
    return bounds.add("scatter_elements", [bounds.whole(np.zeros(n), like), places, values], like, axis=0)


# -- branches

INDEXED = frozenset("gather gather_nd gather_elements scatter_elements scatter_nd".split())
"""In a branch that is not taken they could meet an index that is out of range."""


@follows("if")
def branches(bounds: Bounds, node: Node) -> list[Bounded]:
    """Where one branch gives results without elements, the other's, with none of them real if that is not taken."""
    condition = bounds.shaped(bounds.fixed(node.x), (), node.out)
    bodies: list[Graph] = [attr(node, name) for name in BRANCHES]
    for empty, other in ((0, 1), (1, 0)):
        if all(_nothing(bounds, v) for v in bodies[empty].outputs):
            return [_taken(bounds, condition, empty == 1, none, some) for none, some in
                    zip(bodies[empty].outputs, _inlined(bounds, bodies[other]), strict=True)]  # fmt: skip
    raise Unbounded


def _nothing(bounds: Bounds, value: Value) -> bool:
    return value.type.concrete and 0 in value.type.dims


def _inlined(bounds: Bounds, body: Graph) -> list[Bounded]:
    """What a body gives, of nodes that can be run whether it is taken or not."""
    for node in body.nodes:
        plain = node.op in RULES or OPS[node.op].layout is Layout.EACH
        if not plain or node.graphs or not visit(bounds, node, keep=False):
            raise Unbounded
        if node.op in INDEXED:
            indices = bounds.take(node.inputs[1])
            if indices.value.data is None and indices.below is None:
                raise Unbounded
        if node.op == "top_k":
            bounds.numbers_of(node.inputs[1])
    return [bounds.take(v) for v in body.outputs]


def _taken(bounds: Bounds, condition: Value, wanted: bool, none: Value, some: Bounded) -> Bounded:
    """`some` if the condition is as wanted, else nothing."""
    dims = none.type.dims
    if len(dims) != len(some.dims) or none.type.dtype != some.value.type.dtype:
        raise Unbounded
    extents: dict[int, Extent] = {}
    for axis, (a, b) in enumerate(zip(dims, some.dims, strict=True)):
        if a == b:
            continue
        most = b.most if isinstance(b, Extent) else b
        if a > most:
            raise Unbounded
        count = b.count if isinstance(b, Extent) else bounds.whole(b, none)
        other = bounds.whole(a, none)
        both: list[Value | None] = [count, other] if wanted else [other, count]
        extents[axis] = Extent(bounds.add("where", [condition, *both], none), most)
    return some._replace(extents=extents, clean=False)
