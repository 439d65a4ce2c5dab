"""Arena planner: byte offsets for buffers with lifetimes, so that no two alive at once overlap.

The problem is dynamic storage allocation (NP-hard). Three methods run in turn, until one is near the bound:

1. first fit in a few fixed orders: milliseconds, enough for most networks;
2. repair: first fit under a ceiling; the buffer that does not fit moves forward in the order, next to one
   that blocks it, and placing resumes there (squeaky wheel optimisation, Joslin & Clements 1999);
3. skyline: a depth-first search under a ceiling which places buffers from the bottom up, with the canonical
   order and dominance rules of MiniMalloc (Moffitt 2023), a release-date bound on every section of time,
   back-jumping, and restarts in a randomised order which favours the sections that failed before.

Effort is counted in rounds and randomness is seeded: the same buffers always get the same plan, unless the
cap in seconds cuts the search short.
"""

from __future__ import annotations

import math
import random
import string
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

TARGET = 1.02
"""Stop searching when the arena is at most this many times the lower bound."""

ROUNDS = 24
"""Rounds of search before giving up on TARGET; one takes about 50 ms for 200 buffers."""

SECONDS = 10.0
"""Safety cap on the search; the machine's speed shows in the plan only when it is hit."""

WORK_PER_ROUND = 200_000
NODES_PER_BUFFER = 3

_LETTERS = string.ascii_letters + string.digits

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Buffer:
    """`size` bytes, alive in steps `first`..`last` inclusive, at an offset that is a multiple of `align`.

    Raises ValueError on an empty lifetime, a negative size or an alignment below one.
    """

    name: str
    first: int
    last: int
    size: int
    align: int = 64

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise ValueError(f"buffer {self.name!r}: first step {self.first} is after last step {self.last}")
        if self.size < 0 or self.align < 1:
            raise ValueError(f"buffer {self.name!r}: size {self.size} or align {self.align} is out of range")


@dataclass(frozen=True)
class Plan:
    """Byte `offsets` in the order of the buffers given, the arena's `size` and its lower `bound` in bytes.

    `heuristic` names the method that found it.
    """

    offsets: tuple[int, ...]
    size: int
    bound: int
    heuristic: str


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """Return the largest sum over a step of the live sizes, in bytes, not counting padding for alignment."""
    change: dict[int, int] = {}
    for b in buffers:
        change[b.first] = change.get(b.first, 0) + b.size
        change[b.last + 1] = change.get(b.last + 1, 0) - b.size
    return max(accumulate(change[step] for step in sorted(change)), default=0)


def plan(
    buffers: Sequence[Buffer], *, target: float = TARGET, rounds: int = ROUNDS, seconds: float = SECONDS
) -> Plan:
    """Return offsets for `buffers`, at most `target` times the lower bound where the effort allows.

    The bound that `target` multiplies counts padding to the common alignment, so that it can be reached.
    With one alignment for all, the size is at most the sum of the aligned sizes. `rounds` limits the search
    after the greedy orders (0: greedy only) and `seconds` caps its time. Only buffers of more than 0 bytes
    take part; the others get offset 0.
    """
    deadline = time.monotonic() + seconds
    solid = [i for i, b in enumerate(buffers) if b.size]
    offsets = [0] * len(buffers)
    heuristic = "empty"
    if solid:
        best = _Best(_Problem([buffers[i] for i in solid]), target)
        _greedy(best)
        if not best.done:
            _improve(best, rounds, deadline)
        heuristic = best.heuristic
        for i, offset in zip(solid, best.offsets, strict=True):
            offsets[i] = offset
    size = max((o + b.size for o, b in zip(offsets, buffers, strict=True)), default=0)
    return Plan(tuple(offsets), size, lower_bound(buffers), heuristic)


