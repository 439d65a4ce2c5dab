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
FEW = 4
"""The most queries that share a head of keys for which these are not packed."""


class Blocks(NamedTuple):
    """Slots of ATTENTION: sizes of a block, and offsets in scratch."""

    rows: int
    keys: int
    values_at: int
    scores_at: int
    sums_at: int
    state_at: int
    scratch_bytes: int


def _whole(n: int, width: int) -> int:
    return -(-n // width) * width


def _blocks(tier: Tier, rows: int, keys: int, sizes: Sequence[int]) -> Blocks:
    at, ends = 0, []
    for words in (*sizes, len(STATE) * _whole(rows, tier.lanes)):
        at += _whole(4 * words, 64)
        ends.append(at)
    return Blocks(rows, keys, *ends)


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
