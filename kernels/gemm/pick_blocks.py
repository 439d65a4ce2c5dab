"""Layers with weights in codes of a few bits: heights of tiles, and panels. NumPy only.

A group is NV vectors of columns. For each block of k it holds NV lines of scales (f32), with `zeros` as many of minus
the zero points (f32, less the middle of the codes), then NV lines of words for each `per_word(bits)` of k, whose codes
are signed integers from the low bits on; codes of 8 bits have a line for each k.
"""

from __future__ import annotations

import numpy as np

from ..isa.tiers import Tier
from .pick_dot import max_rows

BITS = (2, 4, 8)
NV = 2
"""Vectors of a group: the width at which most rows fit the registers, and so share the decoding of a weight."""


def per_word(bits: int) -> int:
    """Codes in a word."""
    return 32 // bits


def is_few(tier: Tier, m: int) -> bool:
    """Whether m rows are multiplied while codes are read, once or twice; else codes are decoded first."""
    return m <= 2 * few_rows(tier)


def few_rows(tier: Tier) -> int:
    """The most rows of a tile that reads codes: sums of the current block and of all blocks are in registers."""
    return 8 if tier.registers >= 32 else 4


def tile_height(tier: Tier, m: int, rounded: bool = False) -> int:
    """Rows of a tile, for m rows: the fewest tiles, of equal height."""
    most = few_rows(tier) if rounded or is_few(tier, m) else max_rows(tier, NV)
    return -(-m // -(-m // most))


def group_bytes(tier: Tier, bits: int, block: int, blocks: int, zeros: bool) -> int:
    """Bytes of a group for k of so many blocks of `block` codes."""
    return 4 * tier.lanes * NV * blocks * (1 + zeros + block // per_word(bits))


BYTES = 16
"""Numbers of a row that become bytes at a time: blocks are multiples of as many."""
ROW_LINE, ROUNDED = 64, 16
"""Bytes that the length of a rounded row is a multiple of, and bytes behind the row for each block."""
BAND = 1 << 19
"""Bytes of rounded rows that a group is multiplied with before the next one: they stay in the second-level cache."""


def row_bytes(k: int, blocks: int) -> int:
    """Bytes of a row that is rounded to bytes."""
    return -(-k // ROW_LINE) * ROW_LINE + blocks * ROUNDED


def rounded_rows(tier: Tier, m: int, k: int, blocks: int) -> int:
    """Of m rows, those that are rounded at a time: whole tiles."""
    height = tile_height(tier, m, rounded=True)
    return min(m, max(BAND // row_bytes(k, blocks) // height, 1) * height)


def byte_order(bits: int, count: int) -> list[int]:
    """Where the bytes of a rounded row come from: the codes of a word are told apart byte by byte."""
    per, each = per_word(bits), 8 // bits
    return [word + i * each + j for word in range(0, count, per) for j in range(each) for i in range(4)]


def pack_blocks(
    tier: Tier, codes: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None, bits: int, rounded: bool
) -> np.ndarray:
    """uint8 [groups, group_bytes] from codes [N, blocks, block * bits / 8] as bytes, the first code in the low bits;
    scales and zero points [N, blocks]. rounded: for rows that are rounded.
    """
    n, blocks = scales.shape
    width = NV * tier.lanes
    groups, middle = -(-n // width), 1 << (bits - 1)
    flipped = np.uint8(sum(middle << at for at in range(0, 8, bits)))

    def lines(values: np.ndarray) -> np.ndarray:
        """[groups, blocks, lines, width] of words [N, blocks, lines]."""
        full = np.zeros((groups * width, *values.shape[1:]), values.dtype)
        full[:n] = values
        return full.reshape(groups, width, blocks, -1).transpose(0, 2, 3, 1)

    parts = [lines(scales.astype(np.float32)[..., None]).view(np.uint32)]
    if zeros is not None:
        parts.append(lines((middle - zeros).astype(np.float32)[..., None]).view(np.uint32))
    words = lines(np.ascontiguousarray(codes if rounded else codes ^ flipped).view("<u4"))
    if bits == 8 and not rounded:
        bytewise = np.ascontiguousarray(words).view(np.uint8).reshape(*words.shape[:-1], NV, tier.lanes, 4)
        words = np.ascontiguousarray(bytewise.swapaxes(-1, -2)).reshape(*words.shape, 4).view("<u4")[..., 0]
    parts.append(words)
    return np.concatenate(parts, axis=2).reshape(groups, -1).view(np.uint8)
