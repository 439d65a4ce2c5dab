"""dot_blocks: C = A x W; W is stored in codes of a few bits, with a scale and maybe a zero point for each block of k.

Few rows are multiplied by codes as they are stored, block by block; for more rows a group of columns is decoded to a
panel, as pack.py makes them, that stays in the cache for all rows. Where the record says so, rows are rounded to bytes
(byte_blocks.py), and any number of them is multiplied by codes as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import fields
from ..isa.tiers import Tier
from ..lang import F32, Value, fma, over, registers, repeat, share, smaller, tier, traced
from .byte_blocks import byte_row, byte_sums, round_rows
from .code_blocks import CodeBlock, code_words, each_block, line_bytes, weight
from .pick_blocks import NV, few_rows, per_word
from .results import Destination, Target, store_tiles, target
from .rows import DOT_BLOCKS
from .tile import ahead_of, even_rows, f32_arithmetic, make_tile


def make_dot_blocks(tier: Tier, bits: int) -> Callable[..., None]:
    """The kernel; its record is `rows.DOT_BLOCKS`. Threads share the groups of columns."""
    width = NV * tier.lanes
    tile = make_tile(tier, f32_arithmetic(tier, NV), fetch="")

    def dot_blocks(args: int, thread: int, threads: int) -> None:
        r = fields(args, DOT_BLOCKS)
        scratch = r.scratch + thread * r.scratch_bytes
        first, end = share((r.n + width - 1) // width, thread, threads)
        if r.rounded:
            _bytes(bits, r, scratch, first, end)
            return
        for group in range(first, end):
            codes, column = r.b + group * r.group, group * width
            if not r.few:
                _decode(bits, r, codes, scratch)
            for i in range(r.batch):
                for row in range(0, r.m, r.height):
                    height, at = smaller(r.height, r.m - row), i * r.m + row
                    a, c = r.a + at * r.lda * 4, r.c + (at * r.ldc + column) * 4
                    into = target(c, r.ldc * 4, r.n - column, image=i, row=row, column=column)
                    if r.few:
                        _few(bits, r, (height, a, r.lda * 4), codes, into, 0)
                    else:
                        tile(r, height, even_rows(a, r.lda * 4, r.k), scratch, ahead_of(0, 0, 0, 0), into)

    return dot_blocks


@traced
def _bytes(bits: int, record: Any, scratch: Value, first: Value, end: Value) -> None:
    """The groups from `first` on of rows that are rounded, some at a time."""
    if not tier().byte_dot:
        return
    width, step = NV * tier().lanes, byte_row(bits, record)
    for i in over(record.batch):
        for start in over(0, record.m, record.rounded):
            rows, at = smaller(record.rounded, record.m - start), i * record.m + start
            round_rows(bits, record, record.a + at * record.lda * 4, scratch, rows)
            for group in over(first, end):
                codes, column = record.b + group * record.group, group * width
                for row in over(0, rows, record.height):
                    c = record.c + ((at + row) * record.ldc + column) * 4
                    into = target(c, record.ldc * 4, record.n - column, image=i, row=start + row, column=column)
                    height = smaller(record.height, rows - row)
                    _few(bits, record, (height, scratch + row * step, step), codes, into, 1)


@traced
def _few(bits: int, record: Any, rows: tuple[Value, Value, Value], codes: Value, target: Target, rounded: Any) -> None:
    """A tile of 1 to `few_rows` rows, (their number, address, stride in bytes), times a group; rounded: whether they
    are bytes.
    """
    height, a, step = rows
    most, sums = few_rows(tier()), byte_sums if rounded else _real_sums

    def body(rows: int) -> list[Value]:
        return sums(bits, record, codes, [a + step * r for r in range(rows)])

    store_tiles(Destination.of(height, codes, record, target), NV, most, body)


def _real_sums(bits: int, record: Any, codes: Value, rows: list[Value]) -> list[Value]:
    """The sums, NV vectors a row, of rows that start at these addresses."""
    f32, chains = F32.vector(tier().lanes), 2 if len(rows) == 1 else 1
    totals = registers([f32(0)] * (len(rows) * NV))

    def block(one: CodeBlock) -> None:
        def add(k: Value, j: int, weights: list[Value], sums: list[Value]) -> list[Value]:
            out = list(sums)
            for r, start in enumerate(rows):
                x = f32(F32.at(start + (k << 2))[j])
                for n, w in enumerate(weights):
                    at = (r * NV + n) * chains + j % chains
                    out[at] = fma(x, w, out[at])
            return out

        sums = _each_word(bits, one, add, [f32(0)] * (len(totals) * chains))
        for i in range(len(totals)):
            own = sums[i * chains : (i + 1) * chains]
            value = own[0] if chains == 1 else own[0] + own[1]
            totals[i] = fma(value, one.scales[i % NV], totals[i])

    each_block(record, bits, codes, block)
    return totals.values()


def decoded_sums(bits: int, record: Any, codes: Value, a: Value) -> list[Value]:
    """The sums, NV vectors, of a row by weights as `_decode` makes them: finite where those of a panel are."""
    f32 = F32.vector(tier().lanes)
    totals = registers([f32(0)] * NV)

    def block(one: CodeBlock) -> None:
        def add(k: Value, j: int, weights: list[Value], sums: list[Value]) -> list[Value]:
            x = f32(F32.at(a + (k << 2))[j])
            return [fma(x, w * scale, own) for w, scale, own in zip(weights, one.scales, sums, strict=True)]

        for i, own in enumerate(_each_word(bits, one, add, totals.values())):
            totals[i] = own

    each_block(record, bits, codes, block)
    return totals.values()


@traced
def _decode(bits: int, record: Any, codes: Value, to: Value) -> None:
    """Make the f32 panel of a group: a line of 0.0, then one for each k."""
    f32 = F32.vector(tier().lanes)
    target = F32.at(to)
    for n in range(NV):
        f32[target + n * f32.lanes] = 0

    def block(one: CodeBlock) -> None:
        def put(k: Value, j: int, weights: list[Value], _: list[Value]) -> list[Value]:
            line = target + (k + (j + 1)) * (NV * f32.lanes)
            for n, (w, scale) in enumerate(zip(weights, one.scales, strict=True)):
                f32[line + n * f32.lanes] = w * scale
            return []

        _each_word(bits, one, put, [])

    each_block(record, bits, codes, block)


Each = Callable[[Value, int, list[Value], list[Value]], list[Value]]


def _each_word(bits: int, one: CodeBlock, each: Each, state: list[Value]) -> list[Value]:
    """Loop over the words of a block, with state = each(k of a word, j, weights of k + j, state) for each j."""

    def word(index: Value, state: list[Value]) -> list[Value]:
        packed = code_words(bits, one.lines + index * line_bytes())
        k = (one.first + index) * per_word(bits)
        for j in range(per_word(bits)):
            weights = [weight(bits, codes, j) for codes in packed]
            if one.minus:
                weights = [w + m for w, m in zip(weights, one.minus, strict=True)]
            state = each(k, j, weights, state)
        return state

    return repeat(one.words, state, word, once=True)
