"""Queries, keys and values as operands of products of bf16: lines of 32 numbers, panels of 32 columns.

A panel has for each line 16 words, each two consecutive numbers of all columns: 64 bytes of the first 16, and of the
others. What is beyond a row's numbers, or the last key's values, is 0: whatever lay there would turn 0 into NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..lang import F32, I32, U16, Value, choose, either, over, pieces, shuffle, smaller, tier, traced
from ..move.shuffles import transpose_square
from .pick_attention import LINE, PANEL, TILE

Numbers = Callable[[Value, Value, Value], Value]
"""numbers(row, column, rest): 32 of a row (its address) from a column on, as bf16; only the first `rest` are read."""


@dataclass(frozen=True)
class Layout:
    """Bytes of a line of a panel from word to word, and from the first 16 columns to the others."""

    word: int
    half: int


IN_TILES, IN_VECTORS = Layout(LINE, TILE), Layout(2 * LINE, LINE)


def _by_item(item: Value, body: Callable[[Numbers], None]) -> None:
    """Do something with numbers that are f32, or bf16 already."""
    f32, u16 = F32.vector(tier().lanes), U16.vector(PANEL)

    def rounded(row: Value, column: Value, rest: Value) -> Value:
        at = row + 4 * column
        found: Value = tier().isa.to_bf16(f32[at, f32.below(rest)], f32[at + LINE, f32.below(rest - tier().lanes)])
        return found

    def same(row: Value, column: Value, rest: Value) -> Value:
        return u16[row + 2 * column, u16.below(rest)]

    with either(item == 2) as (narrow, wide):
        with narrow:
            body(same)
        with wide:
            body(rounded)


@traced
def pack_queries(to: Value, q: Value, item: Value, row: Value, count: Value, d: Value, flip: Value) -> None:
    """Pack rows of d numbers, `row` bytes apart, in whole lines; flip: the bit that turns their sign, or 0."""
    u16 = U16.vector(PANEL)
    lines, sign = pieces(d, PANEL), u16(flip.to(U16))

    def copy(numbers: Numbers) -> None:
        for i in over(count):
            for line in over(lines):
                found = numbers(q + i * row, line * PANEL, d - line * PANEL)
                u16[to + (i * lines + line) * LINE] = found ^ sign

    _by_item(item, copy)


@traced
def pack_keys(layout: Layout, panels: Value, k: Value, item: Value, row: Value, count: Any, d: Value) -> None:
    """Pack keys; the last panel ends with copies of the last one, or anything."""
    words, half = I32.vector(tier().lanes), tier().lanes
    lines, last = pieces(d, PANEL), count - 1

    def copy(numbers: Numbers) -> None:
        for i in over(0, count, half):
            rows = [k + row * smaller(i + j, last) for j in range(half)]
            other = i & half
            start = panels + (i - other) * (lines * LINE) + other * (layout.half // half)
            for line in over(lines):
                pairs = [numbers(each, line * PANEL, d - line * PANEL).bits(I32) for each in rows]
                for j, found in enumerate(transpose_square(pairs, 4)):
                    words[start + (line * (2 * TILE) + j * layout.word)] = found

    _by_item(item, copy)


_HALVES = [[half + n // 2 + PANEL * (n % 2) for n in range(PANEL)] for half in (0, PANEL // 2)]


@traced
def pack_values(
    layout: Layout, panels: Value, v: Value, item: Value, row: Value, count: Any, lines: Value, e: Value
) -> None:
    """Pack values in panels of columns, of so many lines of keys."""

    def copy(numbers: Numbers) -> None:
        for column in over(0, e, PANEL):
            panel = panels + column * (lines * LINE)
            for line in over(lines):
                for pair in over(PANEL // 2):
                    key, to = line * PANEL + 2 * pair, panel + (line * (2 * TILE) + pair * layout.word)
                    keys = (key, key + 1)
                    one, other = (numbers(v + row * i, column, choose(i < count, e - column, 0)) for i in keys)
                    for n, order in enumerate(_HALVES):
                        U16.vector(PANEL)[to + n * layout.half] = shuffle(one, order, other)

    _by_item(item, copy)
