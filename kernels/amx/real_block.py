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
from ..lang import F32, I64, Value, choose, divide, either, over, prefetch, remainder, traced, when
from ..pointwise.epilogue import Area, Lines, added, addend_at, bounds, is_walked, simple, walk
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
    """finish(note, sums, buffer, r, first, last): units first.. of UNITS, to results, or to the buffer for a chain."""
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

    return RealBlock(note, place, steps, clear, keep, *_make_finish(tier, nt))


def _make_finish(tier: Tier, nt: int) -> tuple[Any, Any]:
    """RealBlock.finish, whose units are 4 / nt rows of a tile, and close."""
    per_unit, per_tile, f32 = 4 // nt, ROWS * nt // 4, F32.vector(tier.lanes)

    @traced
    def finish(note: Value, sums: Value, buffer: Value, r: Any, first: Value, last: Value) -> None:
        block, walked = fields(note, BLOCK_NOTE), is_walked(r)
        low, high = bounds(r)
        line = choose(walked, nt * LINE, 4 * r.ldy)
        for unit in over(first, last):
            m, row = divide(unit, per_tile), remainder(unit, per_tile) * per_unit
            tile = fields(tile_note(note, m), TILE_NOTE)
            to = choose(walked, buffer + m * (ROWS * nt * LINE), tile.y) + row * line
            start = sums + m * (nt * TILE) + row * LINE
            found = [
                [f32[start + (n * TILE + i * LINE)] + f32[block.panel + n * LINE] for n in range(nt)]
                for i in range(per_unit)
            ]
            addends = [addend_at(r, block.image, tile.pixel + row + i, block.column) for i in range(per_unit)]
            there = (block.columns == nt * 16) & (tile.skip <= row) & (row + per_unit <= r.rows)
            with either(there & (r.form == 0)) as (plain, rare):
                with plain:
                    flat = [x for values in found for x in values]
                    whole = added(r, flat, lambda k: f32[addends[k // nt] + k % nt * 16])  # noqa: B023
                    for k, x in enumerate(whole):
                        f32[to + k // nt * line + k % nt * LINE] = clip(x, low, high)
                with rare:
                    for i, values in enumerate(found):
                        at = row + i
                        with when((tile.skip <= at) & (at < r.rows)):
                            masks = [first_lanes(16, block.columns - n * 16) for n in range(nt)]
                            results = simple(r, values, lambda n: f32[addends[i] + n * 16, masks[n]])  # noqa: B023
                            for n, x in enumerate(results):
                                f32[to + i * line + n * LINE, masks[n]] = x

    @traced
    def close(note: Value, buffer: Value, r: Any) -> None:
        with when(is_walked(r)):
            block = fields(note, BLOCK_NOTE)
            for m in over(MT):
                tile = fields(tile_note(note, m), TILE_NOTE)
                with when(tile.skip < r.rows):
                    rows = Area(block.image, tile.pixel + tile.skip, block.column, r.rows - tile.skip, block.columns)
                    sums = Lines(buffer + (m * ROWS + tile.skip) * (nt * LINE), I64(nt * LINE))
                    walk(r, rows, sums, Lines(tile.y + tile.skip * (4 * r.ldy), 4 * r.ldy))

    return finish, close


def units(nt: int) -> int:
    """Units of a block."""
    return MT * ROWS * nt // 4


def _put(address: Value, values: Any) -> None:
    first = I64.at(address)
    for i, value in enumerate(values):
        first[i] = value
