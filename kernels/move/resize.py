"""Weighted sums of places along an axis, the passes of linear and cubic resize.

Sums are f32. A byte that is written is rounded half to even: sums begin with minus the zero point, which is added
after rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..core.record import loaded, reader
from ..isa.byte_ops import choose
from ..isa.elements import ELEMENTS, Rounding, load, write
from ..isa.loops import apart, cover, div_rem, each_vector, loop, smaller, thread_range, variable
from ..isa.tiers import Tier
from ..isa.vector import F32, I64, Vector, emits
from .rows import BILINEAR, RESIZE, SHORT


def resize(tier: Tier, source: str, target: str) -> Callable:
    """The kernel of y[o, i, :] = bias[i] + sum over t of weight[i, t] * x[o, offset[i, t] + :].

    x and y are of the types `source` and `target` of isa.elements.
    """
    places, fields = _places(tier, source, target), reader(RESIZE)

    def kernel(args, thread, threads):
        r = fields(args)
        begin, end = thread_range(r.outer * r.n, thread, threads)
        while begin < end:
            o, i = div_rem(begin, r.n)
            stop = smaller(r.n, i + end - begin)
            begin += stop - i
            places(args, r.dst + o * r.outer_d, r.src + o * r.outer_s, i, stop)

    return kernel


def bilinear(tier: Tier, source: str, target: str) -> Callable:
    """The kernel of y[o, i, j, :] = the sum of weight_y[i, s] * weight_x[j, t] * x[o, offset_y[i, s] +
    offset_x[j, t] + :].

    Two taps per axis. Reads whole vectors at the end of a run.
    """
    row, fields = _bilinear_row(tier, source, target), reader(BILINEAR)

    def kernel(args, thread, threads):
        r = fields(args)
        begin, end = thread_range(r.outer * r.height, thread, threads)
        while begin < end:
            o, i = div_rem(begin, r.height)
            begin += 1
            row(r, r.dst + o * r.outer_d + i * r.dy, r.src + o * r.outer_s, i)

    return kernel


def _store(v: Vector, element: str, x: Any, pointer: Any, rest: Any, zero: Any) -> None:
    """Write a vector, or its first `rest` elements."""
    if element == "f32":
        v.store(x, pointer, None if rest is None else v.mask(rest))
    else:
        write(v, Rounding(element, zero, I64(0), I64(0), "type").narrow(v, x), pointer, rest)


def _places(tier: Tier, source: str, target: str) -> Callable:
    """`places(args, dst, src, first, end)`: places first..end of a line, by taps and elements that lie together."""

    def walk(b: Any, args: Any, dst: Any, src: Any, first: Any, end: Any, taps: int) -> None:
        r = loaded(b, args, RESIZE)

        def line(run: int) -> None:
            with loop(b, first, end, 1) as i:
                _combine(Vector(b, tier, run or None), r, b.add(dst, b.mul(i, r.d)), src, i, taps, run, source, target)

        short = b.select(b.icmp_signed("<=", r.run, I64(SHORT)), r.run, I64(0))
        choose(b, short, {run: partial(line, run) for run in range(SHORT + 1)})

    @emits
    def places(b: Any, args: Any, dst: Any, src: Any, first: Any, end: Any) -> None:
        taps, values = loaded(b, args, RESIZE).taps, (args, dst, src, first, end)
        fixed = b.or_(b.icmp_signed("==", taps, I64(2)), b.icmp_signed("==", taps, I64(4)))
        bodies = {taps: partial(apart, b, values, partial(walk, taps=taps)) for taps in (0, 2, 4)}
        choose(b, b.select(fixed, taps, I64(0)), bodies)

    return places


def _combine(v: Vector, r: Any, dst: Any, src: Any, i: Any, taps: int, run: int, source: str, target: str) -> None:
    """The run of place i. `taps` and `run` are the record's, or 0 for any; then whole vectors of a run are read."""
    b, first = v.b, v.b.mul(i, I64(taps) if taps else r.taps)
    to, bias = v.pointer(dst, ELEMENTS[target]), b.load(v.at(v.pointer(r.bias), i))
    offsets, weights = v.at(v.pointer(r.offset, I64), first), v.at(v.pointer(r.weight), first)

    def tap(t: Any) -> tuple[Any, Any]:
        place = v.pointer(b.add(src, b.load(v.at(offsets, t))), ELEMENTS[source])
        return b.load(v.at(weights, t)), place

    fixed = [tap(t) for t in range(taps)]

    def part(w: Vector, at: Any, rest: Any = None) -> None:
        total = w.splat(bias)
        for weight, x in fixed:
            total = w.fma(w.splat(weight), load(w, source, w.at(x, at)), total)
        if not taps:
            slot = variable(b, total)
            with loop(b, 0, r.taps, 1) as t:
                weight, x = tap(t)
                b.store(w.fma(w.splat(weight), load(w, source, w.at(x, at)), b.load(slot)), slot)
            total = b.load(slot)
        _store(w, target, total, w.at(to, at), rest, r.zero)

    if run:
        part(v, I64(0))
    elif taps:
        each_vector(v, I64(0), r.run, part)
    else:
        cover(v, I64(0), r.run, False, part)


def _bilinear_row(tier: Tier, source: str, target: str) -> Callable:
    """`row(r, dst, src, i)`: output row i of an image."""

    @emits
    def row(b: Any, r: Any, dst: Any, src: Any, i: Any) -> None:
        v = Vector(b, tier)
        start = v.const(0.0) if target == "f32" else b.fneg(v.splat(b.sitofp(r.zero, F32)))

        def pair(offset: Any, weight: Any, at: Any) -> list[tuple[Any, Any]]:
            first = b.mul(at, I64(2))
            offsets, weights = v.at(v.pointer(offset, I64), first), v.at(v.pointer(weight), first)
            return [(b.load(v.at(offsets, t)), v.broadcast(v.at(weights, t))) for t in range(2)]

        lines = pair(r.offset_y, r.weight_y, i)
        with loop(b, 0, r.width, 1) as j:
            to = v.pointer(b.add(dst, b.mul(j, r.dx)), ELEMENTS[target])
            columns = pair(r.offset_x, r.weight_x, j)
            corners = [
                (b.fmul(p, q), v.pointer(b.add(src, b.add(y, x)), ELEMENTS[source]))
                for y, p in lines
                for x, q in columns
            ]

            def part(v: Vector, k: Any, rest: Any = None, to: Any = to, corners: Any = corners) -> None:
                total = start
                for weight, x in corners:
                    total = v.fma(weight, load(v, source, v.at(x, k)), total)
                _store(v, target, total, v.at(to, k), rest, r.zero)

            each_vector(v, I64(0), r.run, part)

    return row
