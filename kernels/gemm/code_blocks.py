"""Loops over the blocks of codes of a group, as pick_blocks.pack_blocks lays them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..lang import F32, I8, I32, Value, divide, either, over, smaller, tier
from .pick_blocks import NV, per_word


class CodeBlock(NamedTuple):
    """A block of a group: its number, that of its first word, how many words it has and where they lie; NV vectors of
    scales, and with zero points of the middle of the codes minus these.
    """

    number: Value
    first: Value
    words: Value
    lines: Value
    scales: list[Value]
    minus: list[Value]


def line_bytes() -> int:
    """Bytes of NV vectors."""
    return 4 * tier().lanes * NV


def block_count(record: Any, bits: int) -> Value:
    """The blocks of a row."""
    return divide(divide(record.k, per_word(bits)) + (record.block - 1), record.block)


def each_block(record: Any, bits: int, codes: Value, body: Callable[[CodeBlock], None]) -> None:
    """Loop body(block) over the blocks of a group."""
    f32, line = F32.vector(tier().lanes), line_bytes()
    count = divide(record.k, per_word(bits))
    step = (record.block + (record.zeros + 1)) * line

    def vectors(address: Value) -> list[Value]:
        return [f32[at] for at in places(address)]

    def block(i: Value, zeros: bool) -> None:
        start, first = codes + i * step, i * record.block
        scales = vectors(start)
        minus = vectors(start + line) if zeros else []
        lines = start + line * (1 + zeros)
        body(CodeBlock(i, first, smaller(record.block, count - first), lines, scales, minus))

    for i in over(block_count(record, bits)):
        with either(record.zeros != 0) as (some, none):
            with some:
                block(i, True)
            with none:
                block(i, False)


def places(address: Value) -> list[Value]:
    """Pointers to NV vectors."""
    return [I8.at(address) + n * 4 * tier().lanes for n in range(NV)]


def code_words(bits: int, address: Value) -> list[Any]:
    """The code words of NV vectors: one vector of bytes for each j, else i32."""
    if bits < 8:
        return [I32.vector(tier().lanes)[place] for place in places(address)]
    i8 = I8.vector(tier().lanes)
    return [[i8[place + j * i8.size] for j in range(per_word(bits))] for place in places(address)]


def weight(bits: int, word: Any, j: int) -> Value:
    """The j-th code of each word, a signed integer, as f32."""
    if bits == 8:
        return word[j].to(I32).to(F32)
    if bits == 4 and tier().masks:
        # One instruction takes the low bits of each lane as the number of an entry.
        f32 = F32.like(word.type)
        entries = f32([float(i - 16 * (i > 7)) for i in range(16)])
        at = (word.unsigned >> bits * j).signed if j else word
        return tier().isa.permute_lanes(entries, at)  # type: ignore[no-any-return]
    left = 32 - bits * (j + 1)
    raised = word << left if left else word
    return (raised >> (32 - bits)).to(F32)
