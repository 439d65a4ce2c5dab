"""dot and conv of u8 activations with s8 weights: exact i32 sums, requantized as they are stored.

Words of four u8 are broadcast as the f32 kernels broadcast an f32; a lane multiplies and sums its four bytes
by vpdpbusd, or as two pairs of i16 (pmaddwd) on tiers without it, which is exact as well. Small weights stay
bytes, whose products are summed in pairs (pmaddubsw), which can't saturate, and these as i16.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..isa.integer import dot_bytes, dot_halves, dot_small, split_bytes, split_weights
from ..isa.tiers import Tier
from ..lang import I16, I32, Value, tier
from ..lang.hints import kept
from .conv import conv_kernel
from .dot import dot_kernel
from .pack_int8 import HEAD_LINES, sums_per_row, vectors_per_word
from .pick_int8 import Sums, int8_costs, one_by_one
from .requantize import scaled, store_bytes, word
from .results import Destination
from .rows import CONV_INT8, DOT_INT8, STORES
from .tile import Arithmetic, copies, vectors, whole


def make_dot_int8(tier: Tier, nv: int, half: bool = False, **sums: Any) -> Callable[..., None]:
    """The kernel for panels of nv vectors, or for one whose last vector is half; its record is `rows.DOT_INT8`."""
    return dot_kernel(tier, int8_arithmetic(tier, nv, Sums(**sums), half=half), DOT_INT8)


def make_conv_int8(tier: Tier, nv: int, half: bool = False, **sums: Any) -> Callable[..., None]:
    """The kernel for panels of nv vectors, or for one whose last vector is half; its record is `rows.CONV_INT8`."""
    return conv_kernel(tier, int8_arithmetic(tier, nv, Sums(**sums), half=half), CONV_INT8)


def add_products(x: Value, weights: list[Value], sums: list[Value], small: bool = False) -> list[Value]:
    """The sums of a row with the products of a word of A, in each lane of x, and its weights."""
    if small:
        return [s + dot_small(x, w) for s, w in zip(sums, weights, strict=True)]
    if tier().byte_dot:
        return [dot_bytes(s, x, w) for s, w in zip(sums, weights, strict=True)]
    for half, offset in zip(split_bytes(x), (0, len(sums)), strict=True):
        products = [dot_halves(half, w) for w in weights[offset : offset + len(sums)]]
        sums = [s + p for s, p in zip(sums, products, strict=True)]
    return sums


def int8_arithmetic(tier: Tier, nv: int, sums: Sums, narrow: bool = False, half: bool = False) -> Arithmetic:
    """Sums of u8 * s8 in i32 over panels that pack_int8.py packs.

    The record has the slots of rows.STORED. With `rowsum` the weights' zero point times a row's sum is added.
    narrow: weights are bytes that are widened when they are loaded. half: only the lower half of the last vector
    counts, on tiers with `byte_dot` and without rowsum.
    """
    out, rowsum, small = sums
    i32, count, lines = (
        I32.vector(tier.lanes),
        sums_per_row(nv, rowsum),
        vectors_per_word(tier, nv, rowsum, narrow or small),
    )

    def line(panel: Value, index: int) -> list[Value]:
        """Where the vectors of a line of a panel's head are."""
        return [panel + (index * nv + n) * i32.size for n in range(nv)]

    def start(panel: Value) -> list[Value]:
        begun = [kind[at] for kind, at in zip(vectors(i32, nv, half), line(panel, 0), strict=True)]
        return begun + [i32(0)] * rowsum

    def load(weights: Value) -> list[Value]:
        found = [kind[weights + i * i32.size] for i, kind in enumerate(vectors(i32, lines, half))]
        if not narrow:
            return found
        ones = [I16.vector(2 * tier.lanes)(1)] * rowsum
        return [w for half in zip(*map(split_weights, found), strict=True) for w in [*half, *ones]]

    def multiply(word: Value, weights: list[Value], sums: list[Value]) -> list[Value]:
        x = i32(I32[word])
        if half:
            return [dot_bytes(*operands) for operands in zip(sums, copies(x, nv, half), weights, strict=True)]
        return add_products(x, weights, sums, small)

    def multiply_rows(panel: Value, words: list[Value], sums: list[Value]) -> list[Value]:
        """Each vector of weights is loaded for all rows, so that few registers hold weights."""
        # Kept: LLVM would rather broadcast once more, and add the products of even and odd bytes first, for which there
        # are no registers.
        sums, words = list(sums), [kept(i32(I32[word])) for word in words]
        for odd in (0, 1):
            parts = [split_bytes(word)[odd] for word in words]
            for n in range(count):
                w = weight(panel, odd, n)
                for r, part in enumerate(parts):
                    sums[r * count + n] = kept(sums[r * count + n] + dot_halves(part, w))
        return sums

    def weight(panel: Value, odd: int, n: int) -> Value:
        """The n-th vector of weights of even or odd bytes."""
        if not narrow:
            return i32[panel + (odd * count + n) * i32.size]
        return split_weights(i32[panel + n * i32.size])[odd] if n < nv else I16.vector(2 * tier.lanes)(1)

    def finish(dest: Destination, sums: list[Value]) -> list[Value] | None:
        sums = whole(sums)
        rows = [sums[r * count : (r + 1) * count] for r in range(dest.rows)]
        if rowsum:
            minus = [i32[at] for at in line(dest.panel, 2)]
            rows = [[s + row[-1] * m for s, m in zip(row, minus, strict=False)] for row in rows]
        reals = [[scaled(s, at) for s, at in zip(row, line(dest.panel, 1), strict=True)] for row in rows]
        if out == "bytes":
            store_bytes(dest, nv, reals, dest.record, half)
            return None
        pairs = [pair for one in zip(rows, reals, strict=True) for pair in zip(*one, strict=True)]
        return [word(total, real, dest.record) for total, real in pairs]

    by_weight = multiply_rows if one_by_one(tier, count, small) else None
    head = HEAD_LINES[rowsum] * nv * i32.size
    kind = nv, int8_costs(sums).most_rows(tier, nv), head, lines, count, 1, STORES[out]
    return Arithmetic(*kind, start, load, multiply, finish, multiply_rows=by_weight)
