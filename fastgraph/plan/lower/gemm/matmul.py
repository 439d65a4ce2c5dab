"""Products of two activations."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ....cpus import level_two
from ....ir import Node
from ....kernels.gemm.pack import pack_weights
from ....kernels.gemm.pack_int8 import panel_bytes
from ....kernels.gemm.pick_dot import FEW, Product, dot_args, few_block, few_columns, few_starts, pick_dot
from ....kernels.gemm.pick_int8 import Sums, pick_dot_int8
from ....kernels.gemm.rows import PACKED_WIDTHS
from ...layer import chain_of, extra_values, out_kind, stored_as
from ...program import Ref
from ...quantized import clamps_only, f32_bits, multipliers, per_tensor, zero_point
from ..elements import number
from ..epilogue import epilogue, product_ending
from ..registry import Emit, Slot, is_f32, lowers, row_count


def multiplies(node: Node) -> bool:
    """Whether both operands are matrices or equally many matrices, or the second is one matrix for all rows of the
    first."""
    if node.out.type.size == 0 or node.x.type.size == 0:
        return False
    a, b = node.x.type.dims, node.y.type.dims
    return len(a) >= 2 and len(b) >= 2 and (a[:-2] == b[:-2] or len(b) == 2)


@lowers("matmul", match=lambda node: is_f32(node) and multiplies(node))
def matmul(e: Emit, node: Node, _: Any) -> None:
    """Packs the second operand, at build time when it is constant, then multiplies; a product of few rows reads it
    unpacked."""
    x, y, out = node.x, node.y, node.out
    k, n = y.type.dims[-2:]
    matrices = y.type.size // (k * n)
    lanes = e.tier.lanes
    batch = out.type.dims[0] if "image" in chain_of(node)[1] else matrices
    assert matrices in (1, batch)
    m = row_count(x) // batch
    ends: dict[str, Slot] = {"a": x, "c": out, "m": m, "k": k, "batch": batch, "a_stride": m * k, "c_stride": m * n}
    if y.data is None and (m <= FEW or n == 1):
        ends |= epilogue(e, node, images=batch)
        own: dict[str, Slot] = {"b": y, "n": n, "b_stride": k * n if matrices > 1 else 0}
        own |= {"columns": few_columns(n, m) if n == 1 else 0, "start": e.packed(few_starts, None, n)}
        own |= {"lda": k, "ldc": n, "block": few_block(e.tier, n, batch, e.threads)}
        e.kernel("dot_few", {}, {**ends, **own})
        return
    ends |= product_ending(e, node, images=batch)
    for piece in pick_dot(e.tier, Product(m, n, k, batch, later=bool(ends["later"])), e.threads, level_two()):
        panels = _panel_size(piece.columns, k, piece.nv * lanes)
        if y.data is not None:
            weights = y.data.reshape(matrices, k, n).transpose(0, 2, 1)[:, piece.start : piece.start + piece.columns]
            packed = e.packed(_panels, weights, piece.nv, lanes)
        else:
            source: dict[str, Slot] = {"b": e.address(y, 4 * piece.start), "ldb": n, "b_stride": k * n}
            packed = emit_pack(e, source, (matrices, k, piece.columns), piece.nv)
        args = dot_args(piece, lda=k, b=packed, ldc=n, b_stride=panels if matrices > 1 else 0, **ends)
        e.kernel("dot", piece.params, args, share=piece.columns / n)


def emit_pack(e: Emit, source: Mapping[str, Slot], shape: tuple[int, int, int], nv: int) -> Ref:
    """Write a step that packs matrices [batch, k, columns] into scratch, in panels of nv vectors; source: where they
    lie."""
    batch, k, n = shape
    packed = e.scratch(4 * batch * _panel_size(n, k, nv * e.tier.lanes))
    e.kernel("pack_b", {"nv": nv}, {**source, "n": n, "k": k, "batch": batch, "packed": packed})
    return packed


def _panel_size(columns: int, k: int, width: int) -> int:
    """Numbers in the panels of a matrix."""
    return -(-columns // width) * (1 + k) * width


def _panels(weights: np.ndarray, nv: int, lanes: int) -> np.ndarray:
    return pack_weights(weights, None, nv, lanes)


def _bytes(node: Node) -> bool:
    x, y = node.x, node.inputs[1]
    if y is None or y.data is not None or not per_tensor(x, np.uint8) or not per_tensor(y, np.uint8):
        return False
    # Interleaving puts the columns in the order of results that are packed to bytes.
    if out_kind(node.out) != "bytes" or not clamps_only(node) or extra_values(node) or not multiplies(node):
        return False
    most = 255 * 255 * node.x.type.dims[-1]
    return most < 2**31 and most * float(multipliers(x, y, node.out, 1)[0]) < 2.0**31 - 128


@lowers("matmul", match=_bytes)
def matmul_int8(e: Emit, node: Node, _: Any) -> None:
    """Packs the second operand, then multiplies."""
    x, y, out = node.x, node.y, node.out
    k, n = y.type.dims[-2:]
    batch = y.type.size // (k * n)
    m = row_count(x) // batch
    # Packing takes 128 from the bytes of y, and so from its zero point.
    zx, zy = zero_point(x), zero_point(y) - 128
    head = {"start": k * zx * zy, "multiplier": f32_bits(multipliers(x, y, out, 1)[0])}
    head |= {"minus_zero_a": -zx, "minus_zero_b": -zy}
    for piece in pick_dot_int8(e.tier, Product(m, n, k, batch), Sums("bytes", rowsum=True), e.threads, PACKED_WIDTHS):
        panels = -(-piece.columns // (piece.nv * e.tier.lanes)) * panel_bytes(e.tier, piece.nv, True, -(-k // 4))
        packed = e.scratch(batch * panels)
        source: dict[str, Slot] = {"b": e.address(y, piece.start), "ldb": n, "b_stride": k * n}
        sizes = {"n": piece.columns, "k": k, "batch": batch}
        e.kernel("pack_b_int8", {"nv": piece.nv}, {**source, **sizes, **head, "packed": packed})
        strides = {"lda": k, "ldc": n, "a_stride": m * k, "b_stride": panels // 4, "c_stride": m * n}
        args = dot_args(piece, a=x, b=packed, c=out, m=m, k=-(-k // 4), batch=batch, **strides, **stored_as(node))
        e.kernel("dot_int8", piece.params, args, share=piece.columns / n)


TYPES = ("int32", "uint32", "int64", "uint64", "float32", "float64")


class Matrices(NamedTuple):
    """Extents of a product, and the elements from one A, and one B, to the next."""

    batch: int
    m: int
    k: int
    n: int
    a_batch: int
    b_batch: int


def _matrices(node: Node) -> Matrices | None:
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


@lowers("matmul", match=_matrices)
def product(e: Emit, node: Node, found: Matrices) -> None:
    y, dtype = node.y, node.x.type.element
    steps = {"a_batch": dtype.itemsize * found.a_batch, "b_batch": dtype.itemsize * found.b_batch}
    e.kernel("product", {"element": number(dtype)}, {"a": node.x, "b": y, "y": node.out, **found._asdict(), **steps})
