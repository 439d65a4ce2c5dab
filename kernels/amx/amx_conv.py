"""amx_conv: u8 convolution and dense layers on AMX tiles, over bands of rows as in gemm/conv.py or the input itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..gemm.band import fill_band
from ..gemm.rows import STORES
from ..isa.tiers import Tier
from ..isa.x86_amx import TILE
from ..lang import I64, Value, divide, over, prefetch, traced
from ..lang import tier as tier_in_use
from .finish import NOTES, make_finish
from .pack_amx import LINE, numbering, panel_bytes
from .rows import AMX_CONV
from .tile_loop import BlockFunctions, PanelSize, make_loop, pixel_of, stay_awake


def make_amx_conv(tier: Tier, mt: int, nt: int, out: str) -> Callable[..., None]:
    """The kernel for blocks of mt x nt tiles, at most 4; out: one of gemm's STORES, of which i32 isn't made."""
    head = panel_bytes(nt, 0)
    size = PanelSize(16 * nt, head, panel_bytes(nt, 1) - head, LINE)
    return make_loop(tier, AMX_CONV, mt, size, _make_block(tier, mt, nt, out))


def _make_block(tier: Tier, mt: int, nt: int, out: str) -> BlockFunctions:
    """The functions for blocks of mt x nt tiles; mt * nt is at most 4."""
    item, finish = STORES[out], make_finish(tier, mt, nt, out)

    @traced
    def result(r: Any, image: Value, line: Value, start: Value, column: Value) -> tuple[Value, Value]:
        row, pixel = line * r.out_w + start, pixel_of(r, image, line, start)
        y = r.y + (row * r.ldy + column) * item
        return y, r.addend + image * r.addend_image + pixel * r.addend_row + column

    @traced
    def begin(panel: Value) -> None:
        for c in range(mt * nt):
            tier.isa.load(c, panel + c % nt * LINE, 0)

    @traced
    def steps(at: Value, r: Any, first: Value, last: Value, ahead: Value, lines: Value) -> None:
        starts = [NOTES.of_tile(at, m).a for m in range(mt)]
        weights = NOTES.of_block(at).panel + panel_bytes(nt, 0)
        add_products(at, r, weights, starts, nt, (first, last), (ahead, lines))

    return BlockFunctions(NOTES, read, result, begin, steps, never_again, finish)


Pair = tuple[Value, Value]


def add_products(at: Value, r: Any, weights: Value, starts: Sequence[Value], nt: int, part: Pair, near: Pair) -> None:
    """BlockFunctions.steps, for len(starts) tiles of pixels; weights: those of the first line; part: first and last,
    near: ahead and lines.
    """
    isa, mt = tier_in_use().isa, len(starts)
    a_tiles, b_tiles = numbering(mt, nt)
    for s in over(*part):
        offset = I64.at(r.offsets)[s]
        line = weights + s * (nt * TILE)
        for i in over(near[1]):
            prefetch(line + near[0] + i * LINE)
        # The side that stays in its registers is loaded along with the first of the other.
        for n in range(nt):
            isa.load(b_tiles[n], line + n * TILE, LINE)
            for m in range(mt):
                if n == 0:
                    isa.load(a_tiles[m], starts[m] + offset, r.rs)
                isa.multiply(m * nt + n, a_tiles[m], b_tiles[n])
        stay_awake(at, s, a_tiles[0], mt * nt)


@traced
def never_again(at: Value, sums: Value, r: Any) -> None:
    """BlockFunctions.again: bytes are never split."""


def read(r: Any, scratch: Any, source: Any, oz: Any, t0: Any, t1: Any) -> tuple[Any, ...]:
    """BlockFunctions.read."""
    y0 = divide(t0, r.across)
    if r.direct:
        a, y0 = source + oz * r.stride_z * r.x_z, 0
    else:
        z, y = oz * r.stride_z - r.pad_z, y0 * r.stride_y - r.pad_y
        fill_band(r, 1, scratch, source, z, y, rows=(divide(t1 - t0, r.across) - 1) * r.move_y + r.reach)
        a = scratch
    return a, y0, 0
