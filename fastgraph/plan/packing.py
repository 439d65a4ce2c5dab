"""Buffers as arrays, and the fast packing methods: first fit in fixed orders, and best fit."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]


class Buffer:
    """`size` bytes, alive in steps `first`..`last` inclusive, at an offset that is a multiple of `align`.

    Raises ValueError on an empty lifetime, a negative size or an alignment below one.
    """

    def __init__(self, name: str, first: int, last: int, size: int, align: int = 64) -> None:
        if first > last:
            raise ValueError(f"buffer {name!r}: first step {first} is after last step {last}")
        if size < 0 or align < 1:
            raise ValueError(f"buffer {name!r}: size {size} or align {align} is out of range")
        self.name, self.first, self.last, self.size, self.align = name, first, last, size, align


class Problem:
    """Buffers as arrays. Sizes are padded to the alignment common to all; time is cut to its sections.

    A section is a maximal set of buffers alive at once: buffers overlap in time exactly when they share one; `first`
    and `last` count sections. `pairs` is how many pairs of buffers overlap. The culprits of a section are the buffers
    that overlap one alive in it: they can push its buffers up.
    """

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.count = len(buffers)
        self.unit = math.gcd(*(b.align for b in buffers))
        self.align = [b.align for b in buffers]
        self.uniform = len(set(self.align)) == 1
        self.size = [-(-b.size // self.unit) * self.unit for b in buffers]
        self.sizes: Ints = np.array(self.size, np.int64)
        self.first, self.last, self.sections = _sections(buffers)
        self.life: Ints = self.last - self.first + 1
        change = np.zeros(self.sections + 1, np.int64)
        np.add.at(change, self.first, self.sizes)
        np.add.at(change, self.last + 1, -self.sizes)
        self.load: Ints = change.cumsum()[:-1]
        self.bound = int(self.load.max())
        after = np.searchsorted(np.sort(self.first), self.last, side="right")
        before = np.searchsorted(np.sort(self.last), self.first)
        self.pairs = int((after - before - 1).sum()) // 2

    @cached_property
    def peak(self) -> Ints:
        """The greatest load while each buffer is alive."""
        return np.array([self.load[a : b + 1].max() for a, b in zip(self.first, self.last, strict=True)], np.int64)

    @cached_property
    def conflicts(self) -> list[list[int]]:
        """The buffers that overlap each in time: as much work as there are pairs."""
        found: list[list[int]] = [[] for _ in range(self.count)]
        alive: list[int] = []
        for i in np.argsort(self.first, kind="stable").tolist():
            alive = [j for j in alive if self.last[j] >= self.first[i]]
            for j in alive:
                found[i].append(j)
                found[j].append(i)
            alive.append(i)
        return found

    @cached_property
    def live(self) -> Bools:
        """[buffer, section]: whether the buffer is alive there."""
        sections = np.arange(self.sections)
        return (self.first[:, None] <= sections) & (sections <= self.last[:, None])

    @cached_property
    def overlap(self) -> Bools:
        """[buffer, buffer]: whether both are alive in some section."""
        found = (self.first[:, None] <= self.last) & (self.first <= self.last[:, None])
        np.fill_diagonal(found, False)
        return found

    @cached_property
    def culprits(self) -> Bools:
        """[buffer, section]: whether the buffer is a culprit of the section."""
        reach_first = np.where(self.live, self.first[:, None], self.sections).min(axis=0)
        reach_last = np.where(self.live, self.last[:, None], -1).max(axis=0)
        found: Bools = (self.first[:, None] <= reach_last) & (self.last[:, None] >= reach_first)
        return found

    def top(self, offsets: Sequence[int]) -> int:
        """The padded size of the arena."""
        return max(o + s for o, s in zip(offsets, self.size, strict=True))


class Best:
    """The smallest arena so far, and whether it is small enough; `effort` is what the search may still spend."""

    def __init__(self, problem: Problem, target: float, effort: int) -> None:
        self.problem = problem
        self.effort = effort
        self.goal = int(max(problem.bound, problem.bound * target))
        self.offsets: list[int] = []
        self.top = sum(problem.size) * 2 + max(problem.align) * problem.count
        self.heuristic = ""

    @property
    def done(self) -> bool:
        return self.top <= self.goal

    def offer(self, offsets: list[int], heuristic: str) -> None:
        top = self.problem.top(offsets)
        if top < self.top:
            self.offsets, self.top, self.heuristic = offsets, top, heuristic

    def ceiling(self, fraction: float) -> int:
        """The next arena size to try: the bound at 0, just below the best at 1, but no less than the goal."""
        bound, unit = self.problem.bound, self.problem.unit
        between = bound + int((self.top - unit - bound) * fraction) // unit * unit
        return max(between, self.goal // unit * unit) if fraction else bound


def orders(p: Problem) -> Iterator[tuple[str, list[int]]]:
    """The orders of first fit, by name."""
    keys: dict[str, list[tuple[int, ...]]] = {
        "size": list(zip(p.size, p.life.tolist(), strict=True)),
        "area": list(zip((p.sizes * p.life).tolist(), p.size, strict=True)),
        "breadth": list(zip(p.peak.tolist(), p.size, strict=True)),
        "breadth, lifetime": list(zip(p.peak.tolist(), p.life.tolist(), p.size, strict=True)),
        "first use": list(zip((-p.first).tolist(), p.size, strict=True)),
    }
    for name, key in keys.items():
        yield name, sorted(range(p.count), key=key.__getitem__, reverse=True)


def greedy(best: Best) -> None:
    """First fit in each of the orders, until one is good enough."""
    for name, order in orders(best.problem):
        offsets = first_fit(best.problem, order, best.top - 1)
        if offsets:
            best.offer(offsets, f"greedy by {name}")
        if best.done:
            return


def first_fit(p: Problem, order: Sequence[int], ceiling: int) -> list[int] | None:
    """Offsets of the buffers, each at the lowest that is free when its turn comes; None where one ends above."""
    offsets = [-1] * p.count
    for i in order:
        wanted, step = p.size[i], p.align[i]
        offset = 0
        for low, j in sorted([(offsets[j], j) for j in p.conflicts[i] if offsets[j] >= 0]):
            if low - offset >= wanted:
                break
            high = low + p.size[j]
            if high > offset:
                offset = -(-high // step) * step
        if offset + wanted > ceiling:
            return None
        offsets[i] = offset
    return offsets


def best_fit(p: Problem) -> list[int]:
    """Offsets as an allocator gives them from step to step: the smallest hole that is large enough, else on top.

    n log n steps for n buffers, however many of them overlap.
    """
    align = math.lcm(*p.align)
    size = [-(-s // align) * align for s in p.size]
    offsets, top = [0] * p.count, 0
    holes: list[tuple[int, int]] = []
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}

    def add(low: int, high: int) -> None:
        starts[low], ends[high] = high, low
        insort(holes, (high - low, low))

    def remove(low: int) -> int:
        high = starts.pop(low)
        del ends[high], holes[bisect_left(holes, (high - low, low))]
        return high

    events = [(first, 1, -s, i) for i, (first, s) in enumerate(zip(p.first.tolist(), size, strict=True))]
    events += [(last + 1, 0, 0, i) for i, last in enumerate(p.last.tolist())]
    for _, begins, _, i in sorted(events):
        if not begins:
            low, high = offsets[i], offsets[i] + size[i]
            high = remove(high) if high in starts else high
            if low in ends:
                low = ends[low]
                remove(low)
            add(low, high)
            continue
        at = bisect_left(holes, (size[i], -1))
        low = holes[at][1] if at < len(holes) else ends.get(top, top)
        end = remove(low) if low in starts else low
        offsets[i], high = low, low + size[i]
        if high < end:
            add(high, end)
        top = max(top, high)
    return offsets


def _sections(buffers: Sequence[Buffer]) -> tuple[Ints, Ints, int]:
    """The first and the last section of each buffer, and how many there are."""
    firsts = np.array([b.first for b in buffers], np.int64)
    lasts = np.array([b.last for b in buffers], np.int64)
    # numpy.unique would import numpy.ma, which costs a cold start more than the plan does.
    starts, ends = (np.array(sorted(set(steps.tolist())), np.int64) for steps in (firsts, lasts))
    started = np.searchsorted(starts, ends, side="right")
    steps = ends[np.diff(started, prepend=0) > 0]
    return np.searchsorted(steps, firsts), np.searchsorted(steps, lasts, side="right") - 1, len(steps)
