"""The place along an axis of the first of the largest, or smallest, elements of [outer, n, inner], as int64.

Record: y, x, outer, n, inner, then element strides x_outer, x_axis. With `last`, inner is 1 and the axis contiguous;
else inner is contiguous. y is dense. A NaN counts as the largest and as the smallest; n is at least 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from ..isa import functions as f
from ..isa.byte_ops import putter
from ..isa.elements import ELEMENTS, load, splat, write
from ..isa.loops import loop, share, slice_share, variable, whole
from ..isa.tiers import Tier
from ..isa.vector import F32, I1, I32, I64, Vector, arg, emits
from ..isa.walk import total

_SIZES = {"f32": 4, "u8": 1, "s8": 1}


def make(tier: Tier, least: bool, element: str, last: bool) -> Callable[..., None]:
    """The kernel for elements of "f32", "u8" or "s8"."""
    return _of_rows(tier, least, element) if last else _of_columns(tier, least, element)


def _of_rows(tier: Tier, least: bool, element: str) -> Callable[..., None]:
    extreme, first, put = _extreme(tier, least, element), _first(tier, element), putter(8)
    size, lanes = _SIZES[element], tier.lanes

    def arg_extreme(args: int, thread: int, threads: int) -> None:
        y, x, outer, n = arg(args, 0), arg(args, 1), arg(args, 2), arg(args, 3)
        step = size * arg(args, 5)
        for row in range(share(outer, thread, threads), share(outer, thread + 1, threads)):
            at = x + row * step
            wanted = extreme(at, n)
            i, place = 0, -1
            while place < 0 and i < n:
                place = first(at, i, n, wanted)
                i += lanes
            put(y + 8 * row, place)

    return arg_extreme


def _of_columns(tier: Tier, least: bool, element: str) -> Callable[..., None]:
    columns, size = _columns(tier, least, element), _SIZES[element]

    def arg_extreme(args: int, thread: int, threads: int) -> None:
        y, x, outer, n, inner = arg(args, 0), arg(args, 1), arg(args, 2), arg(args, 3), arg(args, 4)
        x_outer, x_axis = size * arg(args, 5), arg(args, 6)
        left, right = slice_share(inner, thread, threads), slice_share(inner, thread + 1, threads)
        for o in range(outer):
            columns(y + 8 * o * inner, x + o * x_outer, n, x_axis, left, right)

    return arg_extreme


def _columns(tier: Tier, least: bool, element: str) -> Any:
    """`columns(y, x, n, step, left, right)`: the places for columns left..right, each of n elements `step` apart."""

    @emits
    def columns(b: Any, y: Any, x: Any, n: Any, step: Any, left: Any, right: Any) -> None:
        v = Vector(b, tier)
        x, y = v.pointer(x, ELEMENTS[element]), v.pointer(y, I64)

        def column(w: Vector, i: Any, rest: Any = None) -> None:
            mask = None if rest is None else w.mask(rest)

            def read(r: Any) -> Any:
                return load(w, element, w.at(x, b.add(i, b.mul(r, step))), mask)

            best, place = variable(b, read(I64(0))), variable(b, w.iconst(0))
            with loop(b, 1, n, 1) as r:
                now, before = read(r), b.load(best)
                # Better or a NaN, but nothing is better than a NaN.
                better = b.fcmp_unordered("<" if least else ">", now, before)
                better = b.and_(better, b.fcmp_ordered("ord", before, before))
                b.store(b.select(better, now, before), best)
                here = splat(b, b.trunc(r, I32), w.lanes)
                b.store(b.select(better, here, b.load(place)), place)
            write(w, b.sext(b.load(place), ir.VectorType(I64, w.lanes)), w.at(y, i), rest)

        end = b.add(left, whole(b, b.sub(right, left), v.lanes))
        with loop(b, left, end, v.lanes) as i:
            column(v, i)
        rest = b.sub(right, end)
        with b.if_then(b.icmp_signed(">", rest, I64(0))):
            column(v, end, rest)

    return columns


def _extreme(tier: Tier, least: bool, element: str) -> Any:
    """`extreme(x, n)`: the bits of the extreme of n elements as f32."""
    combine = f.minimum if least else f.maximum

    @emits(returns=types.int64)
    def extreme(b: Any, x: Any, n: Any) -> Any:
        v = Vector(b, tier)
        x = v.pointer(x, ELEMENTS[element])

        def read(w: Vector, i: Any, mask: Any) -> Any:
            return load(w, element, w.at(x, i), mask)

        found = total(v, n, math.inf if least else -math.inf, combine, read)
        return b.zext(b.bitcast(found, I32), I64)

    return extreme


def _first(tier: Tier, element: str) -> Any:
    """`first(x, i, n, bits)`: where in the vector from element i on the wanted f32 is, or -1."""

    @emits(returns=types.int64)
    def first(b: Any, x: Any, i: Any, n: Any, bits: Any) -> Any:
        v = Vector(b, tier)
        mask = v.mask(b.sub(n, i))
        values = load(v, element, v.at(v.pointer(x, ELEMENTS[element]), i), mask)
        wanted = v.splat(b.bitcast(b.trunc(bits, I32), F32))
        # Where there is a NaN, that is wanted, and it equals nothing.
        same = b.or_(b.fcmp_ordered("==", values, wanted), b.fcmp_unordered("uno", values, values))
        set_ = b.zext(b.bitcast(b.and_(same, mask), ir.IntType(v.lanes)), I64)
        count = b.call(v.declare("llvm.cttz.i64", I64, [I64, I1]), [set_, I1(0)])
        return b.select(b.icmp_signed("==", set_, I64(0)), I64(-1), b.add(i, count))

    return first
