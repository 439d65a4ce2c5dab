"""amx_conv: u8 convolution and dense layers on AMX tiles, over a band of rows as in conv.py, or the input itself.

Pixels are dealt to tiles of at most 16 in a row; the last tile of a row begins so early that it ends with the row,
and does not write what the one before it has.
"""

from __future__ import annotations

from collections.abc import Callable

from ..gemm.band import make_clear, make_copy
from ..gemm.tile import make_fields
from ..isa.loops import divide, share, smaller
from ..isa.tiers import Tier
from .block import make_block
from .finish import units
from .pack import NOTE, SUMS, panel_bytes
from .rows import AMX_CONV_ARGS

PARTS = 8
"""Parts that a block's products, and the finish of the one before it, are cut into to be done side by side."""


def make_amx_conv(tier: Tier, mt: int, nt: int, out: str = "u8") -> Callable[..., None]:
    """The kernel for blocks of mt x nt tiles, at most 4; `out`: what it stores, "u8", "s8" or "f32".

    Its record is `rows_amx.AMX_CONV_ARGS`.
    """
    fields = make_fields(len(AMX_CONV_ARGS))
    configure, release, note, place, begin, steps, keep, finish = make_block(tier, mt, nt, out)
    copy, clear = make_copy(tier, 1), make_clear(tier, 1)
    width, item, per_part = 16 * nt, 4 if out == "f32" else 1, units(mt, nt) // PARTS
    head = panel_bytes(nt, 0)
    line = panel_bytes(nt, 1) - head

    def amx_conv(args: int, thread: int, threads: int) -> None:
        (
            x, w, y, table, config, scratch, scratch_bytes, work, images, sets, out_d, out_h, out_w, n, n_set,
            ldy, zero_point, low, high, x_image, x_set, x_z, x_y, x_first, d, h, k_d, stride_z, dilation_z, pad_z,
            stride_y, pad_y, fill, reach, step_y, move_y, left, pixels, run, x_step, pixel_step, right, band_z,
            band_y, rs, gs, lines, rows, across, band, prefetch, direct, by_columns,
        ) = fields(args)
        scratch += thread * scratch_bytes
        work += scratch
        notes = work + 2 * SUMS
        panels = divide(n + width - 1, width)
        panel_size = head + lines * line
        tiles = out_h * across
        bands = divide(tiles + band - 1, band)
        total = images * sets * out_d * bands
        p0, p1, unit, end = 0, panels, share(total, thread, threads), share(total, thread + 1, threads)
        if by_columns:
            p0, p1, unit, end = share(panels, thread, threads), share(panels, thread + 1, threads), 0, total
        if p0 == p1:
            end = unit
        turn, busy = 0, 0
        configure(config)
        while unit < end:
            above = divide(unit, bands)
            t0 = (unit - above * bands) * band
            t1 = smaller(t0 + band, tiles)
            upper = divide(above, out_d)
            oz = above - upper * out_d
            image = divide(upper, sets)
            group = upper - image * sets
            row = divide(t0, across)
            y0, column0 = row, (t0 - row * across) * rows
            a = x + image * x_image + group * x_set + oz * stride_z * x_z
            if direct:
                y0 = 0
            else:
                a += y0 * stride_y * x_y
                for z in range(k_d):
                    iz = oz * stride_z - pad_z + z * dilation_z
                    for i in range((divide(t1 - t0, across) - 1) * move_y + reach):
                        iy = y0 * stride_y - pad_y + i * step_y
                        to = scratch + z * band_z + i * band_y
                        if iz < 0 or iz >= d or iy < 0 or iy >= h:
                            clear(to, fill, band_y)
                        else:
                            source = a + (z * dilation_z - pad_z) * x_z + (i * step_y - pad_y) * x_y + x_first
                            to = clear(to, fill, left)
                            for _ in range(pixels):
                                copy(to, source, run)
                                to += pixel_step
                                source += x_step
                            clear(to, fill, right)
                a = scratch
            pixel0 = (image * out_d + oz) * out_h * out_w
            for p in range(p0, p1):
                column = group * n_set + p * width
                panel = w + (group * panels + p) * panel_size
                ahead = panel_size
                i, j = row, column0
                for t in range(t0, t1, mt):
                    at, sums = notes + turn * NOTE, work + turn * SUMS
                    note(at, panel, smaller(n - p * width, width))
                    for m in range(mt):
                        start = smaller(j, out_w - rows)
                        skip = j - start if t + m < t1 else rows
                        pixel = pixel0 + i * out_w + start
                        place(at, m, a + (i - y0) * gs + start * rs, y + (pixel * ldy + column) * item, skip)
                        if t + m + 1 < t1:
                            j += rows
                            if j >= out_w:
                                i, j = i + 1, 0
                    fetched = prefetch if ahead < panel_size + line else 0
                    begin(panel)
                    before, done = notes + (1 - turn) * NOTE, work + (1 - turn) * SUMS
                    for part in range(PARTS):
                        first, last = (lines * part + PARTS - 1) // PARTS, (lines * (part + 1) + PARTS - 1) // PARTS
                        steps(at, rs, table, first, last, ahead, fetched)
                        if busy:
                            first, last = part * per_part, (part + 1) * per_part
                            finish(before, done, ldy * item, rows, zero_point, low, high, first, last)
                    keep(sums)
                    ahead += fetched * 64
                    turn, busy = 1 - turn, 1
            unit += 1
        if busy:
            before, done = notes + (1 - turn) * NOTE, work + (1 - turn) * SUMS
            finish(before, done, ldy * item, rows, zero_point, low, high, 0, PARTS * per_part)
        release()

    return amx_conv
