"""The loops of amx_conv and amx_real: bands, panels of channels, and blocks of tiles, two of which are at work.

A tile has up to 16 pixels of a row; the last tile of a row is moved back so that it ends with the row, and skips the
pixels that the one before it has stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from ..core.record import Record, fields
from ..gemm.band import band_at, deal
from ..isa.tiers import Tier
from ..isa.x86_amx import TILE
from ..lang import I64, Value, divide, smaller, tier, traced, when
from .pack_amx import LINE, NOTE, SUMS

EARLY = 2
"""Lines whose products are begun before the block before is finished: the core does both at the same time."""
SOON = 4
"""Lines from those that are multiplied to those that are fetched, where a band is one block: the next panel is not
needed later than that."""
AWAKE = 64
"""Products after which a tile is stored to no purpose: on Granite Rapids the first store after some 2000 cycles (125
products) without one takes 1000, where others take 17 beside the products."""


Numbers = tuple[Any, ...]
Pair = tuple[Value, Value]


@dataclass(frozen=True)
class Notes:
    """A note describes a block by a record, and then each of its tiles of pixels by another: where its row 0 is read
    (a) and written (y), how many of its first rows are not stored (skip), and what else `Block.result` says of it.
    """

    block: Record
    tile: Record

    def place(self, note: Value, m: Any) -> Value:
        """The address of the m-th tile's record."""
        return note + (m * len(self.tile) + len(self.block)) * 8

    def of_block(self, note: Value) -> Any:
        return fields(note, self.block)

    def of_tile(self, note: Value, m: Any) -> Any:
        """The m-th tile's record."""
        return fields(self.place(note, m), self.tile)

    def write_block(self, note: Any, panel: Any, columns: Any, image: Any, column: Any) -> None:
        slots = {"panel": panel, "columns": columns, "image": image, "column": column}
        _put(note, [slots[name] for name in self.block])

    def write_tile(self, note: Any, m: Any, a: Any, y: Any, skip: Any, beside: Any) -> None:
        slots = {"a": a, "y": y, "skip": skip}
        _put(self.place(note, m), [slots.get(name, beside) for name in self.tile])


@dataclass(frozen=True)
class Block:
    """A block of mt tiles of pixels by nt tiles of columns, and what a kernel does with one, in traced functions.

    `note` and `sums` are addresses in a thread's memory, laid out as pack_amx.WORK.
    """

    tier: Tier
    mt: int
    nt: int
    notes: ClassVar[Notes]

    @property
    def count(self) -> int:
        """Its tiles of sums."""
        return self.mt * self.nt

    def result(self, r: Any, image: Any, line: Any, start: Any, column: Any) -> Any:
        """y of a tile from that pixel on of a row, which is counted over all images; and what its note keeps beside."""

    def begin(self, panel: Any) -> None:
        """The sums are the bias, or 0."""

    def steps(self, note: Any, r: Any, first: Any, last: Any, ahead: Any, lines: Any) -> None:
        """Add the products of some lines of A.

        Line s of a pixel is r.offsets[s] bytes from its start; pixels are r.rs bytes apart. For each line, or
        each product, `lines` cache lines from `ahead` bytes behind its weights on are prefetched.
        """

    def again(self, note: Any, sums: Any, r: Any) -> None:
        """Sum those pixels in f32 that read numbers whose splitting loses something. Which these are depends on their
        numbers alone, not on the band. Bytes are never split."""

    def finish(self, note: Any, sums: Any, buffer: Any, r: Any) -> None:
        """Store the results of the sums in memory, as the record r says."""


class PanelSize(NamedTuple):
    """Columns of a panel; bytes of its head, of a line's weights, and of the lines that are prefetched with one."""

    width: int
    head: int
    line: int
    fetched: int


