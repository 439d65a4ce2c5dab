"""conv: convolution over a channels-last map, 1 to 3 spatial dimensions, as dot over a band of rows.

A band is the input that some output rows need, copied once into scratch with its zero padding. There a
pixel's taps lie at fixed distances, so the micro-kernel reads them in place: nothing is expanded per tap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.record import reader
from ..isa.tiers import Tier
from ..pointwise.chain import Chain
from .band import make_clear, make_copy
from .rows import CONV
from .tile import Arithmetic, Shape, f32_arithmetic, make_tile


def make_conv(
    tier: Tier,
    groups: int,
    rows: int,
    nv: int,
    tail: Shape,
    ragged: bool,
    chain: Chain = (),
    extras: Sequence[str] = (),
) -> Callable[..., None]:
    """The kernel for tiles of `groups` output rows x `rows` pixels x nv vectors.

    Either groups is 1 and `tail` (1, out_w % rows), or rows is out_w and `tail` (out_h % groups, rows);
    (0, 0) when nothing is left over. Its record is `rows.CONV`, then (address, stride per
    image, stride per pixel) for each extra; an extra's columns run over all channels of the output, its
    rows over the pixels of an image.
    """
    arithmetic = f32_arithmetic(tier, nv, chain, extras, len(CONV))
    return conv_kernel(tier, (groups, rows), tail, nv, ragged, arithmetic)


def conv_kernel(
    tier: Tier, whole: Shape, tail: Shape, nv: int, ragged: bool, arithmetic: Arithmetic
) -> Callable[..., None]:
    """The loops of a convolution around tiles of these shapes; its record begins with `rows.CONV`."""
    fields = reader(CONV)
    groups, rows = whole
    item, out_item = arithmetic.item, arithmetic.out_item
    tile = make_tile(tier, whole, tail, True, ragged, arithmetic)
    copy, clear = make_copy(tier, item), make_clear(tier, item)
    width = nv * tier.lanes
    line_bytes = tier.lanes * 4
    head, word = arithmetic.head, arithmetic.vectors * line_bytes

    def conv(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        scratch = r.scratch + thread * r.scratch_bytes
        bands = (r.out_h + r.band - 1) // r.band
        panels = (r.n + width - 1) // width
        step = head + r.k * word
        last = step + word - line_bytes
        units = r.images * r.sets * r.out_d * bands
        p0, p1, first, end = 0, panels, units * thread // threads, units * (thread + 1) // threads
        if r.by_columns:
            p0, p1, first, end = panels * thread // threads, panels * (thread + 1) // threads, 0, units
        if p0 == p1:
            end = first
        for unit in range(first, end):
            above = unit // bands
            y0 = (unit - above * bands) * r.band
            count = r.band if y0 + r.band < r.out_h else r.out_h - y0
            upper = above // r.out_d
            oz = above - upper * r.out_d
            image = upper // r.sets
            group = upper - image * r.sets
            a = r.x + image * r.x_image + group * r.x_set + oz * r.stride_z * r.x_z + y0 * r.stride_y * r.x_y
            if r.direct == 0:
                for z in range(r.k_d):
                    iz = oz * r.stride_z - r.pad_z + z * r.dilation_z
                    for i in range((count - 1) * r.move_y + r.reach):
                        iy = y0 * r.stride_y - r.pad_y + i * r.step_y
                        to = scratch + z * r.band_z + i * r.band_y
                        if iz < 0 or iz >= r.d or iy < 0 or iy >= r.h:
                            clear(to, r.fill, r.band_y // item)
                        else:
                            line = a + (z * r.dilation_z - r.pad_z) * r.x_z + (i * r.step_y - r.pad_y) * r.x_y
                            line += r.x_first
                            to = clear(to, r.fill, r.left)
                            for _ in range(r.pixels):
                                copy(to, line, r.run)
                                to += r.pixel_step
                                line += r.x_step
                            clear(to, r.fill, r.right)
                a = scratch
            pixel0 = (oz * r.out_h + y0) * r.out_w
            row0 = image * r.out_d * r.out_h * r.out_w
            for p in range(p0, p1):
                column = group * r.n_set + r.n0 + p * width
                panel = r.w + (group * panels + p) * step
                ahead = step
                for i in range(0, count, groups):
                    for j in range(0, r.out_w, rows):
                        pixel = pixel0 + i * r.out_w + j
                        to = r.y + ((row0 + pixel) * r.ldy + column) * out_item
                        # fmt: off
                        tile(i + groups > count or j + rows > r.out_w, args, a + i * r.gs + j * r.rs, r.rs, r.gs,
                             r.table, r.segments, r.length, panel, ahead, to, r.ldy * out_item, r.n - p * width,
                             image, pixel, column)
                        # fmt: on
                        ahead = ahead + line_bytes if 0 < ahead < last else 0

    return conv
