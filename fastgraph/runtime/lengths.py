"""Shapes that are new in each run, as those of a decoder whose past grows, are run by plans for many lengths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import starmap
from math import gcd
from typing import TypeVar

from ..ir import LENGTHS, Open, open_axes
from .keys import Credit, Line, Shapes

PRICE, PLANS, OF_PART = 64, 3, 1
"""Of credit: room for longer inputs costs a run little. A part of a plan has credit for one: what it reads was made by
layers, and is new in each run."""
MOST_STEP = 128
"""Lengths of each of several groups that a plan is for; tables that are made for it have a row for each pair."""
MOST_LINES = 8
"""Lines that are kept in mind."""
STEADY = 4
"""Shapes one after the other on a line from which on it is preferred to one with more groups."""
TRIES = 3
"""Plans for many lengths that are tried in vain for the same open extents."""

Common = tuple[int, ...]
"""What the open extents of each group have in common."""
Axes = tuple[tuple[int, int, int, bool], ...]
"""Inputs, by number, axes of them, their groups, and whether these go by steps."""

T = TypeVar("T")


class Lengths:
    """Which plan runs given shapes. Plans of their own cost credit, as those for values do (`Deciders`).

    Shapes on a line differ by the same number in all open extents of a group, and are the same elsewhere. Numbers that
    inputs hold and that decide shapes are likes of shapes here.
    """

    def __init__(self, part: bool) -> None:
        """`part`: whether the model is a part of a plan."""
        self._credit = Credit(PRICE, OF_PART if part else PLANS)
        self._last: Shapes = ()
        self._lines: dict[Line, tuple[tuple[int, int], ...]] = {}
        self._through: Line | None = None
        self._steady = 0
        self._refused: dict[Axes, set[Line]] = {}

    def instead(self, shapes: Shapes, kept: bool) -> Line | None:
        """The open shapes of the plan that is to run these; None for a plan of their own, `kept` or new."""
        last, self._last = self._last, shapes
        groups = next((len(common) for _, common in self._on(shapes)), 0)
        if not kept and groups != 1:
            self._note(last, shapes, groups)
        found = [*self._on(shapes)]
        for line, common in found:
            self._lines[line] = tuple(starmap(_with, zip(self._lines[line], common, strict=True)))
        if self._credit.pays(shapes, kept):
            return None
        for line, common in found:
            for steps in ((1,) * len(common), tuple(step for _, step in self._lines[line])):
                wide = _with_room(line, common, steps)
                if self._may(wide):
                    return wide
        return None

    def _may(self, wide: Line) -> bool:
        """Whether a plan for these open shapes may be possible, and is for several lengths."""
        refused = self._refused.get(_axes(wide), ()) if self._refused else ()
        several = any(d.least < d.most for row in wide for _, d in open_axes(row))
        return several and wide not in refused and len(refused) < TRIES

    def _note(self, last: Shapes, shapes: Shapes, groups: int) -> None:
        """Keep the line through the last two shapes in mind, if there is none for them, or if shapes keep to it while
        that has more groups.
        """
        line = _line(last, shapes)
        self._steady = self._steady + 1 if line == self._through else 1
        self._through = line
        common = () if line is None or line in self._lines else _common(line, last)
        if line is None or not common:
            return
        if not groups or self._steady >= STEADY and len({group for _, _, group, _ in _axes(line)}) < groups:
            new = line, tuple((n, 0) for n in common)
            self._lines = dict([new, *self._lines.items()][:MOST_LINES])

    def _on(self, shapes: Shapes) -> Iterator[tuple[Line, Common]]:
        """The lines that shapes lie on, with what the open extents of each group have in common."""
        for line in [*self._lines]:
            common = _common(line, shapes)
            if common:
                yield line, common

    def refuse(self, wide: Line) -> None:
        """Note that a plan for these open shapes is not possible, or does not pay."""
        self._refused.setdefault(_axes(wide), set()).add(wide)

    def paid(self, shapes: Shapes) -> None:
        """Note that a plan was made for these shapes."""
        self._credit.pay(shapes)


def _axes(shapes: Line) -> Axes:
    return tuple((i, axis, d.group, d.step > 1) for i, shape in enumerate(shapes) for axis, d in open_axes(shape))


def _pairs(a: tuple[tuple[T, ...], ...], b: Shapes) -> Iterator[tuple[T, int]]:
    for x, y in zip(a, b, strict=True):
        yield from zip(x, y, strict=True)


def _line(a: Shapes, b: Shapes) -> Line | None:
    """The line through two sets of shapes, without room; None where there is none.

    Given ((1, 4), (1, 5)) and ((1, 5), (1, 6)); result ((1, Open(0, 0, 0)), (1, Open(0, 0, 1))).
    """
    if [len(shape) for shape in a] != [len(shape) for shape in b]:
        return None
    least: dict[int, int] = {}
    for m, n in _pairs(a, b):
        if m != n:
            least[m - n] = min(n, least.get(m - n, n))
    if not 0 < len(least) <= len(LENGTHS):
        return None
    groups = {step: group for group, step in enumerate(least)}
    return tuple(
        tuple(n if m == n else Open(0, 0, n - least[m - n], groups[m - n]) for m, n in zip(x, y, strict=True))
        for x, y in zip(a, b, strict=True)
    )


def _common(line: Line, shapes: Shapes) -> Common:
    """What the open extents of these shapes have in common, by group; () where they don't lie on the line, or one of
    them is not above 0.
    """
    if [*map(len, line)] != [*map(len, shapes)]:
        return ()
    found: dict[int, int] = {}
    for d, n in _pairs(line, shapes):
        if type(d) is int:
            if d != n:
                return ()
        elif isinstance(d, Open) and (n <= 0 or found.setdefault(d.group, n - d.more) != n - d.more):
            return ()
    return () if min(found.values()) < 0 else tuple(n for _, n in sorted(found.items()))


def _with(met: tuple[int, int], n: int) -> tuple[int, int]:
    """A number that was met, and that of which all differ from it by multiples, with one more."""
    origin, step = met
    return origin, gcd(step, n - origin)


def _with_room(line: Line, common: Common, steps: Sequence[int]) -> Line:
    """The line's shapes with room for the next lengths: at most a quarter more, or 32; where there are two groups, such
    as sentences of a batch and their words, half as much more, up to 64, or 4. `steps`: lengths differ by multiples; a
    network may be for such only, as one that halves and doubles maps.
    """
    one, rooms = len(common) == 1, []
    for n, step in zip(common, steps, strict=True):
        bits = max(n.bit_length(), 3)
        room = max(32 if one else max(min(1 << bits - 2, 64), 4), 1 << bits - 3)
        low, step = n // room * room, max(step, 1)
        least = n - (n - max(low, 1)) // step * step
        if not one:
            room = min(room, MOST_STEP * step)
        rooms.append((least, n + (low + room - n) // step * step, step))
    return _between(line, tuple(rooms))


@lru_cache(64)
def _between(line: Line, rooms: tuple[tuple[int, int, int], ...]) -> Line:
    """The line's shapes for lengths of each group from the least to the greatest, by steps."""

    def between(d: Open) -> Open:
        least, most, step = rooms[d.group]
        return Open(least + d.more, most + d.more, d.more, d.group, step)

    return tuple(tuple(between(d) if isinstance(d, Open) else d for d in shape) for shape in line)
