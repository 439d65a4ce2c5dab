"""Rules for bounded values whose results take elements from places that the extents tell: pads, tiles, resizes, and
reshapes that do not keep real elements to the front."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import gcd, prod
from operator import add

import numpy as np

from ...ir import Node, Value
from ...ops.inference import axes_of
from ...ops.registry import attr
from ...ops.resize import Axis, indices_of, table_of
from .lengths import dim_by_length, lines, number_by_length, picked, points_of, varies
from .numbers import product, quotient, times, total
from .state import Bounds, follows
from .values import Bounded, Dim, Extent, Unbounded, extents_of, most_of, refuse

TABLE = 1 << 20
"""Bytes of a table of places for all lengths."""


def _size(n: Dim) -> Value | int:
    return n.count if isinstance(n, Extent) else n


def _with_axis(x: Bounded, axis: int, value: Value, n: Dim) -> Bounded:
    """`value`, which has the extents of x but for one axis."""
    return Bounded(value, extents_of(n if a == axis else m for a, m in enumerate(x.dims)))


# -- pads

FEWER = {"reflect": 1, "symmetric": 0, "wrap": 0}
"""How many elements fewer than there are these modes may add at an end."""

Pads = dict[int, tuple[Dim, Dim]]
"""The padding before and behind each axis."""


@follows("pad")
def pad(g: Bounds, node: Node) -> list[Bounded]:
    x, amounts, axes = g.take(node.x), g.varied_of(node.inputs[1]).reshape(-1), g.ints_of(node, 3)
    fill = g.numbers_of(node.inputs[2]).item() if node.has(2) else 0
    where = range(len(x.dims)) if axes is None else axes_of(node, axes, len(x.dims))
    refuse(isinstance(fill, Extent) or len(amounts) != 2 * len(where))
    ends = zip(amounts, amounts[len(where) :], strict=False)
    pads: Pads = {axis: pair for axis, pair in zip(where, ends, strict=False) if pair != (0, 0)}
    if attr(node, "mode") == "constant":
        return [_padded(g, x, pads, fill)]
    for axis in [a for a, pair in pads.items() if a in x.extents or varies(*pair)]:
        x = _padded_by_elements(g, x, axis, pads.pop(axis), attr(node, "mode"))
    begin, end = ([pads.get(a, (0, 0))[i] for a in range(len(x.dims))] for i in (0, 1))
    value = g("pad", x.value, g.ints([*begin, *end]), mode=attr(node, "mode")) if pads else x.value
    return [Bounded(value, x.extents)]


def _padded(g: Bounds, x: Bounded, pads: Pads, fill: float) -> Bounded:
    """x with a constant around it. Along an axis of open extent, the constant also replaces what lies behind the real
    elements.
    """
    for axis in [a for a, (before, _) in pads.items() if not isinstance(before, int)]:
        x = _moved_by_length(g, x, axis, pads.pop(axis), fill)
    dims, rank = list(x.dims), range(len(x.dims))
    for axis, (before, after) in pads.items():
        dims[axis] = total(g, total(g, dims[axis], before), after)
    begin = [int(pads.get(a, (0, 0))[0]) for a in rank]  # type: ignore[arg-type]
    rooms = zip(most_of(dims), x.value.type.dims, begin, strict=True)
    value, grows = g.masked(x, fill, pads), all(n >= 0 for _, n in pads.values() if isinstance(n, int))
    value = g.pad(value, begin, [most - room - b for most, room, b in rooms], g.number(fill, value) if fill else 0)
    return Bounded(value, extents_of(dims), x.clean and not fill and grows)


def _moved_by_length(g: Bounds, x: Bounded, axis: int, pair: tuple[Dim, Dim], fill: float) -> Bounded:
    """x with `fill` around it along an axis, where what comes before depends on the length; negative numbers crop."""
    size, before, after = (n.astype(np.int64) for n in lines(g, x.dims[axis], *pair))
    count, room = dim_by_length(g, size + before + after), x.value.type.dims[axis]
    (most,) = most_of([count])
    refuse(not room or not most)
    place = g.ints(np.arange(most)) - number_by_length(g, before)
    inside = (place >= 0) & (place < number_by_length(g, size))
    value = g.pick(x.value, g.clip(place, 0, room - 1), axis)
    inside = g.shape(inside, *(most if a == axis else 1 for a in range(len(x.dims))))
    return _with_axis(x, axis, g.choose(inside, value, fill), count)


def _padded_by_elements(g: Bounds, x: Bounded, axis: int, pair: tuple[Dim, Dim], mode: str) -> Bounded:
    """x with elements of its own before and behind it along an axis: reflected, repeated or from the other end."""
    have, before, after = lines(g, x.dims[axis], *pair)
    largest = np.maximum(before, after)
    refuse(min(before.min(), after.min()) < 0 or not have.all() or (largest > have - FEWER.get(mode, -largest)).any())
    count, first = dim_by_length(g, have + before + after), pair[0]
    (most,), n = most_of([count]), g.stacked(np.array(x.dims[axis], object))
    i = np.arange(most) - (first.count if isinstance(first, Extent) else first)
    place = _padding_index(g, g.number(i) if isinstance(i, np.ndarray) else i, n, mode)
    place = g.clip(place, 0, x.value.type.dims[axis] - 1)
    return _with_axis(x, axis, g.pick(x.value, place, axis), count)


def _padding_index(g: Bounds, i: Value, n: Value, mode: str) -> Value:
    """The index that a mode of padding reads for i, which may be before the first or behind the last of n elements."""
    if mode == "edge":
        return g.min(i, n - 1)
    if mode == "reflect":
        return (n - 1) - g.abs((n - 1) - g.abs(i))
    if mode == "symmetric":
        i = g.choose(i < 0, -1 - i, i)
        return g.choose(i < n, i, n + (n - 1 - i))
    return g.choose(i < 0, i + n, g.choose(i < n, i, i - n))


@follows("tile")
def tile(g: Bounds, node: Node) -> list[Bounded]:
    x, repeats = g.take(node.x), list(g.numbers_of(node.inputs[1]).reshape(-1))
    refuse(len(repeats) != len(x.dims))
    plain = [1 if isinstance(r, Extent) or a in x.extents else int(r) for a, r in enumerate(repeats)]
    value = g.again(node, x.value, g.ints(plain))[0] if any(r != 1 for r in plain) else x.value
    found = Bounded(value, x.extents, x.clean)
    for axis, (r, done) in enumerate(zip(repeats, plain, strict=True)):
        if r != done:
            have, count = found.dims[axis], product(g, found.dims[axis], r)
            (most,) = most_of([count])
            at = np.arange(most) % have if not isinstance(have, Extent) else g("mod", np.arange(most), have.count)
            refuse(isinstance(have, Extent) and not have.least)
            found = _with_axis(found, axis, g.pick(found.value, at, axis), count)
    return [found]


# -- resizes


@follows("resize")
def resize(g: Bounds, node: Node) -> list[Bounded]:
    """One axis after the other; along one whose extents depend on the length, places and weights do so, too."""
    x, scales, axes = g.take(node.x), _given(g, node, 2), attr(node, "axes")
    given = _given(g, node, 3) if scales is None else scales
    where = axes_of(node, axes, len(x.dims)) if axes else range(len(x.dims))
    policy = attr(node, "keep_aspect_ratio_policy") == "stretch"
    crops = attr(node, "coordinate_transformation_mode") == "tf_crop_and_resize"
    if given is None or len(given) != len(where) or not policy or crops:
        raise Unbounded
    plain: dict[int, Dim] = {}
    for axis, n in zip(where, given, strict=True):
        if not isinstance(x.dims[axis], Extent) and not isinstance(n, Extent):
            plain[axis] = n
        elif n != (x.dims[axis] if scales is None else 1):
            x = _resampled(g, node, x, axis, n, scales is not None)
    kept = all(n == (x.dims[axis] if scales is None else 1) for axis, n in plain.items())
    if not kept:
        numbers = g.held(np.array([*plain.values()], np.int64 if scales is None else np.float32))
        operands = (None, None, numbers) if scales is None else (None, numbers)
        attrs = {**node.attrs, "axes": tuple(plain)}
        x = Bounded(g(node.op, x.value, *operands, **attrs), x.extents)
    return [x]


def _given(g: Bounds, node: Node, index: int) -> list[Dim] | None:
    found = list(g.numbers_of(node.inputs[index]).reshape(-1)) if node.has(index) else []
    return found or None


def _resampled(g: Bounds, node: Node, x: Bounded, axis: int, n: Dim, scales: bool) -> Bounded:
    (have, given), dtype = lines(g, x.dims[axis], n), x.value.type.dtype
    out = np.floor(have.astype(np.float32) * given.astype(np.float32)).astype(np.int64) if scales else given
    count, nearest = dim_by_length(g, out), attr(node, "mode") == "nearest"
    factors = given if scales else out / np.maximum(have, 1)
    points = points_of(g, have, out, factors)
    have, out, factors = (each[points.ravel()] for each in (have, out, factors))
    (most,) = most_of([count])
    refuse(not have.all() or not out.all() or 8 * most * len(out) > TABLE or not nearest and dtype != np.float32)
    if (have == out).any():  # then it is a copy, if other axes stay, too
        raise Unbounded
    each = [Axis(int(a), int(b), float(f), (0.0, 1.0), axis) for a, b, f in zip(have, out, factors, strict=True)]
    if nearest:
        rows = [indices_of(node, a) for a in each]
        refuse(min(row.min() for row in rows) < 0)
        return _with_axis(x, axis, g.pick(x.value, _for_length(g, rows, points, most), axis), count)
    tables = [table_of(node, a) for a in each]
    refuse(any(t.outside.any() for t in tables))
    column = [most if a == axis else 1 for a in range(len(x.dims))]
    taps = [
        g.pick(x.value, _for_length(g, [_column(t.index, i) for t in tables], points, most), axis)
        * g.shape(_for_length(g, [_column(t.weight, i) for t in tables], points, most), *column)
        for i in range(max(t.index.shape[1] for t in tables))
    ]
    return _with_axis(x, axis, reduce(add, taps), count)


def _column(table: np.ndarray, i: int) -> np.ndarray:
    return table[:, i] if i < table.shape[1] else np.zeros(len(table), table.dtype)


def _for_length(g: Bounds, rows: list[np.ndarray], points: np.ndarray, most: int) -> Value:
    """The row for a run's lengths, of those at some points; rows may be the same as far as they go."""
    longest = max(rows, key=len)
    if all(np.array_equal(row, longest[: len(row)]) for row in rows):
        return g.held(longest)
    return picked(g, np.array([np.pad(row, (0, most - len(row))) for row in rows]), points)


