"""Convolutions whose windows have several pixels, or whose groups several channels."""

from __future__ import annotations

import numpy as np

from ....freedoms import free
from ....ir import Node
from ....kernels.gemm.pack import pack_weights, widen
from ....kernels.gemm.pack_winograd import pack_winograd
from ....kernels.gemm.pick_conv import Geometry, conv_args, pick_conv, pixels_together, split_row, widened
from ....kernels.gemm.pick_int8 import pick_conv_int8, pixels_together_int8, word_of
from ....kernels.gemm.pick_winograd import best_winograd, pick_winograd, winograd_form
from ..epilogue import epilogue
from ..extras import extra_values
from ..quantized import zero_point
from ..quantized_layer import Layer, quantized_layer
from ..registry import Arg, Emit, lowers
from ..spatial import is_near
from .common import (
    Parameters,
    geometry,
    is_dense,
    is_depthwise,
    merge_narrow,
    merge_narrow_stored,
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
    weights, groups = merge_narrow(e.tier, plan.weights, node.attrs["groups"])
    g, bias = geometry(node, weights.shape, groups, e.stride(node.x)), plan.bias
    dense = e.stride(node.out) == g.n and not extra_values(node)
    together = pixels_together(e.tier, g) if dense else 1
    if free("winograd") and (m := best_winograd(e.tier, g, WINOGRAD, widened(g, together))) is not None:
        _winograd(e, node, g, m, Parameters(weights, bias))
        return
    first, rest, further = split_row(g, together)
    _plain(e, node, first, together, Parameters(weights, bias), 0, 0)
    if rest.out[2]:
        _plain(e, node, rest, 1, Parameters(weights, bias), further * g.x_strides[3], first.out[2] * g.n)


def _plain(e: Emit, node: Node, g: Geometry, together: int, plan: Parameters, x: int, y: int) -> None:
    """A convolution of what is x elements into the map to what is y into the result, some pixels of a row together."""
    (weights, bias), ldy, groups = plan, e.stride(node.out) * together, g.groups
    if together > 1:
        weights, bias = widen(weights, together, g.strides[2]), None if bias is None else np.tile(bias, together)
        g = widened(g, together)
    per_group = weights.reshape(groups, g.n, -1)
    biases = None if bias is None else bias.reshape(groups, g.n)
    ending, part_of = epilogue(e, node), g.out[2] * together / node.out.type.dims[-2]
    for piece in pick_conv(e.tier, g, e.threads):
        part = slice(piece.start, piece.start + piece.columns)

        def packed(part: slice = part, nv: int = piece.nv) -> np.ndarray:
            own = None if biases is None else biases[:, part]
            return pack_weights(per_group[:, part], own, nv, e.tier.lanes, e.empty)

        key = (*node.inputs[1:3], node.attrs["groups"], together, piece.start, piece.columns, piece.nv)
        args = conv_args(
            piece, x=e.address(node.x, 4 * x), w=e.packed(key, packed), y=e.address(node.out, 4 * y), ldy=ldy,
            taps=e.constant(piece.table), scratch=e.scratch(piece.scratch * e.threads), **ending,
        )  # fmt: skip
        e.kernel("conv", piece.params, args, share=part_of * piece.columns / g.n)


def _winograd(e: Emit, node: Node, g: Geometry, m: int, plan: Parameters) -> None:
    """A convolution with fewer products: m x m outputs at a time, or m (Lavin and Gray 2016)."""
    form = winograd_form(g)
    assert form is not None
    choice = pick_winograd(e.tier, form, m, e.threads)
    key = (*node.inputs[1:3], node.attrs["groups"], m, form.tall, choice.nv)
    weights = plan.weights.reshape(g.n, *form.g.kernel, g.c)
    packed = e.packed(key, lambda: pack_winograd(weights, plan.bias, m, form.tall, choice.nv, e.tier.lanes))
    args: dict[str, Arg] = {
        **choice.fields, "x": e.address(node.x), "w": packed, "y": e.address(node.out),
        "ldy": e.stride(node.out), "scratch": e.scratch(choice.scratch * e.threads), **epilogue(e, node),
    }  # fmt: skip
    e.kernel("winograd", choice.params, args)


def _quantized(node: Node) -> Layer | None:
    w = node.inputs[1]
    fixed = node.x.type.concrete and w is not None and w.data is not None and w.type.quant is not None
    return quantized_layer(node) if fixed and convolves(node) else None


@lowers("conv", match=_quantized, strided_in=True, strided_out=True)
def conv_int8(e: Emit, node: Node, layer: Layer) -> None:
    groups = node.attrs["groups"]
    if groups > 1:
        weights, groups = merge_narrow_stored(e.tier, layer.weights, layer.zeros, groups)
        layer = layer._replace(weights=weights)
    g = geometry(node, layer.weights.shape, groups, e.stride(node.x), item=1)
    if e.tier.amx:
        from . import amx

        if amx.suits(g, layer):
            amx.conv(e, node, layer, g)
            return
    ldy, zero = e.stride(node.out), zero_point(node.x)
    if ldy == g.n and (together := pixels_together_int8(e.tier, g)) > 1:
        layer, g, ldy = _widened(layer, together, g.strides[2]), widened(g, together), together * ldy
    g, pieces = pick_conv_int8(e.tier, g, layer.out, layer.rowsum, e.threads)
    for piece in pieces:
        key = (node, piece.start, piece.columns, piece.nv, g.run, len(layer.weights))
        args = conv_args(
            piece, x=e.address(node.x),
            w=e.packed(key, lambda piece=piece: panels(e.tier, layer, zero, piece, g.run, groups)),  # type: ignore[misc]
            y=e.address(node.out), ldy=ldy, taps=e.constant(piece.table), fill=word_of(zero),
            scratch=e.scratch(piece.scratch * e.threads), **layer.stored,
        )  # fmt: skip
        e.kernel("conv_int8", piece.params, args, share=piece.columns / g.n)


def _widened(layer: Layer, factor: int, stride: int) -> Layer:
    """The layer for `factor` pixels of a row at once."""
    zeros, bias, multipliers = (np.tile(v, factor) for v in (layer.zeros, layer.bias, layer.multipliers))
    weights = widen(layer.weights, factor, stride, layer.zeros)
    return layer._replace(weights=weights, zeros=zeros, bias=bias, multipliers=multipliers)
