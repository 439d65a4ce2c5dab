"""The parts of amx_real: products of bf16 in tile registers, and from their sums to results in f32.

A block is 2 x nt tiles of sums: two tiles of pixels by 16 * nt output channels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.record import Record, fields
from ..isa.functions import clip
from ..isa.stores import first_lanes
from ..isa.tiers import Tier
from ..isa.x86_amx import TILE
from ..lang import F32, I64, U32, Value, choose, either, fma, over, prefetch, registers, traced, when
from ..pointwise.epilogue import Area, Lines, addend_at, bounds, is_walked, simple, walk
from .pack_amx import LINE, ROWS, numbering
from .pack_real import MT

BLOCK_NOTE = Record(panel="address of the block's panel", columns="how many of its columns there are",
                    image="where the epilogue reads", column="likewise")  # fmt: skip
TILE_NOTE = Record(a="where row 0 is read", y="where it is written", skip="rows at the start that are not written",
                   pixel="row 0's number in the image")  # fmt: skip
ORDER = {1: ((0,),), 3: ((0,), (0, 1), (1, 2, 0))}
"""Of each plane of the weights, the last one first, the planes of A that it meets: small products before large ones."""


class RealBlock(NamedTuple):
    """Functions of int64s, as of tile_block.BlockFunctions but for these."""

    note: Any
    """note(note, panel, columns, image, column)"""
    place: Any
    """place(note, m, a, y, skip, pixel)"""
    steps: Any
    """steps(note, r, first, last, ahead, lines)"""
    clear: Any
    """clear(): the sums are 0."""
    keep: Any
    """keep(sums)"""
    finish: Any
    """finish(note, sums, buffer, r): from sums to results, or to what a chain is applied to in the buffer."""
    again: Any
    """again(note, sums, r): the sums once more, by fused multiply-adds of f32."""
    close: Any
    """close(note, buffer, r): apply the chain, where there is one."""


def tile_note(note: Value, m: Any) -> Value:
    """The address of the m-th tile's record in a note."""
    return note + (m * len(TILE_NOTE) + len(BLOCK_NOTE)) * 8


def make_block(tier: Tier, nt: int, planes: int) -> RealBlock:
    """The functions for blocks of 2 x nt tiles."""
    a_tiles, b_tiles = numbering(MT, nt)

    @traced
    def note(at: Value, panel: Value, columns: Value, image: Value, column: Value) -> None:
        _put(at, BLOCK_NOTE.filled(panel=panel, columns=columns, image=image, column=column))

    @traced
    def place(at: Value, m: Value, a: Value, y: Value, skip: Value, pixel: Value) -> None:
        _put(tile_note(at, m), TILE_NOTE.filled(a=a, y=y, skip=skip, pixel=pixel))

    @traced
    def clear() -> None:
        for c in range(MT * nt):
            tier.isa.clear(c)

    @traced
    def steps(at: Value, r: Any, first: Value, last: Value, ahead: Value, lines: Value) -> None:
        weights = fields(at, BLOCK_NOTE).panel + nt * LINE
        starts = [fields(tile_note(at, m), TILE_NOTE).a for m in range(MT)]
        for s in over(first, last):
            offset, line = I64.at(r.offsets)[s], weights + s * (planes * nt * TILE)
            for i in over(lines):
                prefetch(line + ahead + i * LINE)
            held = None
            for place, sources in enumerate(ORDER[planes]):
                for n in range(nt):
                    tier.isa.load(b_tiles[n], line + (place * nt + n) * TILE, LINE)
                for source in sources:
                    if source != held:
                        for m in range(MT):
                            tier.isa.load(a_tiles[m], starts[m] + offset + source * r.plane, r.rs)
                    held = source
                    for m in range(MT):
                        for n in range(nt):
                            tier.isa.multiply_reals(m * nt + n, a_tiles[m], b_tiles[n])

    @traced
    def keep(sums: Value) -> None:
        for c in range(MT * nt):
            tier.isa.store(c, sums + c * TILE, LINE)

    finish, close = _make_finish(tier, nt)
    return RealBlock(note, place, steps, clear, keep, finish, _make_again(tier, nt, planes), close)


