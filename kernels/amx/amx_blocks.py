"""amx_blocks: what gemm/dot_blocks.py computes of rows that stay f32, by products of bf16 in AMX tiles.

Codes are bf16, and numbers of A are sums of three. A block of codes becomes tiles, by which a band of rows is
multiplied. What they sum is scaled and added to the totals beside the products of the next rows.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import add
from typing import Any

import numpy as np

from ..core.record import fields
from ..gemm.code_blocks import code_words, line_bytes, places, weight
from ..gemm.dot_blocks import decoded_sums
from ..gemm.pick_blocks import NV, few_rows, per_word
from ..gemm.results import Destination, Target, store_tiles, target
from ..isa.tiers import Tier
from ..isa.x86_amx import TILE
from ..lang import Value, any_lane, divide, either, fma, fold, over, register, registers, share, smaller, traced, when
from ..lang.types import F32, I32, I64, U16, U32
from ..lang.values import tier as tier_in_use
from .pack_amx import LINE, SUMS, numbering
from .pack_real import MT, NUMBERS
from .pick_codes import NT, PLANES
from .real_block import shows
from .rows import AMX_BLOCKS
from .split_band import Parts, lost, put_parts, seen
from .tile_loop import configure, release


def make_amx_blocks(tier: Tier, bits: int) -> Callable[..., None]:
    """The kernel. Threads share the groups of columns."""
    width, parts = NV * tier.lanes, Parts(tier, PLANES, "bf16")

    def amx_blocks(args: int, thread: int, threads: int) -> None:
        r = fields(args, AMX_BLOCKS)
        scratch = r.scratch + thread * r.scratch_bytes
        first, end = share((r.n + width - 1) // width, thread, threads)
        configure(r.config)
        if first < end:
            for i in range(r.batch):
                for start in range(0, r.m, r.band):
                    rows = smaller(r.band, r.m - start)
                    _split(parts, bits, r, r.a + (i * r.m + start) * r.lda * 4, scratch, rows)
                    for group in range(first, end, r.groups):
                        count = smaller(r.groups, end - group)
                        _sum(bits, r, scratch, rows, r.b + group * r.group, count)
                        for g in range(count):
                            store_group(r, scratch, (i, start, rows), group + g, g)
        release()

    def store_group(r: Any, scratch: Any, band: tuple[Any, ...], group: Any, g: Any) -> None:
        """Store the totals of a band, (batch, first row, rows), in the g-th of the groups of columns at work."""
        i, start, rows = band
        at, column = i * r.m + start, group * width
        codes, totals = r.b + group * r.group, scratch + r.work + 2 * SUMS + g * r.band * (NT * LINE)
        c = r.c + (at * r.ldc + column) * 4
        into = target(c, r.ldc * 4, r.n - column, image=i, row=start, column=column)
        _correct(bits, r, (scratch + r.notes, totals, r.a + at * r.lda * 4), rows, codes, into)
        _store(r, totals, rows, codes, into)

    return amx_blocks


def _lines(bits: int, r: Any) -> Value:
    """Lines of A for a block of codes."""
    return divide(r.block * per_word(bits), NUMBERS)


@traced
def _split(parts: Parts, bits: int, r: Any, a: Value, scratch: Value, rows: Value) -> None:
    """The parts of rows from an address on; of each a note: whether parts may lose something, and the sums of what
    blocks of codes meet.
    """
    f32, lanes = F32.vector(parts.tier.lanes), parts.tier.lanes
    per = _lines(bits, r)
    for row in over(rows):
        x, to, note = a + row * r.lda * 4, scratch + row * r.rs, scratch + r.notes + row * r.note
        odd, total = register(U32.vector(lanes)(0)), register(f32(0))
        for i in over(divide(r.note, 4) - 1):
            total.value = f32(0)
            for s in over(i * per, smaller((i + 1) * per, r.lines)):
                at, left = x + s * (4 * NUMBERS), r.k - s * NUMBERS
                found = [f32[at + 4 * j, f32.below(left - j)] for j in range(0, NUMBERS, lanes)]
                put_parts(parts, r, to + s * LINE, found)
                odd.value = seen(parts.element, odd.value, found)
                for part in found:
                    total.value = total.value + part
            F32[note + 4 + 4 * i] = fold(add, total.value)[0]
        I32[note] = any_lane(lost(parts.element, odd.value, lanes) != 0).to(I32)


@traced
def _unpack(bits: int, r: Any, start: Value, to: Value, i: Value) -> None:
    """Make the i-th block of a group's codes, whose scales lie at start, tiles of bf16: for each line of A NT tiles of
    16 rows, each with two codes of 16 columns.
    """
    words, per = U32.vector(tier_in_use().lanes), per_word(bits)
    lines = start + line_bytes() * (1 + r.zeros)
    count = smaller(r.block, divide(r.k, per) - i * r.block)
    rest = count & (NUMBERS // per - 1)
    with when(rest != 0):
        for k in over(NT * TILE // LINE):
            words[to + divide(count * per, NUMBERS) * (NT * TILE) + k * LINE] = 0
    for index in over(count):
        found, k = code_words(bits, lines + index * line_bytes()), index * per
        place = to + (k >> 5) * (NT * TILE) + (k & (NUMBERS - 1)) * (LINE // 2)
        for n, word in enumerate(found):
            for j, pair in enumerate(_pairs(bits, word)):
                words[place + n * TILE + j * LINE] = pair


def _pairs(bits: int, word: Any) -> list[Value]:
    """The codes of words as bf16, two in each lane."""
    if bits != 4:
        codes = [weight(bits, word, j).bits(U32) for j in range(per_word(bits))]
        return [low >> 16 | high for low, high in zip(codes[::2], codes[1::2], strict=True)]
    halves, word = U16.vector(2 * word.lanes), word.unsigned
    entries = np.array([code % 16 - 16 * (code % 16 > 7) for code in range(halves.lanes)], np.float32)
    table = halves((entries.view(np.uint32) >> 16).tolist())
    # Half a word has codes 4 bits apart in its halves, of which each has two, 8 bits apart, where an index is.
    places = [(low & 0xFFFF) | (high & 0xFFFF0000) for low, high in ((word, word << 12), (word >> 16, word >> 4))]
    return [
        tier_in_use().isa.permute_halves(table, (place >> at if at else place).bits(U16)).bits(U32)
        for place in places
        for at in (0, 8)
    ]


@traced
def _sum(bits: int, r: Any, scratch: Value, rows: Value, codes: Value, groups: Value) -> None:
    """The totals of a band of rows in so many groups of columns, from those codes on.

    The sums of a block of codes are in one half of `work` while those before it, in the other, are scaled.
    """
    isa, f32 = tier_in_use().isa, F32.vector(tier_in_use().lanes)
    sums, tiles, totals = scratch + r.work, scratch + r.panel, scratch + r.work + 2 * SUMS
    for k in over(r.groups * r.band * NT):
        f32[totals + k * LINE] = 0
    half, *before = registers([I64(0)] * 4).all

    def scale() -> None:
        _scale(r, sums + (1 - half.value) * SUMS, *(each.value for each in before))

    for i in over(divide(r.note, 4) - 1):
        start = codes + i * (r.block + (r.zeros + 1)) * line_bytes()
        for g in over(groups):
            _unpack(bits, r, start + g * r.group, tiles + g * _lines(bits, r) * (NT * TILE), i)
        for row in over(0, rows, MT * r.rows):
            for g in over(groups):
                _multiply(bits, r, scratch, row, i, g)
                with when(before[0].value != 0):
                    scale()
                for c in range(MT * NT):
                    isa.store(c, sums + half.value * SUMS + c * TILE, LINE)
                half.value = 1 - half.value
                before[0].value = start + g * r.group
                before[1].value = totals + (g * r.band + row) * (NT * LINE)
                before[2].value = scratch + r.notes + row * r.note + 4 + 4 * i
    scale()


def _multiply(bits: int, r: Any, scratch: Value, row: Value, i: Value, g: Value) -> None:
    """Sum the products of MT tiles of rows, from `row` on, and the i-th block of codes of group g in tile registers."""
    isa, (a_tiles, b_tiles) = tier_in_use().isa, numbering(MT, NT)
    per = _lines(bits, r)
    for c in range(MT * NT):
        isa.clear(c)
    for s in over(smaller(per, r.lines - i * per)):
        for n in range(NT):
            isa.load(b_tiles[n], scratch + r.panel + (g * per + s) * (NT * TILE) + n * TILE, LINE)
        for plane in reversed(range(PLANES)):
            for m in range(MT):
                line = scratch + plane * r.plane + (row + m * r.rows) * r.rs + (i * per + s) * LINE
                isa.load(a_tiles[m], line, r.rs)
            for m in range(MT):
                for n in range(NT):
                    isa.multiply_reals(m * NT + n, a_tiles[m], b_tiles[n])


@traced
def _scale(r: Any, sums: Value, start: Value, totals: Value, notes: Value) -> None:
    """Add the sums of a block of codes, whose scales lie at start, to the totals of rows with these notes."""
    f32 = F32.vector(tier_in_use().lanes)
    scales = [f32[at] for at in places(start)]
    minus = [f32[at] for at in places(start + line_bytes() * r.zeros)]

    def add_up(zeros: bool) -> None:
        for m in range(MT):
            for k in over(r.rows):
                at = m * r.rows + k
                for n in range(NT):
                    place = totals + (at * NT + n) * LINE
                    value = f32[sums + (m * NT + n) * TILE + k * LINE]
                    if zeros:
                        value = fma(minus[n], f32(F32[notes + at * r.note]), value)
                    f32[place] = fma(value, scales[n], f32[place])

    with either(r.zeros != 0) as (some, none):
        with some:
            add_up(True)
        with none:
            add_up(False)


@traced
def _correct(bits: int, r: Any, band: tuple[Value, Value, Value], rows: Value, codes: Value, into: Target) -> None:
    """Sum those rows of a band, (its notes, totals, rows of A), again, f32 by f32, that read numbers whose parts lose
    what may show.
    """
    notes, totals, a = band
    f32 = F32.vector(tier_in_use().lanes)
    for row in over(rows):
        own = [totals + (row * NT + n) * LINE for n in range(NT)]
        with when(I32[notes + row * r.note] != 0), when(shows(own, into.columns)):
            found = decoded_sums(bits, r, codes, a + row * r.lda * 4)
            for place, x in zip(own, found, strict=True):
                f32[place] = x


@traced
def _store(r: Any, totals: Value, rows: Value, codes: Value, into: Target) -> None:
    """Store the totals of a band of rows, with the ending."""
    f32, most = F32.vector(tier_in_use().lanes), few_rows(tier_in_use())
    for first in over(0, rows, most):
        own = totals + first * (NT * LINE)
        here = into._replace(c=into.c + first * into.ldc, row=into.row + first)

        def body(rows: int, own: Value = own) -> list[Value]:
            return [f32[own + i * LINE] for i in range(rows * NT)]

        store_tiles(Destination.of(smaller(most, rows - first), codes, r, here), NV, most, body)
