"""Rounding by the range that values have, and the layers of integers that begin with it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ....ir import Node, Value
from ....kernels.gemm.pack import Arrangement, arranged
from ....kernels.gemm.pack_int8 import Head, pack_int8
from ....kernels.gemm.pick_conv import conv_args
from ....kernels.gemm.pick_dot import Product, dot_args
from ....kernels.gemm.pick_dynamic import parts_of, pick_conv_dynamic, pick_dot_dynamic
from ....kernels.gemm.rows import GRIDS, RANGE_BYTES
from ....kernels.isa.tiers import Tier
from ...program import Arg, Ref
from ..epilogue import epilogue
from ..extras import chain_of
from ..move.emit import emit_copy
from ..quantized import quant, scales
from ..registry import Emit, is_f32, lowers, row_count
from ..spatial import is_near, three
from .common import Columns, columns_of, geometry, is_dense, is_depthwise, merge_narrow


@dataclass(frozen=True)
class Images:
    """How x [images, rows, run] is rounded, each image by its own range or all by one; pads are around an image's
    bytes.
    """

    images: int
    rows: int
    run: int
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Rows above, numbers left, rows below, numbers right."""
    together: bool = False
    """Whether the images have one range."""

    @property
    def count(self) -> int:
        """Numbers that are made."""
        top, left, bottom, right = self.pads
        return self.images * (top + self.rows + bottom) * (left + self.run + right)


