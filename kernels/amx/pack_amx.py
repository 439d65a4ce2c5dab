"""Constant operands of the AMX kernel: tile shapes, and weights in panels of tiles. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..gemm.pack_int8 import column_order

LINE = 64
"""Bytes of A that one tile multiplication takes, and of a row of any tile."""
ROWS = 16
"""The most rows of a tile."""
SUMS, NOTE = 4096, 256
"""Bytes of memory that a block's sums take, and its note, whose last line is for `tile_loop.stay_awake`."""
WORK = 2 * (SUMS + NOTE)
"""Bytes that a thread works in: the sums of two blocks, then their notes."""


def numbering(mt: int, nt: int) -> tuple[list[int], list[int]]:
    """(A's tile registers by row tile, B's by column tile); the sums are in the first mt * nt, row by row.

    The side with fewer tiles has a register for each; the other side's tiles rotate through the rest of the eight.
    """
    free = list(range(mt * nt, 8))
    kept, turns = free[: min(mt, nt)], free[min(mt, nt) :]
    passing = [turns[i % len(turns)] for i in range(max(mt, nt))]
    return (kept, passing) if mt <= nt else (passing, kept)


def configuration(mt: int, nt: int, rows: int, length: int = LINE) -> np.ndarray:
    """The 64 bytes that configure the tile registers: `rows` rows for A and the sums, whole lines for all, but `length`
    bytes of A's and as many words of columns of B.
    """
    config = np.zeros(64, np.uint8)
    config[0] = 1
    config[16:32:2] = LINE
    config[48:56] = rows
    a_tiles, b_tiles = numbering(mt, nt)
    config[[16 + 2 * tile for tile in a_tiles]] = length
    config[[48 + tile for tile in b_tiles]] = length // 4
    return config


def panel_bytes(nt: int, steps: int, head: int = 2) -> int:
    """Bytes of one panel of `pack_amx`; head: numbers of a column before its weights."""
    return nt * (head * LINE + steps * ROWS * LINE)


def in_lines(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights [sets, N, runs, length] of more than eight bits as s8 [sets, N, lines, LINE], and which line of a pixel
    each of these multiplies, int64 [lines]: all with the nearest s8, then those where that leaves something with that.
    """
    sets, n, runs, length = weights.shape
    per_run = -(-length // LINE)
    left = np.zeros((sets, n, runs, per_run * LINE), np.int16)
    left[..., :length] = weights
    left, order = left.reshape(sets, n, runs * per_run, LINE), np.arange(runs * per_run)
    parts, orders = list[np.ndarray](), list[np.ndarray]()
    while order.size:
        clipped = left.clip(-128, 127)
        parts.append(clipped.astype(np.int8))
        orders.append(order)
        more = (left != clipped).any(axis=(0, 1, 3))
        left, order = (left - clipped)[:, :, more], order[more]
    return np.concatenate(parts, axis=2), np.concatenate(orders)


def pack_amx(weights: np.ndarray, head: Sequence[np.ndarray], nt: int, out: str) -> np.ndarray:
    """uint8 [sets, panels, panel_bytes] from s8 weights [sets, N, runs, length].

    head: i32 or f32 [sets, N] each, as of gemm's `Head`. A panel is 16 * nt columns: their numbers of each of these,
    then for every line of A (a run takes whole ones, the rest of its last line meets zeros) nt tiles of 16 rows, each
    with four consecutive weights of 16 columns. Columns are in the `column_order` of `out`; those past N are zeros.
    """
    sets, n, runs, length = weights.shape
    lines, width = -(-length // LINE), ROWS * nt
    panels, steps = -(-n // width), runs * lines
    full = np.zeros((sets, panels * width, runs, lines * LINE), np.int8)
    full[:, :n, :, :length] = weights
    order = column_order(nt, ROWS, out)
    quads = full.reshape(sets, panels, width, -1)[:, :, order].reshape(sets, panels, nt, 16, steps, ROWS, 4)
    packed = np.zeros((sets, panels, panel_bytes(nt, steps, len(head))), np.uint8)
    line = 4 * width
    for i, values in enumerate(head):
        padded = np.zeros((sets, panels * width), values.dtype)
        padded[:, :n] = values
        ordered = np.ascontiguousarray(padded.reshape(sets, panels, width)[..., order])
        packed[..., i * line : (i + 1) * line] = ordered.view(np.uint8)
    packed[..., len(head) * line :] = quads.transpose(0, 1, 4, 2, 5, 3, 6).reshape(sets, panels, -1).view(np.uint8)
    return packed
