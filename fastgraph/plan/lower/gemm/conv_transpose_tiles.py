"""Transposed convolutions on AMX tiles: convolutions that each make outputs a stride apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....cpus import level_two
from ....freedoms import free
from ....ir import Node
from ....kernels.amx.pack_real import pack_real
from ....kernels.amx.pick_real import pick_real, real_args
from ....kernels.gemm.pack_bf16 import balanced
from ....kernels.gemm.pick_conv import Geometry
from ....kernels.gemm.pick_conv_transpose import Transposed, phases
from ....kernels.isa.tiers import multiplies_tiles
from ...layer import Reals
from ..emit import Rows
from ..epilogue import epilogue
from ..registry import Emit
from .calls import tile_slots
from .layer_amx import PARTS, ROUNDED, Parts, fits, times

Taps = tuple[tuple[int, ...], tuple[int, ...]]


class Part(NamedTuple):
    """Outputs from `first` (row, column) on, `step` pixels apart in a row: a convolution with some taps (rows,
    columns). Of a window without overlap a row of taps is more output channels."""

    first: tuple[int, int]
    step: int
    taps: Taps
    g: Geometry


def parts_of(g: Transposed, ldx: int, ldy: int) -> list[Part]:
    """The convolutions that make y; none where `phases` has none."""
    if not g.disjoint or ldy != g.n:
        return [Part(each.first, g.strides[2], each.taps, each.g) for each in phases(g, ldx) or ()]
    (d, h, w), (_, k_h, k_w) = g.size, g.kernel
    x = d * h * w * ldx, h * w * ldx, w * ldx, ldx
    line = Geometry(g.images, 1, g.c, k_w * g.n, g.size, (1, 1, 1), g.size, x, gaps=h > 1)
    return [Part((row, 0), k_w, ((row,), tuple(range(k_w))), line) for row in range(k_h)]


def best(e: Emit, weights: np.ndarray, found: list[Part]) -> tuple[float, Parts] | None:
    """The cycles on tiles, and what numbers become there; None where tiles can't multiply them."""
    if not found or not multiplies_tiles(e.tier) or not (free("amx_real") and free("phases")):
        return None
    suiting = [
        (sum(times(parts, part.g)[0] for part in found), parts)
        for parts in PARTS.get(e.precision, ())
        if all(fits(parts, part.g, weights, e.tier) for part in found)
    ]
    return min(suiting, default=None)


def convolve(e: Emit, node: Node, g: Transposed, reals: Reals, found: list[Part], parts: Parts) -> None:
    """Compute y part by part."""
    ldy = e.stride(node.out)
    for part in found:
        choice = pick_real(part.g, e.threads, *parts, level_two())
        sizes = choice.runs, choice.run, choice.params["nt"]
        panels = e.packed(_panels, *reals, part.taps, (g.groups, *g.kernel, part.g.n), sizes, parts)
        row, column = part.first
        rows = Rows(e.address(node.x), e.address(node.out, 4 * (row * g.out[2] + column) * ldy))
        slots = tile_slots(e, choice, rows, part.step * ldy, panels)
        args = real_args(choice, y_y=g.strides[1] * g.out[2] * ldy, **slots, **epilogue(e, node))
        made = part.g.out[1] * part.g.out[2] * part.g.n
        e.kernel("amx_real", choice.params, args, share=made / (g.out[1] * g.out[2] * g.n))


def _panels(
    weights: np.ndarray, bias: np.ndarray | None, taps: Taps, shape: tuple[int, ...], sizes: tuple[int, ...],
    parts: Parts,
) -> np.ndarray:  # fmt: skip
    """shape: groups, the kernel, output channels of each group; sizes: runs, their taps, tiles of a panel."""
    (groups, _, *kernel, n), (runs, run, nt), (y, x) = shape, sizes, taps
    c = weights.shape[-1]
    taken = weights.reshape(len(weights), *kernel, c)[:, y][:, :, x]
    if n * groups != len(weights):  # taps of a row are output channels
        taken = np.moveaxis(taken, 2, 0).reshape(n, 1, 1, c)
        bias = None if bias is None else np.tile(bias, n // len(bias))
    own = balanced(taken) if parts == ROUNDED else taken
    lines = own.reshape(groups, n, runs, run, -1)
    return pack_real(lines, None if bias is None else bias.reshape(groups, n), nt, *parts)
