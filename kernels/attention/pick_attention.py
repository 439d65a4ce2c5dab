"""Blocks of attention, and the layout of its scratch. Pure arithmetic."""

from __future__ import annotations

from ..gemm.pick_dot import F32_COSTS, max_rows
from ..isa.tiers import Tier
from .rows import STATE

NV = 2
"""Vectors of a panel."""
TILES = 2
"""Tiles of rows in a block."""
KEYS = {16: 512, 32: 256}
"""Keys of a block, by registers: its scores stay in the first-level cache."""
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


Blocks = dict[str, int]
"""The slots of a record of attention that say how large blocks are, and where their parts lie in scratch."""


def _whole(n: int, width: int) -> int:
    return -(-n // width) * width


def _parts(**words: int) -> Blocks:
    """Where the parts of scratch lie, of so many words of 4 bytes, one behind the other; `keys`, the first, at 0."""
    at, places = 0, {}
    for part, count in words.items():
        places[f"{part}_at"] = at
        at += _whole(4 * count, 64)
    del places["keys_at"]
    return {**places, "scratch_bytes": at}


def _state(tier: Tier, rows: int) -> int:
    """Words of the state of so many queries."""
    return len(STATE) * _whole(rows, tier.lanes)


def pick(tier: Tier, s: int, t: int, d: int, e: int) -> Blocks:
    """Blocks of `attention`, for s queries of d, t keys and values of e elements."""
    width = NV * tier.lanes
    rows, keys = _block(tier, s, d), min(KEYS[tier.registers], _whole(max(t, 1), width))
    columns = _whole(e, width)
    return {"rows": rows, "keys": keys} | _parts(
        keys=_whole(t, width) * d, values=t * columns, scores=rows * (keys + tier.lanes), sums=rows * columns,
        state=_state(tier, rows),
    )  # fmt: skip


def _block(tier: Tier, s: int, d: int) -> int:
    """Queries of a block, of two tiles: as many as leave the fewest cycles for low tiles."""
    height = max_rows(tier, NV)

    def cost(rows: int) -> float:
        blocks, rest = divmod(s, rows)
        return sum(count * F32_COSTS.rows_cost(tier, m, height, NV, d) for count, m in ((blocks, rows), (1, rest)))

    return min(range(min(s, TILES * height), min(s, height + 1) - 1, -1), key=cost)


def pick_few(tier: Tier, rows: int, t: int, e: int) -> Blocks:
    """Blocks of `attention_few`, for so many queries that share keys."""
    keys = min(KEYS[tier.registers], _whole(max(t, 1), tier.lanes))
    scores, sums = rows * (keys + tier.lanes), _whole(e, tier.lanes)
    return {"rows": rows, "keys": keys} | _parts(keys=0, values=0, scores=scores, sums=sums, state=_state(tier, rows))


def pick_tiles(tier: Tier, s: int, t: int, d: int, e: int) -> Blocks:
    """Blocks of `attention_tiles`, of pairs of tiles of queries, or one of up to 16."""
    keys = min(TILE_KEYS, _whole(max(t, 1), PANEL))
    most, pairs = max(1, SCORES // (4 * (keys + tier.lanes)) // 32), -(-s // 32)
    blocks = -(-pairs // most)
    tiles = 1 if s <= 16 else 2 * -(-pairs // blocks)
    tile = -(-s // (blocks * tiles))
    return _tile_blocks(tier, tile, tiles, keys, (t, d, e))


def pick_pairs(tier: Tier, s: int, t: int, d: int, e: int) -> Blocks:
    """Blocks of `attention_pairs`."""
    count = -(-s // max_rows(tier, NV))
    return _tile_blocks(tier, -(-s // count), min(TILES, count), min(TILE_KEYS, _whole(max(t, 1), PANEL)), (t, d, e))


def _tile_blocks(tier: Tier, tile: int, tiles: int, keys: int, sizes: tuple[int, int, int]) -> Blocks:
    """Blocks of so many tiles; sizes: t, d, e."""
    t, d, e = sizes
    lines, columns, rows = -(-d // PANEL), _whole(e, PANEL), tiles * tile
    return {"tile": tile, "rows": rows, "keys": keys} | _parts(
        keys=_whole(t, PANEL) * lines * PANEL // 2, values=_whole(t, PANEL) * columns // 2,
        queries=rows * lines * PANEL // 2, scores=rows * (keys + tier.lanes), sums=rows * columns,
        parts=_whole(rows, tier.lanes) * tier.lanes, state=_state(tier, rows),
    )  # fmt: skip
