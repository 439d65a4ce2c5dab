"""What convolutions reach that copy bands of rows to scratch: plain ones, Winograd's, those on AMX tiles."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...kernels.amx.pack import LINE, ROWS, WORK, configuration, panel_bytes
from .call import Call, Loop, Reach, need, offsets, parts, prod, reaches, read, short, work, write
from .products import ending, kind_of, panels


def _taken(c: Call, first: np.ndarray, rows: int) -> tuple[Loop, Loop]:
    """The slices and rows of x that are copied for bands of `rows` rows that begin with the outputs `first`."""
    d, h, k_d, out_d = c.counts("d h k_d out_d")
    stride_z, dilation_z, pad_z, stride_y, pad_y, step_y = c.numbers(
        "stride_z dilation_z pad_z stride_y pad_y step_y"
    )
    z = np.arange(out_d)[:, None] * stride_z - pad_z + np.arange(k_d) * dilation_z
    y = first[:, None] * stride_y - pad_y + np.arange(rows) * step_y
    x_z, x_y = c.numbers("x_z x_y")
    return offsets(z[(z >= 0) & (z < d)] * x_z), offsets(y[(y >= 0) & (y < h)] * x_y)


def _copied(c: Call, item: int, *loops: Loop) -> Iterator[Reach]:
    """Rows of x as they are copied: `pixels` runs, whole vectors at a time."""
    run, pixels = c.counts("run pixels")
    over = short(run * item, c.vector)
    yield read("x", run * item, *loops, (pixels, c.number("x_step")), start=c.number("x_first"), over=over)


def _line(c: Call, item: int, row: int) -> int:
    """Bytes from the start of a band's row of `row` bytes to the end of what is written for it."""
    left, run, pixels, right = c.counts("left run pixels right")
    step = c.count("pixel_step")

    def whole(n: int) -> int:
        return parts(n, c.vector) * c.vector

    inner = left * item + pixels * step
    need(inner + right * item == row, f"a row of a band has {row} bytes, of which {inner + right * item} are filled")
    ends = [whole(row), whole(left * item), inner + whole(right * item)]
    ends += [inner - step + whole(run * item)] if pixels else []
    return max(ends)


def _band(c: Call, item: int, band: int, count: int) -> Iterator[Reach]:
    """A band in each thread's scratch, and the rows of x that it is copied from. `count`: rows of output in all."""
    if not band:
        return
    move, reach, k_d = *c.counts("move_y reach"), c.count("k_d", 1)
    rows = (min(band, count) - 1) * move + reach
    z, y = c.counts("band_z band_y")
    images, sets = c.counts("images sets")
    slices, lines = _taken(c, np.arange(0, count, band), rows)
    yield from _copied(c, item, (images, c.number("x_image")), (sets, c.number("x_set")), slices, lines)
    end = (k_d - 1) * z + (rows - 1) * y + _line(c, item, y)
    each = c.count("scratch_bytes")
    need(end <= each, f"a band takes {end} bytes of scratch_bytes {each}")
    need(rows * y <= z or k_d == 1, f"band_z is {z}, less than {rows} rows of {y}")
    yield work("scratch", end, (c.threads, each))


def _taps(c: Call, slot: str, table: np.ndarray, length: int, over: int, loops: tuple[Loop, ...]) -> Iterator[Reach]:
    """Words that are read `table` bytes from each pixel on, in a band of what is filled; `loops[1:]` are its pixels."""
    if slot == "scratch" and table.size and all(n > 0 for n, _ in loops):  # type: ignore[misc]
        spans = [read(slot, length - over, *loops[1:], start=int(at)).span() for at in (table.min(), table.max())]
        first, end = spans[0][0], spans[1][1]
        z, y = c.counts("band_z band_y")
        move, reach, k_d = c.counts("move_y reach k_d")
        filled = (k_d - 1) * z + ((loops[1][0] - 1) * move + reach) * y  # type: ignore[operator]
        need(0 <= first and end <= filled, f"taps read bytes {first}..{end} of a band of {filled}")
    for at in np.unique(table).tolist():
        yield Reach(slot, "read" if slot == "x" else "work", length - over, loops, at, over)


@reaches("conv", "conv_int8", "conv_dynamic")
def conv(c: Call) -> Iterator[Reach]:
    kind = kind_of(c)
    images, sets, n, n0, n_set = c.counts("images sets n n0 n_set")
    out_d, out_h, out_w = c.counts("out_d out_h out_w")
    band, segments, length = c.counts("band segments length", 1)
    k, ldy, direct = c.count("k"), c.number("ldy"), c.number("direct")
    need(k == segments * length, f"k is {k}, but there are {segments} segments of {length}")
    _tiles(c, out_h, out_w, band)
    used = int(bool(images * sets * out_d * out_h * out_w * n))
    table = c.table("table", segments) if used else np.zeros(0, np.int64)
    yield read("table", used * 8 * segments)
    if not direct:
        yield from _band(c, kind.item, used * band, out_h)
    rs, gs, each = *c.numbers("rs gs"), c.count("scratch_bytes")
    if direct:
        yield work("scratch", 0)
        step = c.number("stride_y") * c.number("x_y")
        need(step == gs or band >= out_h, f"gs is {gs}, but bands begin {step} bytes a row apart")
        loops: tuple[Loop, ...] = (
            (images, c.number("x_image")), (sets, c.number("x_set")), (out_d, c.number("stride_z") * c.number("x_z")),
            (out_h, gs), (out_w, rs),
        )  # fmt: skip
    else:
        loops = (c.threads, each), (min(band, out_h), gs), (out_w, rs)
    yield from _taps(c, "x" if direct else "scratch", table, 4 * length, kind.over, loops)
    yield read("w", used * sets * panels(c, n) * (kind.head + k * kind.word))
    pixels, out = out_d * out_h * out_w, kind.out
    yield from ending(c, images, pixels, 4 * n, (sets, 4 * n_set), start=4 * n0)
    yield write("y", n * out, (images * pixels, ldy * out), (sets, n_set * out), start=n0 * out)


