"""Product of two matrices of u8 that are only known at run time: the second is packed, then multiplied."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Node
from ...kernels.gemm.pack_int8 import panel_bytes
from ...kernels.gemm.pick_dot import dot_args
from ...kernels.gemm.pick_int8 import pick_dot_int8
from .extras import extra_values
from .gemm.matmul import multiplies
from .quantized import clamps_only, f32_bits, multipliers, per_tensor, zero_point
from .quantized_layer import out_kind, stored_as
from .registry import Emit, lowers, row_count

_NV = 4
"""Vectors in a panel, as pack_b_int8 makes them."""


def _multiplies(node: Node) -> bool:
    x, y = node.inputs[:2]
    if y is None or y.data is not None or not per_tensor(x, np.uint8) or not per_tensor(y, np.uint8):
        return False
    # Interleaving puts the columns in the order of results that are packed to bytes.
    if out_kind(node.out) not in ("u8", "s8") or not clamps_only(node) or extra_values(node) or not multiplies(node):
        return False
    return 255 * 255 * node.x.type.dims[-1] < 2**31


@lowers("matmul", match=_multiplies)
def matmul(e: Emit, node: Node, _: Any) -> None:
    x, y, out = node.x, node.inputs[1], node.out
    assert y is not None
    k, n = y.type.dims[-2:]
    batch, kind = y.type.size // (k * n), out_kind(out)
    m = row_count(x) // batch
    assert kind is not None
    (piece,) = pick_dot_int8(e.tier, m, n, k, kind, True, batch, e.threads, nv=_NV)
    panels = -(-n // (_NV * e.tier.lanes)) * panel_bytes(e.tier, _NV, True, -(-k // 4))
    packed = e.scratch(batch * panels)
    # Packing takes 128 from the bytes of y, and so from its zero point.
    zx, zy = zero_point(x), zero_point(y) - 128
    e.kernel("pack_b_int8", {}, {
        "b": e.address(y), "ldb": n, "packed": packed, "n": n, "k": k, "batch": batch, "b_stride": k * n,
        "minus_zero_a": -zx, "start": k * zx * zy, "multiplier": f32_bits(multipliers(x, y, out, 1)[0]),
        "minus_zero_b": -zy,
    })  # fmt: skip
    args = dot_args(
        piece, a=e.address(x), lda=k, b=packed, c=e.address(out), ldc=n, m=m, k=-(-k // 4), batch=batch,
        a_stride=m * k, b_stride=panels // 4, c_stride=m * n, **stored_as(node),
    )  # fmt: skip
    e.kernel("dot_int8", piece.params, args)
