"""Shapes that are new in each run, as those of a decoder whose past grows, are run by plans for many lengths."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TypeVar

from ..ir import Open, open_axes
from .keys import Credit, Line, Shapes

PRICE, PLANS = 64, 3
"""Of credit: room for longer inputs costs a run little."""
MOST_LINES = 8
"""Lines that are kept in mind."""
TRIES = 3
"""Plans for many lengths that are tried in vain for the same open extents."""

Axes = tuple[tuple[int, int], ...]
"""Inputs, by number, and axes of them."""

T = TypeVar("T")


class Lengths:
    """Which plan runs given shapes. Plans of their own cost credit, as those for values do (`Deciders`).

    Shapes on a line differ by the same number in all of their open extents, and are the same elsewhere.
    """

    def __init__(self) -> None:
        self._credit = Credit(PRICE, PLANS)
        self._last: Shapes = ()
        self._lines: list[Line] = []
        self._refused: dict[Axes, set[Line]] = {}

    def instead(self, shapes: Shapes, kept: bool) -> Line | None:
        """The open shapes of the plan that is to run these; None for a plan of their own, `kept` or new."""
        last, self._last = self._last, shapes
        found = next(self._on(shapes), None)
        if found is None and not kept:
            line = _line(last, shapes)
            if line is not None:
                self._lines = [line, *self._lines][:MOST_LINES]
                found = next(self._on(shapes), None)
        if self._credit.pays(shapes, kept) or found is None:
            return None
        wide = _with_room(*found)
        refused = self._refused.get(_axes(wide), ()) if self._refused else ()
        return None if wide in refused or len(refused) >= TRIES else wide

    def _on(self, shapes: Shapes) -> Iterator[tuple[Line, int]]:
        """The lines that shapes lie on, with what their open extents have in common."""
        for line in self._lines:
            n = _length(line, shapes)
            if n is not None:
                yield line, n

    def refuse(self, wide: Line) -> None:
        """Note that a plan for these open shapes is not possible, or does not pay."""
        self._refused.setdefault(_axes(wide), set()).add(wide)

    def paid(self, shapes: Shapes) -> None:
        """Note that a plan was made for these shapes."""
        self._credit.pay(shapes)


def _axes(shapes: Line) -> Axes:
    return tuple((i, axis) for i, shape in enumerate(shapes) for axis, _ in open_axes(shape))


def _pairs(a: tuple[tuple[T, ...], ...], b: Shapes) -> Iterator[tuple[T, int]]:
    for x, y in zip(a, b, strict=True):
        yield from zip(x, y, strict=True)


def _line(a: Shapes, b: Shapes) -> Line | None:
    """The line through two sets of shapes, without room; None where there is none.

    Given ((1, 4), (1, 5)) and ((1, 5), (1, 6)); result ((1, Open(0, 0, 0)), (1, Open(0, 0, 1))).
    """
    if [len(shape) for shape in a] != [len(shape) for shape in b]:
        return None
    moved = {(m - n, n) for m, n in _pairs(a, b) if m != n}
    if len({step for step, _ in moved}) != 1:
        return None
    least = min(n for _, n in moved)
    return tuple(
        tuple(n if m == n else Open(0, 0, n - least) for m, n in zip(x, y, strict=True))
        for x, y in zip(a, b, strict=True)
    )


def _length(line: Line, shapes: Shapes) -> int | None:
    """What the open extents of these shapes have in common; None where they don't lie on the line, or one is 0."""
    if [*map(len, line)] != [*map(len, shapes)]:
        return None
    found: int | None = None
    for d, n in _pairs(line, shapes):
        if type(d) is int:
            if d != n:
                return None
        elif isinstance(d, Open):
            if not n or found not in (None, n - d.more):
                return None
            found = n - d.more
    return found if found is not None and found >= 0 else None


def _with_room(line: Line, n: int) -> Line:
    """The line's shapes with room for the next lengths: at most a quarter more, or 32."""
    step = max(32, 1 << max(n.bit_length() - 3, 0))
    return _between(line, max(n // step * step, 1), (n // step + 1) * step)


@lru_cache(64)
def _between(line: Line, low: int, most: int) -> Line:
    """The line's shapes for lengths from `low` to `most`."""
    return tuple(
        tuple(Open(low + d.more, most + d.more, d.more) if isinstance(d, Open) else d for d in shape) for shape in line
    )