def images_of(node: Node) -> Images:
    """What has a range of its own, and what threads share of it."""
    dims, per = node.x.type.dims, node.attrs["per"]
    if per == "row":
        return Images(prod(dims[:-1]), 1, dims[-1])
    own, first = (1, dims[:1]) if per == "tensor" else (dims[0], dims[1:2] if len(dims) > 2 else ())
    rows = prod(first) if len(dims) > 1 else 1
    return Images(own, rows, node.x.type.size // (own * rows))


def round_to(e: Emit, node: Node, of: Images, out: str, y: Ref, share: float) -> Ref:
    """Write the steps that round a node's x to y (u8 or f32); where the ranges are."""
    own = 1 if of.together else of.images
    count = node.x.type.size // own
    parts = parts_of(own, count, e.threads)
    extremes, ranges = e.scratch(8 * parts * own), e.scratch(RANGE_BYTES * own)
    both: dict[str, Arg] = {"x": e.address(node.x), "parts": parts, "extremes": extremes}
    e.kernel("extremes", {}, {**both, "images": own, "count": count}, share=share)
    pads = dict(zip(("top", "left", "bottom", "right"), of.pads, strict=True))
    numbers = {"grid": GRIDS.index(node.attrs["grid"]), "rows": of.rows, "run": of.run, "images": of.images, **pads}
    how = {"per_image": int(not of.together), "whole": int(node.op == "dynamic_round" and len(node.outputs) > 1)}
    e.kernel("dynamic_round", {"out": out}, {**both, **numbers, **how, "ranges": ranges, "y": y}, share=share)
    return ranges


def _rounds(node: Node) -> Images | None:
    return images_of(node) if is_f32(node) and node.x.type.size > 0 else None


@lowers("dynamic_round", match=_rounds, in_place=True)
def dynamic_round(e: Emit, node: Node, of: Images) -> None:
    ranges = round_to(e, node, of, "f32", e.address(node.outputs[0]), 0.5)
    for step in node.outputs[1:]:
        emit_copy(e, (1,), 4, (ranges, (4,)), (e.address(step), (4,)))


def _multiplies(node: Node) -> bool:
    """Whether the weights are s8 constants, all else is f32, and the bias constant.

    That no sum leaves int32, the pass that makes these nodes has seen to.
    """
    w, b, *extras = (*node.inputs[1:3], *node.inputs[3:])
    if w is None or w.data is None or w.type.dtype != np.int8 or w.type.quant is None:
        return False
    if any(w.type.quant.zero_point) and node.attrs["per"] == "row":
        return False
    values = [node.x, node.out, *(v for v in (b, *extras) if v is not None)]
    if any(not v.type.concrete or v.type.dtype != np.float32 for v in values):
        return False
    return node.x.type.size > 0 and node.out.type.size > 0 and (b is None or b.data is not None)


def _has_zeros(node: Node) -> bool:
    """Whether weights have zero points."""
    return any(quant(node.inputs[1]).zero_point)  # type: ignore[arg-type]


def _packed(e: Emit, node: Node, columns: Columns, run: int, how: Arrangement) -> Ref:
    """Panels of some of the output channels of each group."""
    w, b = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
    return e.packed(_panels, e.tier, w, b, columns, run, how)


def _panels(tier: Tier, w: Value, b: Value | None, columns: Columns, run: int, how: Arrangement) -> np.ndarray:
    assert w.data is not None
    n, part = len(w.data), columns.part
    bias = np.zeros(n, np.float32) if b is None else b.data
    assert bias is not None
    points = np.broadcast_to(np.array(quant(w).zero_point, np.int64), n)
    own = arranged(w.data, how, points).reshape(how.merged, n // how.merged, -1)[:, part]
    zeros = points.reshape(how.merged, -1)[:, part]
    factors, biases = (v.reshape(how.merged, -1)[:, part] for v in (scales(w, n).astype(np.float32), bias))
    sums = (own.astype(np.int64).sum(axis=2) - zeros * own.shape[2]).astype(np.int32)
    minus = -zeros.astype(np.int32) if any(quant(w).zero_point) else None
    return pack_int8(tier, own, Head(sums, factors, minus, biases), columns.nv, run, "words")


def _dense(node: Node) -> Images | None:
    return images_of(node) if _multiplies(node) else None


@lowers("dynamic_dense", match=_dense, strided_out=True)
def dense(e: Emit, node: Node, of: Images) -> None:
    stored = e.scratch(of.count)
    ranges = round_to(e, node, of, "u8", stored, 0.0)
    dot(e, node, stored, ranges, node.out.type.dims[0] if "image" in chain_of(node)[1] else 1)


def dot(e: Emit, node: Node, x: Ref, ranges: Ref, images: int) -> None:
    """Rows of bytes times weights."""
    n, k, rows = node.out.type.dims[-1], node.x.type.dims[-1], row_count(node.out)
    m, ldy, per_row = rows // images, e.stride(node.out), node.attrs["per"] == "row"
    # Batches of a dense layer are images for the chain only.
    each = {"row": m, "tensor": 0, "batch": 1}[node.attrs["per"]]
    ending = epilogue(e, node)
    for piece in pick_dot_dynamic(e.tier, Product(m, n, k, images), e.threads, per_row, _has_zeros(node)):
        packed = _packed(e, node, columns_of(piece), k, Arrangement())
        args = dot_args(
            piece, a=x, lda=k, b=packed, c=e.address(node.out), ldc=ldy, m=m, k=-(-k // 4),
            batch=images, a_stride=m * k, c_stride=m * ldy, ranges=ranges, per_image=each, per_row=int(per_row),
            **ending,
        )  # fmt: skip
        e.kernel("dot_dynamic", piece.params, args, share=piece.columns / n)


def _convolves(node: Node) -> Images | None:
    """The map is rounded into one with its padding around it."""
    if node.attrs["per"] == "row" or not _multiplies(node) or not is_near(node) or is_depthwise(node):
        return None
    dims = node.x.type.dims
    if len(dims) not in (3, 4):
        return None
    (_, h, w), c, pads = three(dims[1:-1]), dims[-1], node.attrs["pads"]
    (_, top, left), (_, bottom, right) = (three(half, 0) for half in (pads[: len(dims) - 2], pads[len(dims) - 2 :]))
    return Images(dims[0], h, w * c, (top, left * c, bottom, right * c), node.attrs["per"] == "tensor")


@lowers("dynamic_conv", match=_convolves, strided_out=True)
def conv(e: Emit, node: Node, of: Images) -> None:
    stored = e.scratch(of.count)
    ranges = round_to(e, node, of, "u8", stored, 0.0)
    if is_dense(node):
        dot(e, node, stored, ranges, of.images)
    else:
        _conv(e, node, stored, ranges, of)


def _conv(e: Emit, node: Node, x: Ref, ranges: Ref, of: Images) -> None:
    """A convolution of the map at x, which has its padding."""
    weights, c = node.inputs[1], node.x.type.dims[-1]
    assert weights is not None
    top, left, bottom, right = of.pads
    padded = (1, top + of.rows + bottom, (left + of.run + right) // c)
    assert weights.data is not None
    how, shape = merge_narrow(e.tier, weights.data, node.attrs["groups"])
    g = geometry(node, shape, how.merged, c, 1, padded)
    g, pieces = pick_conv_dynamic(e.tier, g, e.threads, _has_zeros(node))
    ending = epilogue(e, node)
    for piece in pieces:
        args = conv_args(
            piece, x=x, w=_packed(e, node, columns_of(piece), g.run, how), y=e.address(node.out),
            ldy=e.stride(node.out), taps=e.constant(piece.table), scratch=e.scratch(piece.scratch * e.threads),
            ranges=ranges, per_image=int(not of.together), per_row=0, **ending,
        )  # fmt: skip
        e.kernel("conv_dynamic", piece.params, args, share=piece.columns / g.n)
