"""amx_conv: u8 convolution and dense layers on AMX tiles, over a band of rows as in gemm/conv.py, or the input itself.

A tile has up to 16 pixels of a row; the last tile of a row is moved back so that it ends with the row, and skips the
pixels that the one before it has stored.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.record import reader
from ..gemm.band import band_at, deal, make_band
from ..gemm.rows import STORES
from ..isa.tiers import Tier
from ..lang import divide, smaller
from .pack_amx import NOTE, SUMS, panel_bytes
from .rows import AMX_CONV
from .tile_block import make_block

EARLY = 2
"""Lines whose products are begun before the block before is finished: beside the rest of them, the core does both."""


def make_amx_conv(tier: Tier, mt: int, nt: int, out: str) -> Callable[..., None]:
    """The kernel for blocks of mt x nt tiles, at most 4; out: one of gemm's STORES, of which i32 isn't made."""
    fields, fill_band = reader(AMX_CONV), make_band(tier, 1)
    configure, release, note, place, begin, steps, keep, finish = make_block(tier, mt, nt, out)
    width, item = 16 * nt, STORES[out]
    head = panel_bytes(nt, 0)
    line = panel_bytes(nt, 1) - head

    def amx_conv(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        scratch = r.scratch + thread * r.scratch_bytes
        work = scratch + r.work
        notes = work + 2 * SUMS
        panels = divide(r.n + width - 1, width)
        panel_size = head + r.lines * line
        tiles = r.out_h * r.across
        bands = divide(tiles + r.band - 1, r.band)
        p0, p1, unit, end = deal(r, panels, r.images * r.sets * r.out_d * bands, thread, threads)
        turn, busy = 0, 0
        configure(r.config)
        while unit < end:
            image, group, oz, band = band_at(r, unit, bands)
            t0 = band * r.band
            t1 = smaller(t0 + r.band, tiles)
            row = divide(t0, r.across)
            y0, column0 = row, (t0 - row * r.across) * r.rows
            a = r.x + image * r.x_image + group * r.x_set
            if r.direct:
                a += oz * r.stride_z * r.x_z
                y0 = 0
            else:
                z, y = oz * r.stride_z - r.pad_z, y0 * r.stride_y - r.pad_y
                fill_band(r, scratch, a, z, y, rows=(divide(t1 - t0, r.across) - 1) * r.move_y + r.reach)
                a = scratch
            pixel0 = oz * r.out_h * r.out_w
            row0 = image * r.out_d * r.out_h * r.out_w
            for p in range(p0, p1):
                column = group * r.n_set + p * width
                panel = r.w + (group * panels + p) * panel_size
                ahead = panel_size
                i, j = row, column0
                for t in range(t0, t1, mt):
                    at, sums = notes + turn * NOTE, work + turn * SUMS
                    note(at, panel, smaller(r.n - p * width, width))
                    for m in range(mt):
                        start = smaller(j, r.out_w - r.rows)
                        skip = j - start if t + m < t1 else r.rows
                        pixel = pixel0 + i * r.out_w + start
                        y = r.y + ((row0 + pixel) * r.ldy + column) * item
                        addend = r.addend + image * r.addend_image + pixel * r.addend_row + column
                        place(at, m, a + (i - y0) * r.gs + start * r.rs, y, addend, skip)
                        if t + m + 1 < t1:
                            j += r.rows
                            if j >= r.out_w:
                                i, j = i + 1, 0
                    fetched = r.prefetch if ahead < panel_size + line else 0
                    begin(panel)
                    before, done = notes + (1 - turn) * NOTE, work + (1 - turn) * SUMS
                    early = smaller(r.lines, EARLY)
                    steps(at, r.rs, r.offsets, 0, early, ahead, fetched)
                    if busy:
                        finish(before, done, r)
                    steps(at, r.rs, r.offsets, early, r.lines, ahead, fetched)
                    keep(sums)
                    ahead += fetched * 64
                    turn, busy = 1 - turn, 1
            unit += 1
        if busy:
            before, done = notes + (1 - turn) * NOTE, work + (1 - turn) * SUMS
            finish(before, done, r)
        release()

    return amx_conv
