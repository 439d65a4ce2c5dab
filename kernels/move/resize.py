"""Weighted sums of elements along an axis: the passes of linear and cubic resize.

Sums are f32. A byte is rounded half to even: sums begin with minus the zero point, which is added after rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ..core.record import fields
from ..isa.elements import ELEMENTS, Rounding, load
from ..isa.stores import store_first
from ..isa.tiers import Tier
from ..lang import F32, I64, Type, Value, cases, cover, each_vector, outlined, over, register, share, traced
from ..lang.instructions import choose, div_rem, fma, smaller
from .rows import BILINEAR, RESIZE, SHORT


def resize(tier: Tier, source: str, target: str) -> Callable:
    """The kernel of y[o, i, :] = bias[i] + sum over t of weight[i, t] * x[o, offset[i, t] + :].

    x and y are of the types `source` and `target` of isa.elements.
    """
    places = _places(tier, source, target)

    def kernel(args, thread, threads):
        r = fields(args, RESIZE)
        begin, end = share(r.outer * r.n, thread, threads)
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
    row = _bilinear_row(tier, source, target)

    def kernel(args, thread, threads):
        r = fields(args, BILINEAR)
        begin, end = share(r.outer * r.height, thread, threads)
        while begin < end:
            o, i = div_rem(begin, r.height)
            begin += 1
            row(r, r.dst + o * r.outer_d + i * r.dy, r.src + o * r.outer_s, i)

    return kernel


class Kinds(NamedTuple):
    """The element types of x and y, of isa.elements."""

    source: str
    target: str

    def x(self, address: Value) -> Value:
        """The pointer to elements of x."""
        return ELEMENTS[self.source].at(address)

    def y(self, address: Value) -> Value:
        """The pointer to elements of y."""
        return ELEMENTS[self.target].at(address)

    def store(self, x: Value, place: Value, rest: Any, zero: Value) -> None:
        """Write a vector of y, or its first `rest` elements."""
        if self.target == "f32":
            x.type[place, None if rest is None else x.type.below(rest)] = x
        else:
            store_first(Rounding(self.target, zero, I64(0), I64(0), "type").narrow(x), place, rest)


def _places(tier: Tier, source: str, target: str) -> Callable:
    """`places(args, dst, src, first, end)`: outputs first..end of a line, by the number of taps and the length of
    runs.
    """
    kinds = Kinds(source, target)

    def walk(args: Value, dst: Value, src: Value, first: Value, end: Value, taps: int) -> None:
        r = fields(args, RESIZE)

        def line(run: int) -> None:
            f32 = F32.vector(run or tier.lanes)
            for i in over(first, end):
                _combine(f32, kinds, _taps(r, kinds, src, i, taps), dst + i * r.d, run)

        short = choose(r.run <= SHORT, r.run, 0)
        cases(short, {run: partial(line, run) for run in range(SHORT + 1)})

    @traced
    def places(args: Value, dst: Value, src: Value, first: Value, end: Value) -> None:
        taps, values = fields(args, RESIZE).taps, (args, dst, src, first, end)
        fixed = (taps == 2) | (taps == 4)
        bodies = {n: partial(outlined, None, None, partial(walk, taps=n), *values) for n in (0, 2, 4)}
        cases(choose(fixed, taps, 0), bodies)

    return places


class Taps(NamedTuple):
    """The terms of an output: the bias, and `of(t)`, the weight and the offset of a tap; `fixed` taps are loaded first,
    else the record has their number.
    """

    r: Any
    bias: Value
    of: Callable[[Any], tuple[Value, Value]]
    fixed: list[tuple[Value, Value]]


def _taps(r: Any, kinds: Kinds, src: Value, i: Value, taps: int) -> Taps:
    """The taps of output i; `taps`: their number, or 0 to read it from the record."""
    first, bias = i * (taps or r.taps), F32.at(r.bias)[i]
    offsets, weights = I64.at(r.offset) + first, F32.at(r.weight) + first

    def tap(t: Any) -> tuple[Value, Value]:
        place = kinds.x(src + offsets[t])
        return weights[t], place

    return Taps(r, bias, tap, [tap(t) for t in range(taps)])


def _combine(f32: Type, kinds: Kinds, taps: Taps, dst: Value, run: int) -> None:
    """The run of an output; `run`: its length, or 0 to read it from the record: then whole vectors are loaded."""
    r, to = taps.r, kinds.y(dst)

    def part(f32: Type, at: Value, rest: Any = None) -> None:
        total: Any = f32(taps.bias)
        for weight, x in taps.fixed:
            total = fma(weight, load(f32, kinds.source, x + at), total)
        if not taps.fixed:
            sums = register(total)
            for t in over(r.taps):
                weight, x = taps.of(t)
                sums.value = fma(weight, load(f32, kinds.source, x + at), sums.value)
            total = sums.value
        kinds.store(total, to + at, rest, r.zero)

    if run:
        part(f32, I64(0))
    elif taps.fixed:
        each_vector(f32, I64(0), r.run, part)
    else:
        cover(f32, I64(0), r.run, False, part)


def _bilinear_row(tier: Tier, source: str, target: str) -> Callable:
    """`row(r, dst, src, i)`: output row i of an image."""
    f32, kinds = F32.vector(tier.lanes), Kinds(source, target)

    @traced
    def row(r: Any, dst: Value, src: Value, i: Value) -> None:
        start = f32(0.0) if target == "f32" else -f32(r.zero.to(F32))

        def pair(offset: Value, weight: Value, at: Value) -> list[tuple[Value, Value]]:
            first = at * 2
            offsets, weights = I64.at(offset) + first, F32.at(weight) + first
            return [(offsets[t], f32(weights[t])) for t in range(2)]

        lines = pair(r.offset_y, r.weight_y, i)
        for j in over(r.width):
            to = kinds.y(dst + j * r.dx)
            columns = pair(r.offset_x, r.weight_x, j)
            corners = [(p * q, kinds.x(src + (y + x))) for y, p in lines for x, q in columns]

            def part(f32: Type, k: Value, rest: Any = None, to: Value = to, corners: Any = corners) -> None:
                total = start
                for weight, x in corners:
                    total = fma(weight, load(f32, source, x + k), total)
                kinds.store(total, to + k, rest, r.zero)

            each_vector(f32, I64(0), r.run, part)

    return row
