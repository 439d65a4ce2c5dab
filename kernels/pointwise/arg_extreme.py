"""The place along an axis of the first of the largest, or smallest, elements of [outer, n, inner], as int64.

A NaN counts as the largest and as the smallest; n is at least 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir

from ..core.record import loaded
from ..isa import functions as f
from ..isa.elements import ELEMENTS, load, write
from ..isa.loops import each_vector, loop, total, variable
from ..isa.tiers import Tier
from ..isa.vector import I1, I32, I64, Vector, emits
from .along_axis import along_axis, by_extreme
from .rows import EXTREME

_SIZES = {"f32": 4, "byte": 1}


def make(tier: Tier, element: str, last: bool) -> Callable[..., None]:
    """The kernel for elements of "f32" or of a "byte", in rows of neighbors (`last`) or in columns."""
    return along_axis(last, (_row if last else _columns)(tier, element), _SIZES[element], 8)


def _by_element(b: Any, args: Any, element: str, body: Callable[[bool, str], None]) -> None:
    """`body(least, element)`, an element of isa.elements."""
    if element == "f32":
        by_extreme(b, loaded(b, args, EXTREME), lambda least, signed: body(least, "f32"), (False,))
    else:
        by_extreme(b, loaded(b, args, EXTREME), lambda least, signed: body(least, "s8" if signed else "u8"))


def _row(tier: Tier, element: str) -> Any:
    """`row(args, y, x, n)`: the place in a row of n neighbors."""

    @emits
    def row(b: Any, args: Any, y: Any, x: Any, n: Any) -> None:
        v = Vector(b, tier)

        def find(least: bool, kind: str) -> None:
            first = v.pointer(x, ELEMENTS[kind])

            def read(w: Vector, i: Any, mask: Any) -> Any:
                return load(w, kind, w.at(first, i), mask)

            extreme = total(v, n, math.inf if least else -math.inf, f.minimum if least else f.maximum, read)
            b.store(_first(v, n, v.splat(extreme), read), v.pointer(y, I64))

        _by_element(b, args, element, find)

    return row


def _first(v: Vector, n: Any, wanted: Any, read: Callable[[Vector, Any, Any], Any]) -> Any:
    """Where the first of n elements is that is wanted; it exists."""
    b, place = v.b, variable(v.b, I64(0))
    head, done = (b.append_basic_block(name) for name in ("search", "found"))
    b.branch(head)
    b.position_at_end(head)
    i = b.load(place)
    mask = v.mask(b.sub(n, i))
    values = read(v, i, mask)
    # Where there is a NaN, that is wanted, and it equals nothing.
    same = b.or_(b.fcmp_ordered("==", values, wanted), b.fcmp_unordered("uno", values, values))
    here = b.zext(b.bitcast(b.and_(same, mask), ir.IntType(v.lanes)), I64)
    b.store(b.add(i, I64(v.lanes)), place)
    b.cbranch(b.icmp_signed("==", here, I64(0)), head, done)
    b.position_at_end(done)
    return b.add(i, b.call(v.declare("llvm.cttz.i64", I64, [I64, I1]), [here, I1(0)]))


def _columns(tier: Tier, element: str) -> Any:
    """`columns(args, y, x, n, step, left, right)`: those of columns left..right, each of n elements `step` apart."""

    @emits
    def columns(b: Any, args: Any, y: Any, x: Any, n: Any, step: Any, left: Any, right: Any) -> None:
        def find(least: bool, kind: str) -> None:
            v = Vector(b, tier)
            each_vector(v, left, right, partial(_column, x=x, y=y, n=n, step=step, least=least, kind=kind))

        _by_element(b, args, element, find)

    return columns


def _column(v: Vector, i: Any, rest: Any = None, *, x: Any, y: Any, n: Any, step: Any, least: bool, kind: str) -> None:
    """The places of a vector of columns from i on, or of the first `rest` of them."""
    b, mask = v.b, None if rest is None else v.mask(rest)
    x, y = v.pointer(x, ELEMENTS[kind]), v.pointer(y, I64)

    def read(r: Any) -> Any:
        return load(v, kind, v.at(x, b.add(i, b.mul(r, step))), mask)

    best, place = variable(b, read(I64(0))), variable(b, v.iconst(0))
    with loop(b, 1, n, 1) as r:
        now, before = read(r), b.load(best)
        # Better or a NaN, but nothing is better than a NaN.
        better = b.fcmp_unordered("<" if least else ">", now, before)
        better = b.and_(better, b.fcmp_ordered("ord", before, before))
        b.store(b.select(better, now, before), best)
        here = v.splat(b.trunc(r, I32), v.lanes)
        b.store(b.select(better, here, b.load(place)), place)
    write(v, b.sext(b.load(place), ir.VectorType(I64, v.lanes)), v.at(y, i), rest)
