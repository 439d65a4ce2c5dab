"""The product of a recurrent layer's inputs with constant weights on AMX tiles, where these are faster."""

from __future__ import annotations

import numpy as np

from ....cpus import level_two
from ....freedoms import free
from ....kernels.amx.pack_real import pack_real
from ....kernels.amx.pick_real import pick_real, real_args
from ....kernels.gemm.pack_bf16 import balanced
from ....kernels.gemm.pick_conv import Geometry, plain_cycles
from ....kernels.gemm.pick_winograd import reading_times
from ....kernels.pointwise.rows import NO_EPILOGUE
from ....kernels.recurrent.pack_recurrent import by_block
from ..emit import Rows
from ..gemm.calls import tile_slots
from ..gemm.layer_amx import PARTS, ROUNDED, Parts, fits, times
from ..registry import Emit
from .weights import Constants


def parts_of(e: Emit, g: Geometry, c: Constants) -> Parts | None:
    """The element type of inputs and weights for tiles; None where f32's products are as fast, or more exact."""
    plain = reading_times(plain_cycles(e.tier, g), g.k * g.n)
    weights = c.w.reshape(-1, g.k)
    for parts in PARTS.get(e.precision, ()) if free("amx_real") else ():
        if fits(parts, g, weights, e.tier) and all(x < y for x, y in zip(times(parts, g), plain, strict=True)):
            return parts
    return None


def multiply(e: Emit, parts: Parts, g: Geometry, c: Constants, gates: int, rows: Rows, share: float) -> None:
    """Write the product of rows with the weights of all directions, plus biases. share: of the node's work."""
    choice = pick_real(g, e.threads, *parts, level_two())
    panels = e.packed(_panels, c.w, c.bias, gates, e.tier.lanes, (choice.runs, choice.params["nt"]), parts)
    args = real_args(choice, **tile_slots(e, choice, rows, g.n, panels), **NO_EPILOGUE)
    e.kernel("amx_real", choice.params, args, share=share)


def _panels(
    w: np.ndarray, bias: np.ndarray | None, gates: int, lanes: int, sizes: tuple[int, int], parts: Parts
) -> np.ndarray:
    """Of w [D, gates * hidden, I] and bias [D, gates * hidden]; sizes: runs, tiles of a panel."""
    k, (runs, nt) = w.shape[-1], sizes
    rows = balanced(w.reshape(-1, k)).reshape(w.shape) if parts == ROUNDED else w
    own = None if bias is None else by_block(bias, gates, lanes).reshape(1, -1)
    return pack_real(by_block(rows, gates, lanes).reshape(1, -1, runs, 1, k // runs), own, nt, *parts)
