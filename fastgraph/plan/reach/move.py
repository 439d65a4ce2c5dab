"""What the data-movement kernels reach: copies, transposes, pads, gathers, resizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...kernels.move.rows import NARROW, SHORT, WORDS
from .call import SIZES, Call, Loop, Reach, need, offsets, reaches, read, short, write

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


@reaches("gather")
def gather(c: Call) -> Iterator[Reach]:
    r = c.record("count axis run outer index_size")
    need(r.index_size in (4, 8), f"index_size is {r.index_size}, expected 4 or 8")
    need(c.params["runs"] or r.run in WORDS, f"run is {r.run}, expected one of {WORDS}")
    run = r.run if r.outer and r.axis and r.count else 0
    yield read("index", r.count * r.index_size if r.outer else 0)
    yield write("error", 8 if r.outer and r.count else 0)
    yield read("src", run, (r.outer, r.outer_s), (r.axis, r.s))
    yield write("dst", run, (r.outer, r.outer_d), (r.count, r.d))


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
