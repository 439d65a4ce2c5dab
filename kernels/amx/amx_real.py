"""amx_real: f32 convolution and dense layers by products of bf16 or f16 in AMX tiles.

The input is copied as these, rows of a convolution to a band with its padding, pixels of a dense layer as they follow
one another. Tiles are as those of amx_conv: the last one of a row is moved back so that it ends with the row, and skips
what the one before it has stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import reader
from ..gemm.band import band_at, deal
from ..isa.tiers import Tier
from ..lang import divide, smaller
from .pack_amx import LINE, NOTE, SUMS
from .pack_real import MT, panel_bytes_real, products
from .real_block import make_block
from .rows import AMX_REAL, needs_parts
from .split_band import make_split
from .tile_block import make_registers

BEGUN = 2
"""Lines whose products are begun before the block before is finished: the core does both at the same time."""


def make_amx_real(tier: Tier, nt: int, planes: int, element: str) -> Callable[..., None]:
    """The kernel for blocks of 2 x nt tiles; planes: numbers are sums of so many of the element, "bf16" or "f16", to
    which they are rounded.
    """
    fields, read = reader(AMX_REAL), _make_read(tier, planes, element)
    configure, release = make_registers(tier)
    note, place, steps, clear, keep, finish, again, close = make_block(tier, nt, planes, element)
    width, head = 16 * nt, panel_bytes_real(nt, 0, planes, element)
    line, near = panel_bytes_real(nt, 1, planes, element) - head, products(nt, planes) * LINE

    def amx_real(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        scratch = r.scratch + thread * r.scratch_bytes
        work = scratch + r.work
        notes, buffer = work + 2 * SUMS, work + 2 * SUMS + 2 * NOTE
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
            y0 = divide(t0, r.across)
            column0 = (t0 - y0 * r.across) * r.rows
            a, odd = read(r, scratch, r.x + image * r.x_image + group * r.x_set, oz, t0, t1)
            pixels = oz * r.out_h * r.out_w
            pixel0 = image * r.out_d * r.out_h * r.out_w
            for p in range(p0, p1):
                column = group * r.n_set + p * width
                panel = r.w + (group * panels + p) * panel_size
                ahead = panel_size
                i, j = y0, column0
                for t in range(t0, t1, MT):
                    at, sums = notes + turn * NOTE, work + turn * SUMS
                    note(at, panel, smaller(r.n - p * width, width), image, column)
                    for m in range(MT):
                        start = smaller(j, r.out_w - r.rows)
                        skip = j - start if t + m < t1 else r.rows
                        pixel = pixels + i * r.out_w + start
                        y = r.y + ((pixel0 + pixel) * r.ldy + column) * r.y_item
                        place(at, m, a + (i - y0) * r.gs + start * r.rs, y, skip, pixel)
                        if t + m + 1 < t1:
                            j += r.rows
                            if j >= r.out_w:
                                i, j = i + 1, 0
                    fetched = r.prefetch if ahead < panel_size + line else 0
                    clear()
                    begun = smaller(r.lines, BEGUN)
                    steps(at, r, 0, begun, ahead, fetched)
                    if busy:
                        before, done = notes + (1 - turn) * NOTE, work + (1 - turn) * SUMS
                        finish(before, done, buffer, r)
                        close(before, buffer, r)
                    steps(at, r, begun, r.lines, ahead, fetched)
                    keep(sums)
                    if odd != 0:
                        again(at, sums, r)
                    ahead += fetched * near
                    turn, busy = 1 - turn, 1
            unit += 1
        if busy:
            before, done = notes + (1 - turn) * NOTE, work + (1 - turn) * SUMS
            finish(before, done, buffer, r)
            close(before, buffer, r)
        release()

    amx_real.needs = needs_parts({"element": element})  # type: ignore[attr-defined]
    return amx_real


def _make_read(tier: Tier, planes: int, element: str) -> Callable[..., tuple[Any, ...]]:
    """read(r, scratch, source, oz, t0, t1): copy what the tiles t0 .. t1 of a slice read, unless they read it in place;
    the address of its first pixel, and whether parts of a number may lose something.
    """
    fill_band, copy_pixels = make_split(tier, planes, element)
    fill_exactly, copy_exactly = make_split(tier, planes, element, exact=True)

    def read(r: Any, scratch: Any, source: Any, oz: Any, t0: Any, t1: Any) -> tuple[Any, ...]:
        y0, odd = divide(t0, r.across), 0
        if r.in_place:
            a = source
        elif r.direct:
            first = smaller((t0 - y0 * r.across) * r.rows, r.out_w - r.rows)
            count, start = smaller(t1 * r.rows, r.out_w) - first, source + first * r.x_step
            odd = copy_pixels(r, scratch, start, count)
            if odd != 0:
                copy_exactly(r, scratch, start, count)
            a = scratch - first * r.rs
        else:
            z0, row0 = oz * r.stride_z - r.pad_z, y0 * r.stride_y - r.pad_y
            rows = (divide(t1 - t0, r.across) - 1) * r.move_y + r.reach
            odd = fill_band(r, scratch, source, z0, row0, rows)
            if odd != 0:
                fill_exactly(r, scratch, source, z0, row0, rows)
            a = scratch
        return a, odd

    return read
