"""pack_b_int8: packs a u8 matrix that is only known at run time into the panels that dot_int8 reads.

As pack_int8.py does for nv = 4 with `rowsum`: bytes become s8 (less 128), and sums of columns the line that
dot begins with. Interleaving four rows puts columns in the order that packing results to bytes undoes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from ..core.record import loaded, reader
from ..isa.integer import bytes_type, dot_bytes, dot_halves, halves_type
from ..isa.interleave import interleave, load_bytes
from ..isa.lanes import PARTS
from ..isa.loops import repeat
from ..isa.tiers import Tier
from ..isa.vector import I8, I32, I64, Vector, emits
from .pack_int8 import HEAD_LINES, sums_per_row, vectors_per_word
from .rows import PACK_INT8


def make_pack_int8(tier: Tier) -> Callable[..., None]:
    """The kernel; its record is `rows.PACK_INT8`."""
    fields, lines = reader(PACK_INT8), _lines(tier)
    width, line = PARTS * tier.lanes, tier.lanes * 4
    head, word = HEAD_LINES[True] * PARTS * line, vectors_per_word(tier, PARTS, True) * line

    def pack(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        panels = (r.n + width - 1) // width
        total = r.batch * panels
        size = head + (r.k + 3) // 4 * word
        for unit in range(total * thread // threads, total * (thread + 1) // threads):
            i = unit // panels
            lines(args, r.packed + unit * size, r.b + i * r.b_stride + (unit - i * panels) * width, r.ldb, r.k)

    return pack


def _lines(tier: Tier) -> Any:
    """lines(args, panel, start, stride, k) from k rows of B, each read a vector of bytes wide."""
    line = tier.lanes * 4
    count, vectors = sums_per_row(PARTS, True), vectors_per_word(tier, PARTS, True)
    head = HEAD_LINES[True] * PARTS * line

    @emits
    def lines(b: Any, args: Any, panel: Any, start: Any, stride: Any, k: Any) -> None:
        v = Vector(b, tier)
        flip, none = (ir.Constant(bytes_type(v), [x] * 4 * v.lanes) for x in (-128, 0))
        last = b.sub(k, I64(1))

        def put(address: Any, index: int, value: Any) -> None:
            to = b.inttoptr(b.add(address, I64(index * line)), v.itype.as_pointer())
            b.store(b.bitcast(value, v.itype), to, align=1)

        def row(index: Any) -> Any:
            inside = b.icmp_signed("<=", index, last)
            at = b.add(start, b.mul(b.select(inside, index, last), stride))
            return b.select(inside, b.xor(load_bytes(v, b.inttoptr(at, I8.as_pointer())), flip), none)

        def words(w: Any, state: list[Any]) -> list[Any]:
            to, *sums = state
            first = b.mul(w, I64(4))
            parts = interleave(v, [row(b.add(first, I64(i))) for i in range(4)])
            rest = b.sub(k, first)
            # As many ones as there are rows left: what lies behind a run of A isn't part of its sum.
            ones = b.lshr(I32(0x01010101), b.trunc(b.mul(b.sub(I64(4), _at_most(b, rest, 4)), I64(8)), I32))
            full = [*parts, v.splat(ones)]
            if tier.vnni:
                stored = full
            else:
                stored = [half(v, x) for half in (_even, _odd) for x in full]
            for i, value in enumerate(stored):
                put(to, i, value)
            totals = [_column_sums(v, s, stored, i, count) for i, s in enumerate(sums)]
            return [b.add(to, I64(vectors * line)), *totals]

        turns = b.ashr(b.add(k, I64(3)), I64(2))
        sums = repeat(b, turns, [b.add(panel, I64(head)), *[v.iconst(0)] * PARTS], words)[1:]
        r = loaded(b, args, PACK_INT8)
        slots = r.minus_zero_a, r.start, r.multiplier, r.minus_zero_b
        minus_a, begin, factor, minus_b = (v.splat(b.trunc(slot, I32)) for slot in slots)
        for i, total in enumerate(sums):
            put(panel, i, b.add(begin, b.mul(total, minus_a)))
            put(panel, PARTS + i, factor)
            put(panel, 2 * PARTS + i, minus_b)

    return lines


def _at_most(b: Any, x: Any, limit: int) -> Any:
    return b.select(b.icmp_signed("<", x, I64(limit)), x, I64(limit))


def _even(v: Vector, x: Any) -> Any:
    """Bytes 0 and 2 of each lane, as i16."""
    kind = halves_type(v)
    eight = ir.Constant(kind, [8] * kind.count)
    return v.b.ashr(v.b.shl(v.b.bitcast(x, kind), eight), eight)


def _odd(v: Vector, x: Any) -> Any:
    """Bytes 1 and 3 of each lane, as i16."""
    kind = halves_type(v)
    return v.b.ashr(v.b.bitcast(x, kind), ir.Constant(kind, [8] * kind.count))


def _column_sums(v: Vector, total: Any, stored: Sequence[Any], part: int, count: int) -> Any:
    """total + the weights of a word's vector `part`."""
    if v.tier.vnni:
        return dot_bytes(v, total, v.iconst(0x01010101), stored[part])
    for half in (0, count):
        total = v.b.add(total, dot_halves(v, v.iconst(0x00010001), stored[half + part]))
    return total
