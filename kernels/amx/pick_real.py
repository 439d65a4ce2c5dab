"""A convolution's geometry -> lines, bands and scratch of amx_real. Pure arithmetic.

What one line of A holds depends on the channels: of more than 32 each tap has lines of its own, of one length where
that is no slower (of one plane), else with zeros behind the last; of fewer a tap is one line, or, where they fit, all
taps of a row are.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from ..gemm.pick_conv import Geometry, cover, layout
from ..gemm.pick_dot import L2
from ..gemm.pick_int8 import MEMORY, with_memory
from .pack_amx import LINE, ROWS, configuration
from .pack_real import MT, NUMBERS, WORK, held_planes, panel_bytes_real, products
from .pick_amx import TileChoice, direct_band, tiles

STEP = {1: 130.0, 2: 326.0, 3: 575.0}
"""Cycles of a line's products in a block of 2 x 2 tiles, by planes. All cycles here are 0.73 of those at the clock that
was measured, in a virtual machine of Granite Rapids, as in the model of f32's kernels."""
CACHED = 0.9
"""Factor on STEP where taps of stride 1 read a line that the first-level cache still has."""
ROWS_PART, SHORT_PART = 0.25, 0.6
"""Parts of STEP that fall with the rows of a tile, and with the bytes of a line."""
CROSSING = 0.3
"""Part of STEP that a line takes longer where all rows of its tiles lie in two lines of the cache."""
FINISH = {1: 13.0, 2: 20.0, 3: 20.0}
"""Cycles to finish 64 sums, by planes."""
SPLIT = {1: 7.0, 2: 16.0, 3: 25.0}
"""Cycles to split 32 f32 and copy their parts, by planes."""
MOVE = 5.0
"""Cycles to copy 32 bf16, in the choice of lines."""
LEAST_COPY = 0.15
"""The part of SPLIT that a pixel of a few numbers takes."""
F16_STEP, F16_SPLIT = STEP[2] / 3, 8.0
"""STEP and SPLIT of one f16, estimated: no CPU that multiplies it was at hand."""
LONE = 0.55
"""The part of a block's time that one of a single tile of pixels takes."""
OVERHEAD, START = {1: 45.0, 2: 200.0, 3: 200.0}, {1: 300.0, 2: 3500.0, 3: 3500.0}
"""Cycles to begin a block, and a call, by planes: of one plane fitted to sums of a single line, whose blocks take 150
to 190 with one panel and 335 with two; of several to long sums."""
NEAR_RESULTS = 1 << 14
"""Bytes of results, of two each, that a band makes where it makes whole rows of them: with as much, 1x1 4>24, 8>16 and
13>40 took 0.97 of the time with two tiles."""
FAR = 512
"""Bytes of a pixel from which a line of padding in a convolution's band pays."""


class Lines(NamedTuple):
    """How pixels lie in a band: `pixel` bytes from one to the next, `run` taps of a row that are read as one, lines of
    `length` bytes that each takes.
    """

    pixel: int
    run: int
    lines: int
    length: int


class Banded(Geometry):
    """A geometry whose taps are never read from x itself."""

    direct = False