# -- reshapes


def regathered(g: Bounds, x: Bounded, target: Sequence[Dim]) -> Bounded:
    """x in another shape, where real elements do not keep to the front: each by its place among the real ones. Axes
    that do not change are left alone.

    Given x [2, 3, n] and [2, 3 n]; result: element i of each row is from row i // n and column i % n.
    """
    old, new = list(x.dims), list(target)
    outer: list[Dim] = [1]
    inner: list[Dim] = [1]
    _common(g, old, new, 0, outer)
    _common(g, old, new, -1, inner)
    if not old and not new:
        return Bounded(g.shape(x.value, *most_of(target)), extents_of(target), x.clean)
    rooms, most = most_of(old), most_of(new)
    refuse(not old or not new or times(g, old) != times(g, new) or 0 in rooms or 8 * prod(most) > g.limit)
    flat = _row_major(g, new, most)
    place: Value = flat * 0
    for axis, n in reversed(list(enumerate(old))):
        left = flat if not axis else g("div", flat, _size(n))
        place = place + (flat if not axis else flat - left * _size(n)) * prod(rooms[axis + 1 :])
        flat = left
    value = g.shape(x.value, prod(most_of(outer)), prod(rooms), prod(most_of(inner)))
    value = g.pick(value, g.shape(g.clip(place, 0, prod(rooms) - 1), prod(most)), 1)
    return Bounded(g.shape(value, *most_of(target)), extents_of(target))


