"""col2im: the second half of a transposed convolution, which sums the products of dot where they overlap.

Transposed convolution is dot (every input pixel times every tap's weights) and then col2im: y[i * stride + k
* dilation - pad] += products[i, k]. A row of y is summed in scratch, tap by tap in one fixed order, and
stored with its chain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import loaded, reader
from ..isa.loops import each, repeat
from ..isa.tiers import Tier
from ..isa.vector import I64, Vector, emits
from ..pointwise.epilogue import addend_at, is_walked, simple, walk
from .rows import COL2IM, OVERLAPS


def make_col2im(tier: Tier) -> Callable[..., None]:
    """The kernel that sums f32 products."""
    return col2im_kernel(tier, _finish(tier), lambda v, x, y: v.b.fadd(x, y), 4)


def col2im_kernel(
    tier: Tier, finish: Any, total: Callable[[Vector, Any, Any], Any], out_item: int
) -> Callable[..., None]:
    """The loops of a col2im kernel; its record begins with `rows.OVERLAPS`.

    total(v, x, y) sums two vectors of products, as f32 vectors whatever they are. finish(args, row, to, to_step, n,
    pixels, image, pixel, column) stores the sums of `pixels` pixels of n channels, `to_step` bytes apart; `out_item`:
    bytes of an element of y.
    """
    fields = reader(OVERLAPS)
    fill, add = _fill(tier), _add(tier, total)

    def col2im(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        row = r.scratch + thread * r.scratch_bytes
        pixel = r.n * 4
        step = r.k_d * r.k_h * r.k_w * pixel
        units = r.images * r.out_d * r.out_h * r.sets
        for unit in range(units * thread // threads, units * (thread + 1) // threads):
            upper = unit // r.sets
            group = unit - upper * r.sets
            above = upper // r.out_h
            oy = upper - above * r.out_h
            image = above // r.out_d
            oz = above - image * r.out_d
            fill(row, r.bias + group * pixel, r.n, r.out_w)
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
                    for kx in range(r.k_w):
                        first = kx * r.dilation_x - r.pad_x
                        ix = (r.stride_x - 1 - first) // r.stride_x if first < 0 else 0
                        room = r.out_w - 1 - first
                        end = room // r.stride_x + 1 if room >= 0 else 0
                        end = end if end < r.w else r.w
                        if ix < end:
                            tap = (kz * r.k_h + ky) * r.k_w + kx
                            add(
                                to=row + (first + ix * r.stride_x) * pixel, to_step=r.stride_x * pixel,
                                source=products + ((iz * r.h + iy) * r.w + ix) * step + tap * pixel, source_step=step,
                                n=r.n, count=end - ix,
                            )  # fmt: skip
            first_pixel = (oz * r.out_h + oy) * r.out_w
            column = group * r.n
            finish(
                args=args, row=row, to_step=r.ldy * out_item, n=r.n, pixels=r.out_w, image=image, pixel=first_pixel,
                to=r.y + ((image * r.out_d * r.out_h * r.out_w + first_pixel) * r.ldy + column) * out_item,
                column=column,
            )  # fmt: skip

    return col2im


def _fill(tier: Tier) -> Any:
    """An intrinsic that writes the bias to every pixel of a row."""

    @emits
    def fill(b: Any, row: Any, bias: Any, n: Any, pixels: Any) -> None:
        v = Vector(b, tier)
        source = v.pointer(bias)

        def pixel(_: Any, state: list[Any]) -> list[Any]:
            to = v.pointer(state[0])
            each(v, I64(0), n, lambda w, i, mask: w.store(w.load(w.at(source, i), mask), w.at(to, i), mask), 1)
            return [b.add(state[0], b.mul(n, I64(4)))]

        repeat(b, pixels, [row], pixel)

    return fill


def _add(tier: Tier, total: Callable[[Vector, Any, Any], Any]) -> Any:
    """An intrinsic that adds `count` runs of n products to others."""

    @emits
    def add(b: Any, to: Any, to_step: Any, source: Any, source_step: Any, n: Any, count: Any) -> None:
        v = Vector(b, tier)

        def run(_: Any, state: list[Any]) -> list[Any]:
            target, start = (v.pointer(address) for address in state)

            def one(v: Vector, i: Any, mask: Any) -> None:
                both = total(v, v.load(v.at(target, i), mask), v.load(v.at(start, i), mask))
                v.store(both, v.at(target, i), mask)

            each(v, I64(0), n, one, 1)
            return [b.add(state[0], to_step), b.add(state[1], source_step)]

        repeat(b, count, [to, source], run)

    return add


def _finish(tier: Tier) -> Any:
    """An intrinsic, `finish` of col2im_kernel, that stores what EPILOGUE makes of the sums."""

    @emits
    def finish(
        b: Any, args: Any, row: Any, to: Any, to_step: Any, n: Any, pixels: Any, image: Any, pixel: Any, column: Any
    ) -> None:
        v, slots = Vector(b, tier), loaded(b, args, COL2IM)

        def run(p: Any, state: list[Any]) -> list[Any]:
            source, target = (v.pointer(address) for address in state)
            addends = addend_at(v, slots, image, b.add(pixel, p), column)

            def one(w: Vector, i: Any, mask: Any) -> None:
                value = w.load(w.at(source, i), mask)
                (result,) = simple(w, slots, [value], lambda _: w.load(w.at(addends, i), mask))
                w.store(result, w.at(target, i), mask)

            each(v, I64(0), n, one, 1)
            return [b.add(state[0], b.mul(n, I64(4))), b.add(state[1], to_step)]

        with b.if_else(is_walked(b, slots), likely=False) as (chain, plain):
            with chain:
                walk(b, slots, image, pixel, column, pixels, n, row, b.mul(n, I64(4)), to, to_step)
            with plain:
                repeat(b, pixels, [row, to], run)

    return finish