def make_loop(record: Record, size: PanelSize, block: Block, read: Any) -> Callable[..., None]:
    """The kernel.

    read(r, scratch, source, oz, t0, t1): copy what the tiles t0 .. t1 of a slice read, unless they read it in place;
    the address of the first pixel of a row, the row's number, and whether splitting a number may lose something.
    """
    (width, head, line, prefetched), mt = size, block.mt

    def kernel(args: int, thread: int, threads: int) -> None:
        r = fields(args, record)
        scratch = r.scratch + thread * r.scratch_bytes
        work = scratch + r.work
        notes, buffer = work + 2 * SUMS, work + 2 * SUMS + 2 * NOTE
        panels = divide(r.n + width - 1, width)
        panel_size = head + r.lines * line
        tiles = r.out_h * r.across
        bands = divide(tiles + r.band - 1, r.band)
        p0, p1, unit, end = deal(r, panels, r.images * r.sets * r.out_d * bands, thread, threads)
        half, busy = 0, 0
        configure(r.config)
        while unit < end:
            image, group, oz, band = band_at(r, unit, bands)
            t0, t1, row0, column0 = tiles_of(r, band, tiles)
            a, y0, odd = read(r, scratch, r.x + image * r.x_image + group * r.x_set, oz, t0, t1)
            line0 = (image * r.out_d + oz) * r.out_h
            for p in range(p0, p1):
                column = group * r.n_set + p * width
                panel = r.w + (group * panels + p) * panel_size
                ahead = panel_size if r.band > mt else smaller(panel_size, SOON * line)
                row, start = row0, column0
                for t in range(t0, t1, mt):
                    note = notes + half * NOTE
                    block.notes.write_block(note, panel, smaller(r.n - p * width, width), image, column)
                    start, row = _describe(block, r, note, (image, line0, column), (a, y0), (t, t1, start, row))
                    lines = r.prefetch if ahead < panel_size + line else 0
                    block.begin(panel)
                    _compute(block, r, work, (half, busy, odd), (ahead, lines))
                    ahead += lines * prefetched
                    half, busy = 1 - half, 1
            unit += 1
        if busy:
            block.finish(notes + (1 - half) * NOTE, work + (1 - half) * SUMS, buffer, r)
        release()

    return kernel


def _describe(block: Block, r: Any, note: int, to: Numbers, source: Numbers, tiles: Numbers) -> tuple[int, int]:
    """Write the tiles of a block, from tile t of a slice on, to its note; (first pixel, row) of the tile behind them.

    to: (image, rows of all images before, column of y), source: (a, its row), tiles: (t, end, first pixel, row).
    """
    image, line0, column = to
    a, a_row = source
    t, end, pixel, row = tiles
    for m in range(block.mt):
        start = smaller(pixel, r.out_w - r.rows)
        skip = pixel - start if t + m < end else r.rows
        y, beside = block.result(r, image, line0 + row, start, column)
        block.notes.write_tile(note, m, a + (row - a_row) * r.gs + start * r.rs, y, skip, beside)
        if t + m + 1 < end:
            pixel += r.rows
            if pixel >= r.out_w:
                row, pixel = row + 1, 0
    return pixel, row


def _compute(block: Block, r: Any, work: int, state: Numbers, fetched: Numbers) -> None:
    """The sums of a block, in a half of `work`, while the one before it, in the other, is finished.

    state: (the block's half, whether there is one before it, whether splitting a number may lose something); fetched:
    (ahead, lines), as of `Block.steps`.
    """
    half, busy, odd = state
    ahead, lines = fetched
    notes, early = work + 2 * SUMS, smaller(r.lines, EARLY)
    note, sums = notes + half * NOTE, work + half * SUMS
    block.steps(note, r, 0, early, ahead, lines)
    if busy:
        block.finish(notes + (1 - half) * NOTE, work + (1 - half) * SUMS, notes + 2 * NOTE, r)
    block.steps(note, r, early, r.lines, ahead, lines)
    keep(block.count, sums)
    if odd != 0:
        block.again(note, sums, r)


def tiles_of(r: Any, band: int, tiles: int) -> tuple[int, ...]:
    """(first tile of a band of so many tiles in all, end, row of the result and column where the first tile lies)."""
    first = band * r.band
    end = smaller(first + r.band, tiles)
    row = divide(first, r.across)
    return first, end, row, (first - row * r.across) * r.rows


def pixel_of(r: Any, image: Value, line: Value, start: Value) -> Value:
    """The number in its image of a pixel of a row that is counted over all images."""
    return (line - image * (r.out_d * r.out_h)) * r.out_w + start


@traced
def keep(count: int, sums: Value) -> None:
    """Store the first tiles, which hold sums."""
    for c in range(count):
        tier().isa.store(c, sums + c * TILE, LINE)


def stay_awake(note: Value, s: Value, tile: int, products: int) -> None:
    """Store a tile in a line of the note every so often; products: of line s, and of each."""
    lines = 1 << max(AWAKE // products, 1).bit_length() - 1
    with when(s & (lines - 1) == lines - 1):
        tier().isa.store(tile, note + (NOTE - LINE), 0)


@traced
def configure(config: Value) -> None:
    """Shape the tile registers."""
    tier().isa.configure(config)


@traced
def release() -> None:
    """Give the tile registers up."""
    tier().isa.release()


def _put(address: Value, values: Any) -> None:
    """Store adjacent int64s."""
    first = I64.at(address)
    for i, value in enumerate(values):
        first[i] = value
