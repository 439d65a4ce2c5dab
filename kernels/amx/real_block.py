"""The parts of amx_real: products of bf16 or f16 in tile registers, and from their sums to results in f32.

A block is 2 x nt tiles of sums: two tiles of pixels by 16 * nt output channels.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from ..core.record import Record, fields
from ..isa.functions import clip
from ..isa.stores import first_lanes
from ..isa.tiers import Tier
from ..isa.x86_amx import TILE
from ..lang import (
    BIT,
    F16,
    F32,
    I64,
    U16,
    U32,
    Value,
    any_lane,
    choose,
    either,
    fma,
    halves,
    over,
    prefetch,
    register,
    registers,
    repeat,
    traced,
    when,
)
from ..pointwise.epilogue import Area, Lines, bounds, formed, is_walked, simple, walk
from ..pointwise.rows import ALL_FORMS, FORMS
from .pack_amx import LINE, ROWS, numbering
from .pack_real import MT, panel_bytes_real
from .split_band import lost, seen

BLOCK_NOTE = Record(panel="address of the block's panel", columns="how many of its columns there are",
                    image="where the epilogue reads", column="likewise")  # fmt: skip
TILE_NOTE = Record(a="where row 0 is read", y="where it is written", skip="rows at the start that are not written",
                   pixel="row 0's number in the image")  # fmt: skip
ORDER = {1: ((0,),), 2: ((0,), (0, 1)), 3: ((0,), (0, 1), (1, 2, 0))}
"""Of each plane of the weights, the last one first, the planes of A that it meets, without products of parts that are
smaller than what the planes lack."""


class RealBlock(NamedTuple):
    """Functions of int64s, as of tile_block.BlockFunctions but for these."""

    note: Any
    """note(note, panel, columns, image, column)"""
    place: Any
    """place(note, m, a, y, skip, pixel)"""
    steps: Any
    """steps(note, r, first, last, ahead, lines): as there, but lines are of the next panel beside each product."""
    clear: Any
    """clear(): the sums are 0."""
    keep: Any
    """keep(sums)"""
    finish: Any
    """finish(note, sums, buffer, r): from sums to results, or to what a chain is applied to in the buffer."""
    again: Any
    """again(note, sums, r): the sums of pixels that read numbers of which parts lose something, by fused multiply-adds
    of f32. Which pixels depends on their numbers alone, not on the band."""
    close: Any
    """close(note, buffer, r): apply the chain, where there is one."""


def tile_note(note: Value, m: Any) -> Value:
    """The address of the m-th tile's record in a note."""
    return note + (m * len(TILE_NOTE) + len(BLOCK_NOTE)) * 8


def make_block(tier: Tier, nt: int, planes: int, element: str) -> RealBlock:
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

    def fetch(start: Value, lines: Value) -> Value:
        """Prefetch cache lines; the address behind them. In bursts they would take all the buffers that loads need."""

        def one(_: Value, state: list[Value]) -> list[Value]:
            prefetch(state[0])
            return [state[0] + LINE]

        with when(lines > 0):
            repeat(lines, [start], one, once=True)
        return start + lines * LINE

    @traced
    def steps(at: Value, r: Any, first: Value, last: Value, ahead: Value, lines: Value) -> None:
        weights = fields(at, BLOCK_NOTE).panel + panel_bytes_real(nt, 0, planes, element)
        starts = [fields(tile_note(at, m), TILE_NOTE).a for m in range(MT)]
        for s in over(first, last):
            offset, line = I64.at(r.offsets)[s], weights + s * (planes * nt * TILE)
            fetched = line + ahead
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
                            tier.isa.multiply_reals(m * nt + n, a_tiles[m], b_tiles[n], element)
                            fetched = fetch(fetched, lines)

    @traced
    def keep(sums: Value) -> None:
        for c in range(MT * nt):
            tier.isa.store(c, sums + c * TILE, LINE)

    finish, close = _make_finish(tier, nt, element)
    return RealBlock(note, place, steps, clear, keep, finish, _make_again(tier, nt, planes, element), close)


