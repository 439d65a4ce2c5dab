"""Matrix products: dense layers, 1x1 convolution, convolution, matrix product of two activations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...freedoms import free
from ...ir import Node, Value
from ...kernels.gemm.pack import merge_groups, pack_weights
from ...kernels.gemm.pack_winograd import pack_winograd
from ...kernels.gemm.pick_conv import Geometry, conv_args, merge_factor, pick_conv
from ...kernels.gemm.pick_dot import dot_args, pick_dot
from ...kernels.gemm.pick_winograd import best_winograd, pick_winograd
from ...ops.chain import extra_kind
from ...ops.registry import OPS
from ..program import Ref
from .registry import Arg, Emit, is_f32, last, lowers, row_count
from .spatial import is_near, three

Extra = tuple[Ref, int, int]

WINOGRAD = 4
"""The largest Winograd tile used: 2 is more exact than the plain sum, 4 errs up to twice as much as it."""


def extra_values(node: Node) -> list[Value]:
    """The operands of a node's chain."""
    return [v for v in node.inputs[OPS[node.op].extras_at :] if v is not None]


def extra_kinds(node: Node) -> tuple[str, ...]:
    """How each operand of the chain is spread over the output."""
    kinds = [extra_kind(v, node.out) for v in extra_values(node)]
    assert all(kinds)
    return tuple(str(kind) for kind in kinds)


