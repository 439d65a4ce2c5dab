"""conv: convolution over a channels-last map, 1 to 3 spatial dimensions, as dot over a band of rows.

A band is the input that some output rows need, copied once into scratch with its zero padding. There a
pixel's taps lie at fixed distances, so the micro-kernel reads them in place: nothing is expanded per tap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..isa.tiers import Tier
from ..pointwise.chain import Chain
from .band import make_clear, make_copy
from .rows import CONV_ARGS
from .tile import Arithmetic, Shape, f32_arithmetic, make_fields, make_tile


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
    (0, 0) when nothing is left over. Its record is `rows_dot.CONV_ARGS`, then (address, stride per
    image, stride per pixel) for each extra; an extra's columns run over all channels of the output, its
    rows over the pixels of an image.
    """
    arithmetic = f32_arithmetic(tier, nv, chain, extras, len(CONV_ARGS))
    return conv_kernel(tier, (groups, rows), tail, nv, ragged, arithmetic)


def conv_kernel(
    tier: Tier, whole: Shape, tail: Shape, nv: int, ragged: bool, arithmetic: Arithmetic
) -> Callable[..., None]:
    """The loops of a convolution around tiles of these shapes; its record begins with `rows_dot.CONV_ARGS`."""
    fields = make_fields(len(CONV_ARGS))
    groups, rows = whole
    item, out_item = arithmetic.item, arithmetic.out_item
    tile = make_tile(tier, whole, tail, True, ragged, arithmetic)
    copy, clear = make_copy(tier, item), make_clear(tier, item)
    width = nv * tier.lanes
    line_bytes = tier.lanes * 4
    head, word = arithmetic.head, arithmetic.vectors * line_bytes

    def conv(args: int, thread: int, threads: int) -> None:
        (
            x, w, y, table, scratch, scratch_bytes, images, sets, out_d, out_h, out_w, n, n0, n_set,
            k, ldy, x_image, x_set, x_z, x_y, x_first, d, h, k_d, stride_z, dilation_z, pad_z,
            stride_y, pad_y, band, reach, step_y, move_y, left, pixels, run, x_step, pixel_step,
            right, band_z, band_y, rs, gs, segments, length, direct, by_columns, fill,
        ) = fields(args)
        scratch += thread * scratch_bytes
        bands = (out_h + band - 1) // band
        panels = (n + width - 1) // width
        step = head + k * word
        last = step + word - line_bytes
        units = images * sets * out_d * bands
        p0, p1, first, end = 0, panels, units * thread // threads, units * (thread + 1) // threads
        if by_columns:
            p0, p1, first, end = panels * thread // threads, panels * (thread + 1) // threads, 0, units
        if p0 == p1:
            end = first
        for unit in range(first, end):
            above = unit // bands
            y0 = (unit - above * bands) * band
            count = band if y0 + band < out_h else out_h - y0
            upper = above // out_d
            oz = above - upper * out_d
            image = upper // sets
            group = upper - image * sets
            a = x + image * x_image + group * x_set + oz * stride_z * x_z + y0 * stride_y * x_y
            if direct == 0:
                for z in range(k_d):
                    iz = oz * stride_z - pad_z + z * dilation_z
                    for i in range((count - 1) * move_y + reach):
                        iy = y0 * stride_y - pad_y + i * step_y
                        to = scratch + z * band_z + i * band_y
                        if iz < 0 or iz >= d or iy < 0 or iy >= h:
                            clear(to, fill, band_y // item)
                        else:
                            line = a + (z * dilation_z - pad_z) * x_z + (i * step_y - pad_y) * x_y + x_first
                            to = clear(to, fill, left)
                            for _ in range(pixels):
                                copy(to, line, run)
                                to += pixel_step
                                line += x_step
                            clear(to, fill, right)
                a = scratch
            pixel0 = (oz * out_h + y0) * out_w
            row0 = image * out_d * out_h * out_w
            for p in range(p0, p1):
                column = group * n_set + n0 + p * width
                panel = w + (group * panels + p) * step
                ahead = step
                for i in range(0, count, groups):
                    for j in range(0, out_w, rows):
                        pixel = pixel0 + i * out_w + j
                        to = y + ((row0 + pixel) * ldy + column) * out_item
                        # fmt: off
                        tile(i + groups > count or j + rows > out_w, args, a + i * gs + j * rs, rs, gs, table,
                             segments, length, panel, ahead, to, ldy * out_item, n - p * width, image, pixel, column)
                        # fmt: on
                        ahead = ahead + line_bytes if 0 < ahead < last else 0

    return conv