@lru_cache(1024)
def pick_real(g: Geometry, threads: int = 1, planes: int = 1, element: str = "bf16", l2: int = L2) -> TileChoice:
    """Blocks of one or two panels, bands and lines for a geometry of f32."""
    g = flattened(g)
    how, nt = lines_of(g, planes), 1 if g.n <= 16 else 2
    flat = is_flat(g)
    # Tiles whose rows are an even number of lines apart load more slowly.
    if how.pixel % (2 * LINE) == 0 and (flat or how.pixel >= FAR):
        how = how._replace(pixel=how.pixel + LINE)
    elif flat and how.lines == 1:
        how = how._replace(pixel=how.length)
    # Of two bytes with the band's pixels as channels; x's strides are in elements of two bytes.
    banded = Banded(*g._replace(c=how.pixel // 2, item=2, x_strides=tuple(g.item // 2 * s for s in g.x_strides)))  # type: ignore[arg-type]
    how = how._replace(pixel=banded.pixel)
    _, _, fields = layout(banded, 1, g.n, 16 * nt, threads, l2 // planes)
    rows, across = tiles(g, 1)
    fields |= _copied(g, how, flat, element)
    if flat:
        wide = banded._replace(c=how.pixel * planes)
        fields |= direct_band(wide, across, 1, nt, threads, l2)
        row_parts = threads // fields["column_parts"]
        if g.images % row_parts:  # as many tiles for each
            rows, across = tiles(g, row_parts)
            fields |= direct_band(wide, across, 1, nt, threads, l2)
            row_parts = threads // fields["column_parts"]
        if fields["band"] * row_parts < across:
            fields["band"] += fields["band"] % MT
        if planes == 1 and g.n >= 2 * g.k and 4 * g.n * g.k <= l2:  # weights stay: rows of results are written whole
            fields["band"] = max(min(fields["band"], NEAR_RESULTS // (2 * rows * g.n) // MT * MT), MT)
        plane = -(-(fields["band"] * rows * how.pixel + LINE) // LINE) * LINE
        whole = how.lines > 1 and how.length == LINE
        in_place = g.item == 2 and _is_full(g, how) and not (whole and 2 * g.x_strides[3] % LINE)
        fields |= {"rs": fields["x_step"] if in_place else how.pixel, "gs": 0, "in_place": int(in_place)}
    else:
        fields["band"] *= across
        plane = fields["scratch_bytes"]
    table = _table(g, how, fields)
    work = held_planes(planes, element) * plane
    fields |= {"plane": plane, "work": work, "scratch_bytes": work + WORK, "lines": len(table), "length": how.length}
    fields |= {"rows": rows, "across": across, "direct": int(flat), "fill": 0}
    fields = {"in_place": 0, **fields}
    fields["prefetch"] = _prefetch(g, fields["band"], nt, planes)
    kept = {slot: fields[slot] for slot in fields if slot not in ("k", "height")}
    config = configuration(MT, nt, rows, how.length)
    runs = g.k // (g.c * how.run) * (how.lines if _is_full(g, how) else 1)
    return TileChoice(runs, how.run, {"nt": nt, "planes": planes, "element": element}, table, config, kept)


def _prefetch(g: Geometry, band: int, nt: int, planes: int) -> int:
    """Lines of the next panel that are fetched at a time; 0 where panels are each read once, in order, which the CPU
    notices by itself.
    """
    if planes == 1 and is_flat(g) and g.images == 1 and band <= MT:
        return 0
    return max(round(nt * planes * ROWS * MT / (products(nt, planes) * band)), 1)


def lines_of(g: Geometry, planes: int) -> Lines:
    """The lines of a pixel's taps."""
    even = g.c + g.c % 2
    if 1 < g.kernel[2] <= NUMBERS // even and g.dilations[2] == 1:
        return Lines(2 * even, g.kernel[2], 1, 2 * even * g.kernel[2])
    if even <= NUMBERS:
        return Lines(2 * even if 2 * even <= LINE // 2 else LINE, 1, 1, 2 * even)
    least = -(-g.c // NUMBERS)
    found = [Lines(least * LINE, 1, least, LINE)]
    if planes == 1:
        counts = (count for count in range(least, 2 * least) if g.c % (2 * count) == 0)
        found += [Lines(2 * g.c, 1, count, 2 * g.c // count) for count in counts]
    return min(found, key=lambda how: _pixel_cycles(g, how))


def _pixel_cycles(g: Geometry, how: Lines) -> float:
    """Of a pixel's products with one plane, and of its copy. Each of its lines starts where the one before ends, so
    that some cross a line of the cache.
    """
    nt = 1 if g.n <= 16 else 2
    starts = range(0, LINE, gcd(how.length, LINE))
    crossing = sum(start + how.length > LINE for start in starts) / len(starts)
    line = STEP[1] * nt / 2 / (MT * ROWS) * _part(how.length) * (1 + CROSSING * crossing)
    return how.lines * (g.k // g.c * -(-g.n // (16 * nt)) * line + MOVE * (not (is_flat(g) and _is_full(g, how))))


def _part(length: int) -> float:
    """The time of a line of so many bytes, as a part of that of a whole one."""
    return 1 - SHORT_PART * (1 - length / LINE)


def _is_full(g: Geometry, how: Lines) -> bool:
    """Whether a pixel's numbers, in two bytes each, fill its lines, without a zero behind them."""
    return 2 * g.c == how.lines * how.length


def is_flat(g: Geometry) -> bool:
    """Whether x is the pixels of one row that a dense layer multiplies."""
    return g.kernel == (1, 1, 1) == g.strides and not g.padded and g.out[:2] == (1, 1)


def flattened(g: Geometry) -> Geometry:
    """A convolution of one tap as a dense layer of all pixels of an image, where these follow one another."""
    (d, h, w), (image, z, y, x) = g.size, g.x_strides
    dense = (y == w * x or h == 1) and (z == h * w * x or d == 1)
    if g.gaps or g.kernel != (1, 1, 1) or g.strides != (1, 1, 1) or any(g.pads) or g.out != g.size or not dense:
        return g
    row, pixels = (1, 1, d * h * w), d * h * w * x
    return g._replace(size=row, out=row, x_strides=(image, pixels, pixels, x), dilations=(1, 1, 1))


def _copied(g: Geometry, how: Lines, flat: bool, element: str) -> dict[str, int]:
    """The slots for copying pixels; those of whole lines that follow one another in x are copied as one, but of f16,
    where each is asked for its largest number.
    """
    move = g.moves[1]
    step = g.strides[2] // move
    inside = g.out[2] if flat else cover(-g.pads[2], step, g.size[2], _across(g))[1]
    together = element == "bf16" and not flat and g.x_strides[3] * step == g.c and how.pixel == 2 * g.c
    return {
        "x_set": g.item * g.c, "x_item": g.item,
        "run": inside * g.c if together else g.c, "pixels": 1 if together else inside,
        "x_step": g.item * g.x_strides[3] * step, "pixel_step": inside * how.pixel if together else how.pixel,
    }  # fmt: skip


def _across(g: Geometry) -> int:
    """Pixels of a band's row."""
    return (g.out[2] - 1) * g.moves[1] + (g.kernel[2] - 1) * g.dilations[2] + 1


def _table(g: Geometry, how: Lines, fields: dict[str, int]) -> np.ndarray:
    """Bytes from a pixel to where each of its lines begins."""
    (k_d, k_h, k_w), (_, dil_y, dil_x) = g.kernel, g.dilations
    if is_flat(g):
        starts = [0]
    else:
        columns = [0] if how.run > 1 else range(k_w)
        z = fields["band_z"]
        y = z if fields["shift"] else dil_y * fields["band_y"]
        rows = [i * z + j * y for i in range(k_d) for j in range(k_h)]
        starts = [row + k * dil_x * how.pixel for row in rows for k in columns]
    return np.array([start + how.length * line for start in starts for line in range(how.lines)], np.int64)


def real_cycles(g: Geometry, planes: int, element: str = "bf16", l2: int = L2) -> float:
    """The cycles of one thread."""
    g = flattened(g)
    how, nt = lines_of(g, planes), 1 if g.n <= 16 else 2
    rows, across = tiles(g, 1)
    lines = g.k // (g.c * how.run) * how.lines
    panels = g.groups * -(-g.n // (16 * nt))
    pairs, lone = divmod(g.out[1] * across, MT)
    blocks = g.images * g.out[0] * (pairs + LONE * lone) * panels
    step, split = (F16_STEP, F16_SPLIT) if element == "f16" else (STEP[planes], SPLIT[planes])
    cached = CACHED if g.kernel[2] > 1 and g.strides == (1, 1, 1) else 1.0
    part = (1 - ROWS_PART * (1 - rows / ROWS)) * _part(how.length)
    products, stores = lines * step * cached * part * nt / 2, FINISH[planes] * MT * rows * nt / 4
    block = max(products, stores) + min(products, stores) / 4 + OVERHEAD[planes]
    copies = split * g.images * g.groups * g.size[0] * g.size[1] * g.size[2] * max(how.pixel / LINE, LEAST_COPY)
    panel = panel_bytes_real(nt, lines, planes, element)
    copies *= not (planes == 1 and g.item == 2 and is_flat(g) and _is_full(g, how))  # it may be read in place
    cycles = blocks * block + copies + START[planes]
    if panel > l2 * 3 // 4:  # there is no room to fetch the next one
        return cycles + g.images * _bands(g, how, planes, l2) * panels * panel / MEMORY
    return with_memory(cycles, panels * panel, l2)


def _bands(g: Geometry, how: Lines, planes: int, l2: int) -> int:
    """About how many bands of a map there are, each of which reads all weights."""
    row = planes * how.pixel * _across(g)
    band = (l2 * 3 // 8 // row - g.kernel[1]) // g.moves[0] + 1
    return -(-g.out[1] // max(band, 1))


def real_args(choice: TileChoice, **operands: Any) -> dict[str, Any]:
    """The slots of `rows.AMX_REAL`: the choice's, and `operands`: x, w (pack_real's of all channels), y, ldy, offsets,
    config, scratch, and those of EPILOGUE; y and addends are f32, and rows of y follow one another, unless they say
    otherwise.
    """
    usual = {"y_item": 4, "addend_item": 4, "y_y": choice.fields["out_w"] * operands["ldy"]}
    return {**usual, **choice.fields, **operands}
