"""Images sampled at coordinates that are read at run time: f32, channel by channel, along up to three axes.

Of a few points together the taps are found first (bytes from a channel's start, weight), in f64; then every channel is
summed up with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from llvmlite import ir

from ..core.record import loaded, reader
from ..isa.byte_ops import choose, get, put, read, write
from ..isa.loops import div_rem, divide, larger, loop, pieces, room, smaller, thread_range, variable
from ..isa.tiers import Tier
from ..isa.vector import F32, I32, I64, emits
from .rows import CUBIC, LINEAR, NEAREST, PADDED, POINT, REFLECTED, SAMPLE, ZEROS

F64 = ir.DoubleType()
TAPS = 1024
"""How many are kept, of as many points as those are; a point of three axes has up to 64."""
FAR = 2.0**52
"""A coordinate further out counts as this far."""
STEEPNESS = -0.75
"""Of the cubic curve."""


def sample(tier: Tier) -> Callable:
    """The kernel."""
    fields = reader(SAMPLE)

    def kernel(args, thread, threads):
        r = fields(args)
        points = r.rows * r.columns
        together = TAPS >> (r.mode * r.axes)
        blocks = pieces(points, together)
        begin, end = thread_range(r.items * blocks, thread, threads)
        for unit in range(begin, end):
            item, block = div_rem(unit, blocks)
            asked = get(r.images + 8 * item)
            image = larger(smaller(asked, r.image_count - 1), 0)
            if image != asked:
                put(r.error, 1)
            first = block * together
            grid = r.grid + divide(item, r.share) * r.grid_item
            to = r.dst + item * r.dst_item + 4 * first
            _block(args, grid, to, r.src + image * r.src_image, first, smaller(points - first, together))

    return kernel


class _Taps:
    """Offsets and weights of the taps of points, `count` for each, and what their sums begin with."""

    def __init__(self, b: Any, count: Any) -> None:
        self.b, self.count = b, count
        self.offsets, self.weights = room(b, I64, TAPS), room(b, F64, TAPS)
        self.final, self.start = room(b, F32, TAPS), room(b, F32, TAPS)

    def at(self, memory: Any, index: Any) -> Any:
        return self.b.gep(memory, [index])


@emits
def _block(b: Any, args: Any, grid: Any, to: Any, src: Any, first: Any, count: Any) -> None:
    r = loaded(b, args, SAMPLE)
    taps = _Taps(b, b.shl(I64(1), b.mul(r.mode, r.axes)))
    with loop(b, 0, count, 1) as p:
        _point(b, r, args, taps, grid, b.add(first, p), p)
    _sums(b, r, taps, to, src, count)


def _point(b: Any, r: Any, args: Any, taps: _Taps, grid: Any, number: Any, p: Any) -> None:
    """Finds the taps of one point: the combinations of those along each axis."""
    row, base = b.udiv(number, r.columns), b.mul(p, taps.count)
    column = b.sub(number, b.mul(row, r.columns))
    b.store(I64(0), taps.at(taps.offsets, base))
    b.store(F64(1), taps.at(taps.weights, base))
    known, inside = variable(b, I64(1)), variable(b, ir.IntType(1)(1))
    offsets, weights = room(b, I64, 4), room(b, F64, 4)
    first, step = SAMPLE.at("at0"), len(POINT)
    with loop(b, 0, r.axes, 1) as k:
        axis = loaded(b, b.add(args, b.mul(I64(8), b.add(I64(first), b.mul(k, I64(step))))), POINT)
        place = b.add(grid, b.add(axis.at, b.add(b.mul(row, axis.row), b.mul(column, axis.column))))
        where = _coordinate(b, r, axis, place)
        size = b.sitofp(b.sub(axis.size, I64(1)), F64)
        within = b.and_(b.fcmp_ordered(">=", where, F64(0)), b.fcmp_ordered("<=", where, size))
        b.store(b.and_(b.load(inside), within), inside)
        _along(b, r, axis, where, offsets, weights)
        n, each = b.load(known), b.shl(I64(1), r.mode)
        # From the last on, as each becomes several.
        with loop(b, 0, n, 1) as back:
            j = b.sub(b.sub(n, I64(1)), back)
            at = b.add(base, j)
            offset, weight = b.load(taps.at(taps.offsets, at)), b.load(taps.at(taps.weights, at))
            with loop(b, 0, each, 1) as t:
                other = b.add(base, b.add(b.mul(j, each), t))
                b.store(b.add(offset, b.load(b.gep(offsets, [t]))), taps.at(taps.offsets, other))
                b.store(b.fmul(weight, b.load(b.gep(weights, [t]))), taps.at(taps.weights, other))
        b.store(b.mul(n, each), known)
    _finish(b, r, taps, base, p, b.load(inside))


def _finish(b: Any, r: Any, taps: _Taps, base: Any, p: Any, inside: Any) -> None:
    """What the point's sums begin with, and its weights as f32."""
    pad = b.bitcast(b.trunc(r.pad, I32), F32)
    out = b.and_(b.icmp_signed("==", r.outside, I64(PADDED)), b.not_(inside))
    total = variable(b, F64(0))
    with loop(b, 0, taps.count, 1) as t:
        at = taps.at(taps.weights, b.add(base, t))
        weight = b.select(out, F64(0), b.load(at))
        b.store(b.fptrunc(weight, F32), taps.at(taps.final, b.add(base, t)))
        b.store(b.fadd(b.load(total), weight), total)
    rest = b.fptrunc(b.fmul(b.fsub(F64(1), b.load(total)), b.fpext(pad, F64)), F32)
    some = b.and_(b.icmp_signed("==", r.outside, I64(ZEROS)), b.fcmp_ordered("!=", pad, F32(0)))
    b.store(b.select(out, pad, b.select(some, rest, F32(0))), taps.at(taps.start, p))


