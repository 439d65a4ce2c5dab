"""conv: convolution over a channels-last map, 1 to 3 spatial dimensions, as dot over a band of rows.

A band is the input that some output rows need, copied once into scratch with its zero padding. There a
pixel's taps lie at fixed distances, so the micro-kernel reads them in place: nothing is expanded per tap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.record import reader
from ..isa.tiers import Tier
from ..pointwise.chain import Chain
from .band import deal, make_band
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
    (0, 0) when nothing is left over. An extra's columns run over all channels of the output, its rows over the
    pixels of an image.
    """
    arithmetic = f32_arithmetic(tier, nv, chain, extras, len(CONV))
    return conv_kernel(tier, (groups, rows), tail, nv, ragged, arithmetic)


def conv_kernel(
    tier: Tier, whole: Shape, tail: Shape, nv: int, ragged: bool, arithmetic: Arithmetic
) -> Callable[..., None]:
    """The loops of a convolution around tiles of these shapes; its record begins with `rows.CONV`."""
    groups, rows = whole
    item, out_item = arithmetic.item, arithmetic.out_item
    fields, fill_band = reader(CONV), make_band(tier, item)
    tile = make_tile(tier, whole, tail, True, ragged, arithmetic)
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
        p0, p1, first, end = deal(r, panels, r.images * r.sets * r.out_d * bands, thread, threads)
        for unit in range(first, end):
            above = unit // bands
            y0 = (unit - above * bands) * r.band
            count = r.band if y0 + r.band < r.out_h else r.out_h - y0
            upper = above // r.out_d
            oz = above - upper * r.out_d
            image = upper // r.sets
            group = upper - image * r.sets
            a = r.x + image * r.x_image + group * r.x_set
            if r.direct:
                a += oz * r.stride_z * r.x_z + y0 * r.stride_y * r.x_y
            else:
                fill_band(
                    r, scratch, source=a, z=oz * r.stride_z - r.pad_z, y=y0 * r.stride_y - r.pad_y,
                    rows=(count - 1) * r.move_y + r.reach,
                )  # fmt: skip
                a = scratch
            pixel0 = (oz * r.out_h + y0) * r.out_w
            row0 = image * r.out_d * r.out_h * r.out_w
            for p in range(p0, p1):
                column = group * r.n_set + r.n0 + p * width
                ahead = step
                for i in range(0, count, groups):
                    for j in range(0, r.out_w, rows):
                        pixel = pixel0 + i * r.out_w + j
                        short = i + groups > count or j + rows > r.out_w
                        tile(
                            args, short,
                            a=a + i * r.gs + j * r.rs, rs=r.rs, gs=r.gs,
                            table=r.table, segments=r.segments, length=r.length,
                            panel=r.w + (group * panels + p) * step, ahead=ahead,
                            c=r.y + ((row0 + pixel) * r.ldy + column) * out_item, ldc=r.ldy * out_item,
                            columns=r.n - p * width, image=image, row=pixel, column=column,
                        )  # fmt: skip
                        ahead = ahead + line_bytes if 0 < ahead < last else 0

    return conv
