"""From the sums of a block of amx_real or amx_dynamic to results: the epilogue of f32, and results in f32 or bf16."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..core.record import Record
from ..gemm.rows import RANGE_BYTES
from ..isa.functions import clip
from ..isa.stores import first_lanes
from ..isa.x86_amx import TILE
from ..lang import F32, I32, I64, U16, U32, Value, choose, either, fma, halves, over, register, tier, when
from ..pointwise.epilogue import Area, Lines, bounds, formed, is_walked, simple, walk
from ..pointwise.rows import ALL_FORMS, FORMS
from .pack_amx import LINE, ROWS
from .pack_real import MT
from .tile_loop import Notes

NOTES = Notes(
    Record(
        panel="address of the block's panel",
        columns="how many of its columns there are",
        image="where the epilogue reads",
        column="likewise",
    ),
    Record(
        a="where row 0 is read",
        y="where it is written",
        skip="rows at the start that are not written",
        pixel="row 0's number in the image",
    ),
)
Masks = Sequence[Any]


class _Tile(NamedTuple):
    """A tile's sums in memory; its results go to `to`. `block`, `note`: the notes of its block and its own."""

    r: Any
    block: Any
    note: Any
    sums: Value
    to: Value
    nt: int
    element: str

    def each_row(self, store: Callable[[Value, list[Value]], None]) -> None:
        """store(row, sums) for each row that is written; the sums are scaled, and the bias is added."""
        if self.element == "u8":
            self._each_row_of_bytes(store)
            return
        f32, panel, nt = F32.vector(tier().lanes), self.block.panel, self.nt
        bias = [f32[panel + n * LINE] for n in range(nt)]
        scales = [f32[panel + (nt + n) * LINE] for n in range(nt)] if self.element == "f16" else []
        for row in over(self.note.skip, self.r.rows):
            found = [f32[self.sums + (n * TILE + row * LINE)] for n in range(nt)]
            store(row, [fma(x, scales[n], bias[n]) if scales else x + bias[n] for n, x in enumerate(found)])

    def _each_row_of_bytes(self, store: Callable[[Value, list[Value]], None]) -> None:
        """As gemm/dynamic_layer.py scales sums, by the range of the image or of the row."""
        f32, i32, nt, r = F32.vector(tier().lanes), I32.vector(tier().lanes), self.nt, self.r
        totals, scales, bias = (
            [kind[self.block.panel + (i * nt + n) * LINE] for n in range(nt)] for i, kind in enumerate((i32, f32, f32))
        )
        step = r.per_row * RANGE_BYTES
        first = r.ranges + self.block.image * (r.per_image * RANGE_BYTES) + self.note.pixel * step
        for row in over(self.note.skip, r.rows):
            at = F32.at(first + row * step)
            scale, minus = f32(at[0]), i32(I32[at + 1])
            sums = [i32[self.sums + (n * TILE + row * LINE)] + totals[n] * minus for n in range(nt)]
            store(row, [fma(x.to(F32), scales[n] * scale, bias[n]) for n, x in enumerate(sums)])

    def addend(self) -> Callable[[Value, Value, int], Value]:
        """addend(mask, row, n): the n-th vector that is added to a row."""
        r = self.r
        index = self.block.image * r.addend_image + self.note.pixel * r.addend_row + self.block.column
        item = addend_item(r)
        start, step = r.addend + item * index, item * r.addend_row

        def load(mask: Value, row: Value, n: int) -> Value:
            return _f32_at(start + row * step + n * (16 * item), item == 2, mask)

        return load


def y_item(r: Any) -> Value:
    """Bytes of an element of the result, which is f32 where the record says nothing."""
    return r.y_item if hasattr(r, "y_item") else I64(4)


def addend_item(r: Any) -> Value:
    """As above, for the addend."""
    return r.addend_item if hasattr(r, "addend_item") else I64(4)


def finish_sums(nt: int, element: str, note: Value, sums: Value, buffer: Value, r: Any) -> None:
    """From a block's sums to results, or to what `close` applies a chain to in the buffer."""
    block, walked = NOTES.of_block(note), is_walked(r)
    for m in over(MT):
        own = NOTES.of_tile(note, m)
        to = choose(walked, buffer + m * (ROWS * nt * LINE), own.y)
        _finish_tile(_Tile(r, block, own, sums + m * (nt * TILE), to, nt, element), (y_item(r) == 2) & ~walked)


