"""Ranges of moves that follow from tables, from indices, or from padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from .call import KNOWN, Call, Loop, Reach, need, offsets, parts, reaches, read, write

FAR = 1 << 59
"""Offsets of a take below -FAR mark an element outside."""
KNOWN["places"] = lambda c: c.record().count * prod(n for (n,) in c.each(c.record().rank, "n"))


@reaches("round")
def round_(c: Call) -> Iterator[Reach]:
    """The round's number is read where it is written, except before the first round."""
    yield read("turn", 0 if c.record().first else 8, here=True)


@reaches("pad")
def pad(c: Call) -> Iterator[Reach]:
    """The elements of src that exist; others lie before or behind them."""
    r = c.record()
    loops: list[Loop] = []
    start = 0
    for n, low, inside, s in c.each(r.rank, "n", "low", "inside", "s"):
        first = max(0, -low)
        loops.append((min(inside, n - low) - first, s))
        start += first * s
    yield read("src", r.run, *loops, start=start)


@reaches("scatter", "scatter_reduce")
def scatter(c: Call) -> Iterator[Reach]:
    """Any element that indices can address may be written, by one thread only."""
    r = c.record()
    places = [(r.count, r.i, r.d), *c.each(r.rank, "n", "i", "d")]
    components, loops = c.each(r.depth, "extent", "stride"), [(n, d) for n, _, d in places]
    several = any(i for n, i, _ in places if n > 1)  # else all is offset by the same
    _check_parts(r.parts, r.run, components if several else [], loops)
    run, *apart = _covering(r.run, [*components, *loops])
    if c.kernel == "scatter_reduce":
        yield read("dst", run, *apart, here=True)
    yield write("dst", run, *apart)


def _check_parts(apart: int, run: int, components: Sequence[tuple[int, ...]], loops: Sequence[tuple[int, ...]]) -> None:
    """Misfit unless the parts into which the outermost loops divide a write (`apart`) are disjoint."""
    own, parts = [*loops], 1
    while own and parts < apart:
        parts *= own.pop()[0]
    need(parts == apart, f"{apart} parts are not those of the outermost loops")
    beside = [loop for loop in loops[len(own) :] if loop[0] > 1]
    steps = sorted([*components, *own, *beside], key=lambda loop: abs(loop[1]))
    reach = run
    for n, step in steps:
        need((n, step) not in beside or abs(step) >= reach, f"parts {step} apart have {reach} bytes")
        reach += max(n - 1, 0) * abs(step)


def _covering(run: int, loops: Sequence[tuple[int, ...]]) -> tuple[Any, ...]:
    """A run and disjoint loops of runs that cover all of these."""
    apart: list[tuple[int, ...]] = []
    for n, step in sorted(loops, key=lambda loop: loop[1]):
        need(step >= 0, f"places {step} apart are written backwards")
        extent = sum((m - 1) * s for m, s in apart) + run
        if n > 1 and step <= extent:
            run, apart = extent + (n - 1) * step, []
        elif n != 1:
            apart.append((n, step))
    return run, *apart


@reaches("sample")
def sample(c: Call) -> Iterator[Reach]:
    """A point's coordinates: each axis has its own place in the grid."""
    r = c.record()
    plane = (r.axes, r.mode, r.src_channel, r.dst_channel) == (2, 1, 4, 4)
    need(r.pool == 1 or plane, "means of samples are taken of planes with channels last only")
    grids = parts(r.items, r.share), r.grid_item
    for at, row, column, size in c.each(r.axes, "at", "row", "column", "size"):
        need(size > 0, "an axis has no pixels")
        yield read("grid", r.grid_size, grids, (r.rows * r.pool, row), (r.columns * r.pool, column), start=at)


@reaches("take")
def take(c: Call) -> Iterator[Reach]:
    """The offsets of the tables."""
    r = c.record("rows")
    size = 0 if c.params["runs"] else r.itemsize
    axes = [c.table("table", 3 * r.rows if size == 0 else r.rows)]
    yield read("table", axes[0].nbytes)
    target: list[Loop] = []
    for k, (n, d) in enumerate(c.each(r.rank, "n", "d")):
        axes.append(c.table(f"table{k}", n))
        yield read(f"table{k}", 8 * n)
        target.append((n, d))
    runs = np.stack([np.arange(r.rows) * r.d, axes[0], np.full(r.rows, size)], 1) if size else axes[0].reshape(-1, 3)
    for at in (runs[:, 1], *axes[1:]):
        need(bool(np.all((at >= 0) | (at < -FAR))), "a table has negative offsets that don't lie outside")
    need(bool(np.all(runs[:, 2] >= 0)), "a run has less than 0 bytes")
    outer = [offsets(at[at >= 0]) for at in axes[1:]]
    for run in np.unique(runs[:, 2]).tolist():
        part = runs[runs[:, 2] == run]
        yield read("src", run, *outer, offsets(part[part[:, 1] >= 0, 1]))
        yield write("dst", run, *target, part[:, 0])
