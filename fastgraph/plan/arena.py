"""Arena planner: byte offsets for buffers with lifetimes, so that no two alive at once overlap.

The problem is dynamic storage allocation (NP-hard). Two methods run in turn, until one is near the bound:

1. first fit in a few fixed orders: milliseconds, enough for most networks;
2. skyline: a depth-first search under a ceiling which places buffers from the bottom up, with the canonical
   order and dominance rules of MiniMalloc (Moffitt 2023), a release-date bound on every section of time,
   and restarts in a randomized order which favors the sections that failed before.

Of very many buffers, or very many that overlap, each in its turn takes the smallest hole (best fit), and only if
not too many overlap first fit is tried too: that takes n log n steps.

Effort is counted, and randomness is seeded: the same buffers always get the same plan.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from ..freedoms import threshold
from .packing import Best, Buffer, Problem, best_fit, greedy

TARGET = 1.02
"""Stop searching when the arena is at most this many times the lower bound."""

ROUNDS = 24
"""Rounds of search before giving up on TARGET; one takes about 50 ms for 200 buffers."""

EFFORT = 2_000_000_000
"""Most that the search may spend, in units of about a nanosecond."""

MANY = 1500
"""Of more buffers than this, no plan is searched for."""

PAIRS = 300_000
"""Where more pairs of buffers are alive at once, first fit takes too long: it looks at every pair in each order."""

_LETTERS = string.ascii_letters + string.digits


class Packing(NamedTuple):
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


def plan(buffers: Sequence[Buffer], *, target: float = TARGET, rounds: int = ROUNDS, effort: int = EFFORT) -> Packing:
    """Return offsets for `buffers`, at most `target` times the lower bound where the effort allows.

    The bound that `target` multiplies counts padding to the common alignment, so that it can be reached.
    With one alignment for all, the size is at most the sum of the aligned sizes. `rounds` limits the search
    after the greedy orders (0: greedy only), and so does `effort`. Only buffers of more than 0 bytes
    take part; the others get offset 0.
    """
    solid = [i for i, b in enumerate(buffers) if b.size]
    offsets = [0] * len(buffers)
    heuristic = "empty"
    if solid:
        best = Best(Problem([buffers[i] for i in solid]), target, effort)
        _pack(best, rounds)
        heuristic = best.heuristic
        for i, offset in zip(solid, best.offsets, strict=True):
            offsets[i] = offset
    size = max((o + b.size for o, b in zip(offsets, buffers, strict=True)), default=0)
    return Packing(tuple(offsets), size, lower_bound(buffers), heuristic)


def _pack(best: Best, rounds: int) -> None:
    p = best.problem
    crowded, many = p.pairs > threshold("arena_pairs", PAIRS), p.count > threshold("arena_many", MANY)
    if crowded or many:
        best.offer(best_fit(p), "best fit")
    if not best.done and not crowded:
        greedy(best)
    if not best.done and not crowded and not many:
        from .search import improve

        improve(best, rounds)


def draw(buffers: Sequence[Buffer], plan: Packing, width: int = 64, rows: int = 100) -> str:
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
