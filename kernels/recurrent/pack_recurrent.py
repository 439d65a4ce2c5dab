"""Packs constant weights of recurrent layers into panels of the gates of as many hidden units as a vector has lanes.
NumPy only.
"""

from __future__ import annotations

import numpy as np

from ..gemm.pack import pack_weights
from ..gemm.pack_bf16 import pairs
from ..gemm.pack_int8 import Head, Words, pack_int8
from ..isa.tiers import Tier
from .rows import PEEPHOLES, UNROLL, WORD


def blocks(hidden: int, lanes: int) -> int:
    """Vectors that hidden units fill."""
    return -(-hidden // lanes)


def by_block(weights: np.ndarray, gates: int, lanes: int) -> np.ndarray:
    """[D, blocks * gates * lanes, ...] from [D, gates * hidden, ...]; zeros for units that aren't there."""
    d, rows, *rest = weights.shape
    hidden = rows // gates
    count = blocks(hidden, lanes)
    kind = weights.dtype if weights.dtype in (np.int8, np.int32) else np.float32
    found = np.zeros((d, gates, count * lanes, *rest), kind)
    found[:, :, :hidden] = weights.reshape(d, gates, hidden, *rest)
    found = found.reshape(d, gates, count, lanes, *rest).swapaxes(1, 2)
    return np.ascontiguousarray(found).reshape(d, count * gates * lanes, *rest)


def words(hidden: int, each: int) -> int:
    """Words of four bytes in a row of weights, of `each` weights."""
    return -(-hidden // (each * UNROLL)) * UNROLL


def pack_state_weights(
    weights: np.ndarray, bias: np.ndarray | None, gates: int, lanes: int, element: str
) -> np.ndarray:
    """f32 [D, blocks, 1 + lines, gates * lanes] from [D, gates * hidden, hidden]: bias (0 without), then a line for
    each hidden unit, or for two of them as words of bf16, and zeros to multiples of UNROLL.
    """
    columns, each = by_block(weights, gates, lanes), WORD[element]
    padded = np.pad(columns, ((0, 0), (0, 0), (0, each * words(columns.shape[2], each) - columns.shape[2])))
    lines = pairs(padded) if element == "bf16" else padded
    return pack_weights(lines, None if bias is None else by_block(bias, gates, lanes), gates, lanes)


def pack_state_bytes(tier: Tier, weights: np.ndarray, scales: np.ndarray, gates: int) -> np.ndarray:
    """uint8 [D, blocks, bytes] from s8 [D, gates * hidden, hidden] and their scales [D, gates * hidden], for a state of
    u8 of which 128 is 0.0.
    """
    columns, lanes = by_block(weights, gates, tier.lanes), tier.lanes
    padded = np.pad(columns, ((0, 0), (0, 0), (0, 4 * words(columns.shape[2], 4) - columns.shape[2])))
    start = -128 * columns.sum(axis=2, dtype=np.int32)
    head = Head(start, by_block(scales, gates, lanes))
    return pack_int8(tier, padded, head, Words(padded.shape[2], narrow=True), gates, "words")


def pack_peepholes(peepholes: np.ndarray, lanes: int) -> np.ndarray:
    """f32 [D, blocks, 3, lanes] from [D, 3 * hidden]."""
    return by_block(peepholes, PEEPHOLES, lanes).reshape(len(peepholes), -1, PEEPHOLES, lanes)
