"""Search for a tighter packing, where the fast methods leave the arena too large. See arena.py for the methods."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .packing import Best, Problem, first_fit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .packing import Bools, Ints

WORK_PER_ROUND = 200_000
NODES_PER_BUFFER = 3

LOOK, VISIT = 100, 20_000
"""The cost of looking at a conflict, and of visiting a node of the depth-first search besides its arrays, in units of
about a nanosecond."""


def improve(best: Best, rounds: int) -> None:
    """Run repair, rarer once it stalls, and skyline search: to the goal, a proof, the last round, the end of effort."""
    rng = random.Random(0)
    repair = _Repair(best, rng)
    weight = np.zeros(best.problem.live.shape[1])
    for turn in range(rounds):
        if repair.stale < 2 or turn % 5 == 0:
            repair.round()
        if best.done or best.effort <= 0:
            return
        proved = _skyline_round(best, turn, rng, weight)
        if best.done or proved or best.effort <= 0:
            return


class _Repair:
    """First fit whose order is repaired where it fails; it keeps its order from round to round."""

    RESTART = 8

    def __init__(self, best: Best, rng: random.Random) -> None:
        self.best, self.rng = best, rng
        p = best.problem
        self.conflicts = [set(c) for c in p.conflicts]
        self.degree = sum(map(len, p.conflicts)) / p.count
        self.stale = 0
        self.order = self._start()

    def _start(self) -> list[int]:
        p = self.best.problem
        return order_of(p.sizes.astype(float) * p.life * noise(self.rng, p.count, 0.3 if self.stale else 0.0))

    def round(self) -> None:
        """Move buffers until WORK_PER_ROUND conflicts were looked at; each success lowers the ceiling."""
        p, top = self.best.problem, self.best.top
        if self.stale >= self.RESTART:
            self.order, self.stale = self._start(), 1
        near = self.rng.choice((0.25, 0.5))
        start, offsets = 0, [-1] * p.count
        work = 0.0
        while work < WORK_PER_ROUND and self.best.effort > 0:
            failed = first_fit(p, self.order, start, offsets, self.best.ceiling(0.95))
            spent = (failed - start + 1) * self.degree + p.count
            work += spent
            self.best.effort -= int(spent) * LOOK
            if failed == p.count:
                self.best.offer(offsets, "repair")
                start, offsets = 0, [-1] * p.count
                if self.best.done:
                    return
                continue
            start = self._move_forward(failed, near)
            for i in self.order[start : failed + 1]:
                offsets[i] = -1
        self.stale = 0 if self.best.top < top else self.stale + 1

    def _move_forward(self, failed: int, near: float) -> int:
        """Move the buffer at `failed` before one it conflicts with, likelier a late one. Return where."""
        moved = self.order.pop(failed)
        blockers = [at for at, i in enumerate(self.order[:failed]) if i in self.conflicts[moved]]
        to = blockers[int(len(blockers) * self.rng.random() ** near)] if blockers else 0
        self.order.insert(to, moved)
        return to


def _skyline_round(best: Best, turn: int, rng: random.Random, weight: NDArray[np.float64]) -> bool:
    """Search once below a ceiling; add the sections that failed to `weight`. Return True on a proof.

    The first round may prove that the best is optimal, the second wants the bound; both place by area.
    """
    p = best.problem
    key, fraction = _skyline_key(p, rng, weight), (0.25, 0.5, 0.75)[turn % 3]
    if turn < 2:
        key, fraction = (p.sizes * p.life).astype(np.float64), (1.0, 0.0)[turn]
    search = _Skyline(p, order_of(key), best.ceiling(fraction), jump=turn > 0)
    offsets = search.run((NODES_PER_BUFFER if turn > 1 else 4 * NODES_PER_BUFFER) * p.count, best.effort)
    best.effort -= search.spent
    if offsets:
        best.offer(offsets, "skyline")
    weight *= 0.95
    weight += search.failures / max(search.failures.sum(), 1)
    return search.exhausted and not search.jump


def _skyline_key(p: Problem, rng: random.Random, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a random blend of size, lifetime, crowding and past failures: what to place first."""
    shape = p.sizes ** rng.choice((0.0, 0.5, 1.0, 1.5)) * p.life ** rng.choice((0.3, 0.6, 1.0, 1.5))
    crowd = (p.peak / p.bound) ** rng.choice((0, 2, 8, 50))
    failed = np.where(p.live, weight / max(weight.max(), 1e-9), 0).max(axis=1)
    blend: NDArray[np.float64] = shape * crowd * (1 + rng.choice((3, 50)) * failed)
    return blend * noise(rng, p.count, rng.choice((0.0, 0.1, 0.3)))


