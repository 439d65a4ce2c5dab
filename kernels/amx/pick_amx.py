"""A convolution's geometry -> blocks of AMX tiles, bands and scratch. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..gemm.pick_conv import Geometry, layout
from ..gemm.pick_dot import L2, STANDARD, columns_first
from ..gemm.pick_int8 import word_of
from .pack_amx import LINE, ROWS, WORK, configuration, panel_bytes
from .rows import AMX_CONV, BLOCKS

PRODUCT, SHORT_PRODUCT, LOAD, STORE = 16.0, 10.0, 8.7, 16.0
"""Cycles of a product (of few rows), a load and a store of a tile, as measured."""
FINISH, OVERHEAD = 11.0, 40.0
"""Cycles to scale and store 64 sums, and to begin a block."""
VNNI = 0.85 * 64 * 1.96
"""Products a cycle that a kernel without tiles reaches."""
MEMORY, SECOND_LEVEL, L1 = 8.0, 48.0, 32 << 10
"""Bytes a cycle from memory and from the second-level cache; what may stay in the first one."""
GAIN = 1.1
"""How many times faster tiles must be said to be."""


class AmxChoice(NamedTuple):
    """How amx_conv computes a convolution; `params` makes the kernel.

    runs, length: of a column's weights, for pack_amx; table: int64 [lines]; config: uint8 [64]; fields: numbers in its
    record.
    """

    nt: int
    runs: int
    length: int
    params: dict[str, Any]
    table: np.ndarray
    config: np.ndarray
    fields: dict[str, int]

    @property
    def scratch(self) -> int:
        """Bytes for each thread, 64-byte aligned."""
        return self.fields["scratch_bytes"]


def dense(m: int, n: int, k: int, ldx: int) -> Geometry:
    """A dense layer of m rows, ldx bytes apart, as a 1x1 convolution."""
    return Geometry(1, 1, k, n, (1, 1, m), (1, 1, 1), (1, 1, m), (0, 0, 0, ldx), item=1)


def pick_amx(
    g: Geometry,
    threads: int = 1,
    out: str = "bytes",
    l2: int = L2,
    blocks: Sequence[tuple[int, int]] = BLOCKS,
) -> AmxChoice:
    """The best of `blocks` for a geometry of bytes (item 1); out: one of gemm's STORES."""
    assert g.item == 1
    costs = [(_cycles(g, mt, nt, l2) * (STANDARD if (mt, nt) == BLOCKS[0] else 1), mt, nt) for mt, nt in blocks]
    _, mt, nt = min(costs)
    table, fields = layout(g, 1, g.n, 16 * nt, threads, l2)
    per_run = -(-g.run // LINE)
    offsets = (table[:, None] + LINE * np.arange(per_run)).reshape(-1)
    rows, across = tiles(g, mt)
    if fields["direct"]:
        fields |= _direct_band(g, across, mt, nt, threads, l2)
    else:
        fields["band"] *= across
    in_band = -(-fields["band"] // mt)
    work = fields["scratch_bytes"]
    fields |= {"work": work, "scratch_bytes": work + WORK, "lines": len(offsets)}
    fields |= {"rows": rows, "across": across, "prefetch": -(-nt * ROWS // in_band)}
    fields = {slot: value for slot, value in fields.items() if slot in AMX_CONV}
    params = {"mt": mt, "nt": nt, "out": out}
    config = configuration(mt, nt, rows)
    return AmxChoice(nt, len(table), g.run, params, offsets, config, fields)


def worth_tiles(g: Geometry, l2: int = L2) -> bool:
    """Whether tiles beat the vector kernel (on one thread) by GAIN."""
    best = min(_cycles(g, mt, nt, l2) for mt, nt in BLOCKS)
    pixels = g.images * g.groups * g.out[0] * g.out[1] * g.out[2]
    columns = -(-g.n // 16) * 16
    weights = 4 * g.words * columns * g.groups
    plain = _with_memory(pixels * columns * (4 * g.words / VNNI + FINISH / 64), weights, l2)
    return best * GAIN < plain


def tiles(g: Geometry, mt: int) -> tuple[int, int]:
    """(pixels in a tile, tiles in a row of the output); for a single row as many tiles as whole blocks have."""
    width = g.out[2]
    unit = mt if g.out[1] == 1 else 1
    count = unit * -(-width // (ROWS * unit))
    rows = -(-width // count)
    return rows, -(-width // rows)


def _direct_band(g: Geometry, across: int, mt: int, nt: int, threads: int, l2: int) -> dict[str, int]:
    """Slots `band` and `by_columns` when the input is read directly: tiles per pass over the weights, and how threads
    split.
    """
    total = g.out[1] * across
    rows = tiles(g, mt)[0]
    most = max(l2 * 3 // 8 // (rows * g.k * mt), 1)
    blocks = -(-total // mt)
    images = g.images * g.groups * g.out[0]
    panels = -(-g.n // (16 * nt))
    by_columns = columns_first(images * blocks, panels, g.k * total * rows, g.k * g.n, threads)
    shares = -(-blocks // most)
    if not by_columns and images % threads:
        shares = min(-(-shares // threads) * threads, blocks)
    return {"band": -(-blocks // shares) * mt, "by_columns": int(by_columns)}


def _cycles(g: Geometry, mt: int, nt: int, l2: int) -> float:
    """Cycles on one thread, without the copies into bands."""
    rows, across = tiles(g, mt)
    lines = g.k // g.run * -(-g.run // LINE)
    sums, part = mt * nt, rows / ROWS
    products = lines * max(sums * max(PRODUCT * part, SHORT_PRODUCT), 52.0)
    loads = lines * LOAD * (mt * part + nt) + sums * (LOAD + STORE) * part
    weights = panel_bytes(nt, lines)
    # The weights of a panel stay in the first cache or come from the second each time; pixels are read once per tap.
    taps = g.kernel[0] * g.kernel[1] * g.kernel[2]
    bytes_read = lines * LINE * (mt * rows / taps + (nt * ROWS if weights > L1 else 0))
    stores = FINISH * -(-rows * nt // 4) * mt
    most, *rest = sorted((products, loads, bytes_read / SECOND_LEVEL, stores), reverse=True)
    block = most + sum(rest) / 4 + OVERHEAD
    count = g.images * g.groups * g.out[0] * -(-g.out[1] * across // mt) * -(-g.n // (16 * nt))
    return _with_memory(count * block, g.groups * -(-g.n // (16 * nt)) * weights, l2)


def _with_memory(cycles: float, weights: int, l2: int) -> float:
    """Cycles including reads of the weights from memory, which overlap in part."""
    waiting = weights / (MEMORY if weights > l2 // 2 else SECOND_LEVEL)
    return max(cycles, waiting) + min(cycles, waiting) / 8


def amx_args(choice: AmxChoice, x_zero: int, **operands: Any) -> dict[str, Any]:
    """The slots of `rows.AMX_CONV`: the choice's, and `operands`: x, w (pack_amx's of all channels), y, ldy, table,
    config, scratch, and those of gemm's STORED. x_zero: the value of padding.
    """
    return {**choice.fields, "fill": word_of(x_zero), **operands}
