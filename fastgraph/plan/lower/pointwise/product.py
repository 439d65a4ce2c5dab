"""Products of matrices of whole numbers of 4 and 8 bytes, and of f64; of f32 where operands broadcast otherwise."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from ....ir import Node
from ..gemm.matmul import multiplies
from ..registry import Emit, lowers
from .cast import number

TYPES = ("int32", "uint32", "int64", "uint64", "float32", "float64")


class Matrices(NamedTuple):
    """Extents of a product, and the elements from one A, and one B, to the next."""

    batch: int
    m: int
    k: int
    n: int
    a_batch: int
    b_batch: int


def _match(node: Node) -> Matrices | None:
    """Operands of one type whose matrices are as many as the results, or one for all."""
    if len(node.inputs) != 2 or "chain" in node.attrs:
        return None
    x, y = (v.type for v in node.inputs if v is not None)
    out = node.out.type
    if not x.concrete or not y.concrete or x.quant or y.quant or x.dtype != y.dtype or out.dtype != x.dtype:
        return None
    if np.dtype(x.dtype).name not in TYPES or not x.size or not y.size or not x.dims or not y.dims:
        return None
    a, b = x.dims if len(x.dims) > 1 else (1, *x.dims), y.dims if len(y.dims) > 1 else (*y.dims, 1)
    if x.dtype == np.float32 and multiplies(node):
        return None
    m, k, n = a[-2], a[-1], b[-1]
    batch = out.size // (m * n)
    sizes = [prod(a[:-2]), prod(b[:-2])]
    if any(size not in (1, batch) for size in sizes):
        return None
    return Matrices(batch, m, k, n, m * k * (sizes[0] > 1), k * n * (sizes[1] > 1))


@lowers("matmul", match=_match)
def product(e: Emit, node: Node, found: Matrices) -> None:
    y, dtype = node.inputs[1], node.x.type.dtype
    assert y is not None and dtype is not None
    steps = {"a_batch": dtype.itemsize * found.a_batch, "b_batch": dtype.itemsize * found.b_batch}
    e.kernel("product", {"element": number(dtype)}, {"a": node.x, "b": y, "y": node.out, **found._asdict(), **steps})