def _finish_tile(tile: _Tile, narrow: Value) -> None:
    """Apply the epilogue, without a chain, to the rows of a tile; narrow: its results are bf16."""
    r, limits = tile.r, bounds(tile.r)
    line = choose(narrow, 2 * r.ldy, choose(is_walked(r), tile.nt * LINE, 4 * r.ldy))
    addend, masks = tile.addend(), _masks(tile.block.columns, tile.nt)

    def clipped(row: Value, found: list[Value]) -> None:
        _store(tile.to + row * line, [clip(x, *limits) for x in found], masks, narrow)

    def added(row: Value, found: list[Value]) -> None:
        clipped(row, [x + addend(masks[n], row, n) for n, x in enumerate(found)])

    def masked(row: Value, found: list[Value]) -> None:
        results = simple(r, found, lambda n: addend(masks[n], row, n))
        _store(tile.to + row * line, results, masks, narrow)

    with either(r.form == 0) as (common, rare):
        with common, either(r.addend == 0) as (alone, summed):
            with alone:
                tile.each_row(clipped)
            with summed:
                tile.each_row(added)
        with rare:
            if tile.element == "u8":
                tile.each_row(masked)
            else:
                with either(r.form < len(FORMS)) as (short, long):
                    with short:
                        tile.each_row(masked)
                    with long, either(narrow) as (rounded, exact):
                        with rounded:
                            _long_forms(tile, masks, approximate=True)
                        with exact:
                            _long_forms(tile, masks, approximate=False)


def _long_forms(tile: _Tile, masks: Masks, approximate: bool) -> None:
    """Apply one of LONG_FORMS to the rows of a tile; approximate: its results are bf16."""
    low, line = bounds(tile.r)[0], (2 if approximate else 4) * tile.r.ldy
    store = _store_bf16 if approximate else _store_f32

    def formed_row(form: int, row: Value, found: list[Value]) -> None:
        store(tile.to + row * line, [formed(form, x, low, low, approximate=approximate) for x in found], masks)

    for form in range(len(FORMS), ALL_FORMS):
        with when(tile.r.form == form):
            tile.each_row(partial(formed_row, form))


def close(nt: int, note: Value, buffer: Value, r: Any) -> None:
    """Apply the chain, where there is one, to what `finish_sums` left in the buffer."""
    with when(is_walked(r)):
        block = NOTES.of_block(note)
        for m in over(MT):
            tile = NOTES.of_tile(note, m)
            with when(tile.skip < r.rows):
                _walk_tile(nt, r, block, tile, buffer, m)


def _walk_tile(nt: int, r: Any, block: Any, tile: Any, buffer: Value, m: Value) -> None:
    """Apply the chain to the rows of the m-th tile in the buffer."""
    area = Area(block.image, tile.pixel + tile.skip, block.column, r.rows - tile.skip, block.columns)
    sums = Lines(buffer + (m * ROWS + tile.skip) * I64(nt * LINE), I64(nt * LINE))
    item = y_item(r)
    y = Lines(tile.y + tile.skip * (item * r.ldy), item * r.ldy)
    with either(item == 2) as (narrow, wide):
        with narrow:
            walk(r, area, sums, sums)
            _store_rounded(area, sums, y, nt)
        with wide:
            walk(r, area, sums, y)


def _store_rounded(area: Area, x: Lines, y: Lines, nt: int) -> None:
    """Store rows of f32 as bf16."""
    f32, masks = F32.vector(tier().lanes), _masks(area.columns, nt)
    for row in over(area.rows):
        found = [f32[x.address + row * x.step + n * LINE] for n in range(nt)]
        _store_bf16(y.address + row * y.step, found, masks)


def _f32_at(address: Value, narrow: Value, mask: Value) -> Value:
    """A vector of f32, or of bf16, at an address."""
    f32, u16 = F32.vector(tier().lanes), U16.vector(tier().lanes)
    found = register(f32(0.0))
    with either(narrow, likely=False) as (bf16, f32_):
        with bf16:
            found.value = (u16[address, mask].to(U32) << 16).bits(F32)
        with f32_:
            found.value = f32[address, mask]
    return found.value


def _store(to: Value, found: list[Value], masks: Masks, narrow: Value) -> None:
    """Store adjacent vectors as f32, or as bf16."""
    with either(narrow) as (bf16, f32_):
        with bf16:
            _store_bf16(to, found, masks)
        with f32_:
            _store_f32(to, found, masks)


def _store_bf16(to: Value, found: list[Value], masks: Masks) -> None:
    u16, both = U16.vector(tier().lanes), halves(tier().isa.to_bf16(found[0], found[-1]))
    for n in range(len(found)):
        u16[to + n * LINE // 2, masks[n]] = both[n]


def _store_f32(to: Value, found: list[Value], masks: Masks) -> None:
    for n, x in enumerate(found):
        x.type[to + n * LINE, masks[n]] = x


def _masks(columns: Value, nt: int) -> Masks:
    return [first_lanes(16, columns - n * 16) for n in range(nt)]
