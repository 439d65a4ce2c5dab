"""Inputs of recurrent layers that are rounded to bytes by the range of all of them, and what multiplies them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ir import Node
from ....kernels.gemm.pack import Arrangement
from ....kernels.gemm.pack_int8 import Words
from ....kernels.gemm.pick_dot import DotPiece, Product
from ....kernels.gemm.pick_dynamic import pick_dot_dynamic, stays_narrow
from ....kernels.gemm.pick_int8 import Sums
from ....kernels.isa.tiers import Tier
from ....kernels.recurrent.pack_recurrent import blocks, by_block
from ...layer import Integers
from ...program import Ref
from ..gemm.calls import Columns, columns_of, panels
from ..gemm.dynamic import Images, round_to
from ..registry import Emit
from .weights import Constants, Panels


def rounded(e: Emit, node: Node, rows: int, inputs: int) -> tuple[Ref, Ref]:
    """Write the steps that round the rows of a node's x; the addresses of the bytes, and of their range."""
    images = Images(1, rows, inputs)
    x = e.scratch(images.count)
    return x, round_to(e, node, images, "onnx", "u8", x, 0.0)


def for_bytes(e: Emit, gates: int, c: Constants, found: Panels) -> Panels:
    """The panels of a layer with those of s8 weights for rounded inputs."""
    directions, rows, inputs = c.w.shape
    n = directions * blocks(rows // gates, e.tier.lanes) * gates * e.tier.lanes

    def pieces(m: int, matrices: int, ldx: int) -> Sequence[DotPiece]:
        narrow = stays_narrow(e.tier, m, inputs, False)
        return pick_dot_dynamic(e.tier, Product(m, n, inputs, matrices, ldx), e.threads, False, Sums("words"), narrow)

    def of_inputs(piece: DotPiece) -> Ref:
        narrow = piece.params["narrow"]
        return e.packed(_packed, e.tier, c.w, c.bias, c.input_scales, gates, columns_of(piece), narrow)

    return found._replace(pieces=pieces, inputs=of_inputs, rounds=True)


def _packed(
    tier: Tier, w: np.ndarray, bias: np.ndarray | None, scales: np.ndarray, gates: int, columns: Columns, narrow: bool
) -> np.ndarray:
    """Panels of some columns, of s8 w [D, gates * hidden, I] with scales and biases [D, gates * hidden]."""
    rows = by_block(w, gates, tier.lanes).reshape(-1, w.shape[-1])
    multipliers = by_block(scales, gates, tier.lanes).reshape(-1)
    own = 0 * multipliers if bias is None else by_block(bias, gates, tier.lanes).reshape(-1)
    numbers = Integers(rows, np.zeros(len(rows), np.int64), own, multipliers, ranged=True)
    return panels(tier, numbers, Arrangement(), 0, columns, Words(w.shape[-1], narrow=narrow))
