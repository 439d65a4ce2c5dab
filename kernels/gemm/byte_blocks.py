"""Products of rows that are rounded to bytes, block by block, with codes of a few bits; tiers with `byte_dot`.

A row becomes s8, in the order in which the codes of a word are told apart: `pick_blocks.row_bytes` bytes, where behind
the s8 each block has its step (f32), what its sums begin with (i32), and its sum in steps (f32).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import add
from typing import Any

from ..isa.integer import dot_bytes, round_to_int
from ..lang import F32, I8, I32, Value, fold, joined, over, registers, repeat, shuffle, tier, traced, when, whole
from ..lang.instructions import fma, larger, smaller
from .code_blocks import CodeBlock, block_count, each_block, line_bytes, places
from .pick_blocks import BYTES, NV, ROUNDED, ROW_LINE, byte_order, per_word

TINY = 1e-30


@traced
def byte_row(bits: int, record: Any) -> Value:
    """Bytes from one rounded row to the next."""
    return _line(record) + block_count(record, bits) * ROUNDED


def _line(record: Any) -> Value:
    return (record.k + (ROW_LINE - 1)) & -ROW_LINE


@traced
def round_rows(bits: int, record: Any, a: Value, to: Value, rows: Value) -> None:
    """Round so many rows, from the address of the first on."""
    step, block = byte_row(bits, record), record.block * per_word(bits)
    for row in over(rows):
        x, y = a + row * record.lda * 4, to + row * step
        note = y + _line(record)
        for i in over(block_count(record, bits)):
            first = i * block
            _round_block(bits, x + first * 4, y + first, note + i * ROUNDED, smaller(block, record.k - first))


def _round_block(bits: int, x: Value, y: Value, note: Value, count: Value) -> None:
    """Round the numbers of a block, at most half a step of max |x| / 127 away. One that isn't finite makes the step
    NaN.
    """
    f32, i32 = F32.vector(tier().lanes), I32.vector(tier().lanes)
    source, lanes = F32.at(x), f32.lanes

    most, odd, total = registers([f32(TINY), f32(0), i32(0)]).all

    def each(body: Callable[[Value, list[Value]], None]) -> None:
        """body(index, vectors) over BYTES numbers, of which those behind the end are 0."""
        end = whole(count, BYTES)
        for at in over(0, end, BYTES):
            body(at, [f32[source + (at + n)] for n in range(0, BYTES, lanes)])
        with when(end < count):
            body(end, [f32[source + (end + n), f32.below(count - end - n)] for n in range(0, BYTES, lanes)])

    def see(_: Value, values: list[Value]) -> None:
        for value in values:
            most.value = larger(abs(value), most.value)
            odd.value = fma(value, 0, odd.value)

    each(see)
    top = fold(larger, most.value)[0]
    factor = f32(F32(127.0) / top)

    def put(at: Value, values: list[Value]) -> None:
        numbers = [round_to_int(value * factor, True) for value in values]
        for part in numbers:
            total.value = total.value + part
        I8.vector(BYTES)[I8.at(y) + at] = shuffle(joined(*numbers).to(I8), byte_order(bits, BYTES))

    each(put)
    in_steps = fold(add, total.value)[0]
    step = top / 127 + fold(add, odd.value)[0]
    F32[note] = step
    I32[note + 4] = in_steps * -(1 << (bits - 1))
    F32[note + 8] = in_steps.to(F32) * step


def byte_sums(bits: int, record: Any, codes: Value, rows: list[Value]) -> list[Value]:
    """The sums, NV vectors a row, of rounded rows at these addresses. Those of a single row are two chains, to hide the
    latency of additions.
    """
    f32, i32, chains = F32.vector(tier().lanes), I32.vector(tier().lanes), 2 if len(rows) == 1 else 1
    totals = registers([f32(0)] * (len(rows) * NV))
    line = _line(record)

    def block(one: CodeBlock) -> None:
        notes = [row + (line + one.number * ROUNDED) for row in rows]
        starts = [i32(I32[note + 4]) for note in notes for _ in range(NV)]
        sums = [s if j == 0 else i32(0) for s in starts for j in range(chains)]
        sums = repeat(one.words, sums, partial(_add_word, bits, one, rows, chains), once=True)
        for r, note in enumerate(notes):
            step = f32(F32[note])
            for n in range(NV):
                i = r * NV + n
                own = sums[i * chains : (i + 1) * chains]
                value = (own[0] if chains == 1 else own[0] + own[1]).to(F32) * step
                if one.minus:
                    value = fma(one.minus[n], f32(F32[note + 8]), value)
                totals[i] = fma(value, one.scales[n], totals[i])

    each_block(record, bits, codes, block)
    return totals.values()


def _add_word(
    bits: int, block: CodeBlock, rows: list[Value], chains: int, index: Value, sums: list[Value]
) -> list[Value]:
    """The sums with the products of a word of each lane: of four codes and four bytes of a row at a time."""
    i32, out = I32.vector(tier().lanes), list(sums)
    packed = [i32[place] for place in places(block.lines + index * line_bytes())]
    at = (block.first + index) * per_word(bits)
    for j in range(max(8 // bits, 1)):
        weights = [_codes(bits, word, j) for word in packed]
        for r, row in enumerate(rows):
            x = i32(I32[row + (at + 4 * j)])
            for n, w in enumerate(weights):
                i = (r * NV + n) * chains + j % chains
                out[i] = dot_bytes(out[i], w, x)
    return out


def _codes(bits: int, word: Value, j: int) -> Value:
    """The j-th code of each byte of words, as a byte from 0 on."""
    if bits == 8:
        return word
    mask = ((1 << bits) - 1) * 0x01010101
    return ((word.unsigned >> bits * j) & mask).signed if j else word & mask
