"""The place along an axis of the first of the largest, or smallest, elements of [outer, n, inner], as int64.

A NaN counts as the largest and as the smallest; n is at least 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..isa import functions as f
from ..isa.byte_ops import putter
from ..isa.elements import ELEMENTS, load, write
from ..isa.loops import each_vector, loop, total, variable
from ..isa.tiers import Tier
from ..isa.vector import F32, I1, I32, I64, Vector, emits
from .along_axis import along_axis

_SIZES = {"f32": 4, "u8": 1, "s8": 1}


def make(tier: Tier, least: bool, element: str, last: bool) -> Callable[..., None]:
    """The kernel for elements of "f32", "u8" or "s8"."""
    return along_axis(last, (_row if last else _columns)(tier, least, element), _SIZES[element], 8)


def _row(tier: Tier, least: bool, element: str) -> Any:
    """`row(y, x, n)`: the place in a row of n neighbors."""
    extreme, first, put, lanes = _extreme(tier, least, element), _first(tier, element), putter(8), tier.lanes

    def row(y, x, n):  # type: ignore[no-untyped-def]
        wanted = extreme(x, n)
        i, place = 0, -1
        while place < 0 and i < n:
            place = first(x, i, n, wanted)
            i += lanes
        put(y, place)

    return row


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
                here = w.splat(b.trunc(r, I32), w.lanes)
                b.store(b.select(better, here, b.load(place)), place)
            write(w, b.sext(b.load(place), ir.VectorType(I64, w.lanes)), w.at(y, i), rest)

        each_vector(v, left, right, column)

    return columns


def _extreme(tier: Tier, least: bool, element: str) -> Any:
    """`extreme(x, n)`: the bits of the extreme of n elements as f32."""
    combine = f.minimum if least else f.maximum

    @emits
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

    @emits
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
