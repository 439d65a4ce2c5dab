"""Rules for bounded values: reshapes, splits and concatenations. Real elements keep to the front of their axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate, pairwise
from math import prod

import numpy as np

from ...ir import Node, Value
from ...ops.inference import axes_of
from ...ops.registry import attr
from ...ops.shape import permutation
from .lengths import varies
from .numbers import product, quotient, times, total
from .open_inputs import widened
from .places import regathered
from .slices import Cut, taken
from .state import Bounds, follows
from .values import Below, Bounded, Dim, Extent, Unbounded, extents_of, limits_of, most_of, refuse, same


def moved(x: Bounded, value: Value, axes: dict[int, int]) -> Bounded:
    """`value` with what is known of x, whose elements it has: axis a of x is its axis axes[a]."""
    below = x.below
    if below is not None:
        below = below._replace(axis=axes[below.axis]) if below.axis in axes else below.for_all()
    return Bounded(value, {axes[a]: n for a, n in x.extents.items()}, x.clean, below)


@follows("transpose")
def transpose(g: Bounds, node: Node) -> list[Bounded]:
    x = g.take(node.x)
    perm = permutation(node, len(x.value.type.dims))
    return [moved(x, g.again(node, x.value)[0], {a: i for i, a in enumerate(perm)})]


@follows("squeeze")
def squeeze(g: Bounds, node: Node) -> list[Bounded]:
    x, given = g.take(node.x), g.ints_of(node, 1)
    dims = x.value.type.dims
    if given is None:
        raise Unbounded
    gone = axes_of(node, given, len(dims))
    refuse(not set(gone).isdisjoint(x.extents))
    left = [a for a in range(len(dims)) if a not in gone]
    refuse(any(dims[a] != 1 for a in gone))
    value = g.shape(x.value, *(dims[a] for a in left))
    return [moved(x, value, {a: i for i, a in enumerate(left)})]


@follows("unsqueeze")
def unsqueeze(g: Bounds, node: Node) -> list[Bounded]:
    x, given = g.take(node.x), g.ints_of(node, 1) or []
    rank = len(x.value.type.dims) + len(given)
    new = axes_of(node, given, rank)
    left = [a for a in range(rank) if a not in new]
    dims = iter(x.value.type.dims)
    value = g.shape(x.value, *(1 if a in new else next(dims) for a in range(rank)))
    return [moved(x, value, dict(enumerate(left)))]


@follows("flatten")
def flatten(g: Bounds, node: Node) -> list[Bounded]:
    x, axis = g.take(node.x), attr(node, "axis")
    dims = x.dims
    axis = axis + len(dims) if axis < 0 else axis
    sides = [times(g, side) for side in (dims[:axis], dims[axis:])]
    return [_reshaped(g, node, x, sides)]


def unflattened(g: Bounds, value: Value) -> Bounded | None:
    """The operand of a reshape that gives `value`, where the reshape merged rows of open length; else None."""
    made = g.left.get(value)
    before: Bounded | None = g.memo.get(("before", value))
    return g.take(made.x) if made is not None and made.op in ("reshape", "flatten") else before


@follows("reshape")
def reshape(g: Bounds, node: Node) -> list[Bounded]:
    target = list(g.numbers_of(node.inputs[1]).reshape(-1))
    x = unflattened(g, node.x) if 0 not in target else None
    x = g.take(node.x) if x is None else x
    if not attr(node, "allowzero"):
        refuse(any(n == 0 and i >= len(x.dims) for i, n in enumerate(target)))
        target = [x.dims[i] if n == 0 else n for i, n in enumerate(target)]
    if -1 in target:
        at = target.index(-1)
        target[at] = _remaining(g, x.dims, [n for i, n in enumerate(target) if i != at])
    refuse(-1 in target)
    return [_reshaped(g, node, x, target)]


def _remaining(g: Bounds, dims: Sequence[Dim], given: Sequence[Dim]) -> Dim:
    """The extent of -1 beside the given extents."""
    if varies(*dims):
        return quotient(g, times(g, dims), times(g, given))
    dims, given = list(dims), list(given)
    for n in [n for n in given if isinstance(n, Extent)]:
        found = next((i for i, m in enumerate(dims) if isinstance(m, Extent) and same(m, n)), None)
        if found is None:
            raise Unbounded
        dims.pop(found)
        given.remove(n)
    return quotient(g, times(g, dims), prod(given))  # type: ignore[arg-type]


def _reshaped(g: Bounds, node: Node, x: Bounded, target: Sequence[Dim]) -> Bounded:
    """x in another shape. One axis may depend on data, before and after, with the same number of elements."""
    if not x.extents:
        refuse(any(isinstance(n, Extent) for n in target))
        return Bounded(g.shape(x.value, *(int(n) for n in target)))  # type: ignore[arg-type]
    ends = extents_of(target)
    if len(x.extents) == 1 and len(ends) == 1:
        (axis, extent), (end,) = *x.extents.items(), ends
        dims, size, plain = x.value.type.dims, target[end], most_of(target)
        assert isinstance(size, Extent)
        outer, inner, block = prod(dims[:axis]), prod(dims[axis + 1 :]), prod(plain[end + 1 :])
        fits = outer == prod(plain[:end]) and prod(plain) == prod(dims) > 0
        if fits and product(g, extent, inner) == product(g, size, block):
            below = None if x.below is None else x.below.for_all()
            return Bounded(g.shape(x.value, *plain), {end: size}, x.clean, below)
    found = _ones_moved(g, x, target)
    if found is None:
        found = regathered(g, x, target)
        g.memo["before", node.out] = x
    return found


def _ones_moved(g: Bounds, x: Bounded, target: Sequence[Dim]) -> Bounded | None:
    """A reshape that only adds or drops axes of extent 1; None for others."""
    old = [(a, n) for a, n in enumerate(x.dims) if n != 1 or isinstance(n, Extent)]
    new = [(a, n) for a, n in enumerate(target) if n != 1 or isinstance(n, Extent)]
    if len(old) != len(new) or any(m != n for (_, m), (_, n) in zip(old, new, strict=True)):
        return None
    plain = most_of(target)
    extents = {b: n for (a, _), (b, n) in zip(old, new, strict=True) if isinstance(n, Extent)}
    return Bounded(g.shape(x.value, *plain), extents, x.clean)


@follows("expand")
def expand(g: Bounds, node: Node) -> list[Bounded]:
    x, target = g.take(node.x), list(g.numbers_of(node.inputs[1]).reshape(-1))
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
        refuse(not fits)
        dims.append(want if have == 1 and not isinstance(have, Extent) else have)
    value, extents = g.broadcast(x.value, *most_of(dims)), extents_of(dims)
    g.memo["spread", value] = x
    below = limits_of(x)
    below = below if below is not None and below.axis is None else None
    # Along new extents copies of real elements follow the last real one.
    return [Bounded(value, extents, x.clean and len(extents) == len(x.extents), below)]


@follows("trilu")
def trilu(g: Bounds, node: Node) -> list[Bounded]:
    x = g.take(node.x)
    k = g.fixed(node.inputs[1]) if node.has(1) else None
    return [x._replace(value=g.again(node, x.value, *(() if k is None else (k,)))[0], below=None)]


@follows("split")
def split(g: Bounds, node: Node) -> list[Bounded]:
    x, sizes = g.take(node.x), list(g.numbers_of(node.inputs[1]).reshape(-1)) if node.has(1) else None
    axis = attr(node, "axis") % len(x.dims)
    if axis in x.extents or sizes is not None and varies(*sizes):
        sizes = sizes or [quotient(g, x.dims[axis], len(node.outputs))] * len(node.outputs)
        start: Dim = 0
        ends = [start, *accumulate(sizes, lambda a, b: total(g, a, b))]
        refuse(ends[-1] != x.dims[axis])
        return [taken(g, x, Cut(axis, a, b, 1)) for a, b in pairwise(ends)]
    parts, at, found = g.again(node, x.value, *([] if sizes is None else [g.ints(sizes)])), 0, []
    for part in parts:
        below, n = x.below, part.type.dims[axis]
        if below is not None and below.axis == axis:
            below = below._replace(extents=below.extents[at : at + n])
        found.append(Bounded(part, x.extents, x.clean, below))
        at += n
    return found


@follows("concat")
def concat(g: Bounds, node: Node) -> list[Bounded]:
    parts = [g.take(v) for v in node.inputs]
    if len(parts) == 1:
        return parts
    rank = len(parts[0].dims)
    axis = attr(node, "axis") % rank
    for a in range(rank):
        counts = {n.count if isinstance(n := p.dims[a], Extent) else n for p in parts}
        refuse(a != axis and len(counts) > 1)
    extents = {a: n for a, n in parts[0].extents.items() if a != axis}
    sizes: list[Dim] = [p.dims[axis] for p in parts]
    clean = all(p.clean or not p.extents for p in parts)
    if isinstance(sizes[0], Extent) and not any(isinstance(n, Extent) for n in sizes[1:]):
        return [_appended(g, parts, axis, Bounded(parts[0].value, extents, clean))]
    value = g.join([p.value for p in parts], axis)
    if not any(isinstance(n, Extent) for n in sizes):
        return [Bounded(value, extents, clean, _joined_limits(parts, axis))]
    places, count = joined(g, sizes)
    return [Bounded(g.pick(value, places, axis), {**extents, axis: count})]


def _joined_limits(parts: Sequence[Bounded], axis: int) -> Below | None:
    """The limits of indices that are concatenated, along an axis that has no open extents."""
    found: list[Extent | None] = []
    signed = False
    for x in parts:
        below = limits_of(x)
        if below is None or below.axis not in (None, axis):
            return None
        found += below.extents * (x.value.type.dims[axis] if below.axis is None else 1)
        signed |= below.signed
    return Below(axis, tuple(found), signed)


def _appended(g: Bounds, parts: Sequence[Bounded], axis: int, first: Bounded) -> Bounded:
    """The parts, all but the first of known extents, right behind the real elements of the first."""
    size = parts[0].extents[axis]
    rest = g.join([p.value for p in parts[1:]], axis) if len(parts) > 2 else parts[1].value
    start = np.zeros(len(first.value.type.dims), object)
    start[axis] = size
    count, starts, more = total(g, size, rest.type.dims[axis]), g.stacked(start), rest.type.dims[axis]
    assert isinstance(count, Extent)
    wide = widened(g, first.value, axis, more)
    if wide is None:
        wide = g.join([first.value, g.held(np.zeros(rest.type.dims, rest.type.dtype))], axis)
    value = g("dynamic_update_slice", wide, rest, starts)
    return first._replace(value=value, extents={**first.extents, axis: count})


def joined(g: Bounds, sizes: Sequence[Dim]) -> tuple[Value, Extent]:
    """(indices, count) that gather the real elements of padded parts which lie one after the other; zeros fill the
    indices up."""
    room = most_of(sizes)
    counts = np.empty(len(sizes), object)
    counts[:] = sizes
    limits = g.pick(g.stacked(counts), g.ints(np.repeat(np.arange(len(room)), room)))
    places, _ = g.non_zero(g("less", g.ints(np.concatenate([np.arange(n) for n in room])), limits))
    count = reduce(lambda a, b: total(g, a, b), sizes)
    assert isinstance(count, Extent)
    return g.shape(places, sum(room)), count


@follows("one_hot")
def one_hot(g: Bounds, node: Node) -> list[Bounded]:
    x, others = g.take(node.x), [g.fixed(v) for v in node.inputs[1:]]
    axis = attr(node, "axis") % (len(x.dims) + 1)
    value = g.again(node, x.value, *others)[0]
    return [Bounded(value, {a + (a >= axis): n for a, n in x.extents.items()})]


@follows("depth_to_space")
def depth_to_space(g: Bounds, node: Node) -> list[Bounded]:
    """A block of pixels for each pixel, whose channels are numbered along it."""
    x, by = g.take(node.x), attr(node, "blocksize")
    refuse(len(x.dims) - 1 in x.extents)
    dims = [product(g, n, by) if axis in x.extents and axis else n for axis, n in enumerate(x.dims)]
    return [Bounded(g.again(node, x.value)[0], extents_of(dims))]
