"""Blocks of attention, and the layout of its scratch. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..gemm.pick_dot import max_rows
from ..isa.tiers import Tier
from .rows import STATE

NV = 2
"""Vectors of a panel."""
TILES = 2
"""Tiles of rows in a block."""
KEYS = 256
"""Keys of a block: its scores stay in the first-level cache."""
TILE_KEYS = 512
"""The same for tiles of bf16."""
SCORES = 32 << 10
"""Bytes of scores up to which a block has more than two tiles of queries."""
FEW = 4
"""The most queries that share a head of keys for which these are not packed."""


LINE, TILE = 64, 1024
"""Bytes of a row of a tile, and of one: 16 rows."""
PANEL = 32
"""Keys, or columns of values, of a panel for tiles of bf16, and numbers of a line: pairs for two tiles."""


class Blocks(NamedTuple):
    """Slots of ATTENTION: sizes of a block, and offsets in scratch."""

    rows: int
    keys: int
    values_at: int
    scores_at: int
    sums_at: int
    state_at: int
    scratch_bytes: int


class TileBlocks(NamedTuple):
    """Slots of ATTENTION_PAIRS: queries of a tile, sizes of a block, and offsets in scratch."""

    tile: int
    rows: int
    keys: int
    values_at: int
    queries_at: int
    scores_at: int
    sums_at: int
    parts_at: int
    state_at: int
    scratch_bytes: int


def _whole(n: int, width: int) -> int:
    return -(-n // width) * width


def _ends(sizes: Sequence[int]) -> list[int]:
    """Where each of some parts of memory ends, of so many words."""
    at, ends = 0, []
    for words in sizes:
        at += _whole(4 * words, 64)
        ends.append(at)
    return ends


def _blocks(tier: Tier, rows: int, keys: int, sizes: Sequence[int]) -> Blocks:
    return Blocks(rows, keys, *_ends((*sizes, len(STATE) * _whole(rows, tier.lanes))))


def pick(tier: Tier, s: int, t: int, d: int, e: int) -> Blocks:
    """Blocks of `attention`, for s queries of d, t keys and values of e elements."""
    width = NV * tier.lanes
    rows, keys = min(s, TILES * max_rows(tier, NV)), min(KEYS, _whole(max(t, 1), width))
    columns = _whole(e, width)
    return _blocks(tier, rows, keys, (_whole(t, width) * d, t * columns, rows * (keys + tier.lanes), rows * columns))


def pick_few(tier: Tier, rows: int, t: int, e: int) -> Blocks:
    """Blocks of `attention_few`, for so many queries that share keys."""
    keys = min(KEYS, _whole(max(t, 1), tier.lanes))
    return _blocks(tier, rows, keys, (0, 0, rows * (keys + tier.lanes), _whole(e, tier.lanes)))


def pick_tiles(tier: Tier, s: int, t: int, d: int, e: int) -> TileBlocks:
    """Blocks of `attention_tiles`, of pairs of tiles of queries, or one of up to 16."""
    keys = min(TILE_KEYS, _whole(max(t, 1), PANEL))
    most, pairs = max(1, SCORES // (4 * (keys + tier.lanes)) // 32), -(-s // 32)
    blocks = -(-pairs // most)
    tiles = 1 if s <= 16 else 2 * -(-pairs // blocks)
    tile = -(-s // (blocks * tiles))
    return _tile_blocks(tier, tile, tiles, keys, (t, d, e))


def pick_pairs(tier: Tier, s: int, t: int, d: int, e: int) -> TileBlocks:
    """Blocks of `attention_pairs`."""
    count = -(-s // max_rows(tier, NV))
    return _tile_blocks(tier, -(-s // count), min(TILES, count), min(TILE_KEYS, _whole(max(t, 1), PANEL)), (t, d, e))


def _tile_blocks(tier: Tier, tile: int, tiles: int, keys: int, sizes: tuple[int, int, int]) -> TileBlocks:
    """Blocks of so many tiles; sizes: t, d, e."""
    t, d, e = sizes
    lines, columns, rows = -(-d // PANEL), _whole(e, PANEL), tiles * tile
    lasting = _whole(rows, tier.lanes)
    parts = (
        _whole(t, PANEL) * lines * PANEL // 2, _whole(t, PANEL) * columns // 2, rows * lines * PANEL // 2,
        rows * (keys + tier.lanes), rows * columns, lasting * tier.lanes, len(STATE) * lasting,
    )  # fmt: skip
    return TileBlocks(tile, rows, keys, *_ends(parts))
