"""The parts of amx_real: products of bf16 or f16 in tile registers.

A block is 2 x nt tiles of sums: two tiles of pixels by 16 * nt output channels. The last one of an odd number of tiles
multiplies one of pixels only.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from ..isa.stores import first_lanes
from ..isa.tiers import Tier
from ..isa.x86_amx import TILE
from ..lang import Value, any_lane, choose, either, fma, over, prefetch, register, registers, repeat, traced, when
from ..lang.types import F16, F32, I64, U16, U32
from ..lang.values import tier as tier_in_use
from .pack_amx import LINE, numbering
from .pack_real import MT, SURE, panel_bytes_real, products
from .real_finish import NOTES, close, finish_sums, y_item
from .split_band import lost, seen
from .tile_loop import BlockFunctions, pixel_of, stay_awake

ORDER = {1: ((0,),), 2: ((0,), (0, 1)), 3: ((0,), (0, 1), (1, 2, 0))}
"""For each plane of the weights, from the last one, the planes of A that multiply it: products below the rounding error
of all planes are left out."""


def make_block(tier: Tier, nt: int, planes: int, element: str, read: Any) -> BlockFunctions:
    """The functions for blocks of 2 x nt tiles."""
    a_tiles, b_tiles = numbering(MT, nt)

    def add(at: Value, r: Any, part: tuple[Value, Value], near: tuple[Value, Value], tiles: int) -> None:
        """As `steps`, for the first tiles of pixels."""
        weights = NOTES.of_block(at).panel + panel_bytes_real(nt, 0, planes, element)
        starts = [NOTES.of_tile(at, m).a for m in range(tiles)]
        for s in over(*part):
            offset, line = I64.at(r.offsets)[s], weights + s * (planes * nt * TILE)
            fetched = line + near[0]
            held = None
            for place, sources in enumerate(ORDER[planes]):
                for n in range(nt):
                    tier.isa.load(b_tiles[n], line + (place * nt + n) * TILE, LINE)
                for source in sources:
                    if source != held:
                        for m in range(tiles):
                            tier.isa.load(a_tiles[m], starts[m] + offset + source * r.plane, r.rs)
                    held = source
                    for m in range(tiles):
                        for n in range(nt):
                            tier.isa.multiply_reals(m * nt + n, a_tiles[m], b_tiles[n], element)
                            fetched = _fetch(fetched, near[1])
            stay_awake(at, s, a_tiles[0], products(nt, planes))

    @traced
    def steps(at: Value, r: Any, first: Value, last: Value, ahead: Value, lines: Value) -> None:
        lone = NOTES.of_tile(at, MT - 1).skip == r.rows
        with either(lone) as (one, all_tiles):
            with one:
                add(at, r, (first, last), (ahead, lines), 1)
            with all_tiles:
                add(at, r, (first, last), (ahead, lines), MT)

    return block_functions(tier, nt, element, read, steps, _make_again(tier, nt, planes, element))


def block_functions(tier: Tier, nt: int, element: str, read: Any, steps: Any, again: Any) -> BlockFunctions:
    """The functions for blocks of 2 x nt tiles, whose notes are those of real_finish."""

    @traced
    def result(r: Any, image: Value, line: Value, start: Value, column: Value) -> tuple[Value, Value]:
        y = r.y + (line * r.y_y + start * r.ldy + column) * y_item(r)
        return y, pixel_of(r, image, line, start)

    @traced
    def begin(panel: Value) -> None:
        for c in range(MT * nt):
            tier.isa.clear(c)

    @traced
    def finish(at: Value, sums: Value, buffer: Value, r: Any) -> None:
        finish_sums(nt, element, at, sums, buffer, r)
        close(nt, at, buffer, r)

    return BlockFunctions(NOTES, read, result, begin, steps, again, finish)


def _fetch(start: Value, lines: Value) -> Value:
    """Prefetch cache lines; the address behind them. In bursts they would take all the buffers that loads need."""

    def one(_: Value, state: list[Value]) -> list[Value]:
        prefetch(state[0])
        return [state[0] + LINE]

    with when(lines > 0):
        repeat(lines, [start], one, once=True)
    return start + lines * LINE


def _make_again(tier: Tier, nt: int, planes: int, element: str) -> Any:
    """BlockFunctions.again; two planes of A are the halves of its bits, and the sum of a weight's parts is f32."""
    f32, words, places = F32.vector(tier.lanes), U32.vector(tier.lanes), range(planes, planes + 2)

    def numbers(found: list[Value]) -> list[Value]:
        """The two f32 of each pair of A, from its words in both planes."""
        high, low = found
        return [each.bits(F32) for each in (high << 16 | low & 0xFFFF, high & 0xFFFF0000 | low >> 16)]

    @traced
    def loses(pixel: Value, r: Any) -> Value:
        """Whether splitting any of the numbers that the pixel's sums read loses bits."""
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
        block = NOTES.of_block(at)
        weights = block.panel + panel_bytes_real(nt, 0, planes, element)
        for m in over(MT):
            start = NOTES.of_tile(at, m).a
            for row in over(r.rows):
                pixel, found = start + row * r.rs, sums + m * (nt * TILE) + row * LINE
                places = [found + n * TILE for n in range(nt)]
                doubtful = nullcontext() if element == "f16" else when(shows(places, block.columns))
                with doubtful, when(loses(pixel, r)):
                    summed(pixel, weights, found, r)

    return again


def shows(sums: list[Value], columns: Value) -> Value:
    """Whether what parts lose may show in one of a pixel's sums, so many columns of vectors at these addresses."""
    words, found = U32.vector(tier_in_use().lanes), U32.vector(tier_in_use().lanes)(0)
    small, large = (int(np.float32(size).view(np.uint32)) for size in (SURE, np.finfo(np.float32).max))
    for n, place in enumerate(sums):
        size = words[place] & 0x7FFFFFFF
        some = first_lanes(words.lanes, columns - words.lanes * n)
        found |= choose(some, (size - small > large - small).to(U32), words(0))
    return any_lane(found != 0)


def _half(words: Value, k: int, element: str) -> Value:
    """The k-th bf16 or f16 of each word, as f32."""
    if element == "f16":
        return (words >> 16 * k).to(U16).bits(F16).to(F32)
    return (words << 16 if k == 0 else words & 0xFFFF0000).bits(F32)
