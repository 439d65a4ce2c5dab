"""Convolutions whose weights are computed, by products of bf16 in AMX tiles."""

from __future__ import annotations

import numpy as np

from ....cpus import level_two
from ....ir import Node
from ....kernels.amx.pack_amx import LINE, ROWS
from ....kernels.amx.pack_real import NUMBERS, panel_bytes_real
from ....kernels.amx.pick_amx import TileChoice
from ....kernels.amx.pick_real import pick_real, real_args
from ....kernels.gemm.pick_conv import Geometry
from ...program import Ref
from ..emit import Rows
from ..epilogue import addend_item, epilogue
from ..moves import emit_copy
from ..registry import Emit, Slot
from .calls import tile_slots
from .layer_amx import is_large


def suits(g: Geometry) -> bool:
    """Whether tiles are worth their packing; channels are pairs."""
    return g.c % 2 == 0 and is_large(g, 1)


def multiply(e: Emit, node: Node, g: Geometry) -> None:
    """Rounds the weights to bf16, packs them as `pack_real` does, then computes the convolution."""
    choice = pick_real(g, e.threads, l2=level_two())
    slots = tile_slots(
        e, choice, Rows(e.address(node.x), e.address(node.out)), e.stride(node.out), _packed(e, node, g, choice)
    )
    slots |= {"addend_item": addend_item(node), **epilogue(e, node, long=True)}
    e.kernel("amx_real", choice.params, real_args(choice, **slots))


def _packed(e: Emit, node: Node, g: Geometry, choice: TileChoice) -> Ref:
    """Panels in scratch, whose biases and columns past N are 0."""
    width, c = ROWS * choice.params["nt"], g.k // choice.runs
    panels, per_run = -(-g.n // width), -(-c // NUMBERS)
    lines = choice.runs * per_run
    column = LINE * lines
    rounded = e.scratch(g.groups * panels * width * column)
    for i in range(g.groups):
        x, y = e.address(node.y, 4 * i * g.n * g.k), rounded.plus(i * panels * width * column)
        rows: dict[str, Slot] = {"x": x, "ldx": c, "c": c, "y": y, "ldy": per_run * NUMBERS}
        e.kernel("round_bf16", {}, {**rows, "rows": g.n * choice.runs}, share=0.0)
    zero, missing = (e.constant(np.zeros(1, np.int8)), (0, 0)), panels * width - g.n
    emit_copy(e, (g.groups, missing * column), 1, zero, (rounded.plus(g.n * column), (panels * width * column, 1)))
    count, size, tile = g.groups * panels, panel_bytes_real(width // ROWS, lines, 1, "bf16"), LINE * ROWS
    packed = e.scratch(count * size)
    emit_copy(e, (count, 4 * width), 1, zero, (packed, (size, 1)))
    shape = (count, lines, width // ROWS, ROWS, ROWS)
    source = (rounded, (width * column, LINE, ROWS * column, 4, column))
    emit_copy(e, shape, 4, source, (packed.plus(4 * width), (size, tile * width // ROWS, tile, LINE, 4)))
    return packed
