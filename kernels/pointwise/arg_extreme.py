"""The place along an axis of the first of the largest, or smallest, elements of [outer, n, inner], as int64.

It is the largest, once the bits that the record's `flip` says are turned: f32 are negated for the smallest, and bytes
become unsigned. A NaN counts as the largest and as the smallest; n is at least 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..core.record import loaded
from ..isa import functions as f
from ..isa.byte_ops import put
from ..isa.elements import ELEMENTS, write
from ..isa.loops import each_vector, loop, total, variable
from ..isa.tiers import Tier
from ..isa.vector import F32, I1, I8, I32, I64, Vector, emits
from .along_axis import along_axis
from .rows import FLIPPED

_SIZES = {"f32": 4, "u8": 1}


def make(tier: Tier, element: str, last: bool) -> Callable[..., None]:
    """The kernel for elements of "f32" or "u8", of rows of neighbors (`last`) or of columns."""
    return along_axis(last, (_row if last else _columns)(tier, element), _SIZES[element], 8)


def _load(v: Vector, element: str, pointer: Any, flip: Any, mask: Any = None) -> Any:
    """The elements from `pointer` on as f32, their bits turned. Bytes are read whole, over the end."""
    b = v.b
    if element == "f32":
        bits = b.bitcast(v.load(pointer, mask), v.itype)
        return b.bitcast(b.xor(bits, v.splat(b.trunc(flip, I32), v.lanes)), v.type)
    flips = v.splat(b.trunc(flip, I8), v.lanes)
    x = b.load(b.bitcast(pointer, flips.type.as_pointer()), align=1)
    return b.sitofp(b.zext(b.xor(x, flips), v.itype), v.type)


def _row(tier: Tier, element: str) -> Any:
    """`row(args, y, x, n)`: the place in a row of n neighbors."""
    extreme, first, lanes = _extreme(tier, element), _first(tier, element), tier.lanes

    def row(args, y, x, n):  # type: ignore[no-untyped-def]
        wanted = extreme(args, x, n)
        i, place = 0, -1
        while place < 0 and i < n:
            place = first(args, x, i, n, wanted)
            i += lanes
        put(y, place)

    return row


def _columns(tier: Tier, element: str) -> Any:
    """`columns(args, y, x, n, step, left, right)`: the places for columns left..right, each of n elements `step`
    apart.
    """

    @emits
    def columns(b: Any, args: Any, y: Any, x: Any, n: Any, step: Any, left: Any, right: Any) -> None:
        v, flip = Vector(b, tier), loaded(b, args, FLIPPED).flip
        x, y = v.pointer(x, ELEMENTS[element]), v.pointer(y, I64)

        def column(w: Vector, i: Any, rest: Any = None) -> None:
            mask = None if rest is None else w.mask(rest)

            def read(r: Any) -> Any:
                return _load(w, element, w.at(x, b.add(i, b.mul(r, step))), flip, mask)

            best, place = variable(b, read(I64(0))), variable(b, w.iconst(0))
            with loop(b, 1, n, 1) as r:
                now, before = read(r), b.load(best)
                # Larger or a NaN, but nothing is larger than a NaN.
                larger = b.fcmp_unordered(">", now, before)
                larger = b.and_(larger, b.fcmp_ordered("ord", before, before))
                b.store(b.select(larger, now, before), best)
                here = w.splat(b.trunc(r, I32), w.lanes)
                b.store(b.select(larger, here, b.load(place)), place)
            write(w, b.sext(b.load(place), ir.VectorType(I64, w.lanes)), w.at(y, i), rest)

        each_vector(v, left, right, column)

    return columns


def _extreme(tier: Tier, element: str) -> Any:
    """`extreme(args, x, n)`: the bits of the largest of n elements as f32."""

    @emits
    def extreme(b: Any, args: Any, x: Any, n: Any) -> Any:
        v, flip = Vector(b, tier), loaded(b, args, FLIPPED).flip
        x = v.pointer(x, ELEMENTS[element])

        def read(w: Vector, i: Any, mask: Any) -> Any:
            return _load(w, element, w.at(x, i), flip, mask)

        return b.zext(b.bitcast(total(v, n, -math.inf, f.maximum, read), I32), I64)

    return extreme


def _first(tier: Tier, element: str) -> Any:
    """`first(args, x, i, n, bits)`: where in the vector from element i on the wanted f32 is, or -1."""

    @emits
    def first(b: Any, args: Any, x: Any, i: Any, n: Any, bits: Any) -> Any:
        v, flip = Vector(b, tier), loaded(b, args, FLIPPED).flip
        mask = v.mask(b.sub(n, i))
        values = _load(v, element, v.at(v.pointer(x, ELEMENTS[element]), i), flip, mask)
        wanted = v.splat(b.bitcast(b.trunc(bits, I32), F32))
        # Where there is a NaN, that is wanted, and it equals nothing.
        same = b.or_(b.fcmp_ordered("==", values, wanted), b.fcmp_unordered("uno", values, values))
        set_ = b.zext(b.bitcast(b.and_(same, mask), ir.IntType(v.lanes)), I64)
        count = b.call(v.declare("llvm.cttz.i64", I64, [I64, I1]), [set_, I1(0)])
        return b.select(b.icmp_signed("==", set_, I64(0)), I64(-1), b.add(i, count))

    return first