def _make_again(tier: Tier, nt: int, planes: int, element: str) -> Any:
    """RealBlock.again; two planes of A are the halves of its bits, and the sum of a weight's parts is f32."""
    f32, words, places = F32.vector(tier.lanes), U32.vector(tier.lanes), range(planes, planes + 2)

    def numbers(found: list[Value]) -> list[Value]:
        """The two f32 of pairs of A, of which the words of both planes were found."""
        high, low = found
        return [each.bits(F32) for each in (high << 16 | low & 0xFFFF, high & 0xFFFF0000 | low >> 16)]

    @traced
    def loses(pixel: Value, r: Any) -> Value:
        """Whether parts of the numbers that the pixel's sums are of lose something."""
        found = register(words(0))
        for s in over(r.lines):
            line = pixel + I64.at(r.offsets)[s]
            mask = words.below(r.length >> 2)
            found.value = seen(element, found.value, numbers([words[line + p * r.plane, mask] for p in places]))
        return any_lane(lost(element, found.value, tier.lanes) != 0)

    @traced
    def summed(pixel: Value, weights: Value, sums: Value, r: Any) -> None:
        """The sums of one pixel, f32 by f32."""
        found = registers([f32(0.0) for _ in range(nt)])
        for s in over(r.lines):
            line = weights + s * (planes * nt * TILE)
            for pair in over(r.length >> 2):
                at = pixel + I64.at(r.offsets)[s] + 4 * pair
                x = numbers([words(U32[at + p * r.plane]) for p in places])
                for n in range(nt):
                    tiles = [line + (p * nt + n) * TILE + pair * LINE for p in reversed(range(planes))]
                    for k in range(2):
                        first, *rest = [_half(words[tile], k, element) for tile in tiles]
                        found[n] = fma(x[k], sum(rest, first), found[n])
        for n in range(nt):
            f32[sums + n * TILE] = found[n]

    @traced
    def again(at: Value, sums: Value, r: Any) -> None:
        weights = fields(at, BLOCK_NOTE).panel + panel_bytes_real(nt, 0, planes, element)
        for m in over(MT):
            start = fields(tile_note(at, m), TILE_NOTE).a
            for row in over(r.rows):
                pixel = start + row * r.rs
                with when(loses(pixel, r)):
                    summed(pixel, weights, sums + m * (nt * TILE) + row * LINE, r)

    return again


def _half(words: Value, k: int, element: str) -> Value:
    """The k-th bf16 or f16 of each word, as f32."""
    if element == "f16":
        return (words >> 16 * k).to(U16).bits(F16).to(F32)
    return (words << 16 if k == 0 else words & 0xFFFF0000).bits(F32)


