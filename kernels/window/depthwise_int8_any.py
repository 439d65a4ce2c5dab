"""Depthwise convolution of bytes for any window of two dimensions and any number of outputs per channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..core.record import reader
from ..isa import functions as f
from ..isa.integer import in_order, to_bytes
from ..isa.loops import divide, loop, remainder, thread_range, variable
from ..isa.tiers import Tier
from ..isa.vector import F32, I8, I32, I64, Vector, emits
from .rows import DEPTHWISE_INT8_ANY
from .window import slots, steps_to


def make_depthwise_any(tier: Tier, multiplier: int, out: str) -> Callable:
    """y[n, i, j, c] from the x[n, i*sh + p*dh - pad_top, j*sw + q*dw - pad_left, c // multiplier] in the image.

    out: "u8", "s8" or "f32" (low and high: its bits).
    """
    size = 4 if out == "f32" else 1
    fields = reader(DEPTHWISE_INT8_ANY)
    lanes = tier.lanes

    @emits
    def output(b: Any, args: Any, x: Any, y: Any, channel: Any, p0: Any, p1: Any, q0: Any, q1: Any) -> None:
        v = Vector(b, tier)
        r = slots(b, args, DEPTHWISE_INT8_ANY)
        bias = b.add(r.packed, b.shl(channel, I64(2)))
        total = variable(b, _load(v, bias, v.itype))
        zero = v.splat(b.trunc(r.zero_x, I32), lanes)
        source = b.add(x, b.udiv(channel, I64(multiplier)))
        with loop(b, p0, p1, 1) as p, loop(b, q0, q1, 1) as q:
            place = b.add(source, b.mul(b.add(b.mul(b.mul(p, r.dh), r.w), b.mul(q, r.dw)), r.ldx))
            narrow = _load(v, place, ir.VectorType(I8, lanes))
            if multiplier > 1:
                first = b.urem(channel, I64(multiplier))
                every = b.add(v.splat(b.trunc(first, I32), lanes), ir.Constant(v.itype, list(range(lanes))))
                shares = b.udiv(every, v.iconst(multiplier))
                value = v.iconst(0)
                for i in range((lanes + multiplier - 2) // multiplier + 1):
                    one = b.load(b.inttoptr(b.add(place, I64(i)), I8.as_pointer()))
                    same = v.splat(b.zext(one, I32), lanes)
                    value = b.select(b.icmp_signed("==", shares, v.iconst(i)), same, value)
            else:
                value = b.zext(narrow, v.itype)
            tap = b.add(b.mul(b.add(b.mul(p, r.kw), q), r.c), b.add(channel, b.shl(r.c, I64(1))))
            weight = _load(v, b.add(r.packed, b.shl(tap, I64(2))), v.itype)
            b.store(b.add(b.load(total), b.mul(b.sub(value, zero), weight)), total)
        factor = _load(v, b.add(bias, b.shl(r.c, I64(2))), v.type)
        product = b.fmul(b.sitofp(b.load(total), v.type), factor)
        if out == "f32":
            least, most = (v.splat(b.bitcast(b.trunc(bound, I32), F32)) for bound in (r.low, r.high))
            result = f.minimum(v, f.maximum(v, product, least), most)
        else:
            result = in_order(v, to_bytes(v, r.zero_point, r.low, r.high, out == "s8")([product]), 1)
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


def _load(v: Vector, address: Any, kind: Any) -> Any:
    return v.b.load(v.b.inttoptr(address, kind.as_pointer()), align=1)
