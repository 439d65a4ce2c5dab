"""Products of u8 activations with s8 weights: exact i32 sums, requantized as they are stored.

Words of four u8 are broadcast as the f32 kernels broadcast an f32; a lane multiplies and sums its four bytes
by vpdpbusd, or as two pairs of i16 (pmaddwd) on tiers without it, which is exact as well. Where few sums of products
with bytes exceed 16 bits, weights stay bytes: products of two words are summed in pairs (pmaddubsw), and these as i16.
What would exceed is left to words that are summed again (pack_int8.py), so that no sum can.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..isa.integer import dot_bytes, dot_halves, dot_small, split_bytes, split_weights
from ..isa.tiers import Tier
from ..lang import I16, I32, Type, Value, tier
from ..lang.hints import kept
from .pack_int8 import HEAD_LINES, sums_per_row, vectors_per_word
from .pick_int8 import Sums, int8_costs, one_by_one
from .requantize import scaled, store_bytes, word
from .results import Destination
from .rows import STORES
from .tile import Arithmetic, copies, vectors, whole


def int8_arithmetic(tier: Tier, nv: int, sums: Sums, narrow: bool = False, half: bool = False) -> Arithmetic:
    """Sums of u8 * s8 in i32 over panels that pack_int8.py packs.

    The record has the slots of rows.STORED. With `rowsum` the weights' zero point times a row's sum is added.
    narrow: weights are bytes that are widened when they are loaded. half: only the lower half of the last vector
    counts, on tiers with `byte_dot` and without rowsum.
    """
    out, rowsum, small = sums
    count, line = sums_per_row(nv, rowsum), vectors_per_word(tier, nv, rowsum, narrow or small)
    do = _Products(I32.vector(tier.lanes), nv, count, line, sums, narrow, half)
    most, head = int8_costs(sums).most_rows(tier, nv), (HEAD_LINES[rowsum] + small) * nv * do.i32.size
    by_weight = do.multiply_rows if one_by_one(tier, count, small) else None
    functions = do.start, do.load, do.multiply, do.finish
    found = Arithmetic(nv, most, head, line, count, 1, STORES[out], *functions, multiply_rows=by_weight)
    return replace(found, multiply_two=do.multiply_two) if small else found


def add_products(x: Value, weights: list[Value], sums: list[Value], small: bool = False) -> list[Value]:
    """The sums of a row with the products of a word of A, in each lane of x, and its weights."""
    if small:
        return [s + dot_small([x], [w]) for s, w in zip(sums, weights, strict=True)]
    if tier().byte_dot:
        return [dot_bytes(s, x, w) for s, w in zip(sums, weights, strict=True)]
    for half, offset in zip(split_bytes(x), (0, len(sums)), strict=True):
        products = [dot_halves(half, w) for w in weights[offset : offset + len(sums)]]
        sums = [s + p for s, p in zip(sums, products, strict=True)]
    return sums


@dataclass(frozen=True)
class _Products:
    """The functions of an `int8_arithmetic`. count: vectors of sums of a row; line: of weights of a word."""

    i32: Type
    nv: int
    count: int
    line: int
    into: Sums
    narrow: bool
    half: bool

    def head(self, panel: Value, index: int) -> list[Value]:
        """Where the vectors of a line of a panel's head are."""
        return [panel + (index * self.nv + n) * self.i32.size for n in range(self.nv)]

    def ones(self) -> list[Value]:
        """The weights of a row's own sum, as i16."""
        return [I16.vector(2 * self.i32.lanes)(1)] * self.into.rowsum

    def start(self, panel: Value) -> list[Value]:
        begun = [kind[at] for kind, at in zip(vectors(self.i32, self.nv, self.half), self.head(panel, 0), strict=True)]
        return begun + [self.i32(0)] * self.into.rowsum

    def load(self, weights: Value) -> list[Value]:
        found = [kind[weights + i * self.i32.size] for i, kind in enumerate(vectors(self.i32, self.line, self.half))]
        if not self.narrow:
            return found
        return [w for odd in zip(*map(split_weights, found), strict=True) for w in [*odd, *self.ones()]]

    def multiply(self, word: Value, weights: list[Value], sums: list[Value]) -> list[Value]:
        x = self.i32(I32[word])
        if self.half:
            return [dot_bytes(*operands) for operands in zip(sums, copies(x, self.nv, True), weights, strict=True)]
        return add_products(x, weights, sums, self.into.small)

    def multiply_two(self, words: list[Value], weights: list[list[Value]], sums: list[Value]) -> list[Value]:
        x = [self.i32(I32[word]) for word in words]
        return [s + dot_small(x, w) for s, *w in zip(sums, *weights, strict=True)]

    def multiply_rows(self, panel: Value, words: list[Value], sums: list[Value]) -> list[Value]:
        """Each vector of weights is loaded for all rows, so that few registers hold weights."""
        # Kept: LLVM would rather broadcast once more, and add the products of even and odd bytes first, for which there
        # are no registers.
        sums, words = list(sums), [kept(self.i32(I32[word])) for word in words]
        for odd in (0, 1):
            parts = [split_bytes(word)[odd] for word in words]
            for n in range(self.count):
                w = self.weight(panel, odd, n)
                for i, part in zip(range(n, len(sums), self.count), parts, strict=True):
                    sums[i] = kept(sums[i] + dot_halves(part, w))
        return sums

    def weight(self, panel: Value, odd: int, n: int) -> Value:
        """The n-th vector of weights of even or odd bytes."""
        if not self.narrow:
            return self.i32[panel + (odd * self.count + n) * self.i32.size]
        return split_weights(self.i32[panel + n * self.i32.size])[odd] if n < self.nv else self.ones()[0]

    def finish(self, dest: Destination, sums: list[Value]) -> list[Value] | None:
        sums = whole(sums)
        rows = [sums[i : i + self.count] for i in range(0, len(sums), self.count)]
        if self.into.rowsum:
            minus = [self.i32[at] for at in self.head(dest.panel, 2)]
            rows = [[s + row[-1] * m for s, m in zip(row, minus, strict=False)] for row in rows]
        reals = [[scaled(s, at) for s, at in zip(row, self.head(dest.panel, 1), strict=True)] for row in rows]
        if self.into.out == "bytes":
            store_bytes(dest, self.nv, reals, dest.record, self.half)
            return None
        pairs = [pair for one in zip(rows, reals, strict=True) for pair in zip(*one, strict=True)]
        return [word(total, real, dest.record) for total, real in pairs]
