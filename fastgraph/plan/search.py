"""Search for a tighter packing, where the fast methods leave the arena too large. See arena.py for the methods."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .packing import Best, Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .packing import Bools, Ints

NODES_PER_BUFFER = 3

VISIT = 20_000
"""The cost of visiting a node besides its arrays, in units of about a nanosecond."""


def improve(best: Best, rounds: int) -> None:
    """Search below lower and lower ceilings: to the goal, a proof, the last round, the end of effort.

    The first round may prove that the best is optimal, the second wants the bound; both place by area. All others place
    in a random order which favors the sections that failed before.
    """
    rng = random.Random(0)
    p = best.problem
    weight = np.zeros(p.live.shape[1])
    for turn in range(rounds):
        key, fraction = _key(p, rng, weight), (0.25, 0.5, 0.75)[turn % 3]
        if turn < 2:
            key, fraction = (p.sizes * p.life).astype(np.float64), (1.0, 0.0)[turn]
        order: list[int] = np.argsort(-key, kind="stable").tolist()
        search = _Skyline(p, order, best.ceiling(fraction))
        offsets = search.run((NODES_PER_BUFFER if turn > 1 else 4 * NODES_PER_BUFFER) * p.count, best.effort)
        best.effort -= search.spent
        if offsets:
            best.offer(offsets, "skyline")
        if best.done or best.effort <= 0 or (search.exhausted and turn == 0):
            return
        weight *= 0.95
        weight += search.failures / max(search.failures.sum(), 1)


def _key(p: Problem, rng: random.Random, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """A random blend of size, lifetime, crowding and past failures: what to place first."""
    shape = p.sizes ** rng.choice((0.0, 0.5, 1.0, 1.5)) * p.life ** rng.choice((0.3, 0.6, 1.0, 1.5))
    crowd = (p.peak / p.bound) ** rng.choice((0, 2, 8, 50))
    failed = np.where(p.live, weight / max(weight.max(), 1e-9), 0).max(axis=1)
    blend: NDArray[np.float64] = shape * crowd * (1 + rng.choice((3, 50)) * failed)
    amount = rng.choice((0.0, 0.1, 0.3))
    blend *= np.array([1 + amount * rng.random() for _ in range(p.count)])
    return blend


class _Node(NamedTuple):
    """A partial plan: the lowest offset left for each buffer, who is unplaced, what to try."""

    lowest: Ints
    unplaced: Ints
    choices: Iterator[int]


class _Skyline:
    """Depth-first search for a plan below `ceiling`, buffers being placed from the lowest offset up."""

    def __init__(self, p: Problem, order: Sequence[int], ceiling: int) -> None:
        self.p, self.order, self.ceiling = p, order, ceiling
        self.size: Ints = p.sizes[order]
        self.align: Ints = np.array(p.align, np.int64)[order]
        live = p.live[order]
        self.demand: Ints = self.size[:, None] * live
        self.conflicts = [np.flatnonzero(row) for row in p.overlap[order][:, order]]
        near = p.culprits[order]
        self.affected = [slice(int(row.argmax()), len(row) - int(row[::-1].argmax())) for row in near]
        self.touched: list[Bools] = [np.logical_or.reduce(live[:, span], axis=1) for span in self.affected]
        self.failures = np.zeros(live.shape[1])
        self.exhausted = False
        self.spent = 0

    def run(self, budget: int, effort: int) -> list[int] | None:
        """Return the offsets found within `budget` nodes, or None; `exhausted` tells if all were tried."""
        count = self.p.count
        placed: list[tuple[int, int]] = []
        stack = [self._node(np.zeros(count, np.int64), np.arange(count), 0, -1)]
        for _ in range(budget):
            if self.spent > effort:
                return None
            while (i := next(stack[-1].choices, None)) is None:
                stack.pop()
                if not stack:
                    self.exhausted = True
                    return None
                placed.pop()
            node = stack[-1]
            offset = int(node.lowest[i])
            unplaced = node.unplaced[node.unplaced != i]
            if not len(unplaced):
                return self._offsets([*placed, (i, offset)])
            lowest = self._raise(node.lowest, i, offset + int(self.size[i]))
            section = self._overfull(lowest, unplaced, i, offset)
            if section >= 0:
                self.failures[section] += 1
                continue
            placed.append((i, offset))
            stack.append(self._node(lowest, unplaced, offset, i))
        return None

    def _node(self, lowest: Ints, unplaced: Ints, offset: int, last: int) -> _Node:
        """Choices keep (offset, index) increasing (canonical) and leave no gap that a buffer could fill."""
        low = lowest[unplaced]
        fills_gap = low < (low + self.size[unplaced]).min()
        canonical = (low > offset) | ((low == offset) & (unplaced > last))
        choices = unplaced[fills_gap & canonical]
        choices = choices[np.argsort(lowest[choices], kind="stable")]
        return _Node(lowest, unplaced, iter(choices.tolist()))

    def _raise(self, lowest: Ints, i: int, height: int) -> Ints:
        """Return `lowest` with the conflicts of `i` at or above `height`."""
        over = self.conflicts[i]
        raised = lowest.copy()
        floor = height if self.p.uniform else -(-height // self.align[over]) * self.align[over]
        raised[over] = np.maximum(raised[over], floor)
        return raised

    def _overfull(self, lowest: Ints, unplaced: Ints, i: int, offset: int) -> int:
        """Return a section that cannot end below the ceiling now that `i` is at `offset`, or -1.

        Whatever starts at or above a level adds up from it (the one-machine bound with release dates).
        """
        span, rows = self.affected[i], unplaced[self.touched[i][unplaced]]
        self.spent += VISIT + len(rows) * (span.stop - span.start) + self.p.count
        if not len(rows):
            return -1
        low = np.maximum(lowest[rows], offset)
        order = np.argsort(-low, kind="stable")
        height = (self.demand[rows[order], span].cumsum(axis=0) + low[order, None]).max(axis=0)
        section = int(height.argmax())
        return span.start + section if height[section] > self.ceiling else -1

    def _offsets(self, placed: list[tuple[int, int]]) -> list[int]:
        offsets = [0] * self.p.count
        for i, offset in placed:
            offsets[self.order[i]] = offset
        return offsets
