"""conv: convolution over a channels-last map, 1 to 3 spatial dimensions, as dot over a band of rows.

A band is the input that some output rows need, copied once into scratch with its zero padding. There a
pixel's taps lie at fixed distances, so the micro-kernel reads them in place: nothing is expanded per tap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import Record, fields
from ..isa.tiers import Tier
from ..lang import I64, Value, choose, divide, registers, repeat, smaller, traced, when
from .band import band_at, deal, fill_band
from .dot import arithmetic_of
from .int8_arithmetic import int8_arithmetic
from .pick_dot import crossing
from .pick_int8 import Sums
from .results import target, walk_later
from .rows import CONV_BF16, CONV_F32, CONV_INT8
from .tile import Arithmetic, ahead_of, f32_arithmetic, make_tile, offsets, pace_of, segmented_rows


def make_conv(tier: Tier, nv: int, half: bool = False) -> Callable[..., None]:
    """The kernel for panels of nv vectors, or for one whose last vector is half; its record is `rows.CONV_F32`.

    The columns of an epilogue's operands run over all channels of the output, their rows over the pixels of an image.
    """
    return conv_kernel(tier, f32_arithmetic(tier, nv, half=half), CONV_F32)


def make_conv_bf16(tier: Tier, nv: int, element: str, out: str) -> Callable[..., None]:
    """The kernel for panels of nv vectors; element, out: of the map and the result, f32 or bf16. Its record is
    `rows.CONV_BF16`.
    """
    return conv_kernel(tier, arithmetic_of(tier, nv, element, out), CONV_BF16)


def make_conv_int8(tier: Tier, nv: int, half: bool = False, **sums: Any) -> Callable[..., None]:
    """As `make_conv`, of u8 and s8 weights; sums: of Sums. Its record is `rows.CONV_INT8`."""
    return conv_kernel(tier, int8_arithmetic(tier, nv, Sums(**sums), half=half), CONV_INT8)


def conv_kernel(tier: Tier, arithmetic: Arithmetic, record: Record) -> Callable[..., None]:
    """The loops of a convolution around tiles; its record begins with `rows.CONV`.

    A tile's rows are outputs that follow one another in a band, of one row of the map where more than are `crossing` or
    rows of y are apart.
    """
    nv, most, epilogue = arithmetic.nv, arithmetic.rows, arithmetic.epilogue
    item, out_item = arithmetic.item, arithmetic.out_item
    tile, near, width = make_tile(tier, arithmetic, segmented=True), crossing(most, nv), nv * tier.lanes
    head, word = arithmetic.head, arithmetic.vectors * tier.lanes * 4

    def conv(args: int, thread: int, threads: int) -> None:
        r = fields(args, record)
        in_row, across = offsets(most, r.rs), offsets(most, 0)
        turn = r.gs - r.out_w * r.rs
        scratch = r.scratch + thread * r.scratch_bytes
        bands = (r.out_h + r.band - 1) // r.band
        panels = (r.n + width - 1) // width
        step = head + r.k * word
        last = step + r.k * word
        by_row = r.height > near or r.y_y != r.out_w * r.ldy
        p0, p1, first, end = deal(r, panels, r.images * r.sets * r.out_d * bands, thread, threads)
        for unit in range(first, end):
            image, group, oz, band = band_at(r, unit, bands)
            y0 = band * r.band
            count = smaller(r.band, r.out_h - y0)
            a = _input(r, item, scratch, r.x + image * r.x_image + group * r.x_set, oz, (y0, count))
            pixel0 = (oz * r.out_h + y0) * r.out_w
            y = r.y + image * r.out_d * r.out_h * r.y_y * out_item
            pace = pace_of(divide(count * r.out_w + r.height - 1, r.height), word)
            for p in range(p0, p1):
                column = group * r.n_set + r.n0 + p * width
                ahead = step
                start, left, line = a, r.out_w, oz * r.out_h + y0
                i, stop = pixel0, pixel0 + count * r.out_w
                while i < stop:
                    height = smaller(r.height, left if by_row else stop - i)
                    starts, beyond, rest, ended = _across(in_row, across, height, left, r.rs, turn, r.out_w)
                    runs = _inside(r.inside, line, line + ended - (1 if rest == r.out_w else 0))
                    rows = segmented_rows(start, starts, r.taps, r.length, runs, word)
                    panel = r.w + (group * panels + p) * step
                    c = y + (line * r.y_y + (r.out_w - left) * r.ldy + column) * out_item
                    into = target(c, r.ldy * out_item, r.n - p * width, image=image, row=i, column=column)
                    tile(r, height, rows, panel, ahead_of(ahead, pace, 0, 0), into)
                    ahead = ahead + rows.words * pace if 0 < ahead < last else 0
                    i += height
                    start += beyond
                    left = rest
                    line += ended
            if epilogue:
                column = group * r.n_set + r.n0 + p0 * width
                c = y + ((oz * r.out_h + y0) * r.y_y + column) * out_item
                columns = smaller(r.n, p1 * width) - p0 * width
                walk_later(r, (image, pixel0, column, count * r.out_w, columns), (c, r.ldy * out_item))

    return conv


def _input(r: Any, item: int, scratch: Any, x: Any, oz: int, rows: tuple[int, int]) -> Any:
    """The address of what the first tap of `rows`, (first, count), of a slice of the result reads: in x, or in scratch,
    where a band is copied.
    """
    y0, count = rows
    if r.direct:
        return x + oz * r.stride_z * r.x_z + y0 * r.stride_y * r.x_y
    front, top = oz * r.stride_z - r.pad_z, y0 * r.stride_y - r.pad_y
    fill_band(r, item, scratch, x, front, top, rows=(count - 1) * r.move_y + r.reach)
    return scratch


@traced
def _across(in_row: Any, across: Any, height: Any, left: Any, step: Any, turn: Any, out_w: Any) -> list[Any]:
    """(address of the offsets of `height` outputs, bytes to the one behind them, outputs left in its row, rows that end
    before it).

    left: outputs that are left in the row from the first one on. in_row: offsets within a row, `step` bytes apart;
    across: where those of outputs in several rows are put. turn: bytes more from the last one of a row to the next.
    """
    rest = left - height
    found = registers([in_row, height * step, rest, I64(0)])
    with when(rest <= 0):
        offsets = I64.at(across)

        def output(r: Value, state: list[Value]) -> list[Value]:
            offset, rest, ended = state
            offsets[r] = offset
            rest = rest - 1
            ends = rest == 0
            following = offset + step
            return [choose(ends, following + turn, following), choose(ends, out_w, rest), ended + ends.to(I64)]

        found[0] = across
        found[1], found[2], found[3] = repeat(height, [I64(0), left, I64(0)], output)
    return found.values()


@traced
def _inside(table: Any, first: Any, last: Any) -> list[Any]:
    """(first, end) of the runs of taps of which some lie in x for rows `first` to `last` of the result."""
    inside = I64.at(table)
    return [inside[last * 2], inside[first * 2 + 1]]
