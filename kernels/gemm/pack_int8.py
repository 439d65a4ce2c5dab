"""Packs constant s8 weights into the panels that the int8 dot and convolution kernels read. NumPy only.

A panel of nv vectors holds, for its columns, an i32 line that sums begin with, an f32 line of multipliers, with
`rowsum` an i32 line of minus the weights' zero points, and then for each word of A its weights. Bytes are stored
four vectors at a time by pack instructions: `column_order` says which column stands where.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..isa.tiers import Tier

HEAD_LINES = {False: 2, True: 3}
"""Lines of a panel before its weights, without and with `rowsum`."""


def parts(nv: int) -> list[tuple[int, int]]:
    """(first, how many) of the vectors of a row that are packed to bytes together: four, and the rest."""
    return [(first, min(4, nv - first)) for first in range(0, nv, 4)]


def sums_per_row(nv: int, rowsum: bool) -> int:
    """Vectors of sums for each row of a tile: the last is the sum of the row of A itself, with `rowsum`."""
    return nv + rowsum


def vectors_per_word(tier: Tier, nv: int, rowsum: bool, narrow: bool = False) -> int:
    """Vectors of weights for a word of A: four bytes a lane, or twice two i16 (bytes 0 and 2, then 1 and 3); narrow: as
    of `Words`.
    """
    return nv if narrow else sums_per_row(nv, rowsum) * (1 if tier.byte_dot else 2)


def panel_bytes(tier: Tier, nv: int, rowsum: bool, words: int) -> int:
    """Bytes of a panel for rows of A of `words` words."""
    return 4 * tier.lanes * (HEAD_LINES[rowsum] * nv + words * vectors_per_word(tier, nv, rowsum))


def fours(width: int, lanes: int, half: bool) -> list[tuple[int, int]]:
    """(128 bits, vector) where each four columns of `width` vectors that are packed together stand, in order of the
    columns; half: the upper half of the last vector has the last ones.
    """
    places = [(i, j) for i in range(lanes // 4) for j in range(width)]
    return sorted(places, key=lambda place: half and place[0] >= lanes // 8 and place[1] == width - 1)


def column_order(nv: int, lanes: int, out: str, half: bool = False) -> np.ndarray:
    """The column that stands in each of a panel's nv * lanes places; out: one of rows.STORES, half: as of `fours`."""
    columns = np.arange(nv * lanes).reshape(-1, 4)
    if out == "bytes":
        order = [(first + j, i) for first, width in parts(nv) for i, j in fours(width, lanes, half)]
        places = [vector * lanes // 4 + i for vector, i in order]
        columns = columns[np.argsort(places)]
    return columns.reshape(-1)


class Head(NamedTuple):
    """The head of a panel, before its weights: a line for each of these arrays [batch, N].

    start: i32 that sums begin with; multipliers: f32; minus_zero: i32, minus the zero points of the weights, for a
    kernel with `rowsum`; bias: f32, for the kernels of dynamic_layer.py, whose start is the sum of a column's weights.
    """

    start: np.ndarray
    multipliers: np.ndarray
    minus_zero: np.ndarray | None = None
    bias: np.ndarray | None = None


class Words(NamedTuple):
    """How weights become words of A: `run` products of each run of A, rounded up to a multiple of `chains` words.

    narrow: they stay bytes on all tiers, for kernels that widen them as they read, and have no ones for `rowsum`;
    small: for those that multiply them as they are.
    """

    run: int
    chains: int = 1
    narrow: bool = False
    small: bool = False


def pack_int8(
    tier: Tier, weights: np.ndarray, head: Head, words_of: Words, nv: int, out: str, half: bool = False
) -> np.ndarray:
    """uint8 [batch, panels, bytes] from s8 weights [batch, N, K], or s16 on tiers without `byte_dot`.

    half: for kernels that compute only half of the last vector.
    """
    (batch, n, k), (run, chains, *as_bytes) = weights.shape, words_of
    narrow = any(as_bytes)
    rowsum, width = head.minus_zero is not None, nv * tier.lanes
    panels, runs, words = -(-n // width), k // run, -(-run // (4 * chains)) * chains
    order = column_order(nv, tier.lanes, out, half)
    full = np.zeros((batch, panels * width, runs, words * 4), weights.dtype)
    full[:, :n, :, :run] = weights.reshape(batch, n, runs, run)
    # Four weights are moved as one number: NumPy takes as long for a byte as for that.
    quads = full.reshape(batch, panels, width, -1).view(f"i{4 * full.itemsize}")[:, :, order]
    lines = np.ascontiguousarray(quads.transpose(0, 1, 3, 2)).view(full.dtype).reshape(batch, panels, -1, width, 4)
    if rowsum and not narrow:
        ones = np.zeros((runs, words * 4), np.int8)
        ones[:, :run] = 1
        ones = ones.reshape(1, 1, runs * words, 1, 4)
        lines = np.concatenate([lines, np.broadcast_to(ones, (*lines.shape[:3], tier.lanes, 4))], axis=3)
    if not tier.byte_dot and not narrow:
        lines = np.stack([lines[..., 0::2], lines[..., 1::2]], axis=3).astype(np.int16)

    def line(values: np.ndarray, kind: type) -> np.ndarray:
        padded = np.zeros((batch, panels * width), kind)
        padded[:, :n] = values.reshape(batch, n)
        return _bytes(padded.reshape(batch, panels, width)[:, :, order])

    kinds = (np.int32, np.float32, np.int32, np.float32)
    lines_of_head = [line(values, kind) for values, kind in zip(head, kinds, strict=True) if values is not None]
    return np.concatenate([*lines_of_head, _bytes(lines.reshape(batch, panels, -1))], axis=2)


def _bytes(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.uint8)