def _tiles(c: Call, out_h: int, out_w: int, band: int) -> None:
    """Misfit unless the kernel's tiles cover bands of these rows, and nothing else."""
    (groups, rows), tail = (c.params["groups"], c.params["rows"]), tuple(c.params["tail"])
    if groups == 1:
        rest = (1, out_w % rows) if out_w % rows else (0, 0)
    else:
        need(rows == out_w, f"tiles of {groups} rows of {rows} pixels, but rows have {out_w}")
        need(band % groups == 0 or band >= out_h, f"band is {band} for tiles of {groups} rows")
        rest = (out_h % groups, rows) if out_h % groups else (0, 0)
    need(rest in (tail, (0, 0)), f"the last tile is {tail}, but {rest} is left over")


@reaches("winograd")
def winograd(c: Call) -> Iterator[Reach]:
    m, mr, width = c.params["m"], c.params["mr"], c.params["nv"] * c.lanes
    images, out_h, out_w, n, h, pixel = c.counts("images out_h out_w n h pixel")
    k, band, across = c.counts("k band across", 1)
    each, band_y, v_start, v_row, v_plane, s_start, s_plane = c.counts(
        "scratch_bytes band_y v_start v_row v_plane s_start s_plane"
    )
    places, down, count, used = (m + 2) ** 2, parts(out_h, m), panels(c, n), int(bool(images * out_h * out_w * n))
    tallest = min(band, down)
    need(parts(out_w, m) == across, f"across is {across}, expected {parts(out_w, m)} tiles for {out_w} outputs")
    room = parts(tallest * across, mr) * mr
    y = np.arange(down * m + 2) - c.number("pad_y")
    rows = offsets(y[(y >= 0) & (y < h)] * c.number("x_y"))
    yield from _copied(c, 4, (images * used, c.number("x_image")), rows)
    line, vector = _line(c, 4, band_y), parts(4 * k, c.vector) * c.vector
    bounds = [
        (((tallest * m + 1) * band_y + line), v_start), (((across - 1) * m + m + 1) * pixel + 4 * k, band_y),
        (((tallest * m + 1) * band_y + ((across - 1) * m + m + 1) * pixel + vector), v_start), (vector, v_row),
        (room * v_row, v_plane), (v_start + places * v_plane, s_start), (4 * room * width, s_plane),
        (s_start + places * s_plane, each),
    ]  # fmt: skip
    for taken, there in bounds:
        need(not used or taken <= there, f"{taken} bytes of scratch where there are {there}")
    yield work("scratch", each * used, (c.threads, each))
    yield read("w", used * 4 * (places * count * (k + 1) + count) * width)
    yield from c.extras(images, out_h * out_w, 4 * n)
    yield write("y", 4 * n, (images * out_h * out_w, 4 * c.number("ldy")))


@reaches("amx_conv")
def amx_conv(c: Call) -> Iterator[Reach]:
    nt, mt, item = c.params["nt"], c.params["mt"], 4 if c.params["out"] == "f32" else 1
    images, sets, n, n_set = c.counts("images sets n n_set")
    out_d, out_h, out_w = c.counts("out_d out_h out_w")
    rows, across, band, lines = c.counts("rows across band lines", 1)
    need(rows <= ROWS and rows <= out_w and parts(out_w, rows) == across, f"{across} tiles of {rows} in {out_w}")
    used = int(bool(images * sets * out_d * out_h * n))
    yield read("config", 64)
    need(bytes(c.table("config", 64, np.uint8)) == configuration(mt, nt, rows).tobytes(), "tiles of other shapes")
    yield read("table", 8 * lines)
    direct, each, at = c.number("direct"), c.count("scratch_bytes"), c.count("work")
    need(at % 64 == 0 and at + WORK <= each, f"work is {at}, with {WORK} bytes, in scratch_bytes {each}")
    first: tuple[Loop, ...] = (c.threads, each), ((band // across) if not direct else 1, c.number("gs"))
    if direct:
        image, group = (images, c.number("x_image")), (sets, c.number("x_set"))
        first = image, group, (out_d, c.number("stride_z") * c.number("x_z")), (out_h, c.number("gs"))
    else:
        need(band % across == 0, f"band is {band}, expected a multiple of {across}")
        yield from _band(c, 1, used * band // across, out_h)
    yield from _taps(c, "x" if direct else "scratch", c.table("table", lines), LINE, LINE - 1,
                     (*first, (out_w * used, c.number("rs"))))  # fmt: skip
    yield work("scratch", WORK, (c.threads, each), start=at)
    count = parts(n, 16 * nt)
    yield read("w", used * sets * count * panel_bytes(nt, lines))
    pixels = images * prod((out_d, out_h, out_w))
    yield write("y", n * item, (pixels, item * c.number("ldy")), (sets, n_set * item))
