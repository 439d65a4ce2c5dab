"""Of bounded values: what moves elements. What is real keeps to the front of its axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..ir import Node, Value
from ..ops.common import axes_of
from ..ops.registry import attr
from ..ops.shape import permutation
from .bound_numbers import least, product, quotient, times
from .bounds import Below, Bounded, Bounds, Dim, Extent, Unbounded, follows


def same(a: Extent | None, b: Extent | None) -> bool:
    """Whether two axes have as many elements in every run."""
    return a is not None and b is not None and a.count is b.count


def moved(x: Bounded, value: Value, axes: dict[int, int]) -> Bounded:
    """x whose axes went elsewhere: `axes` says where to."""
    below = x.below
    if below is not None and below.axis is not None:
        if below.axis in axes:
            below = Below(axes[below.axis], below.extents)
        else:
            below = Below(None, below.extents) if len(below.extents) == 1 else None
    return Bounded(value, {axes[a]: n for a, n in x.extents.items()}, x.clean, below)


@follows("transpose")
def transpose(bounds: Bounds, node: Node) -> list[Bounded]:
    x = bounds.take(node.x)
    perm = permutation(node, len(x.value.type.dims))
    return [moved(x, bounds.again(node, [x.value])[0], {a: i for i, a in enumerate(perm)})]


@follows("squeeze")
def squeeze(bounds: Bounds, node: Node) -> list[Bounded]:
    x, given = bounds.take(node.x), bounds.ints_of(node, 1)
    dims = x.value.type.dims
    if given is None:
        raise Unbounded
    gone = axes_of(node, given, len(dims))
    if not set(gone).isdisjoint(x.extents):
        raise Unbounded
    left = [a for a in range(len(dims)) if a not in gone]
    if any(dims[a] != 1 for a in gone):
        raise Unbounded
    value = bounds.shaped(x.value, (dims[a] for a in left), node.out)
    return [moved(x, value, {a: i for i, a in enumerate(left)})]


@follows("unsqueeze")
def unsqueeze(bounds: Bounds, node: Node) -> list[Bounded]:
    x, given = bounds.take(node.x), bounds.ints_of(node, 1) or []
    rank = len(x.value.type.dims) + len(given)
    new = axes_of(node, given, rank)
    left = [a for a in range(rank) if a not in new]
    dims = iter(x.value.type.dims)
    value = bounds.shaped(x.value, (1 if a in new else next(dims) for a in range(rank)), node.out)
    return [moved(x, value, dict(enumerate(left)))]


@follows("flatten")
def flatten(bounds: Bounds, node: Node) -> list[Bounded]:
    x, axis = bounds.take(node.x), attr(node, "axis")
    dims = x.dims
    axis = axis + len(dims) if axis < 0 else axis
    sides = [times(bounds, side, node.out) for side in (dims[:axis], dims[axis:])]
    return [_reshaped(bounds, node, x, sides)]


@follows("reshape")
def reshape(bounds: Bounds, node: Node) -> list[Bounded]:
    x, target = bounds.take(node.x), list(bounds.numbers_of(node.inputs[1]).reshape(-1))
    if not attr(node, "allowzero"):
        if any(n == 0 and i >= len(x.dims) for i, n in enumerate(target)):
            raise Unbounded
        target = [x.dims[i] if n == 0 else n for i, n in enumerate(target)]
    if -1 in target:
        at = target.index(-1)
        target[at] = _left(bounds, x.dims, [n for i, n in enumerate(target) if i != at], node.out)
    if -1 in target:
        raise Unbounded
    return [_reshaped(bounds, node, x, target)]


def _left(bounds: Bounds, dims: Sequence[Dim], given: Sequence[Dim], like: Value) -> Dim:
    """What -1 stands for beside the given extents."""
    dims, given = list(dims), list(given)
    for n in [n for n in given if isinstance(n, Extent)]:
        found = next((i for i, m in enumerate(dims) if isinstance(m, Extent) and same(m, n)), None)
        if found is None:
            raise Unbounded
        dims.pop(found)
        given.remove(n)
    return quotient(bounds, times(bounds, dims, like), prod(given), like)  # type: ignore[arg-type]


def _reshaped(bounds: Bounds, node: Node, x: Bounded, target: Sequence[Dim]) -> Bounded:
    """x in another shape whose extent, of the only axis that has one, follows as many elements as before."""
    if not x.extents:
        if any(isinstance(n, Extent) for n in target):
            raise Unbounded
        return Bounded(bounds.shaped(x.value, (int(n) for n in target), node.out))  # type: ignore[arg-type]
    ends = [a for a, n in enumerate(target) if isinstance(n, Extent)]
    if len(x.extents) != 1 or len(ends) != 1:
        return _side_by_side(bounds, node, x, target)
    (axis, extent), (end,) = *x.extents.items(), ends
    dims, size = x.value.type.dims, target[end]
    assert isinstance(size, Extent)
    plain = [n.most if isinstance(n, Extent) else int(n) for n in target]
    outer, inner, block = prod(dims[:axis]), prod(dims[axis + 1 :]), prod(plain[end + 1 :])
    if outer != prod(plain[:end]) or prod(plain) != prod(dims) or not prod(dims):
        raise Unbounded
    if product(bounds, extent, inner, node.out) != product(bounds, size, block, node.out):
        raise Unbounded
    below = x.below
    if below is not None and below.axis is not None:
        below = Below(None, below.extents) if len(below.extents) == 1 else None
    return Bounded(bounds.shaped(x.value, plain, node.out), {end: size}, x.clean, below)


def _side_by_side(bounds: Bounds, node: Node, x: Bounded, target: Sequence[Dim]) -> Bounded:
    """A reshape that only puts axes of 1 in or out."""
    old = [(a, n) for a, n in enumerate(x.dims) if n != 1 or isinstance(n, Extent)]
    new = [(a, n) for a, n in enumerate(target) if n != 1 or isinstance(n, Extent)]
    if len(old) != len(new) or any(m != n for (_, m), (_, n) in zip(old, new, strict=True)):
        raise Unbounded
    plain = [n.most if isinstance(n, Extent) else int(n) for n in target]
    extents = {b: n for (a, _), (b, n) in zip(old, new, strict=True) if isinstance(n, Extent)}
    return Bounded(bounds.shaped(x.value, plain, node.out), extents, x.clean)


@follows("expand")
def expand(bounds: Bounds, node: Node) -> list[Bounded]:
    x, target = bounds.take(node.x), list(bounds.numbers_of(node.inputs[1]).reshape(-1))
    rank = max(len(x.dims), len(target))
    pairs = zip([1] * (rank - len(x.dims)) + [*x.dims], [1] * (rank - len(target)) + target, strict=True)
    dims: list[Dim] = []
    for have, want in pairs:
        if isinstance(have, Extent) and isinstance(want, Extent):
            fits = same(have, want)
        elif isinstance(have, Extent):
            fits = want == 1
        else:
            fits = have == 1 or want in (1, have)
        if not fits:
            raise Unbounded
        dims.append(want if have == 1 and not isinstance(have, Extent) else have)
    plain = [n.most if isinstance(n, Extent) else int(n) for n in dims]
    value = bounds.add("expand", [x.value, bounds.whole(plain, node.out)], node.out)
    extents = {a: n for a, n in enumerate(dims) if isinstance(n, Extent)}
    below = x.below if x.below is not None and x.below.axis is None else None
    # Along new extents copies of real elements follow the last real one.
    return [Bounded(value, extents, x.clean and len(extents) == len(x.extents), below)]


@follows("tile")
def tile(bounds: Bounds, node: Node) -> list[Bounded]:
    x, repeats = bounds.take(node.x), bounds.ints_of(node, 1)
    if repeats is None or any(repeats[a] != 1 for a in x.extents):
        raise Unbounded
    value = bounds.again(node, [x.value, bounds.whole(repeats, node.out)])[0]
    return [Bounded(value, x.extents, x.clean)]


@follows("slice")
def slice_(bounds: Bounds, node: Node) -> list[Bounded]:
    x, like = bounds.take(node.x), node.out
    starts, ends = (list(bounds.numbers_of(v)) for v in node.inputs[1:3])
    axes = axes_of(node, bounds.ints_of(node, 3) or range(len(starts)), len(x.dims))
    steps = bounds.ints_of(node, 4) or [1] * len(starts)
    extents, plain_ends = dict(x.extents), list(ends)
    below = x.below
    for i, axis in enumerate(axes):
        start, end, step = starts[i], ends[i], steps[i]
        if below is not None and axis == below.axis:
            known = step > 0 and not isinstance(start, Extent) and not isinstance(end, Extent)
            below = Below(axis, below.extents[int(start) : int(end) : step]) if known else None
        if axis not in x.extents and not isinstance(end, Extent):
            continue
        if step != 1 or isinstance(start, Extent) or start < 0 or not isinstance(end, Extent) and end < 0:
            raise Unbounded
        size, have = x.value.type.dims[axis], x.dims[axis]
        stop = least(bounds, have, end, like)
        plain_ends[i] = min(stop.most if isinstance(stop, Extent) else int(stop), size)
        kept = stop if start == 0 else _minus(bounds, stop, int(start), like)
        extents.pop(axis, None)
        if isinstance(kept, Extent):
            extents[axis] = kept
    cut = [bounds.whole([int(n) for n in numbers], like) for numbers in (starts, plain_ends, axes, steps)]
    value = bounds.add("slice", [x.value, *cut], like)
    if any(value.type.dims[a] != n.most for a, n in extents.items()):
        raise Unbounded
    return [Bounded(value, extents, x.clean, below)]


def _minus(bounds: Bounds, a: Dim, n: int, like: Value) -> Dim:
    """What is left of an extent without its first n."""
    if not isinstance(a, Extent):
        return max(a - n, 0)
    left = bounds.add("sub", [a.count, bounds.whole(n, like)], like)
    return Extent(bounds.add("max", [left, bounds.whole(0, like)], like), max(a.most - n, 0))


@follows("split")
def split(bounds: Bounds, node: Node) -> list[Bounded]:
    x, sizes = bounds.take(node.x), bounds.ints_of(node, 1)
    axis = attr(node, "axis") % len(x.dims)
    if axis in x.extents:
        raise Unbounded
    inputs: list[Value | None] = [x.value, bounds.whole(sizes, node.out)] if sizes is not None else [x.value]
    parts, at, found = bounds.again(node, inputs), 0, []
    for part in parts:
        below, n = x.below, part.type.dims[axis]
        if below is not None and below.axis == axis:
            below = Below(axis, below.extents[at : at + n])
        found.append(Bounded(part, x.extents, x.clean, below))
        at += n
    return found


@follows("concat")
def concat(bounds: Bounds, node: Node) -> list[Bounded]:
    parts = [bounds.take(v) for v in node.inputs]
    rank = len(parts[0].dims)
    axis = attr(node, "axis") % rank
    for a in range(rank):
        counts = {n.count if isinstance(n := p.dims[a], Extent) else n for p in parts}
        if a != axis and len(counts) > 1:
            raise Unbounded
    value = bounds.add("concat", [p.value for p in parts], node.out, axis=axis)
    extents = {a: n for a, n in parts[0].extents.items() if a != axis}
    sizes: list[Dim] = [p.dims[axis] for p in parts]
    clean = all(p.clean or not p.extents for p in parts)
    if not any(isinstance(n, Extent) for n in sizes):
        return [Bounded(value, extents, clean)]
    places, count = joined(bounds, sizes, node.out)
    return [Bounded(bounds.add("gather", [value, places], node.out, axis=axis), {**extents, axis: count})]


def joined(bounds: Bounds, sizes: Sequence[Dim], like: Value) -> tuple[Value, Extent]:
    """Where the real elements of parts are, that lie one after the other; zeros follow. And how many there are."""
    room = [n.most if isinstance(n, Extent) else n for n in sizes]
    counts = np.empty(len(sizes), object)
    counts[:] = sizes
    real = bounds.stacked(Value("counts", bounds.whole([0], like).type), counts)
    own = bounds.whole(np.concatenate([np.arange(n) for n in room]), like)
    part = bounds.whole(np.repeat(np.arange(len(room)), room), like)
    limits = bounds.add("gather", [real, part], like, axis=0)
    places, count = found_places(bounds, bounds.add("less", [own, limits], like), like)
    return bounds.shaped(places, (sum(room),), like), count


def found_places(bounds: Bounds, x: Value, like: Value) -> tuple[Value, Extent]:
    """bounded_non_zero: places [rank, elements] and how many there are."""
    if not x.type.size or 8 * x.type.size * len(x.type.dims) > bounds.limit:
        raise Unbounded
    places, count = bounds.add_many("bounded_non_zero", [x], like, 2)
    return places, Extent(count, x.type.size)


# -- indices


def indices_within(
    bounds: Bounds, x: Bounded, indices: Bounded, axes: Sequence[int], places: int | None = None
) -> Value:
    """Indices along `axes` of x, in range whatever is not real. `places`: the axis of the indices along which they
    belong to one axis of x after the other.
    """
    if any(not x.value.type.dims[a] for a in axes):
        raise Unbounded
    below = indices.below
    for i, axis in enumerate(axes):
        if axis not in x.extents:
            continue
        if below is None or below.axis != places and len(below.extents) > 1:
            raise Unbounded
        limit = below.extents[i if below.axis is not None else 0]
        if not same(limit, x.extents[axis]):
            raise Unbounded
    return indices.value if indices.clean else bounds.masked(indices, 0)


@follows("gather")
def gather(bounds: Bounds, node: Node) -> list[Bounded]:
    x, indices = bounds.take(node.x), bounds.take(node.inputs[1])
    axis, more = attr(node, "axis") % len(x.dims), len(indices.dims)
    value = bounds.again(node, [x.value, indices_within(bounds, x, indices, [axis])])[0]
    extents = {a if a < axis else a + more - 1: n for a, n in x.extents.items() if a != axis}
    extents |= {axis + a: n for a, n in indices.extents.items()}
    below = x.below
    if below is not None and below.axis is not None:
        if below.axis != axis:
            below = Below(below.axis if below.axis < axis else below.axis + more - 1, below.extents)
        elif indices.value.data is not None and indices.value.data.size == 1:
            below = Below(None, (below.extents[int(indices.value.data.item())],))
        else:
            below = None
    return [Bounded(value, extents, not indices.extents and x.clean, below)]


@follows("gather_elements")
def gather_elements(bounds: Bounds, node: Node) -> list[Bounded]:
    x, indices = bounds.take(node.x), bounds.take(node.inputs[1])
    axis = attr(node, "axis") % len(x.dims)
    for a, n in x.extents.items():
        if a != axis and not same(n, indices.extents.get(a)):
            raise Unbounded
    value = bounds.again(node, [x.value, indices_within(bounds, x, indices, [axis])])[0]
    return [Bounded(value, indices.extents, False, None)]


@follows("gather_nd")
def gather_nd(bounds: Bounds, node: Node) -> list[Bounded]:
    x, indices = bounds.take(node.x), bounds.take(node.inputs[1])
    last = len(indices.dims) - 1
    if attr(node, "batch_dims") or last in indices.extents:
        raise Unbounded
    depth = indices.value.type.dims[last]
    value = bounds.again(node, [x.value, indices_within(bounds, x, indices, range(depth), last)])[0]
    extents = {a - depth + last: n for a, n in x.extents.items() if a >= depth} | dict(indices.extents)
    below = x.below if x.below is not None and x.below.axis is None else None
    return [Bounded(value, extents, False, below)]


@follows("scatter_elements", "scatter_nd")
def scatter(bounds: Bounds, node: Node) -> list[Bounded]:
    """One more row takes what is not real."""
    data, indices, updates = (bounds.take(v) for v in node.inputs)
    each = node.op == "scatter_elements"
    last = len(indices.dims) - 1
    depth = 1 if each else indices.value.type.dims[last]
    axis = attr(node, "axis") % len(data.dims) if each else 0
    axes = [axis] if each else range(depth)
    if not depth or not each and last in indices.extents:
        raise Unbounded
    # Of each axis of the updates, which of indices and data says how many there are.
    for a in range(len(updates.dims)):
        found, wanted = updates.extents.get(a), indices.extents.get(a)
        if not each and a >= last:
            wanted = data.extents.get(a - last + depth)
        elif each and a != axis and a in data.extents and not same(data.extents[a], wanted):
            raise Unbounded
        if found is not wanted and not same(found, wanted):
            raise Unbounded
    if not indices.extents:
        within = indices_within(bounds, data, indices, axes, last)
        return [Bounded(bounds.again(node, [data.value, within, updates.value])[0], data.extents)]
    safe = indices_within(bounds, data, indices, axes, None if each else last)
    rows = data.value.type.dims[axis]
    at = _not_below_zero(bounds, indices._replace(value=safe), [data.value.type.dims[a] for a in axes], node.out)
    beyond: Any = rows if each else [rows, *[0] * (depth - 1)]
    at = bounds.masked(indices._replace(value=at), beyond)
    more = [n if a != axis else 1 for a, n in enumerate(data.value.type.dims)]
    row = bounds.const(np.zeros(more, data.value.type.dtype), node.out)
    wide = bounds.add("concat", [data.value, row], node.out, axis=axis)
    if wide.type.nbytes > bounds.limit:
        raise Unbounded
    written = bounds.again(node, [wide, at, updates.value])[0]
    ends = [bounds.whole([n], node.out) for n in (0, rows, axis, 1)]
    return [Bounded(bounds.add("slice", [written, *ends], node.out), data.extents)]


def _not_below_zero(bounds: Bounds, indices: Bounded, dims: Sequence[int], like: Value) -> Value:
    """Indices that count from the front."""
    if indices.below is not None:
        return indices.value
    dtype = indices.value.type.dtype
    if dtype is None or dtype.kind == "u":
        return indices.value
    zero, size = (bounds.const(np.asarray(n, dtype), like) for n in (0, dims if len(dims) > 1 else dims[0]))
    back = bounds.add("less", [indices.value, zero], like)
    return bounds.add("where", [back, bounds.add("add", [indices.value, size], like), indices.value], like)
