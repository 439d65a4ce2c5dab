"""Offsets near the threads that write: where each line of a buffer was written last by the thread that writes it next.

A core writes at once where a line lies in its own cache. One that another core wrote last is taken from there, which
costs most; one that nobody touched for long comes from further away, but sooner. What all threads write they write in
even parts, one after the other.

Buffers are placed anew in the order of time, each where its lines cost least, on a grid of CELLS cells. Where one finds
no room, all that are alive while the arena is as full stay where they were, and the others are placed again. At last
all are placed once more, after what the run before wrote. So each buffer takes a few passes over the grid and over
those that stay; there are at most MANY.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import lcm
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..freedoms import threshold
from ..kernels.gemm.pick_dot import L2
from .arena import MANY, Packing
from .packing import Buffer, Problem

if TYPE_CHECKING:
    from .packing import Ints

CELLS = 512
"""Parts of the arena whose lines count as one."""
WORTH = 1 << 18
"""The least bytes of an arena that is rearranged."""
ROOM = 1.25
"""How many times as large it may become, but for the rest of a cell."""
TRIES = 6
"""How often buffers are placed at most."""
NEAR = 2 * L2
"""Bytes that a thread touches until what it wrote before is no longer in its cache."""
OTHER, FAR = 8, 1
"""The cost of writing a line that another thread wrote last, and one that is in no thread's cache."""


class Users(NamedTuple):
    """Who writes buffers, and when. parts: of each buffer the number of the thread that alone uses it, from 1 on, or 0:
    all do. clock: bytes that a thread has touched before each step, and in the end.
    """

    threads: int
    parts: Sequence[int]
    clock: Sequence[int]


def nearer(buffers: Sequence[Buffer], packing: Packing, users: Users) -> Packing:
    """A plan of an arena of at most ROOM times the size, whose lines cost less; or `packing`. The first step is 0."""
    if packing.size < threshold("locality_worth", WORTH) or len(buffers) > threshold("arena_many", MANY):
        return packing
    order = sorted(range(len(buffers)), key=lambda i: (buffers[i].first, -buffers[i].size))
    work, problem = _Work(buffers, users, order), Problem(buffers)
    stay: dict[int, int] = {}
    for _ in range(TRIES):
        lines = _Lines(buffers, int(packing.size * ROOM))
        offsets, step = work.placed(lines, stay)
        if step is None:
            lines.run_over(users.clock[-1])
            again, step = work.placed(lines, stay)
            found = [packing.offsets, offsets] + [again] * (step is None)
            return _packed(buffers, min(found, key=work.cost), packing)
        full = sum(problem.size[i] for i, buffer in enumerate(buffers) if buffer.first <= step <= buffer.last)
        stay = {i: packing.offsets[i] for i in np.flatnonzero(problem.peak >= full).tolist()}
    return packing


def _packed(buffers: Sequence[Buffer], offsets: Sequence[int], packing: Packing) -> Packing:
    if offsets is packing.offsets:
        return packing
    size = max(offset + buffer.size for offset, buffer in zip(offsets, buffers, strict=True))
    return Packing(tuple(offsets), size, packing.bound, "near its writers")


