"""What the data-movement kernels reach: copies, transposes, pads, gathers, resizes."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from ...kernels.move.rows import (
    BOX,
    CUBIC,
    DEPTH,
    LEFT_OUT,
    LINEAR,
    MOVED,
    NARROW,
    NEAREST,
    NUMBERS,
    OPERATIONS,
    REPORTED,
    SAMPLED,
    SHORT,
    WORDS,
    entry_bytes,
    size_of,
)
from .call import SIZES, Call, Loop, Numbers, Reach, need, offsets, parts, reaches, read, short, work, write

FAR = 1 << 59
"""Offsets of a take below -FAR say that a place lies outside."""


def _sides(c: Call) -> tuple[list[Loop], list[Loop]]:
    """The outer loops of source and destination."""
    dims = list(c.outer("n s d"))
    return [(n, s) for n, s, _ in dims], [(n, d) for n, _, d in dims]


@reaches("copy")
def copy(c: Call) -> Iterator[Reach]:
    r = c.record("count rows", "itemsize")
    size, mode = r.itemsize, c.params["mode"]
    need(size in WORDS and (size == 1 or mode != "run"), f"itemsize is {size} in mode {mode!r}")
    source, target = _sides(c)
    source, target = [*source, (r.rows, r.row_s)], [*target, (r.rows, r.row_d)]
    if mode == "step":
        yield read("src", size, *source, (r.count, r.step_s))
        yield write("dst", size, *target, (r.count, r.step_d))
        return
    need(r.step_d == size, f"step_d is {r.step_d} in rows of {size} bytes an element")
    need(r.step_s == (1 if mode == "run" else 0), f"step_s is {r.step_s} in mode {mode!r}")
    yield read("src", size if mode == "fill" and r.count else size * r.count, *source)
    yield write("dst", size * r.count, *target)


@reaches("transpose")
def transpose(c: Call) -> Iterator[Reach]:
    r = c.record("rows cols", "high wide", "few")
    size, narrow = c.params["itemsize"], c.params["narrow"]
    need(2 <= narrow * r.few <= NARROW if narrow else r.few == 0, f"few is {r.few}, but narrow is {narrow}")
    lanes = {1: 16, 2: 8, 4: c.lanes, 8: max(2, c.lanes // 2)}[size]
    source, target = _sides(c)
    over = 0
    if narrow:
        few, many, step = (r.cols, r.rows, r.row_d) if narrow > 0 else (r.rows, r.cols, r.col_s)
        need(few == abs(r.few) and step == few * size, f"few is {r.few}, but {few} lie {step} bytes apart")
        need(many >= lanes, f"{many} places, less than the {lanes} of a tile")
    elif r.rows < lanes or r.cols < lanes:
        over = short(r.rows, lanes) * size
    need(r.high % lanes == 0, f"high is {r.high}, expected a multiple of {lanes}")
    yield read("src", r.rows * size, *source, (r.cols, r.col_s), over=over)
    yield write("dst", r.cols * size, *target, (r.rows, r.row_d))


@reaches("slice")
def slice_(c: Call) -> Iterator[Reach]:
    r = c.record("turns rows run")
    need(r.turns > 0, "no slice")
    yield read("turn", 8)
    yield read("src", r.run, *_slices(r.turns, r.turn_s), (r.rows, r.row_s))
    yield write("dst", r.run, *_slices(r.turns, r.turn_d), (r.rows, r.row_d))


def _slices(turns: int, step: int) -> list[Loop]:
    """Where the slices of all rounds lie; all in one place if `step` is 0."""
    return [(turns, step)] if step else []


@reaches("round")
def round_(c: Call) -> Iterator[Reach]:
    r = c.record(numbers="first")
    yield read("turn", 0 if r.first else 8, here=True)
    yield read("limit", 8)
    yield read("test", 1)
    yield write("turn", 8)
    yield write("go", 1)


@reaches("pad")
def pad(c: Call) -> Iterator[Reach]:
    r = c.record("left run right")
    source: list[Loop] = []
    target: list[Loop] = []
    start = 0
    for n, low, inside, s, d in c.outer("n low inside s d"):
        first = max(0, -low)
        source.append((min(inside, n - low) - first, s))
        target.append((n, d))
        start += first * s
    yield read("src", r.run, *source, start=start)
    yield write("dst", r.left + r.run + r.right, *target)


def _places(c: Call) -> tuple[Numbers, int, list[tuple[int, int]], list[tuple[int, int, int, int]]]:
    """The record, bytes of a run, (extent, stride) of each index of a place, (n, s, i, d) of the loops, inner first.

    No bytes where there are no places.
    """
    r = c.record("signed component run count outside", "depth parts", "s i d")
    need(r.index_size in WORDS, f"index_size is {r.index_size}, expected one of {WORDS}")
    need(r.depth <= DEPTH, f"depth is {r.depth}, expected at most {DEPTH}")
    need(r.outside in (REPORTED, MOVED, LEFT_OUT), f"outside is {r.outside}")
    need(r.outside != LEFT_OUT or c.kernel != "gather", "a gather leaves nothing out")
    need(r.word in (0, r.run) and r.word in (0, *WORDS), f"word is {r.word}, and run {r.run}")
    components = [(getattr(r, f"extent{k}"), getattr(r, f"stride{k}")) for k in range(r.depth)]
    need(all(extent > 0 for extent, _ in components), "an index can say no place")
    loops = [(r.count, r.s, r.i, r.d), *((n, s, i, d) for n, s, i, d in c.outer("n s i d"))]
    total = prod(n for n, *_ in loops)
    need(total % r.parts == 0, f"{total} places in {r.parts} parts")
    return r, r.run if total else 0, components, loops


def _indices(c: Call, r: Numbers, loops: list[tuple[int, int, int, int]]) -> Iterator[Reach]:
    yield read("index", r.index_size, (r.depth, r.component), *((n, i) for n, _, i, _ in loops))
    yield write("error", 8 if r.outside == REPORTED and all(n for n, *_ in loops) else 0)


@reaches("gather")
def gather(c: Call) -> Iterator[Reach]:
    r, run, components, loops = _places(c)
    yield from _indices(c, r, loops)
    yield read("src", run, *components, *((n, s) for n, s, _, _ in loops))
    yield write("dst", run, *((n, d) for n, _, _, d in loops))


@reaches("scatter", "scatter_reduce")
def scatter(c: Call) -> Iterator[Reach]:
    r, run, components, loops = _places(c)
    yield from _indices(c, r, loops)
    yield read("src", run, *((n, s) for n, s, _, _ in loops))
    steps = [*components, *((n, d) for n, _, _, d in loops)]
    several = any(i for n, _, i, _ in loops if n > 1)  # else all is offset by the same
    _share(r.parts, run, components if several else [], [(n, d) for n, _, _, d in loops])
    if c.kernel == "scatter_reduce":
        known = 0 <= r.kind < len(NUMBERS) and 0 <= r.operation < len(OPERATIONS)
        need(known, f"kind is {r.kind}, operation {r.operation}")
        need(r.run % size_of(NUMBERS[r.kind]) == 0, f"run is {r.run}, of {NUMBERS[r.kind]}")
        yield read("dst", *_covering(run, steps), here=True)
    yield write("dst", *_covering(run, steps))


def _share(apart: int, run: int, components: list[tuple[int, int]], loops: list[tuple[int, int]]) -> None:
    """Misfit unless the outermost loops, which make `apart` parts, write each in a place of its own."""
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


def _covering(run: int, loops: list[tuple[int, int]]) -> tuple[Any, ...]:
    """A run and loops of runs that lie apart from one another, which all of these are within."""
    apart: list[tuple[int, int]] = []
    for n, step in sorted(loops, key=lambda loop: loop[1]):
        need(step >= 0, f"places {step} apart are written backwards")
        extent = sum((m - 1) * s for m, s in apart) + run
        if n > 1 and step <= extent:
            run, apart = extent + (n - 1) * step, []
        elif n != 1:
            apart.append((n, step))
    return run, *apart


def _at_run_time(c: Call, used: int) -> Iterator[Reach]:
    """The numbers that are known at run time only, where there are any."""
    for name in ("count", "wanted"):
        yield read(name, 8 if used and c.slots[name] != 0 else 0)


@reaches("non_zero")
def non_zero(c: Call) -> Iterator[Reach]:
    r = c.record("rank n", "size", "real")
    need(r.size in WORDS, f"size is {r.size}, expected one of {WORDS}")
    need(r.real in (0, 1), f"real is {r.real}")
    need(r.rank > 0, f"rank is {r.rank}")
    dims = c.table("dims", r.rank)
    need(min(dims) > 0 and prod(map(int, dims)) == r.n, f"{r.n} elements of extents {list(dims)}")
    yield read("x", r.n * r.size)
    yield read("dims", 8 * r.rank)
    yield write("places", 8 * r.rank * r.n)
    yield write("count", 8)


@reaches("top_k")
def top_k(c: Call) -> Iterator[Reach]:
    r = c.record("outer inner least scratch_bytes", "k n")
    need(r.k <= r.n < 1 << 32, f"the best {r.k} of {r.n}")
    need(0 <= r.kind < len(NUMBERS), f"kind is {r.kind}")
    need(r.least in (0, 1), f"least is {r.least}")
    size, wide = size_of(NUMBERS[r.kind]), c.params["wide"]
    need(r.size == size and (size == 8) == wide, f"size is {r.size}, of elements of {size} bytes")
    need(r.k * entry_bytes(wide) <= r.scratch_bytes, f"scratch_bytes is {r.scratch_bytes} for {r.k} entries")
    rows = r.outer * r.inner
    yield read("x", rows * r.n * size)
    yield from _at_run_time(c, rows)
    yield work("scratch", r.k * entry_bytes(wide) if rows else 0, (c.threads, r.scratch_bytes))
    yield write("values", rows * r.k * size)
    yield write("places", rows * r.k * 8)


@reaches("backwards")
def backwards(c: Call) -> Iterator[Reach]:
    r = c.record("signed count steps")
    need(r.index_size in WORDS, f"index_size is {r.index_size}, expected one of {WORDS}")
    yield read("lengths", r.count * r.index_size)
    yield write("places", 8 * r.count * r.steps)


@reaches("triangle")
def triangle(c: Call) -> Iterator[Reach]:
    r = c.record("matrices rows columns")
    need(r.size in WORDS and r.upper in (0, 1), f"size {r.size}, upper {r.upper}")
    total = r.matrices * r.rows * r.columns * r.size
    yield read("k", 8)
    yield read("src", total)
    yield write("dst", total)


@reaches("sample")
def sample(c: Call) -> Iterator[Reach]:
    r = c.record("items channels fold", "rows columns share image_count axes", "grid_item pad")
    need(r.grid_size in (4, 8), f"grid_size is {r.grid_size}")
    need(r.axes <= SAMPLED, f"axes is {r.axes}")
    need(r.mode in (NEAREST, LINEAR, CUBIC) and r.outside in range(4), f"mode {r.mode}, outside {r.outside}")
    points = r.rows * r.columns
    used = 4 if r.items and r.channels else 0
    places = []
    for k in range(r.axes):
        size, stride = getattr(r, f"size{k}"), getattr(r, f"stride{k}")
        need(size > 0, f"size{k} is {size}, expected 1 or more")
        places.append((size, stride))
        grid = (r.rows, getattr(r, f"row{k}")), (r.columns, getattr(r, f"column{k}"))
        grids = parts(r.items, r.share), r.grid_item
        yield read("grid", r.grid_size if r.items else 0, grids, *grid, start=getattr(r, f"at{k}"))
    yield read("images", 8 * r.items)
    yield write("error", 8 if r.items else 0)
    yield read("src", used, (r.image_count, r.src_image), (r.channels, r.src_channel), *places)
    yield write("dst", points * used, (r.items, r.dst_item), (r.channels, r.dst_channel))


@reaches("suppress")
def suppress(c: Call) -> Iterator[Reach]:
    r = c.record("items n most scratch_bytes centered strict reaches", "share", "empty")
    need(r.n < 1 << 32, f"n is {r.n}")
    kept = parts(r.most + c.lanes, c.lanes) * c.lanes
    need(8 * r.n + 4 * BOX * kept <= r.scratch_bytes, f"scratch_bytes is {r.scratch_bytes}")
    need((r.scratch_bytes - 8 * r.n) % (4 * BOX) == 0, f"scratch_bytes is {r.scratch_bytes}, n {r.n}")
    used = int(r.items > 0)
    yield read("boxes", 16 * r.n * parts(r.items, r.share))
    yield read("scores", 4 * r.n * r.items)
    yield from _at_run_time(c, used)
    yield read("limit", 4 * used)
    yield read("least", 4 * used if c.slots["least"] != 0 else 0)
    yield work("scratch", used * r.scratch_bytes, (c.threads, r.scratch_bytes))
    yield write("places", 8 * r.most * r.items)
    yield write("counts", 8 * r.items)
    yield write("found", 4 * r.most * r.items if c.slots["found"] != 0 else 0)


@reaches("take")
def take(c: Call) -> Iterator[Reach]:
    r = c.record("rows itemsize", numbers="d")
    size = 0 if c.params["runs"] else r.itemsize
    need(c.params["runs"] or size in WORDS, f"itemsize is {size}, expected one of {WORDS}")
    axes = [c.table("table", 3 * r.rows if size == 0 else r.rows)]
    yield read("table", axes[0].nbytes)
    target: list[Loop] = []
    for k, (n, d) in enumerate(c.outer("n d")):
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


@reaches("resize")
def resize(c: Call) -> Iterator[Reach]:
    r = c.record("taps outer n run")
    source, target = SIZES[c.params["source"]], SIZES[c.params["target"]]
    used = r.n if r.outer else 0
    table = c.table("offset", used * r.taps).reshape(used, r.taps)
    yield read("offset", 8 * used * r.taps)
    yield read("weight", 4 * used * r.taps)
    yield read("bias", 4 * used)
    over = 0 if r.run <= SHORT else short(r.run, c.lanes) * source
    yield read("src", r.run * source, (r.outer, r.outer_s), offsets(table), over=over)
    yield write("dst", r.run * target, (r.outer, r.outer_d), (r.n, r.d))


@reaches("bilinear")
def bilinear(c: Call) -> Iterator[Reach]:
    r = c.record("outer height width run")
    source, target = SIZES[c.params["source"]], SIZES[c.params["target"]]
    used = int(bool(r.outer and r.height and r.width))
    places = []
    for axis, n in (("y", used * r.height), ("x", used * r.width)):
        places.append(offsets(c.table(f"offset_{axis}", 2 * n)))
        yield read(f"offset_{axis}", 16 * n)
        yield read(f"weight_{axis}", 8 * n)
    yield read("src", r.run * source, (r.outer, r.outer_s), *places, over=short(r.run, c.lanes) * source)
    yield write("dst", r.run * target, (r.outer, r.outer_d), (r.height, r.dy), (r.width, r.dx))
