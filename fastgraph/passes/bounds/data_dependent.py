"""Rules for operators whose results' extents depend on data: results are padded, and a run computes the counts."""

from __future__ import annotations

import numpy as np

from ...ir import Graph, Node, Value
from ...ops.control import BRANCHES
from ...ops.registry import OPS, Layout, attr
from .lengths import dim_by_length, lines, varies
from .numbers import KINDS, difference
from .state import RULES, Bounds, follows
from .values import Below, Bounded, Extent, Unbounded, Varied, extents_of, most_of, reaches, refuse, same
from .visit import visit


@follows("non_zero")
def non_zero(g: Bounds, node: Node) -> list[Bounded]:
    x = g.take(node.x)
    refuse(not x.dims)
    places, count = g.non_zero(g.masked(x, 0))
    return [Bounded(places, {1: count}, True, Below(0, tuple(x.extents.get(a) for a in range(len(x.dims)))))]


@follows("compress")
def compress(g: Bounds, node: Node) -> list[Bounded]:
    x, wanted, axis = g.take(node.x), g.take(node.inputs[1]), attr(node, "axis")
    value, extents = x.value, dict(x.extents)
    if axis is None:
        refuse(extents and len(x.dims) > 1)
        value, axis = g.shape(value, value.type.size), 0
    axis %= len(value.type.dims)
    refuse(axis in extents and not same(extents[axis], wanted.extents.get(0)))
    refuse(axis not in extents and wanted.value.type.dims[0] > value.type.dims[axis])
    places, count = g.non_zero(g.masked(wanted, 0))
    places = g.shape(places, *wanted.value.type.dims)
    return [Bounded(g.pick(value, places, axis), {**extents, axis: count})]


@follows("non_max_suppression")
def non_max_suppression(g: Bounds, node: Node) -> list[Bounded]:
    boxes, scores = (g.take(v) for v in node.inputs[:2])
    most, limit, least = (None if v is None else g.fixed(v) for v in map(node.input, (2, 3, 4)))
    there = boxes.extents.get(1)
    refuse(boxes.extents.keys() - {1} or scores.extents.keys() - {2})
    refuse(boxes.dims[1] != scores.dims[2])
    attrs = dict(node.attrs)
    if most is not None and most.data is None:
        attrs["most"] = boxes.value.type.dims[1]
        most = g.cast(most, np.int64)
    inputs = [boxes.value, scores.value, most, limit, least, None if there is None else there.count]
    places, counts = g.several(node.op, 2, *inputs, **attrs)
    g.memo["counts", places] = counts
    return [Bounded(places, below=Below(None, (there,))), Bounded(counts)]


@follows("listed_places")
def listed_places(g: Bounds, node: Node) -> list[Bounded]:
    """(batch, class, box) of each index that is not below 0."""
    found = g.take(node.x)
    refuse(found.extents)
    dims = found.value.type.dims
    counts = g.memo.get(("counts", found.value))
    if counts is not None and dims[:2] == (1, 1):  # they are in a row
        count = Extent(g.shape(counts), dims[2])
        pairs = g.ints(np.zeros((dims[2], 2)))
        places = g.max(found.value, 0)
    else:
        at, count = g.non_zero(found.value >= 0)
        rows = g.transpose(at, 1, 0)
        pairs = g.cut(rows, 1, 0, 2)
        places = g("gather_nd", found.value, rows, batch_dims=0)
        places = g.masked(Bounded(places, {0: count}), 0)
    y = g.join([pairs, g.shape(places, count.most, 1)], axis=1)
    limit = found.below.extents[0] if found.below is not None else None
    return [Bounded(y, {0: count}, True, Below(1, (None, None, limit)))]


