"""Weighted sums of places along an axis, the passes of linear and cubic resize.

Sums are f32. A byte that is written is rounded half to even: sums begin with minus the zero point, which is added
after rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import loaded, reader
from ..isa.elements import ELEMENTS, Rounding, load, write
from ..isa.loops import div_rem, loop, smaller, thread_range, variable, whole
from ..isa.tiers import Tier
from ..isa.vector import F32, I64, Vector, emits
from .rows import BILINEAR, RESIZE

_UNROLL = 4


def resize(tier: Tier, taps: int, run: int, source: str, target: str) -> Callable:
    """The kernel of y[o, i, :] = bias[i] + sum over t of weight[i, t] * x[o, offset[i, t] + :].

    `taps` is their number and `run` that of the elements in [:]; 0 leaves either to the record. x and y are of the
    types `source` and `target` of isa.elements.
    """
    combine, fields = _combine(tier, taps, run, source, target), reader(RESIZE)

    def kernel(args, thread, threads):
        r = fields(args)
        begin, end = thread_range(r.outer * r.n, thread, threads)
        while begin < end:
            o, i = div_rem(begin, r.n)
            stop = smaller(r.n, i + end - begin)
            begin += stop - i
            to, at = r.dst + o * r.outer_d, r.src + o * r.outer_s
            while i < stop:
                first = i * r.taps
                combine(to + i * r.d, at, r.offset + 8 * first, r.weight + 4 * first, r.bias + 4 * i, r.taps, r.run,
                        r.zero)  # fmt: skip
                i += 1

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
            row(args, r.dst + o * r.outer_d + i * r.dy, r.src + o * r.outer_s, i)

    return kernel


def _runs(v: Vector, count: Any, part: Callable[[Any, int, Any], None], unroll: int) -> None:
    """Cover `count` elements: part(first, vectors, None) for blocks of `unroll` vectors, then of one, then
    part(first, 1, rest) for the `rest` that fills no vector.
    """
    b = v.b
    ends = [I64(0)]
    for vectors in dict.fromkeys((unroll, 1)):
        ends.append(whole(b, count, vectors * v.lanes))
        with loop(b, ends[-2], ends[-1], vectors * v.lanes) as i:
            part(i, vectors, None)
    rest = b.sub(count, ends[-1])
    with b.if_then(b.icmp_signed(">", rest, I64(0))):
        part(ends[-1], 1, rest)


def _store(v: Vector, element: str, x: Any, pointer: Any, rest: Any, zero: Any) -> None:
    """Write a vector, or its first `rest` elements."""
    if element == "f32":
        v.store(x, pointer, None if rest is None else v.mask(rest))
    else:
        write(v, Rounding(element, zero, I64(0), I64(0), "type").narrow(v, x), pointer, rest)


def _combine(tier: Tier, taps: int, run: int, source: str, target: str) -> Callable:
    """`combine(dst, src, offset, weight, bias, count, length, zero)`: one output run; unless `run` is fixed it
    reads whole vectors.
    """

    @emits
    def combine(
        b: Any, dst: Any, src: Any, offset: Any, weight: Any, bias: Any, count: Any, length: Any, zero: Any
    ) -> None:
        v = Vector(b, tier, run or None)
        to, offsets, weights = v.pointer(dst, ELEMENTS[target]), v.pointer(offset, I64), v.pointer(weight)
        start = v.broadcast(v.pointer(bias))

        def tap(t: Any) -> tuple[Any, Any]:
            place = v.pointer(b.add(src, b.load(v.at(offsets, t))), ELEMENTS[source])
            return v.broadcast(v.at(weights, t)), place

        fixed = [tap(t) for t in range(taps)]

        def read(x: Any, i: Any, k: int) -> Any:
            return load(v, source, v.at(v.at(x, i), k * v.lanes))

        def part(i: Any, vectors: int, rest: Any) -> None:
            sums = [start] * vectors
            for w, x in fixed:
                sums = [v.fma(w, read(x, i, k), s) for k, s in enumerate(sums)]
            if not taps:
                slots = [variable(b, start) for _ in sums]
                with loop(b, 0, count, 1) as t:
                    w, x = tap(t)
                    for k, slot in enumerate(slots):
                        b.store(v.fma(w, read(x, i, k), b.load(slot)), slot)
                sums = [b.load(slot) for slot in slots]
            for k, s in enumerate(sums):
                _store(v, target, s, v.at(v.at(to, i), k * v.lanes), rest, zero)

        if run:
            part(I64(0), 1, None)
        else:
            _runs(v, length, part, 1 if taps else _UNROLL)

    return combine


def _bilinear_row(tier: Tier, source: str, target: str) -> Callable:
    """`row(args, dst, src, i)`: output row i of an image."""

    @emits
    def row(b: Any, args: Any, dst: Any, src: Any, i: Any) -> None:
        v = Vector(b, tier)
        r = loaded(b, args, BILINEAR)
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

            def part(k: Any, vectors: int, rest: Any, to: Any = to, corners: Any = corners) -> None:
                total = start
                for weight, x in corners:
                    total = v.fma(weight, load(v, source, v.at(x, k)), total)
                _store(v, target, total, v.at(to, k), rest, r.zero)

            _runs(v, r.run, part, 1)

    return row
