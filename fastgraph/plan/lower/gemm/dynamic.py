"""Rounding by the range of the values, and integer layers that begin with it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ....freedoms import free
from ....ir import Node
from ....kernels.gemm.pick_dynamic import parts_of, stays_narrow
from ....kernels.gemm.rows import GRIDS, RANGE_BYTES
from ....ops.window import is_near
from ...choose import choose
from ...layer import Integers, Layer, ranged_layer, window
from ...program import Ref
from ..emit import Rows
from ..moves import emit_copy
from ..registry import Emit, Slot, is_f32, lowers
from .layer_ranged import CANDIDATES, Rounding


@dataclass(frozen=True)
class Images:
    """x as [images, rows, run] for rounding, each image by its own range or all by one; pads surround an image."""

    images: int
    rows: int
    run: int
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Rows above, numbers left, rows below, numbers right."""
    together: bool = False
    """Whether the images have one range."""

    @property
    def count(self) -> int:
        """The number of rounded numbers, pads included."""
        top, left, bottom, right = self.pads
        return self.images * (top + self.rows + bottom) * (left + self.run + right)


def images_of(node: Node) -> Images:
    """x divided into ranges (`per`) and into the shares of threads."""
    dims, per = node.x.type.dims, node.attrs["per"]
    if per == "row":
        return Images(prod(dims[:-1]), 1, dims[-1])
    own, first = (1, dims[:1]) if per == "tensor" else (dims[0], dims[1:2] if len(dims) > 2 else ())
    rows = prod(first) if len(dims) > 1 else 1
    return Images(own, rows, node.x.type.size // (own * rows))


def round_to(e: Emit, node: Node, of: Images, grid: str, out: str, y: Ref, share: float) -> Ref:
    """Write the steps that round a node's x to y (u8 or f32); returns the address of the ranges."""
    own = 1 if of.together else of.images
    count = node.x.type.size // own
    parts = parts_of(own, count, e.threads)
    extremes, ranges = e.scratch(8 * parts * own), e.scratch(RANGE_BYTES * own)
    both: dict[str, Slot] = {"x": node.x, "parts": parts, "extremes": extremes}
    e.kernel("extremes", {}, {**both, "images": own, "count": count}, share=share)
    pads = dict(zip(("top", "left", "bottom", "right"), of.pads, strict=True))
    numbers = {"grid": GRIDS.index(grid), "rows": of.rows, "run": of.run, "images": of.images, **pads}
    how = {"per_image": int(not of.together), "whole": int(node.op == "dynamic_round" and len(node.outputs) > 1)}
    e.kernel("dynamic_round", {"out": out}, {**both, **numbers, **how, "ranges": ranges, "y": y}, share=share)
    return ranges


def _rounds(node: Node) -> Images | None:
    return images_of(node) if is_f32(node) and node.x.type.size > 0 else None


@lowers("dynamic_round", match=_rounds, in_place=True)
def dynamic_round(e: Emit, node: Node, of: Images) -> None:
    ranges = round_to(e, node, of, node.attrs["grid"], "f32", e.address(node.outputs[0]), 0.5)
    for step in node.outputs[1:]:
        emit_copy(e, (1,), 4, (ranges, (4,)), (e.address(step), (4,)))


@lowers("dynamic_dense", match=ranged_layer, strided_out=True)
def dense(e: Emit, node: Node, layer: Layer[Integers]) -> None:
    _multiply(e, node, layer, images_of(node))


def _convolution(node: Node) -> Layer[Integers] | None:
    """The convolution, of up to two dimensions and not rounded by rows; None for others."""
    layer = ranged_layer(node) if node.attrs["per"] != "row" and is_near(node) else None
    return layer if layer and layer.form != "depthwise" and len(node.x.type.dims) in (3, 4) else None


@lowers("dynamic_conv", match=_convolution, strided_out=True)
def conv(e: Emit, node: Node, layer: Layer[Integers]) -> None:
    """The map is rounded into a padded one."""
    where, c = window(node), layer.inputs
    (_, h, w), (_, top, left), (_, bottom, right) = where.size, where.pads, where.ends
    images = Images(where.images, h, w * c, (top, left * c, bottom, right * c), node.attrs["per"] == "tensor")
    if layer.form == "conv":
        size = (1, top + h + bottom, left + w + right)
        layer = layer._replace(window=where._replace(size=size, pads=(0, 0, 0), ends=(0, 0, 0)))
    _multiply(e, node, layer, images)


def _multiply(e: Emit, node: Node, layer: Layer[Integers], of: Images) -> None:
    """Write the steps of the layer on rounded bytes."""
    stored = e.scratch(of.count)
    ranges = round_to(e, node, of, node.attrs["grid"], "u8", stored, 0.0)
    layer = layer._replace(ldx=layer.inputs, ldy=e.stride(node.out))
    how = _rounding(e, node, layer, ranges)
    choose(CANDIDATES, layer, e.tier).emit(e, node, layer, Rows(stored, e.address(node.out)), how)


def _rounding(e: Emit, node: Node, layer: Layer[Integers], ranges: Ref) -> Rounding:
    """The rounding by these ranges. Batches of a dense layer are images for the chain only."""
    images = node.x.type.dims[0] if node.op == "dynamic_conv" else layer.window.images
    zeros, per = bool(layer.numbers.zeros.any()), node.attrs["per"]
    narrow = free("byte_weights") and stays_narrow(e.tier, layer.pixels, layer.inputs, zeros)
    per_image = {"row": layer.pixels // images, "tensor": 0, "batch": 1}[per]
    slots: dict[str, Slot] = {"ranges": ranges, "per_image": per_image, "per_row": int(per == "row")}
    return Rounding(slots, images, narrow=narrow)
