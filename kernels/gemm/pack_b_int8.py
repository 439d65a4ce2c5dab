"""pack_b_int8: packs a u8 matrix that isn't constant into the panels that dot_int8 reads.

As pack_int8.py does with `rowsum`: bytes become s8 (less 128), and sums of columns become the line that dot begins
with. Interleaving four rows orders columns as packing results to bytes needs, where each 128 bits of a row begin with
the columns of its results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.record import fields
from ..isa.integer import dot_bytes, dot_halves, split_weights
from ..isa.interleave import interleave
from ..isa.tiers import Tier
from ..lang import I8, I32, U32, Value, choose, repeat, shuffle, smaller, tier, traced
from .pack_int8 import HEAD_LINES, sums_per_row, vectors_per_word
from .rows import PACK_INT8

ONES, HALF_ONES = 0x01010101, 0x00010001
"""A word of four bytes of 1, and of two i16."""


def make_pack_int8(tier: Tier, nv: int) -> Callable[..., None]:
    """The kernel for panels of nv vectors; its record is `rows.PACK_INT8`."""
    width, line = nv * tier.lanes, tier.lanes * 4
    head, word = HEAD_LINES[True] * nv * line, vectors_per_word(tier, nv, True) * line

    def pack(args: int, thread: int, threads: int) -> None:
        r = fields(args, PACK_INT8)
        panels = (r.n + width - 1) // width
        total = r.batch * panels
        size = head + (r.k + 3) // 4 * word
        for unit in range(total * thread // threads, total * (thread + 1) // threads):
            i = unit // panels
            _lines(nv, args, r.packed + unit * size, r.b + i * r.b_stride + (unit - i * panels) * width, r.ldb, r.k)

    return pack


@traced
def _lines(nv: int, args: Any, panel: Value, start: Value, stride: Value, k: Value) -> None:
    """The lines of a panel from k rows of B, each read as many bytes wide as a panel has columns."""
    i32, i8 = I32.vector(tier().lanes), I8.vector(nv * tier().lanes)
    count, vectors = sums_per_row(nv, True), vectors_per_word(tier(), nv, True)
    head = HEAD_LINES[True] * nv * i32.size
    places = [nv * (i // 4) + i % 4 if i % 4 < nv else 0 for i in range(tier().lanes)]

    def put(address: Value, index: int, value: Value) -> None:
        i32[address + index * i32.size] = value.bits(I32)

    last = k - 1

    def row(index: Value) -> Value:
        inside = index <= last
        found = choose(inside, i8[start + choose(inside, index, last) * stride] ^ -128, 0)
        return found if nv == 4 else shuffle(found.bits(I32), places).bits(I8)

    def words(w: Value, state: list[Value]) -> list[Value]:
        to, *sums = state
        first = w * 4
        parts = interleave([row(first + i) for i in range(4)])[:nv]
        # As many ones as there are rows left: what lies behind a run of A isn't part of its sum.
        lacking = 4 - smaller(k - first, 4)
        stored = [*parts, i32((U32(ONES) >> (lacking * 8).to(U32)).signed)]
        stored = [split_weights(x)[odd] for odd in range(1 if tier().byte_dot else 2) for x in stored]
        for i, value in enumerate(stored):
            put(to, i, value)
        totals = [_column_sums(s, stored, i, count) for i, s in enumerate(sums)]
        return [to + vectors * i32.size, *totals]

    sums = repeat((k + 3) >> 2, [panel + head, *[i32(0)] * nv], words)[1:]
    r = fields(args, PACK_INT8)
    slots = r.minus_zero_a, r.start, r.multiplier, r.minus_zero_b
    minus_a, begin, factor, minus_b = (i32(slot.to(I32)) for slot in slots)
    for i, total in enumerate(sums):
        put(panel, i, begin + total * minus_a)
        put(panel, nv + i, factor)
        put(panel, 2 * nv + i, minus_b)


def _column_sums(total: Value, stored: Sequence[Value], part: int, count: int) -> Value:
    """total + the weights of a word's vector `part`."""
    if tier().byte_dot:
        return dot_bytes(total, total.type(ONES), stored[part])
    for half in (0, count):
        total = total + dot_halves(total.type(HALF_ONES), stored[half + part])
    return total
