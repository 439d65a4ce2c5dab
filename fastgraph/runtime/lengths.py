"""Shapes that are new in each run, as those of a decoder whose past grows, are run by plans for many lengths."""

from __future__ import annotations

from math import prod

from ..ir import Open, open_axes
from .keys import Credit, Line, Shapes
from .lines import Path, line_through

PRICE, PLANS, OF_PART = 64, 3, 1
"""Of credit: room for longer inputs costs a run little. A part of a plan has credit for one: what it reads was made by
layers, and is new in each run."""
MOST_LINES = 8
"""Lines that are kept in mind."""
STEADY = 4
"""Shapes one after the other on a line from which on it is preferred to one with more groups."""
TRIES = 3
"""How many plans for the same open extents may turn out impossible before no more are tried."""
PAID = 2
"""The time that runs may lose to unused room, in units of a plan's making, before a plan with less room is made:
work is estimated, and plans for many lengths take longer than others."""
NEVER = 1 << 20
"""The loss that is noted for room which is not to be used."""

Axes = tuple[tuple[int, int, int, bool], ...]
"""Inputs, by number, axes of them, their groups, and whether these go by steps."""


class Lengths:
    """The choice of the plan that runs given shapes. Plans for single shapes cost credit, as those for values do
    (`Deciders`).

    Numbers that inputs hold and that decide shapes are treated as shapes are.
    """

    def __init__(self, part: bool) -> None:
        """`part`: whether the model is a part of a plan."""
        self._credit = Credit(PRICE, OF_PART if part else PLANS)
        self._last: Shapes = ()
        self._paths: list[Path] = []
        self._through: Line | None = None
        self._steady = 0
        self._refused: dict[Axes, set[Line]] = {}
        self._lost: dict[Line, float] = {}

    def instead(self, shapes: Shapes, kept: bool) -> Line | None:
        """The open shapes of the plan that is to run these; None for a plan of their own, `kept` or new."""
        last, self._last = self._last, shapes
        found = [(path, common) for path in self._paths if (common := path.common(shapes))]
        groups = len(found[0][1]) if found else 0
        new = None if kept or groups == 1 else self._new(last, shapes, groups)
        if new is not None:
            self._paths = [new, *self._paths][:MOST_LINES]
            found = [(new, new.common(shapes)), *found]
        for path, common in found:
            path.meet(common)
        if self._credit.pays(shapes, kept):
            return None
        for path, common in found:
            for by_steps in (path.settled, not path.settled):
                wide = path.around(common, by_steps)
                if wide is None or self._lost.get(wide, 0) < PAID:
                    near = wide
                else:
                    near = self._paid_by(wide, path.around(common, by_steps, near=True))
                    if near is None:
                        return None
                if near is not None and self._may(near):
                    return near
        return None

    def _paid_by(self, wide: Line, near: Line | None) -> Line | None:
        """Room near the lengths, in place of wider room that runs have lost PAID to."""
        if near is not None and self._lost.get(near, 0) >= PAID:
            wide, near = near, None
        if near not in self._lost:
            self._lost[wide] -= PAID
        if near is not None:
            self._lost.setdefault(near, 0.0)
        return near

    def _new(self, last: Shapes, shapes: Shapes, groups: int) -> Path | None:
        """The line through the last two shapes, if there is none for them, or if shapes keep to it while that has more
        groups.
        """
        line = line_through(last, shapes)
        self._steady = self._steady + 1 if line == self._through else 1
        self._through = line
        if line is None or any(line == path.line for path in self._paths):
            return None
        path = Path(line, last)
        narrower = not groups or len(path.steps) < groups and self._steady >= STEADY
        return path if narrower and path.met and path.common(shapes) else None

    def _may(self, wide: Line) -> bool:
        """Whether a plan for these open shapes may be possible."""
        refused = self._refused.get(_axes(wide), ()) if self._refused else ()
        return wide not in refused and len(refused) < TRIES

    def refuse(self, wide: Line, near: bool) -> None:
        """Note that a plan for these open shapes is not possible, or does not pay; `near`: one with less room may."""
        if near:
            self._lost[wide] = NEVER
        else:
            self._refused.setdefault(_axes(wide), set()).add(wide)

    def ran(self, wide: Line, shapes: Shapes, work: float) -> None:
        """Note that these shapes ran with a plan for open shapes, whose `work` is in what planning takes."""
        if work:
            used = {d.group: n / d.most for line, row in zip(wide, shapes, strict=True) for n, d in _opened(line, row)}
            self._lost[wide] = self._lost.get(wide, 0) + work * (1 - prod(used.values()))

    def paid(self, shapes: Shapes) -> None:
        """Note that a plan was made for these shapes."""
        self._credit.pay(shapes)


def _opened(line: tuple[int | Open, ...], shape: tuple[int, ...]) -> list[tuple[int, Open]]:
    return [(n, d) for n, d in zip(shape, line, strict=True) if isinstance(d, Open)]


def _axes(shapes: Line) -> Axes:
    return tuple((i, axis, d.group, d.step > 1) for i, shape in enumerate(shapes) for axis, d in open_axes(shape))
