"""fold: the second half of a transposed convolution, which sums the products of dot where they overlap.

Transposed convolution is dot (every input pixel times every tap's weights) and then fold: y[i * stride + k
* dilation - pad] += products[i, k]. A row of y is summed in scratch, tap by tap in one fixed order, and
stored with its chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..isa.tiers import Tier
from ..isa.vector import I64, Vector, emits
from ..pointwise.chain import Chain, emit_chain
from .rows import FOLD_ARGS
from .tile import load_extra, make_fields, repeat


def make_fold(tier: Tier, chain: Chain = (), extras: Sequence[str] = ()) -> Callable[..., None]:
    """The kernel; record: `rows_dot.FOLD_ARGS`, then (address, stride per image, per pixel) per extra."""
    return fold_kernel(tier, _finish(tier, chain, extras), lambda v, x, y: v.b.fadd(x, y), 4)


def fold_kernel(
    tier: Tier, finish: Any, total: Callable[[Vector, Any, Any], Any], out_item: int
) -> Callable[..., None]:
    """The loops of a fold kernel; its record begins with `rows_dot.FOLD_ARGS`.

    total(v, x, y) sums two vectors of products, as f32 vectors whatever they are. finish(args, row, to, to_step, n,
    pixels, image, pixel, column) stores the sums of `pixels` pixels of n channels, `to_step` bytes apart; `out_item`:
    bytes of an element of y.
    """
    fields = make_fields(len(FOLD_ARGS))
    fill, add = _fill(tier), _add(tier, total)

    def fold(args: int, thread: int, threads: int) -> None:
        (
            t, y, ldy, bias, scratch, scratch_bytes, images, sets, n, d, h, w, out_d, out_h, out_w,
            k_d, k_h, k_w, stride_z, stride_y, stride_x, dil_z, dil_y, dil_x, pad_z, pad_y, pad_x,
        ) = fields(args)
        row = scratch + thread * scratch_bytes
        pixel = n * 4
        step = k_d * k_h * k_w * pixel
        units = images * out_d * out_h * sets
        for unit in range(units * thread // threads, units * (thread + 1) // threads):
            upper = unit // sets
            group = unit - upper * sets
            above = upper // out_h
            oy = upper - above * out_h
            image = above // out_d
            oz = above - image * out_d
            fill(row, bias + group * pixel, n, out_w)
            products = t + (group * images + image) * d * h * w * step
            for kz in range(k_d):
                z = oz + pad_z - kz * dil_z
                iz = z // stride_z if z >= 0 else d
                if iz >= d or iz * stride_z != z:
                    continue
                for ky in range(k_h):
                    v = oy + pad_y - ky * dil_y
                    iy = v // stride_y if v >= 0 else h
                    if iy >= h or iy * stride_y != v:
                        continue
                    for kx in range(k_w):
                        first = kx * dil_x - pad_x
                        ix = (stride_x - 1 - first) // stride_x if first < 0 else 0
                        room = out_w - 1 - first
                        end = room // stride_x + 1 if room >= 0 else 0
                        end = end if end < w else w
                        if ix < end:
                            tap = (kz * k_h + ky) * k_w + kx
                            add(
                                row + (first + ix * stride_x) * pixel,
                                stride_x * pixel,
                                products + ((iz * h + iy) * w + ix) * step + tap * pixel,
                                step,
                                n,
                                end - ix,
                            )
            first_pixel = (oz * out_h + oy) * out_w
            to = y + ((image * out_d * out_h * out_w + first_pixel) * ldy + group * n) * out_item
            finish(args, row, to, ldy * out_item, n, out_w, image, first_pixel, group * n)

    return fold


def each_vector(v: Vector, n: Any, body: Callable[[Any, Any], None]) -> None:
    """body(index of the first lane, mask or None) for all vectors of n elements."""
    b = v.b
    whole = b.ashr(n, I64(v.lanes.bit_length() - 1))

    def one(i: Any, _: list[Any]) -> list[Any]:
        body(b.mul(i, I64(v.lanes)), None)
        return []

    with b.if_then(b.icmp_signed(">", whole, I64(0))):
        repeat(b, whole, [], one)
    done = b.mul(whole, I64(v.lanes))
    with b.if_then(b.icmp_signed("<", done, n)):
        body(done, v.mask(b.sub(n, done)))


def _fill(tier: Tier) -> Any:
    """fill(row, bias, n, pixels): the bias at every pixel."""

    @emits
    def fill(b: Any, row: Any, bias: Any, n: Any, pixels: Any) -> None:
        v = Vector(b, tier)
        source = v.pointer(bias)

        def pixel(_: Any, state: list[Any]) -> list[Any]:
            to = v.pointer(state[0])
            each_vector(v, n, lambda i, mask: v.store(v.load(v.at(source, i), mask), v.at(to, i), mask))
            return [b.add(state[0], b.mul(n, I64(4)))]

        repeat(b, pixels, [row], pixel)

    return fill


def _add(tier: Tier, total: Callable[[Vector, Any, Any], Any]) -> Any:
    """add(to, to_step, source, source_step, n, count): count runs of n products added to others."""

    @emits
    def add(b: Any, to: Any, to_step: Any, source: Any, source_step: Any, n: Any, count: Any) -> None:
        v = Vector(b, tier)

        def run(_: Any, state: list[Any]) -> list[Any]:
            target, start = (v.pointer(address) for address in state)

            def one(i: Any, mask: Any) -> None:
                both = total(v, v.load(v.at(target, i), mask), v.load(v.at(start, i), mask))
                v.store(both, v.at(target, i), mask)

            each_vector(v, n, one)
            return [b.add(state[0], to_step), b.add(state[1], source_step)]

        repeat(b, count, [to, source], run)

    return add


def _finish(tier: Tier, chain: Chain, extras: Sequence[str]) -> Any:
    """finish(args, row, to, to_step, n, pixels, image, pixel, column): chain(row, extras) stored to y."""

    @emits
    def finish(
        b: Any,
        args: Any,
        row: Any,
        to: Any,
        to_step: Any,
        n: Any,
        pixels: Any,
        image: Any,
        pixel: Any,
        column: Any,
    ) -> None:
        v = Vector(b, tier)

        def run(p: Any, state: list[Any]) -> list[Any]:
            source, target = (v.pointer(address) for address in state)

            def one(i: Any, mask: Any) -> None:
                operands = [
                    load_extra(
                        v,
                        kind,
                        args,
                        len(FOLD_ARGS) + 3 * slot,
                        image,
                        b.add(pixel, p),
                        b.add(column, i),
                        mask,
                    )
                    for slot, kind in enumerate(extras)
                ]
                v.store(
                    emit_chain(v, chain, [v.load(v.at(source, i), mask), *operands]), v.at(target, i), mask
                )

            each_vector(v, n, one)
            return [b.add(state[0], b.mul(n, I64(4))), b.add(state[1], to_step)]

        repeat(b, pixels, [row, to], run)

    return finish