def extra_places(e: Emit, node: Node, row: int = 0) -> list[Extra]:
    """(address of row `row`, f32 per image, f32 per row) of each operand of the chain."""
    images = node.out.type.dims[0] if len(node.out.type.dims) > 1 else 1
    places = []
    for value, kind in zip(extra_values(node), extra_kinds(node), strict=True):
        stride = e.stride(value)
        full = (stride * row_count(node.out) // max(images, 1), stride)
        per_image, per_row = {"full": full, "image": (stride, 0)}.get(kind, (0, 0))
        places.append((e.address(value, 4 * per_row * row), per_image, per_row))
    return places


def slots(places: Sequence[Extra]) -> list[Arg]:
    """The places one after the other, as a record ends with them."""
    return [slot for place in places for slot in place]


def parameters(node: Node) -> tuple[np.ndarray, np.ndarray | None]:
    """Constant weights and bias."""
    weights, bias = node.const(1), node.const(2)
    assert weights is not None
    return weights, bias


def has_constants(node: Node) -> bool:
    """Whether a layer is all f32, not empty, and its weights and bias are constants."""
    w, b = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
    fixed = w is not None and w.data is not None and (b is None or b.data is not None)
    return fixed and is_f32(node) and node.out.type.size > 0 and node.x.type.size > 0


@dataclass(frozen=True)
class Rows:
    """`count` rows of a node's result from row `start` on: where they are read and written, and how far apart.

    A convolution's rows are pixels; x is where the first one is read.
    """

    x: Ref
    ldx: int
    y: Ref
    ldy: int
    start: int
    count: int


def all_rows(e: Emit, node: Node) -> Rows:
    """The whole result, in its place."""
    return Rows(e.address(node.x), e.stride(node.x), e.address(node.out), e.stride(node.out), 0, row_count(node.out))


@lowers("dense", match=has_constants, strided_in=True, strided_out=True, in_place=True)
def dense(e: Emit, node: Node, _: Any) -> None:
    dot(e, node, all_rows(e, node))


def dot(e: Emit, node: Node, rows: Rows) -> None:
    """Rows of a dense layer or of a convolution that is one: x times weights, with bias and chain."""
    weights, bias = parameters(node)
    weights = weights.reshape(weights.shape[0], -1)
    chain, kinds = node.attrs.get("chain", ()), extra_kinds(node)
    n, k = weights.shape
    images = node.out.type.dims[0] if "image" in kinds else 1
    m = rows.count // images
    places = extra_places(e, node, rows.start)
    for piece in pick_dot(e.tier, m, n, k, images, e.threads, chain, kinds, rows.ldx):
        part = slice(piece.start, piece.start + piece.columns)

        def packed(part: slice = part, nv: int = piece.nv) -> np.ndarray:
            return pack_weights(weights[part], None if bias is None else bias[part], nv, e.tier.lanes)

        key = (*node.inputs[1:3], piece.start, piece.columns, piece.nv)
        args = dot_args(
            piece, a=rows.x, lda=rows.ldx, b=e.packed(key, packed), c=rows.y, ldc=rows.ldy, m=m, k=k, batch=images,
            a_stride=m * rows.ldx, c_stride=m * rows.ldy,
        )  # fmt: skip
        e.kernel("dot", piece.params, args, slots(places), rows.count / row_count(node.out) * piece.columns / n)


def is_depthwise(node: Node) -> bool:
    """Whether each output channel of a convolution sees one input channel."""
    return node.attrs["groups"] > 1 and node.attrs["groups"] == last(node.x)


def is_dense(node: Node) -> bool:
    """Whether a convolution is a dense layer of every pixel."""
    a, w = node.attrs, node.inputs[1]
    assert w is not None
    ones = all(v == 1 for v in (*w.type.dims[1:-1], *a["strides"], a["groups"]))
    return ones and not any(a["pads"])


def _convolves(node: Node) -> bool:
    return has_constants(node) and not is_depthwise(node) and len(node.x.type.dims) <= 5 and is_near(node)


@lowers("conv", match=_convolves, strided_in=True, strided_out=True, in_place=True)
def conv(e: Emit, node: Node, _: Any) -> None:
    weights, bias = parameters(node)
    if is_dense(node):
        dot(e, node, all_rows(e, node))
        return
    groups = node.attrs["groups"]
    factor = merge_factor(e.tier, groups, weights.shape[0] // groups) if groups > 1 else 1
    if factor > 1:
        weights, groups = merge_groups(weights, groups, factor), groups // factor
    g = geometry(e, node, weights, groups)
    if free("winograd") and (m := best_winograd(e.tier, g, WINOGRAD)) is not None:
        winograd(e, node, g, m, weights, bias)
        return
    chain, kinds, places = node.attrs.get("chain", ()), extra_kinds(node), extra_places(e, node)
    per_group = weights.reshape(groups, g.n, -1)
    biases = None if bias is None else bias.reshape(groups, g.n)
    for piece in pick_conv(e.tier, g, e.threads, chain, kinds):
        part = slice(piece.start, piece.start + piece.columns)
        packed = pack_weights(
            per_group[:, part], None if biases is None else biases[:, part], piece.nv, e.tier.lanes
        )
        args = conv_args(
            piece, x=e.address(node.x), w=e.constant(packed), y=e.address(node.out), ldy=e.stride(node.out),
            table=e.constant(piece.table), scratch=e.scratch(piece.scratch * e.threads),
        )  # fmt: skip
        e.kernel("conv", piece.params, args, slots(places), piece.columns / g.n)


def winograd(
    e: Emit, node: Node, g: Geometry, m: int, weights: np.ndarray, bias: np.ndarray | None
) -> None:
    """A 3x3 convolution with fewer products: m x m outputs at a time (Lavin and Gray 2016)."""
    choice = pick_winograd(e.tier, g, m, e.threads, node.attrs.get("chain", ()), extra_kinds(node))
    packed = pack_winograd(weights, bias, m, choice.nv, e.tier.lanes)
    args = {
        **choice.fields, "x": e.address(node.x), "w": e.constant(packed), "y": e.address(node.out),
        "ldy": e.stride(node.out), "scratch": e.scratch(choice.scratch * e.threads),
    }  # fmt: skip
    e.kernel("winograd", choice.params, args, slots(extra_places(e, node)))


def geometry(e: Emit, node: Node, weights: np.ndarray, groups: int) -> Geometry:
    """The convolution in three dimensions, leading ones added."""
    a, x, out, row = node.attrs, node.x.type.dims, node.out.type.dims, e.stride(node.x)
    size, kernel = three(x[1:-1]), three(weights.shape[1:-1])
    plane = row * size[1] * size[2]
    return Geometry(
        images=x[0], groups=groups, c=weights.shape[-1], n=weights.shape[0] // groups, size=size, kernel=kernel,
        out=three(out[1:-1]), x_strides=(plane * size[0], plane, row * size[2], row),
        strides=three(a["strides"]), dilations=three(a["dilations"]),
        pads=three(a["pads"][: len(x) - 2], 0),
    )  # fmt: skip


def multiplies(node: Node) -> bool:
    """Both operands are matrices or equally many matrices; or the second is one matrix for all rows of the first."""
    if node.out.type.size == 0 or node.x.type.size == 0:
        return False
    a, b = node.x.type.dims, node.inputs[1].type.dims  # type: ignore[union-attr]
    return len(a) >= 2 and len(b) >= 2 and (a[:-2] == b[:-2] or len(b) == 2)


@lowers("matmul", match=lambda node: is_f32(node) and multiplies(node))
def matmul(e: Emit, node: Node, _: Any) -> None:
    """Packs the second operand, at build time when it is constant, then multiplies."""
    x, y, out = node.x, node.inputs[1], node.out
    assert y is not None
    k, n = y.type.dims[-2:]
    matrices = y.type.size // (k * n)
    chain, kinds, lanes = node.attrs.get("chain", ()), extra_kinds(node), e.tier.lanes
    batch = out.type.dims[0] if "image" in kinds else matrices
    assert matrices in (1, batch)
    m = row_count(x) // batch
    places = [(address, m * per_row, per_row) if kind == "full" else (address, per_image, per_row)
              for (address, per_image, per_row), kind in zip(extra_places(e, node), kinds, strict=True)]  # fmt: skip
    for piece in pick_dot(e.tier, m, n, k, batch, e.threads, chain, kinds):
        panel = -(-piece.columns // (piece.nv * lanes)) * (1 + k) * piece.nv * lanes
        if y.data is not None:
            weights = y.data.reshape(matrices, k, n).transpose(0, 2, 1)[:, piece.start : piece.start + piece.columns]
            packed = e.constant(pack_weights(weights, None, piece.nv, lanes))
        else:
            packed = e.scratch(4 * matrices * panel)
            pack: dict[str, Arg] = {
                "b": e.address(y, 4 * piece.start), "ldb": n, "packed": packed, "n": piece.columns, "k": k,
                "batch": matrices, "b_stride": k * n,
            }  # fmt: skip
            e.kernel("pack_b", {"nv": piece.nv}, pack)
        args = dot_args(
            piece, a=e.address(x), lda=k, b=packed, c=e.address(out), ldc=n, m=m, k=k, batch=batch,
            a_stride=m * k, b_stride=panel if matrices > 1 else 0, c_stride=m * n,
        )  # fmt: skip
        e.kernel("dot", piece.params, args, slots(places), piece.columns / n)