def _coordinate(b: Any, r: Any, axis: Any, place: Any) -> Any:
    """In pixels."""
    slot = variable(b, F64(0))
    choose(b, r.grid_size, {
        4: lambda: b.store(b.fpext(read(b, place, F32), F64), slot), 8: lambda: b.store(read(b, place, F64), slot),
    })  # fmt: skip
    before, scale, after, factor, low, high = (
        b.bitcast(v, F64) for v in (axis.before, axis.scale, axis.after, axis.factor, axis.low, axis.high)
    )
    where = b.fmul(b.fadd(b.fmul(b.fadd(b.load(slot), before), scale), after), factor)
    return _mirrored(b, b.icmp_signed("!=", r.fold, I64(0)), where, low, high)


def _along(b: Any, r: Any, axis: Any, where: Any, offsets: Any, weights: Any) -> None:
    """The taps along one axis: bytes and weights."""
    low, high, near = b.bitcast(axis.low, F64), b.bitcast(axis.high, F64), _floor(b, where)
    last = b.sitofp(b.sub(axis.size, I64(1)), F64)

    def put_tap(t: int, place: Any, weight: Any) -> None:
        zeros, mirror = (b.icmp_signed("==", r.outside, I64(mode)) for mode in (ZEROS, REFLECTED))
        off = b.or_(b.fcmp_ordered("<", place, F64(0)), b.fcmp_ordered(">", place, last))
        weight = b.select(b.and_(zeros, off), F64(0), weight)
        place = _mirrored(b, mirror, place, low, high)
        place = b.select(b.fcmp_ordered(">", place, F64(0)), place, F64(0))
        place = b.select(b.fcmp_ordered("<", place, last), place, last)
        b.store(b.mul(b.fptosi(place, I64), axis.stride), b.gep(offsets, [I64(t)]))
        b.store(weight, b.gep(weights, [I64(t)]))

    def nearest() -> None:
        rest = b.fsub(where, near)
        odd = b.icmp_signed("!=", b.and_(b.fptosi(near, I64), I64(1)), I64(0))
        up = b.or_(b.fcmp_ordered(">", rest, F64(0.5)), b.and_(b.fcmp_ordered("==", rest, F64(0.5)), odd))
        put_tap(0, b.select(up, b.fadd(near, F64(1)), near), F64(1))

    def several(places: Sequence[int], curve: Callable[[Any, Any], Any]) -> None:
        for t, step in enumerate(places):
            place = b.fadd(near, F64(step))
            put_tap(t, place, curve(b, _absolute(b, b.fsub(place, where))))

    choose(b, r.mode, {
        NEAREST: nearest, LINEAR: partial(several, (0, 1), lambda b, t: b.fsub(F64(1), t)),
        CUBIC: partial(several, (-1, 0, 1, 2), _cubic),
    })  # fmt: skip


