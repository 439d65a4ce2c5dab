"""A convolution's geometry -> blocks of AMX tiles, bands and scratch. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..gemm.pick_conv import Geometry, layout
from ..gemm.pick_dot import L2, STANDARD, column_parts
from ..gemm.pick_int8 import SECOND_LEVEL, with_memory, word_of
from .pack_amx import LINE, ROWS, WORK, configuration, panel_bytes
from .pack_real import BUFFER, MT
from .rows import AMX_CONV, BLOCKS, DYNAMIC_NT

PRODUCT, SHORT_PRODUCT, LOAD = 33.0, 18.0, 16.6
"""Cycles of a product (of few rows) and of a load of a tile. All cycles here are those of a virtual machine of Granite
Rapids that shares its core, at 3 GHz, as those of the kernels that sum in vectors are; on a core of one's own they are
0.6 of it."""
OVERHEAD, START = 110.0, 1000.0
"""Cycles to begin a block, and a call."""
FINISH = {(2, 2): 8.5, (1, 4): 4.5, (4, 1): 14.7}
"""Cycles to finish 64 sums, by blocks."""
BESIDE = 1 / 3
"""The part of the shorter of two activities that does not overlap with the longer."""
L1 = 32 << 10
"""Bytes that may stay in the first-level cache."""


class TileChoice(NamedTuple):
    """How a kernel on tiles computes a convolution; `params` makes the kernel.

    runs, run: of a column's weights, for packing; table: int64 [lines]; config: uint8 [64]; fields: numbers in its
    record.
    """

    runs: int
    run: int
    params: dict[str, Any]
    table: np.ndarray
    config: np.ndarray
    fields: dict[str, int]

    @property
    def scratch(self) -> int:
        """Bytes for each thread, 64-byte aligned."""
        return self.fields["scratch_bytes"]

    def in_order(self, lines: np.ndarray) -> TileChoice:
        """With these lines, some of which come again: `in_lines` of the weights."""
        return self._replace(table=self.table[lines], fields={**self.fields, "lines": len(lines)})


def pick_amx(
    g: Geometry, threads: int = 1, out: str = "bytes", l2: int = L2, blocks: Sequence[tuple[int, int]] = BLOCKS
) -> TileChoice:
    """The best of `blocks` for a geometry of bytes (item 1); out: one of gemm's STORES."""
    assert g.item == 1
    costs = [(_cycles(g, mt, nt, l2) * (STANDARD if (mt, nt) == BLOCKS[0] else 1), mt, nt) for mt, nt in blocks]
    _, mt, nt = min(costs)
    table, _, fields = layout(g, 1, g.n, 16 * nt, threads, l2)
    per_run = -(-g.run // LINE)
    offsets = (table[:, None] + LINE * np.arange(per_run)).reshape(-1)
    rows, across = tiles(g, mt)
    if fields["direct"]:
        fields |= direct_band(g, across, mt, nt, threads, l2)
    else:
        fields["band"] *= across
    in_band = -(-fields["band"] // mt)
    work = fields["scratch_bytes"]
    fields |= {"work": work, "scratch_bytes": work + WORK, "lines": len(offsets)}
    # Panels that a band reads once follow one another: the CPU fetches them by itself.
    fields |= {"rows": rows, "across": across, "prefetch": -(-nt * ROWS // in_band) if in_band > 1 else 0}
    fields = {slot: value for slot, value in fields.items() if slot in AMX_CONV}
    params = {"mt": mt, "nt": nt, "out": out}
    config = configuration(mt, nt, rows)
    return TileChoice(len(table), g.run, params, offsets, config, fields)


def pick_amx_dynamic(g: Geometry, threads: int, l2: int = L2) -> TileChoice:
    """As `pick_amx`, for amx_dynamic."""
    choice = pick_amx(g, threads, "words", l2, ((MT, DYNAMIC_NT),))
    fields = {**choice.fields, "scratch_bytes": choice.scratch + BUFFER}
    if fields["direct"] and g.n >= 2 * g.k and 2 * g.n * g.k <= l2:  # rows of results are written whole
        fields |= {"band": MT, "prefetch": 0}
    return choice._replace(params={"nt": DYNAMIC_NT}, fields=fields)


def tile_cycles(g: Geometry, l2: int = L2) -> float:
    """The cycles of one thread, in the best blocks."""
    return min(_cycles(g, mt, nt, l2) for mt, nt in BLOCKS)


def tiles(g: Geometry, mt: int) -> tuple[int, int]:
    """(pixels in a tile, tiles in a row of the output); for a single row as many tiles as whole blocks have."""
    width = g.out[2]
    unit = mt if g.out[1] == 1 else 1
    count = unit * -(-width // (ROWS * unit))
    rows = -(-width // count)
    return rows, -(-width // rows)


def direct_band(g: Geometry, across: int, mt: int, nt: int, threads: int, l2: int) -> dict[str, int]:
    """Slots `band` and `column_parts` when the input is read directly: tiles per pass over the weights, in blocks of
    `mt`, and how threads split.
    """
    total = g.out[1] * across
    rows = tiles(g, mt)[0]
    most = max(l2 * 3 // 8 // (rows * g.k * mt), 1)
    blocks = -(-total // mt)
    images = g.images * g.groups * g.out[0]
    panels = -(-g.n // (16 * nt))
    parts = column_parts(images * blocks, panels, g.k * total * rows, g.k * g.n, threads)
    shares = -(-blocks // most)
    if images % (threads // parts):
        shares = min(-(-shares * parts // threads) * (threads // parts), blocks)
    return {"band": -(-blocks // shares) * mt, "column_parts": parts}


def _cycles(g: Geometry, mt: int, nt: int, l2: int) -> float:
    """Cycles on one thread, without the copies into bands."""
    rows, across = tiles(g, mt)
    lines = g.k // g.run * -(-g.run // LINE)
    sums, part = mt * nt, rows / ROWS
    products = lines * sums * max(PRODUCT * part, SHORT_PRODUCT)
    loads = lines * LOAD * (mt * part + nt)
    weights = panel_bytes(nt, lines)
    # The weights of a panel stay in the first cache or come from the second each time; pixels are read once per tap.
    taps = g.kernel[0] * g.kernel[1] * g.kernel[2]
    reads = lines * LINE * (mt * rows / taps + (nt * ROWS if weights > L1 else 0)) / SECOND_LEVEL
    most = max(products, loads, reads)
    block = most + BESIDE * (products + loads + reads - most) + FINISH[mt, nt] * rows * sums / 4 + OVERHEAD
    panels = g.groups * -(-g.n // (16 * nt))
    count = g.images * g.out[0] * -(-g.out[1] * across // mt) * panels
    return with_memory(count * block, panels * weights, l2) + START


def amx_args(choice: TileChoice, x_zero: int, **operands: Any) -> dict[str, Any]:
    """The slots of `rows.AMX_CONV` or `AMX_DYNAMIC`: the choice's, and `operands`, all others: x, w (pack_amx's of all
    channels), y, ldy, offsets, config, scratch, how results end. x_zero: the value of padding.
    """
    return {**choice.fields, "fill": word_of(x_zero), **operands}
