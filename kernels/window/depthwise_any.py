"""f32 depthwise convolution, channels last: window, strides and dilations at run time, in up to three dimensions.

Some taps of a row are added together. Where they are as far apart as outputs are, a column of x is loaded once for all
outputs of a tile.
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
from .window import Place, constants, nest, opaque, settle, slots, taps_inside

TILE = 7
"""Neighboring outputs of a row that are computed together."""
GROUP = 3
"""Taps of a row that are added together."""


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
            with loop(b, place.channel, place.end, vectors * lanes) as channel:
                emit_tile(b, replace(place, channel=channel), column, left, x, planes, rows)

    def emit_tile(b: Any, place: Place, column: Any, left: Any, x: Any, planes: Any, rows: Any) -> None:
        """One tile; `left`: the column of x at which its first window begins, x: the address of that."""
        v = Vector(b, tier)
        r = slots(b, place.args, DEPTHWISE_ANY)
        weights, bias = (v.at(v.pointer(address), place.channel) for address in (r.weights, r.bias))
        sums = [variable(b, value) for value in constants(v, bias, vectors) * TILE]
        load, channel = _repeated(v, r.multiplier, place.channel) if repeated else (v.load, place.channel)
        line, across, shared = b.mul(r.w, r.ldx), b.mul(r.dw, r.ldx), b.icmp_signed("==", r.dw, r.sw)
        grouped = b.select(shared, b.sub(r.kw, b.urem(r.kw, I64(GROUP))), I64(0))

        def taps(x: Any, tap: Any, at: Any, count: int, checked: bool) -> None:
            """Add `count` taps, whose first column is `at`, at the pointer x. `checked`: not all columns exist."""
            found = [constants(v, v.at(tap, b.mul(r.c, I64(k))), vectors) for k in range(count)]
            pixel, step = x, b.mul(r.sw, r.ldx)
            for j in range(TILE + count - 1):
                if j:
                    pixel = v.pointer(opaque(b, b.ptrtoint(v.at(pixel, step), I64)))
                exists = b.icmp_unsigned("<", b.add(at, b.mul(r.sw, I64(j))), r.w)
                with b.if_then(exists) if checked else nullcontext():
                    values = [load(v.at(pixel, i * lanes)) for i in range(vectors)]
                    users = [(j - k, k) for k in range(max(0, j - TILE + 1), min(count, j + 1))]
                    for t, k in users:
                        for i, value in enumerate(values):
                            total = sums[t * vectors + i]
                            b.store(v.fma(value, found[k][i], b.load(total)), total)
                    if vectors > 1 and count > 1:
                        settle(v, [sums[t * vectors + i] for t, _ in users for i in range(vectors)])

        def row_of_taps(x: Any, tap: Any) -> None:
            x, tap, done = variable(b, x), variable(b, tap), left
            for count, number in ((GROUP, grouped), (1, r.kw)):
                end = b.add(left, b.mul(number, r.dw))
                step = I64(count)
                # Up to here the first column may be for all of them to exist.
                room = b.sub(r.w, b.mul(r.sw, I64(TILE + count - 2)))
                room = b.select(b.icmp_signed(">", room, I64(0)), room, I64(0))
                with loop(b, done, end, b.mul(r.dw, step)) as at:
                    here, weights = b.load(x), b.load(tap)
                    with b.if_else(b.icmp_unsigned("<", at, room)) as (inner, edge):
                        with inner:
                            taps(here, weights, at, count, False)
                        with edge:
                            taps(here, weights, at, count, True)
                    b.store(v.at(here, b.mul(across, step)), x)
                    b.store(v.at(weights, b.mul(r.c, step)), tap)
                done = end

        with loop(b, planes[0], planes[1], 1) as z:
            plane = v.at(v.at(v.pointer(x), channel), b.mul(line, b.mul(z, b.mul(r.dd, r.h))))
            row = variable(b, v.at(plane, b.mul(b.mul(rows[0], r.dh), line)))
            tap = variable(b, v.at(weights, b.mul(b.mul(b.add(b.mul(z, r.kh), rows[0]), r.kw), r.c)))
            with loop(b, rows[0], rows[1], 1):
                row_of_taps(b.load(row), b.load(tap))
                b.store(v.at(b.load(row), b.mul(line, r.dh)), row)
                b.store(v.at(b.load(tap), b.mul(r.kw, r.c)), tap)
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
