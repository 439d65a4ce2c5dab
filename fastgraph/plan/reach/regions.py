"""Sets of bytes in a buffer: runs at the offsets of nested loops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .call import Loop, Misfit, Reach


@dataclass(frozen=True)
class Region:
    """Runs of `run` bytes from `start` on, one for each combination of the loops' (count, step); steps are positive and
    fall. `places`: more offsets, all of which each run has.
    """

    start: int
    loops: tuple[tuple[int, int], ...]
    run: int
    places: tuple[tuple[int, ...], ...] = ()

    @property
    def end(self) -> int:
        far = sum((n - 1) * step for n, step in self.loops) + sum(max(places) for places in self.places)
        return self.start + far + self.run

    @property
    def size(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        every = "".join(f" for each of {n} every {step}" for n, step in self.loops)
        return f"bytes {self.start}..{self.start + self.run}{every}{' in a table' if self.places else ''}"


def region(reach: Reach, offset: int, distinct: bool) -> Region:
    """The region of a reach in the buffer into which its address points, `offset` bytes from the start. distinct:
    Misfit when two runs share a byte, so that two threads would write it."""
    start = offset + reach.start
    even: list[tuple[int, int]] = []
    places: list[tuple[int, ...]] = []
    for loop in reach.loops:
        first, n, step = _even(loop)
        start += first
        if n == 0:
            assert isinstance(loop, np.ndarray)
            places.append(tuple((np.unique(loop) - first).tolist()))
        elif n > 1:
            even.append((n, step))
        if distinct and isinstance(loop, np.ndarray) and n != len(loop) and len(np.unique(loop)) < len(loop):
            raise Misfit(f"{reach.slot} writes places of a table twice")
    run, loops = reach.run, list[tuple[int, int]]()
    for n, step in sorted(even, key=lambda loop: loop[1]):
        extent = sum((m - 1) * s for m, s in loops) + run
        if distinct and step < extent:
            raise Misfit(f"{reach.slot} writes {n} parts of {extent} bytes that are only {step} apart")
        if not loops and step <= run:
            run += (n - 1) * step
        elif loops and step == loops[-1][0] * loops[-1][1]:
            loops[-1] = loops[-1][0] * n, loops[-1][1]
        else:
            loops.append((n, step))
    if distinct and any(int(np.diff(offsets).min()) < reach.run for offsets in places):
        raise Misfit(f"{reach.slot} writes runs of {reach.run} bytes at places of a table that are less apart")
    return Region(start, tuple(reversed(loops)), run, tuple(places))


def _even(loop: Loop) -> tuple[int, int, int]:
    """(least offset, count, step) of a loop with equally spaced offsets; a count of 0 for others."""
    if not isinstance(loop, np.ndarray):
        n, step = loop
        return min(0, (n - 1) * step), n, abs(step)
    values, steps = loop, np.diff(loop)
    if np.any(steps <= 0):
        values = np.unique(loop)
        steps = np.diff(values)
    if len(values) > 1 and np.any(steps != steps[0]):
        return int(values[0]), 0, 0
    return int(values[0]), len(values), int(steps[0]) if len(values) > 1 else 0


def holds(whole: Region, part: Region) -> bool:
    """Whether all bytes of `part` are in `whole`, which is one run or rows of one (and so has no table)."""
    if not whole.loops:
        return whole.start <= part.start and part.end <= whole.start + whole.run
    ((rows, pitch),) = whole.loops
    row, column = divmod(part.start - whole.start, pitch)
    loops = [each for loop in part.loops for each in _by_rows(*loop, pitch)]
    lines = [((n - 1) * (step // pitch), (n - 1) * (step % pitch)) for n, step in loops]
    for offsets in part.places:
        at = np.asarray(offsets)
        lines.append((int((at // pitch).max()), int((at % pitch).max())))
    last_row, last_column = row + sum(r for r, _ in lines), column + sum(c for _, c in lines)
    return row >= 0 and last_row < rows and last_column + part.run <= whole.run


def _by_rows(n: int, step: int, pitch: int) -> list[tuple[int, int]]:
    """A loop that goes on from one row to the next as one over rows and one within them."""
    across = 0 if pitch % step else pitch // step
    return [(n // across, pitch), (across, step)] if across > 1 and n % across == 0 else [(n, step)]


def meet(one: Region, other: Region) -> bool:
    """Whether two regions of a buffer share a byte."""
    low, high = max(one.start, other.start), min(one.end, other.end)
    if low >= high:
        return False
    mask = np.zeros(max(one.end, other.end), bool)
    fill(mask, one, True)
    return bool(_any(mask, other))


def fill(mask: np.ndarray, place: Region, value: bool | None) -> bool:
    """Set the region's bytes of a mask, or (None) tell whether all are set."""
    if value is None and mask[place.start : place.end].all():
        return True
    view = _view(mask, place)
    if isinstance(view, np.ndarray) and view.dtype == bool:
        if value is not None:
            view[...] = value
        return bool(view.all())
    if value is not None:
        mask[view] = value
    return bool(mask[view].all())


def _any(mask: np.ndarray, place: Region) -> bool:
    view = _view(mask, place)
    return bool((view if view.dtype == bool else mask[view]).any())


def _view(mask: np.ndarray, place: Region) -> np.ndarray:
    """The region's bytes of a mask as a view of it; with tables, their indices."""
    counts, steps = [n for n, _ in place.loops], [step for _, step in place.loops]
    if not place.places:
        part = mask[place.start : place.end]
        return np.lib.stride_tricks.as_strided(part, (*counts, place.run), (*steps, 1))
    index = np.arange(place.start, place.start + place.run)
    for at in (*(np.arange(n) * step for n, step in reversed(place.loops)), *map(np.asarray, place.places)):
        index = (at[:, None] + index.reshape(1, -1)).reshape(-1)
    return index