@follows("top_k")
def top_k(g: Bounds, node: Node) -> list[Bounded]:
    x = g.take(node.x)
    axis = attr(node, "axis") % len(x.dims)
    size, there = x.value.type.dims[axis], x.extents.get(axis)
    try:
        (wanted,) = g.numbers_of(node.inputs[1]).flat
    except Unbounded:
        wanted = _checked_count(g, node, size)
    if not isinstance(wanted, Extent):
        if there is None:
            return [Bounded(v, x.extents) for v in g.again(node, x.value, g.ints([wanted]))]
        refuse(wanted > there.least)
        attrs, left = {**node.attrs, "most": int(wanted)}, {a: n for a, n in x.extents.items() if a != axis}
        best, places = g.several("top_k", 2, x.value, g.ints([wanted]), there.count, **attrs)
        return [Bounded(best, left), Bounded(places, left, False, Below(None, (there,)))][: len(node.outputs)]
    refuse(wanted.most > size or there is not None and not _within(g, wanted, there))
    attrs = {**node.attrs, "most": wanted.most}
    count = None if there is None else there.count
    values, places = g.several("top_k", 2, x.value, wanted.count, count, **attrs)
    extents = {**x.extents, axis: wanted}
    clean = len(extents) == 1
    below = Below(None, (there,)) if clean else None
    return [Bounded(values, extents, clean), Bounded(places, extents, clean, below)][: len(node.outputs)]


def _within(g: Bounds, a: Extent, b: Extent) -> bool:
    return reaches(a, b) or b.count in g.within.get(a.count, ())


def _checked_count(g: Bounds, node: Node, size: int) -> Extent:
    """The extent of a number that a run computes; the run fails where it exceeds that of the axis."""
    k = g.fixed(node.inputs[1])
    refuse(k.type.dtype != np.int64 or node.x in g.known)
    return Extent(g("checked_indices", g.shape(k), np.zeros(size + 1, np.int8), axis=0), size)


@follows("range")
def range_(g: Bounds, node: Node) -> list[Bounded]:
    """Given a past of p words, and range(p, p + 3); result p + [0, 1, 2]."""
    parts = [g.varied_of(v).item() for v in node.inputs]
    dtype, (start, limit, delta) = node.out.type.dtype, parts
    if isinstance(delta, Extent | Varied) or not delta or dtype is None or dtype.name not in KINDS:
        raise Unbounded
    if varies(*parts):
        first, end = (n.astype(np.float64) for n in lines(g, start, limit))
        count = dim_by_length(g, np.maximum(np.ceil((end - first) / delta), 0).astype(np.int64))
    elif delta == 1:
        count = difference(g, limit, start)
    else:
        raise Unbounded
    places = (np.arange(max(*most_of([count]), 0)) * delta).astype(dtype)
    if isinstance(start, Extent | Varied):
        value = g("add", g.shape(g.written(node.x)), places)
    else:
        value = g.held((places + start).astype(dtype))
    least = start.least if isinstance(start, Extent) else -1 if isinstance(start, Varied) else start
    known = dtype.kind in "iu" and delta == 1 and isinstance(limit, Extent) and least >= 0
    return [Bounded(value, extents_of([count]), False, Below(None, (limit,)) if known else None)]


@follows("constant_of_shape")
def constant_of_shape(g: Bounds, node: Node) -> list[Bounded]:
    dims = list(g.numbers_of(node.x).reshape(-1))
    room = most_of(dims)
    fill = np.asarray(attr(node, "value")).reshape(-1)[0]
    refuse(np.prod(room) * fill.nbytes > g.limit)
    return [Bounded(g.held(np.full(room, fill)), extents_of(dims), not fill)]


@follows("random_normal_like", "random_uniform_like")
def drawn(g: Bounds, node: Node) -> list[Bounded]:
    """Random numbers of the padded shape. Unbounded with a seed: its numbers depend on how many there are."""
    x = g.take(node.x)
    refuse(node.attrs.get("seed") is not None)
    return [Bounded(g.again(node, x.value)[0], x.extents)]


