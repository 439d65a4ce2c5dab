"""f32 depthwise convolution, channels last: window, strides and dilations at run time, in up to three dimensions.

Tap by tap is added to all outputs of a tile; where not all of its columns exist, each is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from llvmlite import ir

from ..isa.loops import lesser, loop, variable
from ..isa.tiers import Tier
from ..isa.vector import F32, I32, I64, Vector
from .results import Outputs, finish, walk_row
from .rows import DEPTHWISE_ANY
from .window import Place, all_exist, constants, nest, slots, spread, taps_inside

TILE = 7
"""Neighboring outputs of a row that are computed together."""


def make_depthwise_any(tier: Tier, vectors: int, repeated: bool) -> Callable:
    """As make_depthwise, for any window. Output channel o reads input channel o // multiplier where the kernel is
    `repeated`, else o.
    """
    lanes = tier.lanes

    def emit_row(b: Any, place: Place) -> None:
        r = slots(b, place.args, DEPTHWISE_ANY)
        begin, planes, rows = taps_inside(b, r, place)
        with loop(b, 0, r.ow, TILE) as column:
            left = b.sub(b.mul(column, r.sw), r.pad_left)
            x = b.add(begin, b.shl(b.mul(left, r.ldx), I64(2)))
            inside = all_exist(b, r, left, TILE)
            with loop(b, place.channel, place.end, vectors * lanes) as channel:
                emit_tile(b, replace(place, channel=channel), column, left, x, planes, rows, inside)

    def emit_tile(b: Any, place: Place, column: Any, left: Any, x: Any, planes: Any, rows: Any, inside: Any) -> None:
        """One tile; `left`: the column of x at which its first window begins, x: the address of that. inside: all of
        its columns exist.
        """
        v = Vector(b, tier)
        r = slots(b, place.args, DEPTHWISE_ANY)
        weights, bias = (v.at(v.pointer(address), place.channel) for address in (r.weights, r.bias))
        sums = [variable(b, value) for value in constants(v, bias, vectors) * TILE]
        load, channel = _repeated(v, r.multiplier, place.channel) if repeated else (v.load, place.channel)
        line, across, step = b.mul(r.w, r.ldx), b.mul(r.dw, r.ldx), b.mul(r.sw, r.ldx)

        def add_tap(x: Any, tap: Any, at: Any) -> None:
            """Add the tap whose weights are at `tap` and which the first output finds at the pointer x, in column `at`.
            None: all outputs' columns exist.
            """
            factors = constants(v, tap, vectors)
            for t, pixel in enumerate(spread(b, x, step, TILE)):
                exists = None if at is None else b.icmp_unsigned("<", b.add(at, b.mul(r.sw, I64(t))), r.w)
                with nullcontext() if exists is None else b.if_then(exists):
                    for i, factor in enumerate(factors):
                        total = sums[t * vectors + i]
                        b.store(v.fma(load(v.at(pixel, i * lanes)), factor, b.load(total)), total)

        def add_rows(x: Any, tap: Any, checked: bool) -> None:
            """Add the taps of the rows that exist in a plane; x and tap: those of the first."""
            x, tap = variable(b, x), variable(b, tap)
            with loop(b, rows[0], rows[1], 1):
                here, weights = variable(b, b.load(x)), variable(b, b.load(tap))
                with loop(b, 0, r.kw, 1) as q:
                    add_tap(b.load(here), b.load(weights), b.add(left, b.mul(q, r.dw)) if checked else None)
                    b.store(v.at(b.load(here), across), here)
                    b.store(v.at(b.load(weights), r.c), weights)
                b.store(v.at(b.load(x), b.mul(line, r.dh)), x)
                b.store(b.load(weights), tap)

        def add_planes(checked: bool) -> None:
            with loop(b, planes[0], planes[1], 1) as z:
                plane = v.at(v.at(v.pointer(x), channel), b.mul(line, b.mul(z, b.mul(r.dd, r.h))))
                row = v.at(plane, b.mul(b.mul(rows[0], r.dh), line))
                add_rows(row, v.at(weights, b.mul(b.mul(b.add(b.mul(z, r.kh), rows[0]), r.kw), r.c)), checked)

        with b.if_else(inside) as (inner, edge):
            with inner:
                add_planes(False)
            with edge:
                add_planes(True)
        pixel = b.add(b.mul(place.row, r.ow), column)
        in_batch = b.add(b.mul(b.mul(place.image, b.mul(r.od, r.oh)), r.ow), pixel)
        y = b.add(r.y, b.shl(b.add(b.mul(in_batch, r.ldy), place.channel), I64(2)))
        out = Outputs(y, pixel, lesser(b, b.sub(r.ow, column), I64(TILE)))
        finish(v, DEPTHWISE_ANY, place, out, [b.load(total) for total in sums], vectors)

    return nest(DEPTHWISE_ANY, emit_row, walk_row)


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