def _common(g: Bounds, old: list[Dim], new: list[Dim], end: int, found: list[Dim]) -> None:
    """Take what the first axes (`end` 0) or the last ones (-1) have in common from both, factors of axes among it."""
    while old and new:
        a, b = old[end], new[end]
        common = a if a == b else gcd(_factor(a, end), _factor(b, end))
        if common == 1 and a != b:
            return
        found.append(common)
        for dims in (old, new):
            dims[end] = 1 if a == b else quotient(g, dims[end], common)
            if dims[end] == 1:
                dims.pop(end)


def _factor(n: Dim, end: int) -> int:
    """What an extent is a multiple of in every run. Only as blocks of last axes real elements keep to the front."""
    if not isinstance(n, Extent):
        return n
    return int(np.gcd.reduce(n.each)) if end and n.each is not None else 1


def _row_major(g: Bounds, dims: Sequence[Dim], most: Sequence[int]) -> Value:
    """The places of elements among the real ones, row after row."""
    found: Value | np.ndarray = np.zeros([1] * len(dims), np.int64)
    for axis, n in enumerate(most):
        step = _size(times(g, dims[axis + 1 :]))
        found = found + np.arange(n).reshape([n if a == axis else 1 for a in range(len(dims))]) * step
    return g.number(found) if isinstance(found, np.ndarray) else found