@follows("unique")
def unique(g: Bounds, node: Node) -> list[Bounded]:
    """Sorted: elements that differ from the one before; unsorted: the same in the order of their first indices."""
    x, axis = g.take(node.x), attr(node, "axis")
    dtype = x.value.type.dtype
    if x.extents or axis is not None and len(x.dims) != 1 or dtype is None or dtype.kind not in "iuf":
        raise Unbounded
    n = x.value.type.size
    refuse(not n)
    flat = g.shape(x.value, n)
    by_value, places = g.several("top_k", 2, flat, g.ints([n]), axis=0, largest=0)
    previous = g.pick(by_value, g.ints(np.maximum(np.arange(n) - 1, 0)))
    same_ = g.equal(by_value, previous)
    if dtype.kind == "f":  # NaN is the same as NaN
        same_ = same_ | (g("is_nan", by_value) & g("is_nan", previous))
    new = ~same_ | (np.arange(n) == 0)
    starts, count = g.non_zero(new)
    own = g.pick(places, g.shape(starts, n))
    firsts, rank = own, _scattered(g, places, _ranks(g, new), n)
    if not attr(node, "sorted"):
        met = _scattered(g, places, g.cast(new, np.int64), n)
        firsts, count = g.non_zero(met)
        firsts = g.shape(firsts, n)
        # The place among all first ones of that of the equal elements.
        rank = g.pick(g.pick(_ranks(g, met), own), rank)
    ones = g.ints(np.ones(n))
    counts = g("scatter_elements", g.ints(np.zeros(n)), rank, ones, axis=0, reduction="add")
    real = {0: count}
    found = [Bounded(g.pick(flat, firsts), real), Bounded(firsts, real), Bounded(rank), Bounded(counts, real, True)]
    return found[: len(node.outputs)]


def _ranks(g: Bounds, new: Value) -> Value:
    """The number of set elements up to each, less one."""
    return g("cum_sum", g.cast(new, np.int64), g.ints(0)) - 1


def _scattered(g: Bounds, places: Value, values: Value, n: int) -> Value:
    return g("scatter_elements", g.ints(np.zeros(n)), places, values, axis=0)


# -- branches

INDEXED = frozenset("gather gather_nd gather_elements scatter_elements scatter_nd".split())
"""Operators that, computed for a branch that is not taken, could read an index out of range."""


@follows("if")
def branches(g: Bounds, node: Node) -> list[Bounded]:
    """An `if` with a branch of empty results becomes the nodes of the other branch, whose counts are 0 when it is not
    taken.
    """
    condition = g.shape(g.fixed(node.x))
    bodies: list[Graph] = [attr(node, name) for name in BRANCHES]
    for empty, other in ((0, 1), (1, 0)):
        if all(v.type.concrete and 0 in v.type.dims for v in bodies[empty].outputs):
            return [
                _if_taken(g, condition, empty == 1, none, some)
                for none, some in zip(bodies[empty].outputs, _inlined(g, bodies[other]), strict=True)
            ]
    raise Unbounded


def _inlined(g: Bounds, body: Graph) -> list[Bounded]:
    """The results of a body's nodes, written into the graph around it; Unbounded where they can't run unless it is
    taken."""
    for node in body.nodes:
        plain = node.op in RULES or OPS[node.op].layout is Layout.EACH
        refuse(not plain or node.graphs or not visit(g, node, keep=False))
        if node.op in INDEXED:
            indices = g.take(node.inputs[1])
            refuse(indices.value.data is None and (indices.below is None or indices.below.signed))
        if node.op == "top_k":
            g.numbers_of(node.inputs[1])
    return [g.take(v) for v in body.outputs]


def _if_taken(g: Bounds, condition: Value, wanted: bool, none: Value, some: Bounded) -> Bounded:
    """`some` if the condition is as wanted, else no elements."""
    dims = none.type.dims
    refuse(len(dims) != len(some.dims) or none.type.dtype != some.value.type.dtype)
    extents: dict[int, Extent] = {}
    for axis, (a, b) in enumerate(zip(dims, some.dims, strict=True)):
        if a == b:
            continue
        (most,) = most_of([b])
        refuse(a > most)
        count, other = b.count if isinstance(b, Extent) else g.ints(b), g.ints(a)
        extents[axis] = Extent(g.choose(condition, *((count, other) if wanted else (other, count))), most)
    return some._replace(extents=extents, clean=False)
