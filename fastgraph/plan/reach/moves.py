"""What the data-movement kernels reach: copies, transposes, pads, gathers, resizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .call import Call, Loop, Reach, need, offsets, reaches, read, short, write

SIZES = {"f32": 4, "f64": 8, "i64": 8, "u64": 8, "i32": 4, "u32": 4, "f16": 2, "i16": 2, "u16": 2, "s8": 1, "u8": 1,
         "bool": 1}  # fmt: skip
"""Bytes of what kernels call element types."""

FAR = 1 << 59
"""Offsets of a take below -FAR say that a place lies outside."""


def _sides(c: Call) -> tuple[list[Loop], list[Loop]]:
    """The outer loops of source and destination."""
    dims = list(c.outer("n s d"))
    need(all(n >= 0 for n, _, _ in dims), f"extents of the outer loops are {[n for n, _, _ in dims]}")
    return [(n, s) for n, s, _ in dims], [(n, d) for n, _, d in dims]


@reaches("copy")
def copy(c: Call) -> Iterator[Reach]:
    count, rows = c.counts("count rows")
    step_s, step_d, row_s, row_d = c.numbers("step_s step_d row_s row_d")
    size, mode = c.params["itemsize"], c.params["mode"]
    source, target = _sides(c)
    source, target = [*source, (rows, row_s)], [*target, (rows, row_d)]
    if mode == "step":
        yield read("src", size, *source, (count, step_s))
        yield write("dst", size, *target, (count, step_d))
        return
    need(step_d == size, f"step_d is {step_d} in rows of {size} bytes an element")
    need(step_s == (1 if mode == "run" else 0), f"step_s is {step_s} in mode {mode!r}")
    yield read("src", size if mode == "fill" and count else size * count, *source)
    yield write("dst", size * count, *target)


@reaches("transpose")
def transpose(c: Call) -> Iterator[Reach]:
    rows, cols = c.counts("rows cols")
    high, wide = c.counts("high wide", 1)
    row_d, col_s = c.numbers("row_d col_s")
    size, narrow = c.params["itemsize"], c.params["narrow"]
    lanes = {1: 16, 2: 8, 4: c.lanes, 8: max(2, c.lanes // 2)}[size]
    source, target = _sides(c)
    over = 0
    if narrow:
        few, many, step = (cols, rows, row_d) if narrow > 0 else (rows, cols, col_s)
        need(few == abs(narrow) and step == few * size, f"narrow is {narrow}, but {few} lie {step} bytes apart")
        need(many >= lanes, f"{many} places, less than the {lanes} of a tile")
    elif rows < lanes or cols < lanes:
        over = short(rows, lanes) * size
    need(high % lanes == 0, f"high is {high}, expected a multiple of {lanes}")
    yield read("src", rows * size, *source, (cols, col_s), over=over)
    yield write("dst", cols * size, *target, (rows, row_d))


@reaches("pad")
def pad(c: Call) -> Iterator[Reach]:
    left, run, right = c.counts("left run right")
    source: list[Loop] = []
    target: list[Loop] = []
    start = 0
    for n, low, inside, s, d in c.outer("n low inside s d"):
        need(n >= 0, f"an outer loop has {n} places")
        first = max(0, -low)
        source.append((min(inside, n - low) - first, s))
        target.append((n, d))
        start += first * s
    yield read("src", run, *source, start=start)
    yield write("dst", left + run + right, *target)


@reaches("gather")
def gather(c: Call) -> Iterator[Reach]:
    count, axis, run, outer = c.counts("count axis run outer")
    s, d, outer_s, outer_d = c.numbers("s d outer_s outer_d")
    run = c.params["itemsize"] or run
    used = outer > 0 and axis > 0 and count > 0
    yield read("index", count * c.params["index_size"] if outer else 0)
    yield write("error", 8 if outer and count else 0)
    yield read("src", run if used else 0, (outer, outer_s), (axis, s))
    yield write("dst", run if used else 0, (outer, outer_d), (count, d))


@reaches("take")
def take(c: Call) -> Iterator[Reach]:
    rows, d, size = c.count("rows"), c.number("d"), c.params["itemsize"]
    axes = [c.table("table", 3 * rows if size == 0 else rows)]
    yield read("table", axes[0].nbytes)
    target: list[Loop] = []
    for k, (n, step) in enumerate((c.count(f"n{k}"), c.number(f"d{k}")) for k in range(c.count("rank"))):
        axes.append(c.table(f"table{k}", n))
        yield read(f"table{k}", 8 * n)
        target.append((n, step))
    inner = axes[0].reshape(-1, 3) if size == 0 else np.stack([np.arange(rows) * d, axes[0], np.full(rows, size)], 1)
    for at in (inner[:, 1], *axes[1:]):
        need(bool(np.all((at >= 0) | (at < -FAR))), "a table has negative offsets that don't lie outside")
    need(bool(np.all(inner[:, 2] >= 0)), "a run has less than 0 bytes")
    outside = [offsets(at[at >= 0]) for at in axes[1:]]
    for run in np.unique(inner[:, 2]).tolist():
        part = inner[inner[:, 2] == run]
        exist = part[part[:, 1] >= 0, 1]
        yield read("src", run, *outside, offsets(exist))
        yield write("dst", run, *target, part[:, 0])


@reaches("resize")
def resize(c: Call) -> Iterator[Reach]:
    taps, outer, n, run = c.counts("taps outer n run")
    outer_s, outer_d, d = c.numbers("outer_s outer_d d")
    source, target = SIZES[c.params["source"]], SIZES[c.params["target"]]
    known, fixed = c.params["taps"], c.params["run"]
    need(taps >= known, f"taps is {taps}, less than {known}")
    run, used = fixed or run, bool(outer and n)
    table = c.table("offset", n * taps).reshape(n, taps)[:, : known or taps] if used else np.zeros((0, 0), np.int64)
    yield read("offset", 8 * n * taps if used else 0)
    yield read("weight", 4 * n * taps if used else 0)
    yield read("bias", 4 * n if used else 0)
    over = 0 if fixed else short(run, c.lanes) * source
    yield read("src", run * source, (outer, outer_s), offsets(table), over=over)
    yield write("dst", run * target, (outer, outer_d), (n, d))


@reaches("bilinear")
def bilinear(c: Call) -> Iterator[Reach]:
    outer, height, width, run = c.counts("outer height width run")
    outer_s, outer_d, dy, dx = c.numbers("outer_s outer_d dy dx")
    source, target = SIZES[c.params["source"]], SIZES[c.params["target"]]
    used = bool(outer and height and width)
    places = []
    for axis, n in (("y", height), ("x", width)):
        places.append(offsets(c.table(f"offset_{axis}", 2 * n) if used else ()))
        yield read(f"offset_{axis}", 16 * n if used else 0)
        yield read(f"weight_{axis}", 8 * n if used else 0)
    yield read("src", run * source, (outer, outer_s), *places, over=short(run, c.lanes) * source)
    yield write("dst", run * target, (outer, outer_d), (height, dy), (width, dx))
