"""The place along an axis of the first of the largest, or smallest, elements of [outer, n, inner], as int64.

A NaN counts as the largest and as the smallest; n is at least 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..core.record import fields
from ..isa import functions as f
from ..isa.elements import ELEMENTS, load
from ..isa.stores import store_first
from ..isa.tiers import Tier
from ..lang import (
    BIT,
    F32,
    I32,
    I64,
    Type,
    Value,
    called,
    choose,
    each_vector,
    integer,
    is_nan,
    over,
    register,
    total,
    traced,
)
from ..lang.blocks import Block, branch, goto
from .along_axis import along_axis, by_extreme, columns_of
from .rows import EXTREME

_SIZES = {"f32": 4, "byte": 1}


def make(tier: Tier, element: str, last: bool) -> Callable[..., None]:
    """The kernel for elements of "f32" or of a "byte", in rows of neighbors (`last`) or in columns."""
    one = (_row if last else _columns)(F32.vector(tier.lanes), element)
    return along_axis(last, one, _SIZES[element], 8)


def _by_element(args: Value, element: str, body: Callable[[bool, str], None]) -> None:
    """`body(least, element)`, an element of isa.elements."""
    if element == "f32":
        by_extreme(fields(args, EXTREME), lambda least, signed: body(least, "f32"), (False,))
    else:
        by_extreme(fields(args, EXTREME), lambda least, signed: body(least, "s8" if signed else "u8"))


def _row(f32: Type, element: str) -> Any:
    """`row(args, y, x, n)`: the place in a row of n neighbors."""

    @traced
    def row(args: Value, y: Value, x: Value, n: Value) -> None:
        def find(least: bool, kind: str) -> None:
            first = ELEMENTS[kind].at(x)

            def read(v: Type, i: Value, mask: Any) -> Value:
                return load(v, kind, first + i, mask)

            extreme = total(f32, n, math.inf if least else -math.inf, f.minimum if least else f.maximum, read)
            I64[y] = _first(f32, n, f32(extreme), read)

        _by_element(args, element, find)

    return row


def _first(f32: Type, n: Value, wanted: Value, read: Callable[[Type, Value, Any], Value]) -> Value:
    """Where the first of n elements is that is wanted; it exists."""
    place, search, found = register(0), Block("search"), Block("found")
    goto(search)
    search.write()
    i = place.value
    mask = f32.below(n - i)
    values = read(f32, i, mask)
    # Where there is a NaN, that is wanted, and it equals nothing.
    same = (values == wanted) | is_nan(values)
    here = (same & mask).bits(integer(f32.lanes, signed=False)).to(I64)
    place.value = i + f32.lanes
    branch(here == 0, search, found)
    found.write()
    return i + called("llvm.cttz.i64", I64, here, BIT(0))


def _columns(f32: Type, element: str) -> Any:
    """`columns(args, y, x, columns)`."""

    @traced
    def columns(args: Value, y: Value, x: Value, columns: Any) -> None:
        n, inner, left, right = columns_of(columns)

        def find(least: bool, kind: str) -> None:
            xs, ys = ELEMENTS[kind].at(x), I64.at(y)

            def column(f32: Type, i: Value, rest: Any = None) -> None:
                mask = None if rest is None else f32.below(rest)

                def read(r: Any) -> Value:
                    return load(f32, kind, xs + (i + r * inner), mask)

                store_first(_place(n, least, read).to(I64), ys + i, rest)

            each_vector(f32, left, right, column)

        _by_element(args, element, find)

    return columns


def _place(n: Value, least: bool, read: Callable[[Any], Value]) -> Value:
    """Where along the axis the best of each column is."""
    best = register(read(I64(0)))
    place = register(I32.like(best.type)(0))
    for r in over(1, n):
        now, before = read(r), best.value
        # Better or a NaN, but nothing is better than a NaN.
        better = ~(now >= before if least else now <= before) & ~is_nan(before)
        best.value = choose(better, now, before)
        place.value = choose(better, r.to(I32), place.value)
    return place.value
