"""Depthwise convolution of bytes for any window of two dimensions and any number of outputs per channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..core.record import reader
from ..gemm.requantize import byte_rounder, word
from ..gemm.rows import STORES
from ..isa.integer import in_order
from ..isa.loops import divide, loop, remainder, thread_range, variable
from ..isa.tiers import Tier
from ..isa.vector import I8, I32, I64, Vector, emits
from .rows import DEPTHWISE_INT8_ANY
from .window import slots, steps_to


def make_depthwise_any(tier: Tier, out: str) -> Callable:
    """y[n, i, j, c] from the x[n, i*sh + p*dh - pad_top, j*sw + q*dw - pad_left, c // multiplier] in the image.

    out: one of gemm's STORES, of which i32 isn't made.
    """
    size = STORES[out]
    fields = reader(DEPTHWISE_INT8_ANY)
    lanes = tier.lanes

    @emits
    def output(b: Any, args: Any, x: Any, y: Any, channel: Any, p0: Any, p1: Any, q0: Any, q1: Any) -> None:
        v = Vector(b, tier)
        r = slots(b, args, DEPTHWISE_INT8_ANY)
        bias = b.add(r.packed, b.shl(channel, I64(2)))
        total = variable(b, _load(v, bias, v.itype))
        zero = v.splat(b.trunc(r.zero_x, I32), lanes)
        source, first = b.add(x, b.udiv(channel, r.multiplier)), b.urem(channel, r.multiplier)
        alone = b.icmp_signed("==", r.multiplier, I64(1))
        shares = _shares(v, first, r.multiplier)
        inputs = b.add(b.udiv(b.add(first, I64(lanes - 1)), r.multiplier), I64(1))

        def repeated(place: Any) -> Any:
            found = variable(b, v.iconst(0))
            with loop(b, 0, inputs, 1) as i:
                one = v.splat(b.zext(b.load(b.inttoptr(b.add(place, i), I8.as_pointer())), I32))
                mine = b.icmp_signed("==", shares, v.splat(b.trunc(i, I32)))
                b.store(b.select(mine, one, b.load(found)), found)
            return b.load(found)

        held = variable(b, v.iconst(0))
        with loop(b, p0, p1, 1) as p, loop(b, q0, q1, 1) as q:
            place = b.add(source, b.mul(b.add(b.mul(b.mul(p, r.dh), r.w), b.mul(q, r.dw)), r.ldx))
            with b.if_else(alone, likely=True) as (each, several):
                with each:
                    b.store(b.zext(_load(v, place, ir.VectorType(I8, lanes)), v.itype), held)
                with several:
                    b.store(repeated(place), held)
            value = b.load(held)
            tap = b.add(b.mul(b.add(b.mul(p, r.kw), q), r.c), b.add(channel, b.shl(r.c, I64(1))))
            weight = _load(v, b.add(r.packed, b.shl(tap, I64(2))), v.itype)
            b.store(b.add(b.load(total), b.mul(b.sub(value, zero), weight)), total)
        factor = _load(v, b.add(bias, b.shl(r.c, I64(2))), v.type)
        acc = b.load(total)
        product = b.fmul(b.sitofp(acc, v.type), factor)
        result = word(v, acc, product, r) if out == "words" else in_order(v, byte_rounder(v, r)([product]), 1)
        left = b.sub(r.c, channel)
        target = b.add(y, b.mul(channel, I64(size)))
        with b.if_else(b.icmp_signed(">=", left, I64(lanes))) as (whole, part):
            with whole:
                b.store(result, b.inttoptr(target, result.type.as_pointer()), align=1)
            with part:
                with b.goto_entry_block():
                    slot = b.alloca(result.type)
                b.store(result, slot)
                kind = result.type.element.as_pointer()
                start, end = b.bitcast(slot, kind), b.inttoptr(target, kind)
                with loop(b, 0, left, 1) as i:
                    b.store(b.load(b.gep(start, [i])), b.gep(end, [i]))

    def run(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        units = r.n * r.oh
        start, stop = thread_range(units, thread, threads)
        for unit in range(start, stop):
            row = remainder(unit, r.oh)
            up = row * r.sh - r.pad_top
            p0, p1 = steps_to(0, up, r.dh, r.kh), steps_to(r.h, up, r.dh, r.kh)
            line = r.x + (divide(unit, r.oh) * r.h + up) * r.w * r.ldx
            y = r.y + unit * r.ow * r.ldy * size
            for column in range(r.ow):
                left = column * r.sw - r.pad_left
                q0, q1 = steps_to(0, left, r.dw, r.kw), steps_to(r.w, left, r.dw, r.kw)
                for channel in range(0, r.c, lanes):
                    output(args, line + left * r.ldx, y + column * r.ldy * size, channel, p0, p1, q0, q1)

    return run


def _shares(v: Vector, first: Any, multiplier: Any) -> Any:
    """(first + i) // multiplier of every lane i, for numbers well below 2**22."""
    b = v.b
    index = b.add(v.splat(b.trunc(first, I32)), ir.Constant(v.itype, list(range(v.lanes))))
    middle = b.fadd(b.sitofp(index, v.type), v.const(0.5))
    return b.fptosi(b.fdiv(middle, b.sitofp(v.splat(b.trunc(multiplier, I32)), v.type)), v.itype)


def _load(v: Vector, address: Any, kind: Any) -> Any:
    return v.b.load(v.b.inttoptr(address, kind.as_pointer()), align=1)
