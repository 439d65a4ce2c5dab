"""Convolutions whose weights are computed: they are packed in each run."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....cpus import level_two
from ....ir import Node
from ....kernels.gemm.pick_conv import Geometry, conv_args, pick_conv
from ....kernels.isa.tiers import multiplies_tiles
from ....kernels.move.copy_plan import dense
from ....kernels.window.pick import Window, depthwise_any, depthwise_tiles
from ...layer import form_of, geometry, window
from ...program import Ref
from ..epilogue import epilogue, product_ending
from ..moves import emit_copy
from ..registry import Emit, Slot, is_f32, last, lowers
from .calls import window_slots


def _opened(node: Node, form: str) -> Window | None:
    """The window of a convolution of that form, in f32 without bias, whose weights are no constant; None for others."""
    x = node.x
    if node.y.data is not None or node.input(2) is not None or not is_f32(node) or form_of(node) != form:
        return None
    return window(node) if len(x.type.dims) <= 5 and x.type.size and node.out.type.size else None


def _geometry(node: Node) -> Geometry | None:
    """Its padding is multiplied, as weights may turn out to be NaN or infinite."""
    found = _opened(node, "conv")
    return found and geometry(found, node.attrs["groups"], node.y.type.dims[-1], last(node.x), 4)._replace(zeros=False)


@lowers("conv", match=_geometry, strided_out=True)
def open_conv(e: Emit, node: Node, g: Geometry) -> None:
    """Packs the weights as [groups, taps and channels, outputs], then computes the convolution."""
    if e.precision == "bfloat16" and multiplies_tiles(e.tier):
        from . import open_conv_tiles

        if open_conv_tiles.suits(g):
            open_conv_tiles.multiply(e, node, g)
            return
    from .matmul import emit_pack

    turned = _turned(e, node, g.groups)
    own: dict[str, Any] = {"x": node.x, "y": node.out, "ldy": e.stride(node.out), **product_ending(e, node)}
    for piece in pick_conv(e.tier, g, e.threads, level_two()):
        source: dict[str, Slot] = {"b": turned.plus(4 * piece.start), "ldb": g.n, "b_stride": g.k * g.n}
        packed = emit_pack(e, source, (g.groups, g.k, piece.columns), piece.nv)
        args = conv_args(piece, w=packed, scratch=e.scratch(piece.scratch * e.threads), **own)
        e.kernel("conv", piece.params, args, share=piece.columns / g.n)


@lowers("conv", match=lambda node: _opened(node, "depthwise"), strided_out=True)
def open_depthwise(e: Emit, node: Node, of: Window) -> None:
    """Turns the weights to [taps, channels], then computes the windows of each channel."""
    multiplier = of.channels // last(node.x)
    tiles = depthwise_tiles(e.tier, of) if multiplier == 1 else None
    kernel, params = ("depthwise", tiles) if tiles else ("depthwise_any", depthwise_any(e.tier, of, multiplier))
    own: dict[str, Slot] = {} if tiles else {"multiplier": multiplier, "across": 0}
    own |= {"x": node.x, "ldx": last(node.x), "y": node.out, "ldy": e.stride(node.out)}
    own |= {"weights": _turned(e, node, 1), "bias": e.constant(np.zeros(of.channels, np.float32))}
    ending = epilogue(e, node, in_place=True, long=e.tier.registers >= 32)
    e.kernel(kernel, params, {**window_slots(e, kernel, params, of), **ending, **own})


def _turned(e: Emit, node: Node, groups: int) -> Ref:
    """Writes the weights to scratch as [groups, taps and channels, outputs of a group]."""
    w = node.y.type
    n = w.dims[0] // groups
    k = w.size // w.dims[0]
    turned, shape = e.scratch(w.nbytes), (groups, k, n)
    emit_copy(e, shape, 4, (e.address(node.y), (4 * k * n, 4, 4 * k)), (turned, dense(shape, 4)))
    return turned
