"""Kernels that change the element type: cast, and the exchange of signed and unsigned bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import add
from typing import Any

from ..core.record import fields
from ..isa.stores import store_first
from ..isa.tiers import Tier
from ..lang import Value, cases, choose, cover, either, over, tier, traced, whole
from ..lang.types import BIT, F16, F32, F64, I32, I64, U8, U16, U32, Type, integer, named
from .elementwise import over_planes, over_rows, products
from .rows import CONVERT, TARGETS


def held(kind: Type) -> Type:
    """The vector type that holds an element type in memory. f16 are converted from and to f32 by integer arithmetic,
    alike on all tiers; a bool is a byte."""
    return U16 if kind is F16 else U8 if kind is BIT else kind


def flip(tier: Tier) -> Callable[..., None]:
    """The kernel that turns the high bit of each byte: u8 with zero point z becomes s8 with z - 128, and back."""

    def row(x: Value, y: Value, left: Value, right: Value) -> None:
        def turn(u8: Type, i: Value, rest: Value | None = None) -> None:
            store_first(u8[x + i] ^ 0x80, y + i, rest)

        cover(U8.vector(tier.lanes), left, right, tier.masks, turn)

    return over_rows(U8, U8, lambda _: row)


def cast(tier: Tier, source: str) -> Callable[..., None]:
    """The kernel that converts NUMBERS to what its record says, as C does: floats to integers towards 0, integers by
    their low bits, and to bool whatever is not 0.
    """
    given = named(source)

    @traced
    def plane(args: Value, outer: Any, lines: Any, columns: Any) -> None:
        r = fields(args, CONVERT)
        (row, count) = lines
        first = reduce(add, products((*outer, row), (r.y_d0, r.y_d1, r.y_d2, r.y_row)))
        start = reduce(add, products((*outer, row), (r.x_d0, r.x_d1, r.x_d2, r.x_row)))

        def rows(kind: Type, target: Type) -> None:
            y, xs = held(target).at(r.y) + first, held(kind).at(r.x) + start
            for i in over(count):
                to, at = y + i * r.y_row, xs + i * r.x_row
                _cast_row((kind, target), at, to, columns)

        def to(target: Type) -> None:
            if not _sign_matters(given, target):
                rows(given, target)
                return
            with either(r.signed != 0) as branches:
                for branch, kind in zip(branches, (given, integer(given.bits, signed=False)), strict=True):
                    with branch:
                        rows(kind, target)

        cases(r.target, {i: partial(to, named(target)) for i, target in enumerate(TARGETS)})

    return over_planes(plane)


def _sign_matters(source: Type, target: Type) -> bool:
    """Whether the sign extension of integers affects the result: not where they are truncated, or compared with 0."""
    return not source.real and target is not BIT and (target.real or source.bits < target.bits)


def _cast_row(kinds: tuple[Type, Type], x: Value, y: Value, columns: tuple[Value, Value]) -> None:
    (source, target), (left, right) = kinds, columns
    for lanes in (tier().lanes, 1):
        end = left + whole(right - left, lanes)
        for i in over(left, end, lanes):
            held(target).vector(lanes)[y + i] = _converted(held(source).vector(lanes)[x + i], source, target)
        left = end


def _converted(x: Value, source: Type, target: Type) -> Value:
    """A vector of one type as another, both as they are held."""
    if source is F16:
        x = widened(x)
        return x if target is F32 else _converted(x, F32, target)
    if target is F16:
        return halved((_to_odd(x) if source is F64 else x).to(F32))
    if target is BIT:
        return (x != 0).to(U8)
    if source.real and not target.real:
        return _cut(x, target)
    return x.to(target)


def _cut(x: Value, target: Type) -> Value:
    """Floats as integers, truncated. Overflow gives what the processor's instruction gives, for narrow types that of
    int32 truncated, as NumPy has it."""
    if target.signed:
        return x.to(I32 if target.bits < 32 else target).to(target)
    high = target.bits - 1
    large = x >= 2.0**high
    low = choose(large, x - 2.0**high, x).to(integer(target.bits))
    return choose(large, low ^ (-1 << high), low).unsigned


def _to_odd(x: Value) -> Value:
    """f64 rounded to odd in the precision of f32: a lost bit sets the last one, so that a second rounding is exact."""
    raw, last = x.bits(I64), 1 << 29
    lost, kept = (raw & last - 1) != 0, raw & -last
    return choose(lost, kept | last, kept).bits(F64)


def widened(x: Value) -> Value:
    """f16 as f32: exponents grow by 112, twice so for infinities and NaN; denormals are numbers of 2**-24."""
    x, more = x.unsigned.to(U32), 112 << 23
    size = x & 0x7FFF
    wide = (size << 13) + more
    wide = choose(size >= 0x7C00, wide + more, wide)
    small = size.signed.to(F32) * 2.0**-24
    wide = choose(size < 0x400, small.bits(U32), wide)
    return (wide | (x & 0x8000) << 16).bits(F32)


def halved(x: Value) -> Value:
    """f32 as f16, rounded half to even; what is too large becomes infinite."""
    bits = x.bits(U32)
    size = bits & 0x7FFFFFFF
    odd = size >> 13 & 1
    half = (size - (112 << 23)) + (odd + 0xFFF) >> 13
    # Added to 0.5, numbers below 2**-14 are rounded to whole ones of 2**-24, which are the last bits then.
    small = (size.bits(F32) + 0.5).bits(U32) - 0x3F000000
    half = choose(size < 0x38800000, small, half)
    half = choose(size >= 0x47800000, 0x7C00, half)
    half = choose(size > 0x7F800000, 0x7E00, half)
    return (half | bits >> 16 & 0x8000).to(U16)