def _make_finish(tier: Tier, nt: int, element: str) -> tuple[Any, Any]:
    """RealBlock.finish and close."""
    f32 = F32.vector(tier.lanes)

    def rows(r: Any, sums: Value, note: tuple[Any, Any], store: Any) -> None:
        """Store the rows of a tile: store(row, sums) of each that is written; note: of the block, and of the tile."""
        block, tile = note
        bias = [f32[block.panel + n * LINE] for n in range(nt)]
        scales = [f32[block.panel + (nt + n) * LINE] for n in range(nt)] if element == "f16" else []
        for row in over(tile.skip, r.rows):
            found = [f32[sums + (n * TILE + row * LINE)] for n in range(nt)]
            store(row, [fma(x, scales[n], bias[n]) if scales else x + bias[n] for n, x in enumerate(found)])

    def tile_of(r: Any, sums: Value, note: tuple[Any, Any], to: Value, narrow: Any) -> None:
        """Finish a tile; narrow: whether its results are bf16."""
        (block, tile), limits = note, bounds(r)
        line = choose(narrow, 2 * r.ldy, choose(is_walked(r), nt * LINE, 4 * r.ldy))
        index = block.image * r.addend_image + tile.pixel * r.addend_row + block.column
        addends, step = r.addend + r.addend_item * index, r.addend_item * r.addend_row
        masks = [first_lanes(16, block.columns - n * 16) for n in range(nt)]

        def addend(row: Value, n: int) -> Value:
            return _f32_at(tier, addends + row * step + n * (16 * r.addend_item), r.addend_item == 2, masks[n])

        def plain(row: Value, found: list[Value]) -> None:
            _store(tier, to + row * line, [clip(x, *limits) for x in found], narrow)

        def raised(row: Value, found: list[Value]) -> None:
            plain(row, [x + addend(row, n) for n, x in enumerate(found)])

        def masked(row: Value, found: list[Value]) -> None:
            results = simple(r, found, lambda n: addend(row, n))
            _store(tier, to + row * line, results, narrow, masks)

        with either((block.columns == nt * 16) & (r.form == 0)) as (whole, rare):
            with whole, either(r.addend == 0) as (alone, more):
                with alone:
                    rows(r, sums, note, plain)
                with more:
                    rows(r, sums, note, raised)
            with rare, either(r.form < len(FORMS)) as (short, long):
                with short:
                    rows(r, sums, note, masked)
                with long, either(narrow) as (rounded, exact):
                    with rounded:
                        long_forms(r, sums, note, to, masks, rough=True)
                    with exact:
                        long_forms(r, sums, note, to, masks, rough=False)

    def long_forms(r: Any, sums: Value, note: Any, to: Value, masks: list[Value], rough: bool) -> None:
        """Finish a tile by one of LONG_FORMS; rough: its results are bf16."""
        low, line = bounds(r)[0], (2 if rough else 4) * r.ldy
        store = _store_bf16 if rough else _store_f32

        def formed_row(form: int, row: Value, found: list[Value]) -> None:
            store(tier, to + row * line, [formed(form, x, low, low, rough=rough) for x in found], masks)

        for form in range(len(FORMS), ALL_FORMS):
            with when(r.form == form):
                rows(r, sums, note, partial(formed_row, form))

    @traced
    def finish(note: Value, sums: Value, buffer: Value, r: Any) -> None:
        block, walked = fields(note, BLOCK_NOTE), is_walked(r)
        for m in over(MT):
            tile = fields(tile_note(note, m), TILE_NOTE)
            to = choose(walked, buffer + m * (ROWS * nt * LINE), tile.y)
            tile_of(r, sums + m * (nt * TILE), (block, tile), to, (r.y_item == 2) & ~walked)

    @traced
    def close(note: Value, buffer: Value, r: Any) -> None:
        with when(is_walked(r)):
            block, line = fields(note, BLOCK_NOTE), I64(nt * LINE)
            for m in over(MT):
                tile = fields(tile_note(note, m), TILE_NOTE)
                with when(tile.skip < r.rows):
                    area = Area(block.image, tile.pixel + tile.skip, block.column, r.rows - tile.skip, block.columns)
                    sums = Lines(buffer + (m * ROWS + tile.skip) * line, line)
                    y = Lines(tile.y + tile.skip * (r.y_item * r.ldy), r.y_item * r.ldy)
                    with either(r.y_item == 2) as (narrow, wide):
                        with narrow:
                            walk(r, area, sums, sums)
                            masks = [first_lanes(16, block.columns - n * 16) for n in range(nt)]
                            for row in over(area.rows):
                                found = [f32[sums.address + row * line + n * LINE] for n in range(nt)]
                                _store(tier, y.address + row * y.step, found, BIT(1), masks)
                        with wide:
                            walk(r, area, sums, y)

    return finish, close


def _f32_at(tier: Tier, address: Value, narrow: Value, mask: Value) -> Value:
    """A vector of f32, or of bf16, at an address."""
    f32, u16 = F32.vector(tier.lanes), U16.vector(tier.lanes)
    found = register(f32(0.0))
    with either(narrow, likely=False) as (halves_, words):
        with halves_:
            found.value = (u16[address, mask].to(U32) << 16).bits(F32)
        with words:
            found.value = f32[address, mask]
    return found.value


def _store(tier: Tier, to: Value, found: list[Value], narrow: Value, masks: list[Value] | None = None) -> None:
    """Store adjacent vectors as f32, or as bf16."""
    with either(narrow) as (halves_, words):
        with halves_:
            _store_bf16(tier, to, found, masks)
        with words:
            _store_f32(tier, to, found, masks)


def _store_bf16(tier: Tier, to: Value, found: list[Value], masks: list[Value] | None) -> None:
    u16, both = U16.vector(tier.lanes), halves(tier.isa.to_bf16(found[0], found[-1]))
    for n in range(len(found)):
        u16[to + n * LINE // 2, None if masks is None else masks[n]] = both[n]


def _store_f32(tier: Tier, to: Value, found: list[Value], masks: list[Value] | None) -> None:
    f32 = F32.vector(tier.lanes)
    for n, x in enumerate(found):
        f32[to + n * LINE, None if masks is None else masks[n]] = x


def _put(address: Value, values: Any) -> None:
    first = I64.at(address)
    for i, value in enumerate(values):
        first[i] = value
