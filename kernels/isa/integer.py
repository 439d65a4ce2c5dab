"""Integers of int8 kernels: multiply-add of bytes, rounding, and packing to bytes.

Vectors are as wide as the tier's: <lanes x i32>, and as many bits of i16 or i8. Packing works within 128 bits: dword
4 * i + j of `pack_bytes` holds elements 4 * i.. of the j-th vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..lang import BIT, I8, I16, I32, U8, U16, Value, fma, intrinsic, shuffle, tier


def dot_bytes(sums: Value, a: Value, w: Value) -> Value:
    """sums + the products of u8 `a` and s8 `w`, four to a lane, all i32 vectors; tiers with `byte_dot`."""
    return tier().isa.dot_bytes(sums, a.bits(U8), w.bits(I8))


def dot_small(a: Sequence[Value], w: Sequence[Value]) -> Value:
    """The sums in each lane of the products of u8 words `a` and s8 `w`, where those of bytes 0 and 1 of all words, and
    of 2 and 3, fit 16 bits; tiers with `byte_shuffle`.
    """
    first, *rest = (tier().isa.pair_sums(x.bits(U8), y.bits(I8)) for x, y in zip(a, w, strict=True))
    return dot_halves(sum(rest, first), first.type(1))


def split_bytes(a: Value) -> tuple[Value, Value]:
    """Bytes 0 and 2, and bytes 1 and 3, of each lane of an i32 vector, as i16."""
    halves = a.bits(U16)
    return halves & 255, halves >> 8


def split_weights(w: Value) -> list[Value]:
    """s8 weights, four to a lane, as `dot_bytes` takes them: themselves, or as s16 bytes 0 and 2, and bytes 1 and 3."""
    if tier().byte_dot:
        return [w]
    halves = w.bits(I16)
    return [(halves << 8) >> 8, halves >> 8]


def dot_halves(a: Value, w: Value) -> Value:
    """The i32 sums of the two i16 products in each lane."""
    return tier().isa.dot_halves(a.bits(I16), w.bits(I16))


def round_to_int(x: Value, within: bool = False) -> Value:
    """f32 to i32, halves to even, clamped to int32; NaN becomes the least. within: none is 2**31 or more."""
    return tier().isa.round_to_int(x, within)


def whole_quotient(x: Value, y: Value, inverse: Value) -> Value:
    """What rounds to the same integer as x / y, in f32, for an `inverse` 1 / y; for y that `has_inverse`, and quotients
    within 256; where they are more, so is this. The error of a product is computed and taken away.
    """
    roughly = x * inverse
    return fma(fma(-roughly, y, x), inverse, roughly)


def has_inverse(y: Value) -> Value:
    """Whether f32 holds all parts of `whole_quotient` by y; never on tiers that round products before they add."""
    return (y >= 2.0**-100) & (y <= 2.0**100) if tier().fma else BIT(0)


def pack(x: Value, y: Value, signed: bool = True) -> Value:
    """Two vectors as one of elements half as wide, saturated: x's, then y's, within 128 bits."""
    return tier().isa.pack(x, y, signed)


def pack_bytes(words: Sequence[Value], zero: Value | None = None, signed: bool = False) -> Value:
    """Up to four i32 vectors, each plus the i16 vector `zero` if there is one, saturated to u8 or s8, as one of i8."""
    four = [*words, *[words[-1]] * (4 - len(words))] if len(words) != 2 else [*words, *words]
    pairs = [pack(four[0], four[1])]
    pairs += pairs if len(words) <= 2 else [pack(four[2], four[3])]
    if zero is not None:
        pairs = [intrinsic("sadd.sat", pair, zero) for pair in pairs]
    return pack(pairs[0], pairs[1], signed)


def to_bytes(
    zero: Value, low: Any = None, high: Any = None, signed: bool = False, whole: Callable[[Value], Value] = round_to_int
) -> Callable[[Sequence[Value]], Value]:
    """A function from up to four f32 vectors to u8 or s8, in the order of `pack_bytes`: clamp(whole(x) + zero, low,
    high).

    zero, low and high: int64s, numbers of the stored type; low and high default to its limits.
    """
    lanes, sign = tier().lanes, "s" if signed else "u"
    zeros = I16.vector(2 * lanes)(zero.to(I16))
    byte = I8 if signed else U8
    stored = byte.vector(4 * lanes)
    limits = [] if low is None else [("max", low), ("min", high)]
    bounds = [(f"{sign}{name}", stored(limit.to(byte))) for name, limit in limits]

    def rounded(vectors: Sequence[Value]) -> Value:
        found = pack_bytes([whole(x) for x in vectors], zeros, signed)
        for clamp, bound in bounds:
            found = intrinsic(clamp, found, bound)
        return found

    return rounded


def in_order(packed: Value, count: int = 4) -> Value:
    """The bytes of the first `count` vectors given to `pack_bytes`, vector after vector."""
    words = packed.bits(I32)
    order = [4 * i + j for j in range(count) for i in range(words.lanes // 4)]
    return shuffle(words, order).bits(packed.type.number)