@dataclass(slots=True)
class _Node:
    """A partial plan: the lowest offset left for each buffer, who is unplaced, what to try, whom to blame."""

    lowest: Ints
    unplaced: Ints
    choices: Iterator[int]
    blame: Bools


class _Skyline:
    """Depth-first search for a plan below `ceiling`, buffers being placed from the lowest offset up."""

    def __init__(self, p: Problem, order: Sequence[int], ceiling: int, jump: bool) -> None:
        self.p, self.order, self.ceiling, self.jump = p, order, ceiling, jump
        self.size: Ints = p.sizes[order]
        self.align: Ints = np.array(p.align, np.int64)[order]
        live = p.live[order]
        self.demand: Ints = self.size[:, None] * live
        self.conflicts = [np.flatnonzero(row) for row in p.overlap[order][:, order]]
        self.culprits: Bools = p.culprits[order].T
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
        is_placed = np.zeros(count, np.bool_)
        stack = [self._node(np.zeros(count, np.int64), np.arange(count), 0, -1)]
        for _ in range(budget):
            if self.spent > effort:
                return None
            node = stack[-1]
            while (i := next(node.choices, None)) is None:
                if not placed:
                    self.exhausted = True
                    return None
                self._back(stack, placed, is_placed)
                node = stack[-1]
            offset = int(node.lowest[i])
            unplaced = node.unplaced[node.unplaced != i]
            if not len(unplaced):
                return self._offsets([*placed, (i, offset)])
            lowest = self._raise(node.lowest, i, offset + int(self.size[i]))
            section = self._overfull(lowest, unplaced, i, offset)
            if section >= 0:
                node.blame |= self.culprits[section] & is_placed
                self.failures[section] += 1
                continue
            placed.append((i, offset))
            is_placed[i] = True
            stack.append(self._node(lowest, unplaced, offset, i))
        return None

    def _node(self, lowest: Ints, unplaced: Ints, offset: int, last: int) -> _Node:
        """Choices keep (offset, index) increasing (canonical) and leave no gap that a buffer could fill."""
        low = lowest[unplaced]
        fills_gap = low < (low + self.size[unplaced]).min()
        canonical = (low > offset) | ((low == offset) & (unplaced > last))
        choices = unplaced[fills_gap & canonical]
        choices = choices[np.argsort(lowest[choices], kind="stable")]
        return _Node(lowest, unplaced, iter(choices.tolist()), np.zeros(self.p.count, np.bool_))

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

    def _back(self, stack: list[_Node], placed: list[tuple[int, int]], is_placed: Bools) -> None:
        """Drop the last placement; with `jump`, all back to one that had a part in the failure."""
        blame = stack.pop().blame
        i, _ = placed.pop()
        is_placed[i] = False
        while self.jump and placed and not blame[i]:
            stack.pop()
            i, _ = placed.pop()
            is_placed[i] = False
        stack[-1].blame |= blame
        stack[-1].blame[i] = False

    def _offsets(self, placed: list[tuple[int, int]]) -> list[int]:
        offsets = [0] * self.p.count
        for i, offset in placed:
            offsets[self.order[i]] = offset
        return offsets


def order_of(key: NDArray[np.float64]) -> list[int]:
    order: list[int] = np.argsort(-key, kind="stable").tolist()
    return order


def noise(rng: random.Random, count: int, amount: float) -> NDArray[np.float64]:
    return np.array([1 + amount * rng.random() for _ in range(count)])