def draw(buffers: Sequence[Buffer], plan: Plan, width: int = 64, rows: int = 100) -> str:
    """Return a picture of `plan`: a row per step (at most `rows`), a column per slice of memory.

    Letters are the buffers of the legend, dots are free bytes; of several in a column the last shows.
    """
    slice_size = max(1, -(-plan.size // width))
    letters = [_LETTERS[i % len(_LETTERS)] for i in range(len(buffers))]
    ratio = f" ({plan.size / plan.bound:.3f} x)" if plan.bound else ""
    lines = [f"arena {plan.size} bytes, bound {plan.bound}{ratio}, {plan.heuristic}"]
    lines.append(f"one column = {slice_size} bytes")
    steps = sorted({b.first for b in buffers} | {b.last for b in buffers})
    shown = steps[:: max(1, -(-len(steps) // rows))]
    margin = max((len(str(step)) for step in shown), default=0) + 2
    for step in shown:
        row = ["."] * width
        for letter, b, offset in zip(letters, buffers, plan.offsets, strict=True):
            if b.size and b.first <= step <= b.last:
                left, right = offset // slice_size, -(-(offset + b.size) // slice_size)
                row[left:right] = letter * (right - left)
        lines.append(f"{step:{margin}} |{''.join(row)}|")
    for letter, b, offset in zip(letters, buffers, plan.offsets, strict=True):
        lines.append(f"  {letter} {b.name}: bytes {offset}..{offset + b.size}, steps {b.first}..{b.last}")
    return "\n".join(lines)


class _Problem:
    """Buffers as arrays. Sizes are padded to the alignment common to all; time is cut to its sections.

    A section is a maximal set of buffers alive at once: buffers overlap in time exactly when they share one.
    The culprits of a section are the buffers that overlap one alive in it: they can push its buffers up.
    """

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.count = len(buffers)
        self.unit = math.gcd(*(b.align for b in buffers))
        self.align = [b.align for b in buffers]
        self.uniform = len(set(self.align)) == 1
        self.size = [_round_up(b.size, self.unit) for b in buffers]
        self.sizes: Ints = np.array(self.size, np.int64)
        self.live = _sections(buffers)
        self.load: Ints = self.sizes @ self.live
        self.bound = int(self.load.max())
        first = self.live.argmax(axis=1)
        self.life: Ints = self.live.sum(axis=1)
        last = first + self.life - 1
        self.overlap: Bools = (first[:, None] <= last) & (first <= last[:, None])
        np.fill_diagonal(self.overlap, False)
        reach_first = np.where(self.live, first[:, None], len(self.load)).min(axis=0)
        reach_last = np.where(self.live, last[:, None], -1).max(axis=0)
        self.culprits: Bools = (first[:, None] <= reach_last) & (last[:, None] >= reach_first)
        self.conflicts: list[list[int]] = [np.flatnonzero(row).tolist() for row in self.overlap]
        self.peak: Ints = np.where(self.live, self.load, 0).max(axis=1)

    def top(self, offsets: Sequence[int]) -> int:
        """Return the padded size of the arena."""
        return max(o + s for o, s in zip(offsets, self.size, strict=True))


class _Best:
    """The smallest arena so far, and whether it is small enough."""

    def __init__(self, problem: _Problem, target: float) -> None:
        self.problem = problem
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
        """Return a size to try: at 0 the bound, at 1 just below the best; else no less than the goal."""
        bound, unit = self.problem.bound, self.problem.unit
        between = bound + int((self.top - unit - bound) * fraction) // unit * unit
        return max(between, self.goal // unit * unit) if fraction else bound


def _greedy(best: _Best) -> None:
    p = best.problem
    keys: dict[str, list[tuple[int, ...]]] = {
        "size": list(zip(p.size, p.life.tolist(), strict=True)),
        "area": list(zip((p.sizes * p.life).tolist(), p.size, strict=True)),
        "breadth": list(zip(p.peak.tolist(), p.size, strict=True)),
        "breadth, lifetime": list(zip(p.peak.tolist(), p.life.tolist(), p.size, strict=True)),
        "first use": list(zip((-p.live.argmax(axis=1)).tolist(), p.size, strict=True)),
    }
    for name, key in keys.items():
        order = sorted(range(p.count), key=key.__getitem__, reverse=True)
        offsets = [-1] * p.count
        if _first_fit(p, order, 0, offsets, best.top - 1) == p.count:
            best.offer(offsets, f"greedy by {name}")
        if best.done:
            return


def _first_fit(p: _Problem, order: Sequence[int], start: int, offsets: list[int], ceiling: int) -> int:
    """Place `order[start:]` at the lowest free offsets. Return the position of the first that ends above.

    Offset -1 means not placed; all of `order[start:]` must be so. The result is `p.count` if all fit.
    """
    size, align, conflicts = p.size, p.align, p.conflicts
    for position in range(start, p.count):
        i = order[position]
        wanted, step = size[i], align[i]
        offset = 0
        for low, j in sorted([(offsets[j], j) for j in conflicts[i] if offsets[j] >= 0]):
            if low - offset >= wanted:
                break
            high = low + size[j]
            if high > offset:
                offset = -(-high // step) * step
        if offset + wanted > ceiling:
            return position
        offsets[i] = offset
    return p.count


def _improve(best: _Best, rounds: int, deadline: float) -> None:
    """Run repair, rarer once it stalls, and skyline search until the goal, a proof, or the last round."""
    rng = random.Random(0)
    repair = _Repair(best, rng)
    weight = np.zeros(best.problem.live.shape[1])
    for turn in range(rounds):
        if repair.stale < 2 or turn % 5 == 0:
            repair.round(deadline)
        if best.done or time.monotonic() > deadline:
            return
        proved = _skyline_round(best, turn, rng, weight, deadline)
        if best.done or proved or time.monotonic() > deadline:
            return


class _Repair:
    """First fit whose order is repaired where it fails; it keeps its order from round to round."""

    RESTART = 8

    def __init__(self, best: _Best, rng: random.Random) -> None:
        self.best, self.rng = best, rng
        p = best.problem
        self.conflicts = [set(c) for c in p.conflicts]
        self.degree = sum(map(len, p.conflicts)) / p.count
        self.stale = 0
        self.order = self._start()

    def _start(self) -> list[int]:
        p = self.best.problem
        return _order(p.sizes.astype(float) * p.life * _noise(self.rng, p.count, 0.3 if self.stale else 0.0))

    def round(self, deadline: float) -> None:
        """Move buffers until WORK_PER_ROUND conflicts were looked at; each success lowers the ceiling."""
        p, top = self.best.problem, self.best.top
        if self.stale >= self.RESTART:
            self.order, self.stale = self._start(), 1
        near = self.rng.choice((0.25, 0.5))
        start, offsets = 0, [-1] * p.count
        work = 0.0
        while work < WORK_PER_ROUND and time.monotonic() < deadline:
            failed = _first_fit(p, self.order, start, offsets, self.best.ceiling(0.95))
            work += (failed - start + 1) * self.degree + p.count
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


def _skyline_round(
    best: _Best, turn: int, rng: random.Random, weight: NDArray[np.float64], deadline: float
) -> bool:
    """Search once below a ceiling; add the sections that failed to `weight`. Return True on a proof.

    The first round may prove that the best is optimal, the second wants the bound; both place by area.
    """
    p = best.problem
    key, fraction = _skyline_key(p, rng, weight), (0.25, 0.5, 0.75)[turn % 3]
    if turn < 2:
        key, fraction = (p.sizes * p.life).astype(np.float64), (1.0, 0.0)[turn]
    search = _Skyline(p, _order(key), best.ceiling(fraction), jump=turn > 0)
    offsets = search.run((NODES_PER_BUFFER if turn > 1 else 4 * NODES_PER_BUFFER) * p.count, deadline)
    if offsets:
        best.offer(offsets, "skyline")
    weight *= 0.95
    weight += search.failures / max(search.failures.sum(), 1)
    return search.exhausted and not search.jump


def _skyline_key(p: _Problem, rng: random.Random, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a random blend of size, lifetime, crowding and past failures: what to place first."""
    shape = p.sizes ** rng.choice((0.0, 0.5, 1.0, 1.5)) * p.life ** rng.choice((0.3, 0.6, 1.0, 1.5))
    crowd = (p.peak / p.bound) ** rng.choice((0, 2, 8, 50))
    failed = np.where(p.live, weight / max(weight.max(), 1e-9), 0).max(axis=1)
    blend: NDArray[np.float64] = shape * crowd * (1 + rng.choice((3, 50)) * failed)
    return blend * _noise(rng, p.count, rng.choice((0.0, 0.1, 0.3)))


@dataclass(slots=True)
class _Node:
    """A partial plan: the lowest offset left for each buffer, who is unplaced, what to try, whom to blame."""

    lowest: Ints
    unplaced: Ints
    choices: Iterator[int]
    blame: Bools


class _Skyline:
    """Depth-first search for a plan below `ceiling`, buffers being placed from the lowest offset up."""

    def __init__(self, p: _Problem, order: Sequence[int], ceiling: int, jump: bool) -> None:
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

    def run(self, budget: int, deadline: float) -> list[int] | None:
        """Return the offsets found within `budget` nodes, or None; `exhausted` tells if all were tried."""
        count = self.p.count
        placed: list[tuple[int, int]] = []
        is_placed = np.zeros(count, np.bool_)
        stack = [self._node(np.zeros(count, np.int64), np.arange(count), 0, -1)]
        for visit in range(budget):
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
            if visit % 64 == 0 and time.monotonic() > deadline:
                return None
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


def _sections(buffers: Sequence[Buffer]) -> Bools:
    """Return [buffer, section]: who is alive in each maximal set of buffers alive at once."""
    firsts = np.array([b.first for b in buffers], np.int64)
    lasts = np.array([b.last for b in buffers], np.int64)
    # numpy.unique would import numpy.ma, which costs a cold start more than the plan does.
    starts, ends = (np.array(sorted(set(steps.tolist())), np.int64) for steps in (firsts, lasts))
    started = np.searchsorted(starts, ends, side="right")
    steps = ends[np.diff(started, prepend=0) > 0]
    return (firsts[:, None] <= steps) & (steps <= lasts[:, None])


def _order(key: NDArray[np.float64]) -> list[int]:
    order: list[int] = np.argsort(-key, kind="stable").tolist()
    return order


def _noise(rng: random.Random, count: int, amount: float) -> NDArray[np.float64]:
    return np.array([1 + amount * rng.random() for _ in range(count)])


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
