"""Shapes on a line: they differ by one number in all open extents of a group, and are the same elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from math import gcd

from ..ir import LENGTHS, MOST_LENGTH, Open
from .keys import Line, Shapes

MOST_ALONE, MOST_EACH = 1 << 15, 128
"""Lengths that a plan is for, of one group and of each of several: tables that are made for it have a row for each, or
for each pair."""

MANY = 16
"""Rooms, from which on there are more only if these served as often again."""
SETTLED, COARSE = 6, 8
"""How many lengths must have met steps, and how large these must be."""

Common = tuple[int, ...]
"""The length that the open extents of each group share."""
Room = tuple[int, int, int]
"""The least and the greatest length of a plan, and the step from one to the next."""


class Path:
    """A line, and what was met on it.

    `line`: shapes whose open extents say their group, and what they are more than the least of it. `steps`: the numbers
    by multiples of which the lengths of each group differ. `met`: the first of these lengths.
    """

    def __init__(self, line: Line, first: Shapes) -> None:
        """`first`: shapes on the line."""
        dims = [*enumerate(chain.from_iterable(line))]
        self._open = [(at, d.more, d.group) for at, d in dims if isinstance(d, Open)]
        self._kept = [at for at, d in dims if not isinstance(d, Open)]
        self._fixed = [d for _, d in dims if not isinstance(d, Open)]
        self.line, self._ranks = line, [*map(len, line)]
        self.steps, self._times = (0,) * len({group for _, _, group in self._open}), 0
        self.met = self.common(first)
        self._wide: dict[tuple[Room, ...], Line] = {}
        self._again = 0

    def common(self, shapes: Shapes) -> Common:
        """The lengths that the open extents of these shapes share; () where they don't lie on the line, or one of them
        is not above 0 or too large.
        """
        if [*map(len, shapes)] != self._ranks:
            return ()
        dims, found = [*chain.from_iterable(shapes)], [0] * len(self.steps)
        for at, more, group in self._open:
            n = dims[at] - more
            if not 0 < n < MOST_LENGTH or n != (found[group] or n):
                return ()
            found[group] = n
        return tuple(found) if [dims[at] for at in self._kept] == self._fixed else ()

    def meet(self, common: Common) -> None:
        """Note shapes on the line."""
        self._times += 1
        self.steps = tuple(gcd(step, n - m) for step, n, m in zip(self.steps, common, self.met, strict=True))

    @property
    def settled(self) -> bool:
        """Whether lengths are likely to go by steps, as heights and widths of images that are multiples of 32 do."""
        return self._times >= SETTLED and max(self.steps) >= COARSE

    def around(self, common: Common, by_steps: bool, near: bool = False) -> Line | None:
        """The line's shapes with room for lengths around these, or `near` them, all or by steps; None where there are
        no others, or there is too much room already that does not serve.
        """
        steps = self.steps if by_steps else (1,) * len(common)
        room_of = _near if near else partial(_room, alone=len(common) == 1)
        rooms = tuple(room_of(n, max(step, 1)) for n, step in zip(common, steps, strict=True))
        if all(least == most for least, most, _ in rooms):
            return None
        if rooms in self._wide:
            self._again += 1
        elif self._again < len(self._wide) >= MANY:
            return None
        else:
            self._wide[rooms] = tuple(
                tuple(_opened(d, rooms[d.group]) if isinstance(d, Open) else d for d in shape) for shape in self.line
            )
        return self._wide[rooms]


def _room(n: int, step: int, *, alone: bool) -> Room:
    """The lengths around one that a plan is for: at most a quarter more, or 32; where there are two groups, such as
    sentences of a batch and their words, half as much more, up to 64, or 4.
    """
    bits = max(n.bit_length(), 3)
    few = 32 if alone else max(min(1 << bits - 2, 64), 4)
    room = min(max(few, 1 << bits - 3), (MOST_ALONE if alone else MOST_EACH) * step)
    low = n // room * room
    return n - (n - max(low, 1)) // step * step, n + (low + room - n) // step * step, step


def _near(n: int, step: int) -> Room:
    """The lengths near one: at most a quarter fewer."""
    room = min(1 << max((n - 1).bit_length(), 3) - 3, MOST_EACH * step)
    low = (n - 1) // room * room
    return n - (n - 1 - low) // step * step, n + (low + room - n) // step * step, step


def _opened(d: Open, room: Room) -> Open:
    least, most, step = room
    return Open(least + d.more, most + d.more, d.more, d.group, step)


def line_through(a: Shapes, b: Shapes) -> Line | None:
    """The line through two sets of shapes; None where there is none.

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


def _pairs(a: Shapes, b: Shapes) -> Iterator[tuple[int, int]]:
    for x, y in zip(a, b, strict=True):
        yield from zip(x, y, strict=True)
