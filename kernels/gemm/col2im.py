"""col2im: the second half of a transposed convolution, which sums the products of dot where they overlap.

Transposed convolution is dot (every input pixel times every tap's weights) and then col2im: y[i * stride + k
* dilation - pad] += products[i, k]. A row of y is summed in scratch, tap by tap in one fixed order, and
stored with its chain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import fields
from ..isa.tiers import Tier
from ..lang import F32, Value, along, choose, either, repeat, tier, traced
from ..pointwise.epilogue import Area, Lines, addend_at, is_walked, walk
from .results import finish_row
from .rows import COL2IM, OVERLAPS


def make_col2im(tier: Tier) -> Callable[..., None]:
    """The kernel that sums f32 products."""
    return col2im_kernel(tier, _finish, lambda x, y: x + y, 4)


def col2im_kernel(tier: Tier, finish: Any, total: Callable[..., Any], out_item: int) -> Callable[..., None]:
    """The loops of a col2im kernel; its record begins with `rows.OVERLAPS`.

    total(x, y) sums two vectors of products, as f32 vectors whatever they are. finish(args, row, area, lines) stores a
    row of sums as an Area of the result, in Lines; `out_item`: bytes of an element of y.
    """
    lanes, (add_pixels, add_taps) = tier.lanes, _adds(_add(tier, total))

    def col2im(args: int, thread: int, threads: int) -> None:
        r = fields(args, OVERLAPS)
        sums = r.scratch + thread * r.scratch_bytes
        pixel = r.n * 4
        step = r.k_d * r.k_h * r.k_w * pixel
        units = r.images * r.out_d * r.out_h * r.sets
        for unit in range(units * thread // threads, units * (thread + 1) // threads):
            image, oz, oy, group = _row_at(r, unit)
            _fill(sums, r.bias + group * pixel, r.n, r.out_w)
            products = r.t + (group * r.images + image) * r.d * r.h * r.w * step
            for kz in range(r.k_d):
                z = oz + r.pad_z - kz * r.dilation_z
                iz = z // r.stride_z if z >= 0 else r.d
                if iz >= r.d or iz * r.stride_z != z:
                    continue
                for ky in range(r.k_h):
                    y = oy + r.pad_y - ky * r.dilation_y
                    iy = y // r.stride_y if y >= 0 else r.h
                    if iy >= r.h or iy * r.stride_y != y:
                        continue
                    line = products + (iz * r.h + iy) * r.w * step + (kz * r.k_h + ky) * r.k_w * pixel
                    if r.n < lanes and r.dilation_x == 1:
                        add_pixels(r, sums, line)
                    else:
                        add_taps(r, sums, line)
            first_pixel = (oz * r.out_h + oy) * r.out_w
            column = group * r.n
            to_step = r.ldy * out_item
            to = r.y + ((image * r.out_d * r.out_h * r.out_w + first_pixel) * r.ldy + column) * out_item
            finish(args, sums, (image, first_pixel, column, r.out_w, r.n), (to, to_step))

    return col2im


def _row_at(r: Any, unit: int) -> tuple[int, int, int, int]:
    """(image, slice, row of it, group) of a row of the result by its number."""
    upper = unit // r.sets
    group = unit - upper * r.sets
    above = upper // r.out_h
    oy = upper - above * r.out_h
    image = above // r.out_d
    return image, above - image * r.out_d, oy, group


def _adds(add: Any) -> tuple[Callable[..., None], Callable[..., None]]:
    """add_pixels(r, row, line) and add_taps(r, row, line): a line of products, those of all taps of a row of the
    kernel, to a row of the result; pixel by pixel, all taps of one at once, or tap by tap.
    """

    def add_pixels(r: Any, row: int, line: int) -> None:
        """From the last pixel on, so that each output's taps come in order."""
        pixel = r.n * 4
        step = r.k_d * r.k_h * r.k_w * pixel
        for further in range(r.w):
            ix = r.w - 1 - further
            first = ix * r.stride_x - r.pad_x
            left = 0 if first >= 0 else -first
            right = r.k_w if first + r.k_w <= r.out_w else r.out_w - first
            if left < right:
                source, length = line + ix * step + left * pixel, (right - left) * r.n
                add(row + (first + left) * pixel, 0, source, 0, n=length, count=1)

    def add_taps(r: Any, row: int, line: int) -> None:
        pixel = r.n * 4
        step = r.k_d * r.k_h * r.k_w * pixel
        for kx in range(r.k_w):
            first = kx * r.dilation_x - r.pad_x
            ix = (r.stride_x - 1 - first) // r.stride_x if first < 0 else 0
            room = r.out_w - 1 - first
            end = room // r.stride_x + 1 if room >= 0 else 0
            end = end if end < r.w else r.w
            if ix < end:
                to, to_step = row + (first + ix * r.stride_x) * pixel, r.stride_x * pixel
                add(to, to_step, line + ix * step + kx * pixel, step, n=r.n, count=end - ix)

    return add_pixels, add_taps


@traced
def _fill(row: Value, bias: Value, n: Value, pixels: Value) -> None:
    """Write the bias to every pixel of a row."""
    f32 = F32.vector(tier().lanes)
    source = F32.at(bias)

    def pixel(_: Value, state: list[Value]) -> list[Value]:
        to = F32.at(state[0])
        for some, i, mask in along(f32, 0, n, 1):
            some[to + i, mask] = some[source + i, mask]
        return [state[0] + n * 4]

    repeat(pixels, [row], pixel)


def _add(tier: Tier, total: Callable[[Value, Value], Value]) -> Any:
    """add(to, to_step, source, source_step, n, count): adds `count` runs of n products to others."""
    f32 = F32.vector(tier.lanes)

    @traced
    def add(to: Value, to_step: Value, source: Value, source_step: Value, n: Value, count: Value) -> None:
        def run(_: Value, state: list[Value]) -> list[Value]:
            into, start = (F32.at(address) for address in state)
            for some, i, mask in along(f32, 0, n, 1):
                some[into + i, mask] = total(some[into + i, mask], some[start + i, mask])
            return [state[0] + to_step, state[1] + source_step]

        repeat(count, [to, source], run)

    return add


@traced
def _finish(args: Value, row: Value, area: Any, lines: Any) -> None:
    """`finish` of col2im_kernel: stores what EPILOGUE makes of the sums."""
    slots, (image, pixel, column, pixels, n), (to, to_step) = fields(args, COL2IM), area, lines
    dense = (to_step == n * 4) & ((slots.addend == 0) | (slots.addend_row == n))
    each, count = choose(dense, n * pixels, n), choose(dense, 1, pixels)

    def run(p: Value, state: list[Value]) -> list[Value]:
        source, into = (F32.at(address) for address in state)
        finish_row(slots, source, into, each, addend_at(slots, image, pixel + p, column))
        return [state[0] + n * 4, state[1] + to_step]

    with either(is_walked(slots), likely=False) as (chain, plain):
        with chain:
            walk(slots, Area(*area), Lines(row, n * 4), Lines(*lines))
        with plain:
            repeat(count, [row, to], run)
