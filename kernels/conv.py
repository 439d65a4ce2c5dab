"""conv: convolution over a channels-last map, 1 to 3 spatial dimensions, as dot over a band of rows.

A band is the input that some output rows need, copied once into scratch with its zero padding. There a pixel's taps
lie at fixed distances, so the micro-kernel reads them in place: nothing is expanded per tap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .band import make_clear, make_copy
from .chain import Chain
from .dot import nothing
from .isa.tiers import Tier
from .isa.vector import I64, arg, emits
from .rows_dot import CONV_ARGS
from .tile import make_tile


@emits
def put(builder: Any, table: Any, index: Any, value: Any) -> None:
    """table[index] = value, all int64."""
    builder.store(value, builder.gep(builder.inttoptr(table, I64.as_pointer()), [index]))


def make_conv(tier: Tier, groups: int, rows: int, nv: int, tail: tuple[int, int], ragged: bool, chain: Chain = (),
              extras: Sequence[str] = ()) -> Callable[..., None]:
    """The kernel for tiles of `groups` output rows x `rows` pixels x nv vectors.

    Either groups is 1 and `tail` (1, out_w % rows), or rows is out_w and `tail` (out_h % groups, rows); (0, 0) when
    nothing is left over. Its record is `rows_dot.CONV_ARGS`, then (address, stride per image, stride per pixel) for
    each extra; an extra's columns run over all channels of the output, its rows over the pixels of an image.
    """
    def part(g: int, r: int) -> Any:
        return make_tile(tier, g, r, nv, True, ragged, chain, extras, len(CONV_ARGS))

    whole, rest = part(groups, rows), part(*tail) if tail[0] else nothing
    copy, clear = make_copy(tier), make_clear(tier)
    width = nv * tier.lanes

    def conv(args: int, thread: int, threads: int) -> None:
        x, w, y, ldy = arg(args, 0), arg(args, 1), arg(args, 2), arg(args, 3) * 4
        scratch = arg(args, 4) + thread * arg(args, 5)
        sets, c, n, band = arg(args, 7), arg(args, 8), arg(args, 9), arg(args, 10)
        direct, by_columns = arg(args, 11), arg(args, 12)
        image_stride, sz, sy, sx = arg(args, 13) * 4, arg(args, 14) * 4, arg(args, 15) * 4, arg(args, 16) * 4
        d, h, wide = arg(args, 17), arg(args, 18), arg(args, 19)
        out_d, out_h, out_w = arg(args, 20), arg(args, 21), arg(args, 22)
        kd, kh, kw = arg(args, 23), arg(args, 24), arg(args, 25)
        stride_z, stride_y, stride_x = arg(args, 26), arg(args, 27), arg(args, 28)
        dil_z, dil_y, dil_x = arg(args, 29), arg(args, 30), arg(args, 31)
        pad_z, pad_y, pad_x = arg(args, 32), arg(args, 33), arg(args, 34)

        # A 1-wide kernel needs only every stride-th row or column: the band keeps no others.
        step_y, step_x = (stride_y if kh == 1 else 1), (stride_x if kw == 1 else 1)
        move_y, move_x = (1 if kh == 1 else stride_y), (1 if kw == 1 else stride_x)
        px = arg(args, 35) * 4
        band_w = (out_w - 1) * move_x + (kw - 1) * dil_x + 1
        py = band_w * px
        pz = py * ((band - 1) * move_y + (kh - 1) * dil_y + 1)
        if direct:
            px, py, pz, move_y, move_x = sx, sy, sz, stride_y, stride_x
        else:
            dil_z = 1

        segments = 0
        merged = dil_x == 1 and px == c * 4
        for z in range(kd):
            for i in range(kh):
                for j in range(1 if merged else kw):
                    put(scratch, segments, z * dil_z * pz + i * dil_y * py + j * dil_x * px)
                    segments += 1
        length = c * kw if merged else c
        store = scratch + (segments * 8 + 63) // 64 * 64

        bands = (out_h + band - 1) // band
        panels = (n + width - 1) // width
        step = (kd * kh * kw * c + 1) * width * 4
        units = arg(args, 6) * sets * out_d * bands
        p0, p1, unit, end = 0, panels, units * thread // threads, units * (thread + 1) // threads
        if by_columns:
            p0, p1, unit, end = panels * thread // threads, panels * (thread + 1) // threads, 0, units
        if p0 == p1:
            end = unit
        for u in range(unit, end):
            rest_of = u // bands
            y0 = (u - rest_of * bands) * band
            count = band if y0 + band < out_h else out_h - y0
            above = rest_of // out_d
            oz = rest_of - above * out_d
            image = above // sets
            group = above - image * sets
            source = x + image * image_stride + group * c * 4
            if direct:
                a = source + oz * stride_z * sz + y0 * stride_y * sy
            else:
                a = store
                left = (pad_x + step_x - 1) // step_x
                left = left if left < band_w else band_w
                inside = wide + pad_x - left * step_x
                inside = (inside + step_x - 1) // step_x if inside > 0 else 0
                inside = inside if inside < band_w - left else band_w - left
                first = source + (left * step_x - pad_x) * sx
                for z in range(kd):
                    iz = oz * stride_z - pad_z + z * arg(args, 29)
                    for i in range((count - 1) * move_y + (kh - 1) * dil_y + 1):
                        iy = y0 * stride_y - pad_y + i * step_y
                        to = store + z * pz + i * py
                        if iz < 0 or iz >= d or iy < 0 or iy >= h:
                            clear(to, to, py // 4)
                        else:
                            clear(to, to, left * px // 4)
                            to += left * px
                            line = first + iz * sz + iy * sy
                            if sx * step_x == px and px == c * 4:
                                copy(to, line, inside * c)
                            else:
                                for j in range(inside):
                                    copy(to + j * px, line + j * step_x * sx, c)
                            to += inside * px
                            clear(to, to, (band_w - left - inside) * px // 4)
            pixel0 = (oz * out_h + y0) * out_w
            out = y + image * out_d * out_h * out_w * ldy
            panel0 = w + group * panels * step
            rs, gs = move_x * px, move_y * py
            for p in range(p0, p1):
                column = group * n + p * width
                panel = panel0 + p * step
                for i in range(0, count, groups):
                    for j in range(0, out_w, rows):
                        pixel = pixel0 + i * out_w + j
                        to = out + pixel * ldy + column * 4
                        from_ = a + i * gs + j * rs
                        if i + groups <= count and j + rows <= out_w:
                            whole(args, from_, rs, gs, scratch, segments, length, panel, step, to, ldy,
                                  n - p * width, image, pixel, column)
                        else:
                            rest(args, from_, rs, gs, scratch, segments, length, panel, step, to, ldy,
                                 n - p * width, image, pixel, column)

    return conv
