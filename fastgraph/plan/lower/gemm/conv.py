"""Convolutions whose windows have several pixels, or whose groups several channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....freedoms import free
from ....ir import Node
from ....kernels.gemm.pack import Arrangement, arranged, pack_weights
from ....kernels.gemm.pack_winograd import pack_winograd
from ....kernels.gemm.pick_conv import Geometry, conv_args, pick_conv, pixels_together, split_row, widened
from ....kernels.gemm.pick_int8 import pick_conv_int8, pixels_together_int8, word_of
from ....kernels.gemm.pick_winograd import best_winograd, pick_winograd, winograd_form
from ....kernels.isa.tiers import Tier
from ..epilogue import epilogue
from ..extras import extra_values
from ..quantized import zero_point
from ..quantized_layer import Layer, quantized_layer
from ..registry import Arg, Emit, lowers
from ..spatial import is_near
from .common import (
    Columns,
    Parameters,
    arranged_layer,
    columns_of,
    geometry,
    is_dense,
    is_depthwise,
    merge_narrow,
    panels,
    parameters,
)

WINOGRAD = 4
"""The largest Winograd tile used: 2 is more exact than the plain sum, 4 errs up to twice as much as it."""


def convolves(node: Node) -> bool:
    """Whether it is such a convolution, in up to three dimensions."""
    return len(node.x.type.dims) <= 5 and not is_dense(node) and not is_depthwise(node) and is_near(node)


def _f32(node: Node) -> Parameters | None:
    found = parameters(node)
    return found if found and convolves(node) else None


@lowers("conv", match=_f32, strided_in=True, strided_out=True, in_place=True)
def conv(e: Emit, node: Node, plan: Parameters) -> None:
    how, shape = merge_narrow(e.tier, plan.weights, node.attrs["groups"])
    g = geometry(node, shape, how.merged, e.stride(node.x))
    dense = e.stride(node.out) == g.n and not extra_values(node)
    together = pixels_together(e.tier, g) if dense else 1
    if free("winograd") and (m := best_winograd(e.tier, g, WINOGRAD, widened(g, together))) is not None:
        _winograd(e, node, g, m, how, plan)
        return
    first, rest, further = split_row(g, together)
    _plain(e, node, first, how if together == 1 else how._replace(together=together, stride=g.strides[2]), plan, 0, 0)
    if rest.out[2]:
        _plain(e, node, rest, how, plan, further * g.x_strides[3], first.out[2] * g.n)


def _plain(e: Emit, node: Node, g: Geometry, how: Arrangement, plan: Parameters, x: int, y: int) -> None:
    """A convolution of what is x elements into the map to what is y into the result, some pixels of a row together."""
    ldy, g = e.stride(node.out) * how.together, widened(g, how.together) if how.together > 1 else g
    ending, part_of = epilogue(e, node), g.out[2] * how.together / node.out.type.dims[-2]
    for piece in pick_conv(e.tier, g, e.threads):
        packed = e.packed(_panels, plan.weights, plan.bias, how, columns_of(piece), e.tier.lanes, placed=True)
        args = conv_args(
            piece, x=e.address(node.x, 4 * x), w=packed, y=e.address(node.out, 4 * y), ldy=ldy,
            taps=e.constant(piece.table), scratch=e.scratch(piece.scratch * e.threads), **ending,
        )  # fmt: skip
        e.kernel("conv", piece.params, args, share=part_of * piece.columns / g.n)


def _panels(
    weights: np.ndarray, bias: np.ndarray | None, how: Arrangement, columns: Columns, lanes: int, *, empty: Any
) -> np.ndarray:
    """The panels of some columns of each group."""
    per_group = arranged(weights, how).reshape(how.merged, how.together * len(weights) // how.merged, -1)
    own = None if bias is None else np.tile(bias, how.together).reshape(how.merged, -1)[:, columns.part]
    return pack_weights(per_group[:, columns.part], own, columns.nv, lanes, empty=empty)


def _winograd(e: Emit, node: Node, g: Geometry, m: int, how: Arrangement, plan: Parameters) -> None:
    """A convolution with fewer products: m x m outputs at a time, or m (Lavin and Gray 2016)."""
    form = winograd_form(g)
    assert form is not None
    choice = pick_winograd(e.tier, form, m, e.threads)
    shape = g.n, *form.g.kernel, g.c
    packed = e.packed(_winograd_panels, plan, how, shape, m, form.tall, choice.nv, e.tier.lanes)
    args: dict[str, Arg] = {
        **choice.fields, "x": e.address(node.x), "w": packed, "y": e.address(node.out),
        "ldy": e.stride(node.out), "scratch": e.scratch(choice.scratch * e.threads), **epilogue(e, node),
    }  # fmt: skip
    e.kernel("winograd", choice.params, args)


def _winograd_panels(
    plan: Parameters, how: Arrangement, shape: tuple[int, ...], m: int, tall: bool, nv: int, lanes: int
) -> np.ndarray:
    return pack_winograd(arranged(plan.weights, how).reshape(shape), plan.bias, m, tall, nv, lanes)


def _quantized(node: Node) -> Layer | None:
    w = node.inputs[1]
    fixed = node.x.type.concrete and w is not None and w.data is not None and w.type.quant is not None
    return quantized_layer(node) if fixed and convolves(node) else None


@lowers("conv", match=_quantized, strided_in=True, strided_out=True)
def conv_int8(e: Emit, node: Node, layer: Layer) -> None:
    how, shape = merge_narrow(e.tier, layer.weights, node.attrs["groups"])
    g = geometry(node, shape, how.merged, e.stride(node.x), item=1)
    if e.tier.tiles:
        from . import amx

        if amx.suits(g, layer):
            amx.conv(e, node, layer, how, g)
            return
    ldy, zero = e.stride(node.out), zero_point(node.x)
    if ldy == g.n and (together := pixels_together_int8(e.tier, g)) > 1:
        how, g, ldy = how._replace(together=together, stride=g.strides[2]), widened(g, together), together * ldy
    g, pieces = pick_conv_int8(e.tier, g, layer.out, layer.rowsum, e.threads)
    for piece in pieces:
        args = conv_args(
            piece, x=e.address(node.x), w=e.packed(_panels_int8, e.tier, layer, how, zero, columns_of(piece), g.run),
            y=e.address(node.out), ldy=ldy, taps=e.constant(piece.table), fill=word_of(zero),
            scratch=e.scratch(piece.scratch * e.threads), **layer.stored,
        )  # fmt: skip
        e.kernel("conv_int8", piece.params, args, share=piece.columns / g.n)


def _panels_int8(tier: Tier, layer: Layer, how: Arrangement, zero: int, columns: Columns, run: int) -> np.ndarray:
    return panels(tier, arranged_layer(layer, how), zero, columns, run, how.merged, 1)
