"""amx_conv: u8 convolution and dense layers on AMX tiles, over bands of rows as in gemm/conv.py or the input itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..gemm.band import fill_band
from ..gemm.rows import STORES
from ..isa.tiers import Tier
from ..isa.x86_amx import TILE
from ..lang import I64, Value, divide, over, prefetch
from .finish import NOTES, finish
from .pack_amx import LINE, numbering, panel_bytes
from .rows import AMX_CONV
from .tile_loop import Block, Pair, PanelSize, make_loop, pixel_of, stay_awake


def make_amx_conv(tier: Tier, mt: int, nt: int, out: str) -> Callable[..., None]:
    """The kernel for blocks of mt x nt tiles, at most 4; out: one of gemm's STORES, of which i32 isn't made."""
    head = panel_bytes(nt, 0)
    size = PanelSize(16 * nt, head, panel_bytes(nt, 1) - head, LINE)
    return make_loop(AMX_CONV, size, ByteBlock(tier, mt, nt, out), read)


@dataclass(frozen=True)
class ByteBlock(Block):
    """Blocks of bytes, of at most 4 tiles."""

    out: str
    notes = NOTES

    def result(self, r: Any, image: Value, line: Value, start: Value, column: Value) -> tuple[Value, Value]:
        row, pixel = line * r.out_w + start, pixel_of(r, image, line, start)
        y = r.y + (row * r.ldy + column) * STORES[self.out]
        return y, r.addend + image * r.addend_image + pixel * r.addend_row + column

    def begin(self, panel: Value) -> None:
        for c in range(self.count):
            self.tier.isa.load(c, panel + c % self.nt * LINE, 0)

    def steps(self, note: Value, r: Any, first: Value, last: Value, ahead: Value, lines: Value) -> None:
        add_products(self, note, r, panel_bytes(self.nt, 0), (first, last), (ahead, lines))

    def finish(self, note: Value, sums: Value, buffer: Value, r: Any) -> None:
        finish(self.mt, self.nt, self.out, note, sums, r)


def add_products(block: Block, note: Value, r: Any, head: int, part: Pair, fetched: Pair) -> None:
    """Block.steps of bytes; head: bytes of a panel before its weights, part: (first, last), fetched: (ahead, lines)."""
    ahead, lines = fetched
    isa, mt, nt = block.tier.isa, block.mt, block.nt
    a_tiles, b_tiles = numbering(mt, nt)
    starts, weights = [block.notes.of_tile(note, m).a for m in range(mt)], block.notes.of_block(note).panel + head
    for s in over(*part):
        offset = I64.at(r.offsets)[s]
        line = weights + s * (nt * TILE)
        for i in over(lines):
            prefetch(line + ahead + i * LINE)
        # The side that stays in its registers is loaded along with the first of the other.
        for n in range(nt):
            isa.load(b_tiles[n], line + n * TILE, LINE)
            for m in range(mt):
                if n == 0:
                    isa.load(a_tiles[m], starts[m] + offset, r.rs)
                isa.multiply(m * nt + n, a_tiles[m], b_tiles[n])
        stay_awake(note, s, a_tiles[0], mt * nt)


def read(r: Any, scratch: Any, source: Any, oz: Any, t0: Any, t1: Any) -> tuple[Any, ...]:
    """`read` of make_loop."""
    y0 = divide(t0, r.across)
    if r.direct:
        a, y0 = source + oz * r.stride_z * r.x_z, 0
    else:
        z, y = oz * r.stride_z - r.pad_z, y0 * r.stride_y - r.pad_y
        fill_band(r, 1, scratch, source, z, y, rows=(divide(t1 - t0, r.across) - 1) * r.move_y + r.reach)
        a = scratch
    return a, y0, 0