def _make_again(tier: Tier, nt: int, planes: int) -> Any:
    """RealBlock.again; A's first two planes are the halves of its bits, and the sum of a weight's parts is exact."""
    f32, words = F32.vector(tier.lanes), U32.vector(tier.lanes)

    def numbers(address: Value, r: Any) -> list[Value]:
        """The two f32 of a pair of A, in all lanes."""
        high, low = (U32[address + p * r.plane] for p in range(2))
        bits = high << 16 | low & 0xFFFF, high & 0xFFFF0000 | low >> 16
        return [words(each).bits(F32) for each in bits]

    @traced
    def again(at: Value, sums: Value, r: Any) -> None:
        weights = fields(at, BLOCK_NOTE).panel + nt * LINE
        for m in over(MT):
            start = fields(tile_note(at, m), TILE_NOTE).a
            for row in over(r.rows):
                found = registers([f32(0.0) for _ in range(nt)])
                for s in over(r.lines):
                    line = weights + s * (planes * nt * TILE)
                    pixel = start + row * r.rs + I64.at(r.offsets)[s]
                    for pair in over(r.length >> 2):
                        x = numbers(pixel + 4 * pair, r)
                        for n in range(nt):
                            tiles = [line + (p * nt + n) * TILE + pair * LINE for p in reversed(range(planes))]
                            for k in range(2):
                                first, *rest = [_half(words[tile], k) for tile in tiles]
                                found[n] = fma(x[k], sum(rest, first), found[n])
                for n in range(nt):
                    f32[sums + (m * nt + n) * TILE + row * LINE] = found[n]

    return again


def _half(words: Value, k: int) -> Value:
    """The k-th bf16 of each word, as f32."""
    return (words << 16 if k == 0 else words & 0xFFFF0000).bits(F32)


def _make_finish(tier: Tier, nt: int) -> tuple[Any, Any]:
    """RealBlock.finish and close."""
    f32 = F32.vector(tier.lanes)

    def rows(m: Value, parts: Any, store: Any) -> None:
        """Store the rows of a tile: store(row, sums) of each that is written; parts: (r, sums, bias, tile)."""
        r, sums, bias, tile = parts
        for row in over(tile.skip, r.rows):
            start = sums + m * (nt * TILE) + row * LINE
            store(row, [f32[start + n * TILE] + bias[n] for n in range(nt)])

    @traced
    def finish(note: Value, sums: Value, buffer: Value, r: Any) -> None:
        block, walked, limits = fields(note, BLOCK_NOTE), is_walked(r), bounds(r)
        line = choose(walked, nt * LINE, 4 * r.ldy)
        bias = [f32[block.panel + n * LINE] for n in range(nt)]
        for m in over(MT):
            tile = fields(tile_note(note, m), TILE_NOTE)
            to = choose(walked, buffer + m * (ROWS * nt * LINE), tile.y)
            addends, step = addend_at(r, block.image, tile.pixel, block.column).address, 4 * r.addend_row
            parts = r, sums, bias, tile

            def plain(row: Value, found: list[Value]) -> None:
                for n, x in enumerate(found):
                    f32[to + row * line + n * LINE] = clip(x, *limits)  # noqa: B023

            def raised(row: Value, found: list[Value]) -> None:
                at = addends + row * step  # noqa: B023
                plain(row, [x + f32[at + n * LINE] for n, x in enumerate(found)])  # noqa: B023

            def masked(row: Value, found: list[Value]) -> None:
                masks = [first_lanes(16, block.columns - n * 16) for n in range(nt)]
                at = addends + row * step  # noqa: B023
                results = simple(r, found, lambda n: f32[at + n * LINE, masks[n]])
                for n, x in enumerate(results):
                    f32[to + row * line + n * LINE, masks[n]] = x  # noqa: B023

            with either((block.columns == nt * 16) & (r.form == 0)) as (whole, rare):
                with whole, either(r.addend == 0) as (alone, more):
                    with alone:
                        rows(m, parts, plain)
                    with more:
                        rows(m, parts, raised)
                with rare:
                    rows(m, parts, masked)

    @traced
    def close(note: Value, buffer: Value, r: Any) -> None:
        with when(is_walked(r)):
            block = fields(note, BLOCK_NOTE)
            for m in over(MT):
                tile = fields(tile_note(note, m), TILE_NOTE)
                with when(tile.skip < r.rows):
                    area = Area(block.image, tile.pixel + tile.skip, block.column, r.rows - tile.skip, block.columns)
                    sums = Lines(buffer + (m * ROWS + tile.skip) * (nt * LINE), I64(nt * LINE))
                    walk(r, area, sums, Lines(tile.y + tile.skip * (4 * r.ldy), 4 * r.ldy))

    return finish, close


def _put(address: Value, values: Any) -> None:
    first = I64.at(address)
    for i, value in enumerate(values):
        first[i] = value
