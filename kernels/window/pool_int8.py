"""Maxima and averages of bytes over sliding windows, channels last; a mean over space is a window of all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..core.record import reader
from ..isa.integer import binary, bytes_type, halves_type, to_bytes
from ..isa.interleave import load_bytes, store_some, unpack
from ..isa.loops import divide, lesser, loop, remainder, smaller, thread_range, variable
from ..isa.tiers import Tier
from ..isa.vector import F32, I8, I32, I64, Vector, emits
from .pick_pool_int8 import BLOCK
from .rows import POOL_INT8
from .window import slots, steps_to

F64 = ir.DoubleType()
_LARGE = 2.0**127
UNROLLED = (2, 3, 5)
"""Square windows."""
RUN = 256
"""Bytes whose sum fits into 16 bits."""


def make_pool(tier: Tier, op: str) -> Callable:
    """y[n, i, j, c] = clamp of the largest, or of rint((sum - count * zero_x) * f32(ratio / count)) + zero_y, of the
    x[n, i*sh + p*dh - pad_top, j*sw + q*dw - pad_left, c] inside of the image.

    op: "max" or "sum"; count: 1 of a sum, of an average the elements, or the places of the padded image where its slots
    say so. What is of UNROLLED sizes inside of the image is unrolled.
    """
    fields, width = reader(POOL_INT8), 4 * tier.lanes

    @emits
    def output(
        b: Any, args: Any, x: Any, y: Any, first: Any, end: Any, p0: Any, p1: Any, q0: Any, q1: Any, count: Any
    ) -> None:
        v = Vector(b, tier)
        r = slots(b, args, POOL_INT8)
        pool = _Maximum(v, r) if op == "max" else _Sum(v, r, b.mul(b.sub(p1, p0), b.sub(q1, q0)), count)
        down, right = b.mul(b.mul(r.w, r.ldx), r.dh), b.mul(r.ldx, r.dw)

        def unrolled(source: Any, size: int) -> None:
            source = b.gep(source, [b.add(b.mul(down, p0), b.mul(right, q0))])
            for p in range(size):
                for q in range(size):
                    pool.add(b.gep(source, [b.add(b.mul(down, I64(p)), b.mul(right, I64(q)))]))
            pool.flush()

        def some(source: Any) -> None:
            with loop(b, p0, p1, 1) as p:
                line = b.gep(source, [b.mul(down, p)])
                with loop(b, q0, q1, RUN) as start:
                    with loop(b, start, lesser(b, b.add(start, I64(RUN)), q1), 1) as q:
                        pool.add(b.gep(line, [b.mul(right, q)]))
                    pool.flush()

        with loop(b, first, end, width) as at:
            channel = b.select(b.icmp_signed(">", r.c, I64(width)), lesser(b, at, b.sub(r.c, I64(width))), I64(0))
            source, target = (b.inttoptr(b.add(a, channel), I8.as_pointer()) for a in (x, y))
            pool.clear()
            done, edge = (b.append_basic_block(name) for name in ("done", "edge"))
            square = b.icmp_signed("==", b.sub(p1, p0), b.sub(q1, q0))
            jump = b.switch(b.select(square, b.sub(p1, p0), I64(0)), edge)
            for size in UNROLLED:
                jump.add_case(I64(size), b.append_basic_block(f"size{size}"))
                b.position_at_end(jump.cases[-1][1])
                unrolled(source, size)
                b.branch(done)
            b.position_at_end(edge)
            some(source)
            b.branch(done)
            b.position_at_end(done)
            store_some(v, pool.result(), target, r.c)

    def run(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        blocks = divide(r.c + (BLOCK - 1), BLOCK)
        units = r.n * r.oh * blocks
        start, stop = thread_range(units, thread, threads)
        for unit in range(start, stop):
            line = divide(unit, blocks)
            first = (unit - line * blocks) * BLOCK
            end = smaller(first + BLOCK, r.c)
            row = remainder(line, r.oh)
            up = row * r.sh - r.pad_top
            p0, p1 = steps_to(0, up, r.dh, r.kh), steps_to(r.h, up, r.dh, r.kh)
            source = r.x + (divide(line, r.oh) * r.h + up) * r.w * r.ldx
            target = r.y + line * r.ow * r.ldy
            for column in range(r.ow):
                left = column * r.sw - r.pad_left
                q0, q1 = steps_to(0, left, r.dw, r.kw), steps_to(r.w, left, r.dw, r.kw)
                count = (p1 - p0) * (q1 - q0) if r.average else 1
                if r.include_pad:
                    count = steps_to(r.end_y, up, r.dh, r.kh) * steps_to(r.end_x, left, r.dw, r.kw)
                output(args, source + left * r.ldx, target, first, end, p0, p1, q0, q1, count)
                target += r.ldy

    return run


class _Maximum:
    """The largest of the bytes added, held within bounds."""

    def __init__(self, v: Vector, r: Any) -> None:
        self.v, self.none = v, ir.Constant(bytes_type(v), [0] * 4 * v.lanes)
        self.best = variable(v.b, self.none)
        self.low, self.high = (v.splat(v.b.trunc(bound, I8), 4 * v.lanes) for bound in (r.low, r.high))

    def clear(self) -> None:
        self.v.b.store(self.none, self.best)

    def add(self, pointer: Any) -> None:
        b = self.v.b
        b.store(binary(self.v, "umax", b.load(self.best), load_bytes(self.v, pointer)), self.best)

    def flush(self) -> None:
        pass

    def result(self) -> Any:
        best = binary(self.v, "umax", self.v.b.load(self.best), self.low)
        return binary(self.v, "umin", best, self.high)


class _Sum:
    """The sum of the bytes added, at most RUN of them from flush to flush, scaled."""

    def __init__(self, v: Vector, r: Any, elements: Any, count: Any) -> None:
        b = self.b = v.b
        self.v, self.zero = v, ir.Constant(bytes_type(v), [0] * 4 * v.lanes)
        self.halves = [variable(b, ir.Constant(halves_type(v), [0] * 2 * v.lanes)) for _ in range(2)]
        self.sums = [variable(b, v.iconst(0)) for _ in range(4)]
        factor = b.fdiv(b.bitcast(r.ratio, F64), b.sitofp(count, F64))
        # An infinite factor would make NaN of a sum of 0.
        factor = b.select(b.fcmp_ordered("<", factor, F64(_LARGE)), factor, F64(_LARGE))
        self.factor = v.splat(b.fptrunc(factor, F32))
        self.shift = v.splat(b.trunc(b.mul(elements, r.zero_x), I32), v.lanes)
        self.rounded = to_bytes(v, r.zero_point, r.low, r.high)

    def clear(self) -> None:
        for total in self.sums:
            self.b.store(self.v.iconst(0), total)

    def add(self, pointer: Any) -> None:
        x = load_bytes(self.v, pointer)
        for high, total in enumerate(self.halves):
            part = self.b.bitcast(unpack(self.v, x, self.zero, bool(high)), halves_type(self.v))
            self.b.store(self.b.add(self.b.load(total), part), total)

    def flush(self) -> None:
        none = ir.Constant(halves_type(self.v), [0] * 2 * self.v.lanes)
        for k, total in enumerate(self.sums):
            part = unpack(self.v, self.b.load(self.halves[k // 2]), none, bool(k % 2))
            self.b.store(self.b.add(self.b.load(total), self.b.bitcast(part, self.v.itype)), total)
        for half in self.halves:
            self.b.store(none, half)

    def result(self) -> Any:
        sums = [self.b.sub(self.b.load(total), self.shift) for total in self.sums]
        return self.rounded([self.b.fmul(self.b.sitofp(total, self.v.type), self.factor) for total in sums])
