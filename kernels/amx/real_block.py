"""The parts of amx_real: products of bf16 or f16 in tile registers.

A block is 2 x nt tiles of sums: two tiles of pixels by 16 * nt output channels. The last one of an odd number of tiles
multiplies one of pixels only.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..isa.stores import first_lanes
from ..isa.x86_amx import TILE
from ..lang import Value, any_lane, choose, either, fma, over, prefetch, register, registers, repeat, when
from ..lang.types import F16, F32, I64, U16, U32
from ..lang.values import tier as tier_in_use
from .pack_amx import LINE, numbering
from .pack_real import MT, SURE, panel_bytes_real, products
from .real_finish import NOTES, close, finish_sums, y_item
from .split_band import lost, seen
from .tile_loop import Block, Pair, pixel_of, stay_awake

ORDER = {1: ((0,),), 2: ((0,), (0, 1)), 3: ((0,), (0, 1), (1, 2, 0))}
"""For each plane of the weights, from the last one, the planes of A that multiply it: products below the rounding error
of all planes are left out."""


@dataclass(frozen=True)
class RealBlock(Block):
    """Blocks of MT x nt tiles whose results are f32 or bf16; numbers of A are sums of so many planes of an element."""

    planes: int
    element: str
    notes = NOTES

    def result(self, r: Any, image: Value, line: Value, start: Value, column: Value) -> tuple[Value, Value]:
        y = r.y + (line * r.y_y + start * r.ldy + column) * y_item(r)
        return y, pixel_of(r, image, line, start)

    def begin(self, panel: Value) -> None:
        for c in range(self.count):
            self.tier.isa.clear(c)

    def weights(self, note: Value) -> Value:
        """The address of the block's first weights."""
        return self.notes.of_block(note).panel + panel_bytes_real(self.nt, 0, self.planes, self.element)

    def steps(self, note: Value, r: Any, first: Value, last: Value, ahead: Value, lines: Value) -> None:
        lone = self.notes.of_tile(note, MT - 1).skip == r.rows
        with either(lone) as ways:
            for way, tiles in zip(ways, (1, MT), strict=True):
                with way:
                    self.add(note, r, (first, last), (ahead, lines), tiles)

    def add(self, note: Value, r: Any, part: Pair, prefetched: Pair, tiles: int) -> None:
        """As `steps`, for the first tiles of pixels."""
        isa, nt, (a_tiles, b_tiles) = self.tier.isa, self.nt, numbering(MT, self.nt)
        weights, starts = self.weights(note), [self.notes.of_tile(note, m).a for m in range(tiles)]
        for s in over(*part):
            offset, line = I64.at(r.offsets)[s], weights + s * (self.planes * nt * TILE)
            fetched = line + prefetched[0]
            held = None
            for place, sources in enumerate(ORDER[self.planes]):
                for n in range(nt):
                    isa.load(b_tiles[n], line + (place * nt + n) * TILE, LINE)
                for source in sources:
                    if source != held:
                        for m in range(tiles):
                            isa.load(a_tiles[m], starts[m] + offset + source * r.plane, r.rs)
                    held = source
                    for m in range(tiles):
                        for n in range(nt):
                            isa.multiply_reals(m * nt + n, a_tiles[m], b_tiles[n], self.element)
                            fetched = _fetch(fetched, prefetched[1])
            stay_awake(note, s, a_tiles[0], products(nt, self.planes))

    def again(self, note: Value, sums: Value, r: Any) -> None:
        columns, weights = self.notes.of_block(note).columns, self.weights(note)
        for m in over(MT):
            start = self.notes.of_tile(note, m).a
            for row in over(r.rows):
                pixel, found = start + row * r.rs, sums + m * (self.nt * TILE) + row * LINE
                places = [found + n * TILE for n in range(self.nt)]
                doubtful = nullcontext() if self.element == "f16" else when(shows(places, columns))
                with doubtful, when(self.loses(pixel, r)):
                    self.sum_pixel(pixel, weights, found, r)

    def finish(self, note: Value, sums: Value, buffer: Value, r: Any) -> None:
        finish_sums(self.nt, self.element, note, sums, buffer, r)
        close(self.nt, note, buffer, r)

    @property
    def halves(self) -> range:
        """Two planes of A that are the halves of its bits."""
        return range(self.planes, self.planes + 2)

    def loses(self, pixel: Value, r: Any) -> Value:
        """Whether splitting any of the numbers that the pixel's sums read loses bits."""
        words = U32.vector(self.tier.lanes)
        found = register(words(0))
        for s in over(r.lines):
            line = pixel + I64.at(r.offsets)[s]
            mask = words.below(r.length >> 2)
            numbers = _numbers([words[line + p * r.plane, mask] for p in self.halves])
            found.value = seen(self.element, found.value, numbers)
        return any_lane(lost(self.element, found.value, self.tier.lanes) != 0)

    def sum_pixel(self, pixel: Value, weights: Value, sums: Value, r: Any) -> None:
        """The sums of one pixel, f32 by f32; the sum of a weight's parts is f32."""
        f32, words, nt = F32.vector(self.tier.lanes), U32.vector(self.tier.lanes), self.nt
        found = registers([f32(0.0) for _ in range(nt)])
        for s in over(r.lines):
            line = weights + s * (self.planes * nt * TILE)
            for pair in over(r.length >> 2):
                at = pixel + I64.at(r.offsets)[s] + 4 * pair
                x = _numbers([words(U32[at + p * r.plane]) for p in self.halves])
                for n in range(nt):
                    tiles = [line + (p * nt + n) * TILE + pair * LINE for p in reversed(range(self.planes))]
                    for k in range(2):
                        first, *rest = [_half(words[tile], k, self.element) for tile in tiles]
                        found[n] = fma(x[k], sum(rest, first), found[n])
        for n in range(nt):
            f32[sums + n * TILE] = found[n]


def _numbers(found: list[Value]) -> list[Value]:
    """The two f32 of each pair of A, from its words in both planes."""
    high, low = found
    return [each.bits(F32) for each in (high << 16 | low & 0xFFFF, high & 0xFFFF0000 | low >> 16)]


def _fetch(start: Value, lines: Value) -> Value:
    """Prefetch cache lines; the address behind them. In bursts they would take all the buffers that loads need."""

    def one(_: Value, state: list[Value]) -> list[Value]:
        prefetch(state[0])
        return [state[0] + LINE]

    with when(lines > 0):
        repeat(lines, [start], one, once=True)
    return start + lines * LINE


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
