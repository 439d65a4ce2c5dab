"""f32 depthwise convolution, channels last: window, strides and dilations at run time, in up to three dimensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from llvmlite import ir

from ..isa.loops import lesser, loop, variable
from ..isa.tiers import Tier
from ..isa.vector import F32, I32, I64, Vector
from .results import Outputs, finish
from .rows import DEPTHWISE_ANY
from .window import Place, constant, nest, slots, spread, taps_inside

TILE = 7
"""Neighboring outputs of a row that are computed together."""


def make_depthwise_any(tier: Tier, vectors: int, repeated: bool) -> Callable:
    """As make_depthwise, for any window. Output channel o reads input channel o // multiplier, where the kernel is
    `repeated`; else o.
    """
    lanes = tier.lanes

    def emit_row(b: Any, place: Place) -> None:
        v = Vector(b, tier)
        r = slots(b, place.args, DEPTHWISE_ANY)
        begin, (z0, z1), (p0, p1) = taps_inside(b, r, place)
        step, plane, line = b.mul(r.sw, r.ldx), b.mul(b.mul(r.dd, r.h), b.mul(r.w, r.ldx)), b.mul(r.w, r.ldx)
        line = b.mul(r.dh, line)
        # Up to here a tap's first column may be for all columns of the tile to exist.
        room = b.sub(r.w, b.mul(r.sw, I64(TILE - 1)))
        room = b.select(b.icmp_signed(">", room, I64(0)), room, I64(0))
        first = b.mul(place.row, r.ow)

        def tile_of(column: Any, left: Any, x: Any, channel: Any) -> None:
            weights, bias = (v.at(v.pointer(address), channel) for address in (r.weights, r.bias))
            values = [constant(b, v.load(v.at(bias, i * lanes))) for i in range(vectors)]
            sums = [variable(b, value) for value in values * TILE]
            load, source = (_repeated(v, r.multiplier, channel)) if repeated else (v.load, channel)
            x = v.at(x, source)

            def add(t: int, pixel: Any, taps: list[Any]) -> None:
                for i, tap in enumerate(taps):
                    total = sums[t * vectors + i]
                    b.store(v.fma(load(v.at(pixel, i * lanes)), tap, b.load(total)), total)

            with loop(b, z0, z1, 1) as z, loop(b, p0, p1, 1) as p:
                row = v.at(x, b.add(b.mul(z, plane), b.mul(p, line)))
                row_taps = v.at(weights, b.mul(b.mul(b.add(b.mul(z, r.kh), p), r.kw), r.c))
                with loop(b, 0, r.kw, 1) as q:
                    at = b.add(left, b.mul(q, r.dw))
                    tap = v.at(row_taps, b.mul(q, r.c))
                    taps = [constant(b, v.load(v.at(tap, i * lanes))) for i in range(vectors)]
                    pixels = spread(b, v.at(row, b.mul(q, b.mul(r.dw, r.ldx))), step, TILE)
                    with b.if_else(b.icmp_unsigned("<", at, room)) as (inner, edge):
                        with inner:
                            for t, pixel in enumerate(pixels):
                                add(t, pixel, taps)
                        with edge:
                            for t, pixel in enumerate(pixels):
                                with b.if_then(b.icmp_unsigned("<", b.add(at, b.mul(r.sw, I64(t))), r.w)):
                                    add(t, pixel, taps)
            y = b.add(r.y, b.shl(b.add(b.mul(b.add(b.mul(place.image, b.mul(b.mul(r.od, r.oh), r.ow)), b.add(first, column)), r.ldy), channel), I64(2)))
            out = Outputs(y, b.add(first, column), lesser(b, b.sub(r.ow, column), I64(TILE)))
            where = replace(place, channel=channel)
            finish(v, DEPTHWISE_ANY, where, out, [b.load(total) for total in sums], vectors)

        with loop(b, 0, r.ow, TILE) as column:
            left = b.sub(b.mul(column, r.sw), r.pad_left)
            x = v.at(v.pointer(begin), b.mul(left, r.ldx))
            with loop(b, place.channel, place.end, vectors * lanes) as channel:
                tile_of(column, left, x, channel)

    return nest(DEPTHWISE_ANY, emit_row)


def _repeated(v: Vector, multiplier: Any, channel: Any) -> tuple[Callable[[Any], Any], Any]:
    """(load(pixel), first): the input channels of a vector of output channels from `channel` on; `first`: the first."""
    b = v.b
    first = b.udiv(channel, multiplier)
    passed = b.sub(channel, b.mul(first, multiplier))
    lanes = ir.Constant(v.type, [float(i) + 0.5 for i in range(v.lanes)])
    # Halfway between whole numbers: far from where rounding would give another quotient.
    numbers = b.fadd(v.splat(b.sitofp(passed, F32)), lanes)
    index = b.fptosi(b.fdiv(numbers, v.splat(b.sitofp(multiplier, F32))), v.itype)

    def load(pixel: Any) -> Any:
        if v.lanes > 4:
            name = {8: "avx2.permps", 16: "avx512.permvar.sf.512"}[v.lanes]
            permute = v.declare(f"llvm.x86.{name}", v.type, [v.type, v.itype])
            return b.call(permute, [v.load(pixel), index])
        x = ir.Constant(v.type, ir.Undefined)
        for i in range(v.lanes):
            lane = b.zext(b.extract_element(index, I32(i)), I64)
            x = b.insert_element(x, b.load(v.at(pixel, lane)), I32(i))
        return x

    return load, first