class _Lines:
    """Cells of an arena: the thread that wrote each last, when by the clock, and the last step that needs them.

    They are an odd number of alignments long, so that buffers don't all begin at the same place of a page.
    """

    def __init__(self, buffers: Sequence[Buffer], size: int) -> None:
        unit = lcm(*(buffer.align for buffer in buffers))
        self.cell = unit * (-(-size // (CELLS * unit)) | 1)
        self.count = -(-size // self.cell)
        self.owner: Ints = np.full(self.count, -1)
        self.since: Ints = np.full(self.count, -2 * NEAR)
        self.until: Ints = np.full(self.count, -1)

    def run_over(self, clock: int) -> None:
        """Let a run that took so long by the clock be over."""
        self.until[:] = -1
        self.since -= clock

    def cells(self, offset: int, buffer: Buffer) -> range:
        """The lines of a buffer."""
        return range(offset // self.cell, -(-(offset + buffer.size) // self.cell))

    def lately(self, now: int) -> np.ndarray:
        """Which cells are in the cache of the thread that wrote them."""
        found: np.ndarray = now - self.since < NEAR
        return found

    def taken(self, buffer: Buffer, others: Sequence[tuple[Buffer, range]]) -> np.ndarray:
        """Which cells are not free while the buffer is alive, also those of others that will be there."""
        found = self.until >= buffer.first
        for other, cells in others:
            if other.first <= buffer.last and buffer.first <= other.last:
                found[cells.start : cells.stop] = True
        return found


class _Work(NamedTuple):
    """Buffers, who uses them, and their numbers in the order of time, the largest first."""

    buffers: Sequence[Buffer]
    users: Users
    order: Sequence[int]

    def placed(self, lines: _Lines, stay: Mapping[int, int]) -> tuple[list[int], int | None]:
        """Offsets; or none, and the step that has no room for a buffer. stay: those of some."""
        offsets = [stay.get(i, 0) for i in range(len(self.buffers))]
        others = [(self.buffers[i], lines.cells(at, self.buffers[i])) for i, at in stay.items()]
        for i in self.order:
            if i not in stay:
                at = self._cheapest(i, lines, others)
                if at is None:
                    return [], self.buffers[i].first
                offsets[i] = at * lines.cell
            self._write(i, offsets[i], lines)
        return offsets, None

    def cost(self, offsets: Sequence[int]) -> int:
        """The cost of writing all lines, in a run that follows another."""
        lines, cost = _Lines(self.buffers, max(o + b.size for o, b in zip(offsets, self.buffers, strict=True))), 0
        for i in self.order:
            self._write(i, offsets[i], lines)
        lines.run_over(self.users.clock[-1])
        for i in self.order:
            now, cells = self.users.clock[self.buffers[i].first], lines.cells(offsets[i], self.buffers[i])
            at = slice(cells.start, cells.stop)
            other = lines.owner[at] != _writers(self.users.threads, self.users.parts[i], len(cells))
            cost += int(np.where(lines.lately(now)[at], OTHER * other, FAR).sum())
            self._write(i, offsets[i], lines)
        return cost * lines.cell

    def _write(self, i: int, offset: int, lines: _Lines) -> None:
        """Let threads write a buffer's cells."""
        buffer, clock = self.buffers[i], self.users.clock
        cells = lines.cells(offset, buffer)
        at = slice(cells.start, cells.stop)
        lines.owner[at], lines.until[at] = _writers(self.users.threads, self.users.parts[i], len(cells)), buffer.last
        lines.since[at] = clock[min(buffer.last + 1, len(clock) - 1)]

    def _cheapest(self, i: int, lines: _Lines, others: Sequence[tuple[Buffer, range]]) -> int | None:
        """The first of the free cells from which on a buffer costs least."""
        buffer = self.buffers[i]
        size, lately = len(lines.cells(0, buffer)), lines.lately(self.users.clock[buffer.first])
        free = np.flatnonzero(_sums(lines.taken(buffer, others), size) == 0)
        if not len(free):
            return None
        costs = _sums(np.where(lately, OTHER, FAR), size) - OTHER * self._kept(i, size, lines, lately)
        return int(free[costs[free].argmin()])

    def _kept(self, i: int, size: int, lines: _Lines, lately: np.ndarray) -> Ints:
        """How many of a buffer's cells the same thread wrote lately, if the buffer begins at each cell.

        A cell at p counts from p - end + 1 to p - start, for the share [start, end) of the thread that wrote it.
        """
        cuts, p = _cuts(self.users.threads, self.users.parts[i], size), np.flatnonzero(lately)
        owner, most = lines.owner[p], len(lately) + size + 1
        first, behind = (np.bincount(size + 1 + p - cut, minlength=most) for cut in (cuts[owner + 1], cuts[owner]))
        return (first - behind).cumsum()[size : most - size]


@lru_cache(1024)
def _cuts(threads: int, part: int, size: int) -> Ints:
    """Where each thread's share of so many cells begins, and the last one's end. part: as of `Users`."""
    cuts = np.arange(threads + 1)
    return np.where(cuts < part, 0, size) if part else size * cuts // threads


@lru_cache(1024)
def _writers(threads: int, part: int, size: int) -> Ints:
    """The thread that writes each of so many cells."""
    return np.repeat(np.arange(threads), np.diff(_cuts(threads, part, size)))


def _sums(each: np.ndarray, size: int) -> Ints:
    """The sum of so many cells from each one on."""
    sums = np.concatenate(([0], each.cumsum()))
    return sums[size:] - sums[: max(len(sums) - size, 0)]