def _cubic(b: Any, t: Any) -> Any:
    """The weight at a distance t >= 0."""

    def polynomial(*factors: float) -> Any:
        y = F64(factors[0])
        for factor in factors[1:]:
            y = b.fadd(b.fmul(y, t), F64(factor))
        return y

    a = STEEPNESS
    close, far = polynomial(a + 2, -(a + 3), 0, 1), polynomial(a, -5 * a, 8 * a, -4 * a)
    return b.select(b.fcmp_unordered("<=", t, F64(1)), close, b.select(b.fcmp_ordered("<", t, F64(2)), far, F64(0)))


def _absolute(b: Any, x: Any) -> Any:
    return b.select(b.fcmp_ordered("<", x, F64(0)), b.fsub(F64(0), x), x)


def _floor(b: Any, x: Any) -> Any:
    """The whole number below x, at most FAR away from 0; 0 for a NaN."""
    x = b.select(b.fcmp_ordered(">", x, F64(-FAR)), x, b.select(b.fcmp_unordered("uno", x, x), F64(0), F64(-FAR)))
    x = b.select(b.fcmp_ordered("<", x, F64(FAR)), x, F64(FAR))
    y = b.sitofp(b.fptosi(x, I64), F64)
    return b.select(b.fcmp_ordered(">", y, x), b.fsub(y, F64(1)), y)


def _mirrored(b: Any, asked: Any, x: Any, low: Any, high: Any) -> Any:
    """x, or where that is asked for x folded back into low..high as often as it takes."""
    slot = variable(b, x)
    with b.if_then(asked):
        span = b.fsub(high, low)
        both = b.fadd(span, span)
        t = b.fsub(x, low)
        t = b.fsub(t, b.fmul(_floor(b, b.fdiv(t, both)), both))
        t = b.select(b.fcmp_ordered(">", t, span), b.fsub(both, t), t)
        b.store(b.select(b.fcmp_ordered(">", span, F64(0)), b.fadd(low, t), low), slot)
    return b.load(slot)


def _sums(b: Any, r: Any, taps: _Taps, to: Any, src: Any, count: Any) -> None:
    def channels(number: int | None) -> None:
        with loop(b, 0, r.channels, 1) as c:
            at, out = b.add(src, b.mul(c, r.src_channel)), b.add(to, b.mul(c, r.dst_channel))
            with loop(b, 0, count, 1) as p:
                base = b.mul(p, taps.count)
                total = variable(b, b.load(taps.at(taps.start, p)))

                def add(t: Any, base: Any = base, total: Any = total, at: Any = at) -> None:
                    place = b.add(base, t)
                    x = read(b, b.add(at, b.load(taps.at(taps.offsets, place))), F32)
                    b.store(b.fadd(b.load(total), b.fmul(x, b.load(taps.at(taps.final, place)))), total)

                if number is None:
                    with loop(b, 0, taps.count, 1) as t:
                        add(t)
                else:
                    for t in range(number):
                        add(I64(t))
                write(b, b.load(total), b.add(out, b.mul(p, I64(4))))

    # Linear ones in two axes, nearest ones; then all others.
    several = b.and_(b.icmp_signed("!=", taps.count, I64(1)), b.icmp_signed("!=", taps.count, I64(4)))
    with b.if_else(several) as (any_count, few):
        with any_count:
            channels(None)
        with few:
            choose(b, taps.count, {1: partial(channels, 1), 4: partial(channels, 4)})
