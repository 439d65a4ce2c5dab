"""Transposed convolution: the products of each input pixel with the weights of all taps; col2im where they overlap."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf

import numpy as np

from ....cpus import level_two
from ....freedoms import free
from ....ir import Node
from ....kernels.gemm.pack import Arrangement, pack_weights
from ....kernels.gemm.pack_int8 import Words, panel_bytes
from ....kernels.gemm.pick_conv import conv_args, pick_conv
from ....kernels.gemm.pick_conv_transpose import (
    Phase,
    Transposed,
    col2im_args,
    disjoint_runs,
    phases,
    phases_cycles,
    pick_products,
    products_args,
    products_cycles,
    run_args,
    tap_weights,
)
from ....kernels.gemm.pick_dot import L2, pick_dot
from ....kernels.gemm.pick_int8 import pick_dot_int8
from ....kernels.gemm.rows import NO_ENDING
from ....kernels.isa.tiers import Tier
from ....kernels.pointwise.rows import FORMS
from ....ops.conv import transposed_window
from ....ops.window import is_near
from ...layer import Integers, Reals, all_finite, chain_of, integers, parameters, three
from ...quantized import zero_point
from ..epilogue import ending, epilogue, product_ending
from ..registry import Emit, Slot, last, lowers
from .calls import Columns, columns_of, panels
from .layer_int8 import words_of


def transposed(node: Node) -> Transposed | None:
    """The convolution in three dimensions, with leading ones; None for more dimensions or large numbers."""
    x, out, groups, weights = node.x.type.dims, node.out.type.dims, node.attrs["groups"], node.y
    if len(x) > 5 or not is_near(node):
        return None
    kernel = weights.type.dims[1:-1]
    begin, _, a = transposed_window(node, x[1:-1], kernel)
    size, outer, strides, dilations = map(three, (x[1:-1], out[1:-1], a["strides"], a["dilations"]))
    c, n, pads = weights.type.dims[-1], out[-1] // groups, three(begin, 0)
    return Transposed(x[0], groups, c, n, size, three(kernel), outer, strides, dilations, pads)


def _f32(node: Node) -> tuple[Transposed, Reals] | None:
    found = parameters(node)
    g = transposed(node) if found else None
    return (g._replace(zeros=all_finite(found.weights)), found) if g and found else None


@lowers("conv_transpose", match=_f32, strided_in=True, strided_out=True, in_place=True)
def conv_transpose(e: Emit, node: Node, plan: tuple[Transposed, Reals]) -> None:
    g, reals = plan
    short = _is_short(node)
    cycles, write = _in_vectors(e, node, g, short)
    if not (short and _tiled(e, node, g, reals, cycles)):
        write(e, node, g, reals)


def _in_vectors(e: Emit, node: Node, g: Transposed, short: bool) -> tuple[float, Callable[..., None]]:
    """The cycles of the fastest way in vectors, and what writes its steps."""
    if short and g.disjoint and _pays(g) and free("disjoint"):
        return products_cycles(e.tier, g, overlap=False), _store_disjoint
    summed = products_cycles(e.tier, g, overlap=True, l2=level_two())
    found = short and free("phases") and phases(g, e.stride(node.x)) or []
    convolved = phases_cycles(e.tier, found) if found else inf
    return (convolved, partial(_convolve, found=found)) if convolved < summed else (summed, _sum_products)


def _tiled(e: Emit, node: Node, g: Transposed, reals: Reals, others: float) -> bool:
    """Computes y on AMX tiles where that takes less than so many cycles."""
    if not e.tier.tiles:
        return False
    from . import conv_transpose_tiles as tiles

    parts = tiles.parts_of(g, e.stride(node.x), e.stride(node.out))
    found = tiles.best(e, reals.weights, parts)
    if found is None or found[0] >= others:
        return False
    tiles.convolve(e, node, g, reals, parts, found[1])
    return True


def _is_short(node: Node) -> bool:
    """Whether what the node ends with needs no operand."""
    chain, operands = chain_of(node)
    found = None if operands else ending(chain, 0)
    return found is not None and found.addend is None and found.form in FORMS


def _pays(g: Transposed) -> bool:
    """Whether the weights of a row of taps, which are read for each line of x, stay in the cache."""
    return 4 * g.c * g.n * g.kernel[2] <= L2 // 2


def _sum_products(e: Emit, node: Node, g: Transposed, reals: Reals) -> None:
    """Write products of all taps, and add up those that overlap."""
    weights, bias = reals
    products, lda = e.scratch(g.products), e.stride(node.x)
    for piece in pick_products(e.tier, g, e.threads):
        packed = e.packed(_panels, weights, g.groups, columns_of(piece), e.tier.lanes)
        own = {"a": node.x, "lda": lda, "k": g.c, "b": packed, "b_stride": e.array(packed)[0].size, "c": products}
        args = products_args(piece, g, **own, **NO_ENDING)
        e.kernel("dot", piece.params, args, share=piece.columns / g.columns)
    bias = np.zeros(last(node.out), np.float32) if bias is None else bias
    _add_up(e, node, g, "col2im", {}, t=products, bias=bias, **epilogue(e, node))


def _store_disjoint(e: Emit, node: Node, g: Transposed, reals: Reals) -> None:
    """Write products to where they belong in y, which are its results."""
    lda, ldy = e.stride(node.x), e.stride(node.out)
    product, runs = disjoint_runs(g, ldy)
    slots = product_ending(e, node)
    for run in runs:
        for piece in pick_dot(e.tier, product, e.threads):
            columns = Columns(run.start + piece.start, piece.columns, piece.nv)
            own = {"a": node.x, "b": e.packed(_run_panels, *reals, columns, e.tier.lanes)}
            args = run_args(piece, g, product, lda, ldy, c=e.address(node.out, 4 * run.y * ldy), **own, **slots)
            e.kernel("dot", piece.params, args, share=piece.columns / g.columns)


def _convolve(e: Emit, node: Node, g: Transposed, reals: Reals, found: list[Phase]) -> None:
    """Compute y phase by phase."""
    ldy, slots, (_, stride_y, stride_x) = e.stride(node.out), product_ending(e, node), g.strides
    for phase in found:
        row, column = phase.first
        own = {
            "x": node.x,
            "y": e.address(node.out, 4 * (row * g.out[2] + column) * ldy),
            "ldy": stride_x * ldy,
            **slots,
        }
        if phase.g.gaps:
            own["y_y"] = stride_y * g.out[2] * ldy
        for piece in pick_conv(e.tier, phase.g, e.threads, level_two()):
            packed = e.packed(_phase_panels, *reals, phase.taps, g, columns_of(piece), e.tier.lanes)
            args = conv_args(piece, w=packed, scratch=e.scratch(piece.scratch * e.threads), **own)
            share = phase.g.out[1] * phase.g.out[2] / (g.out[1] * g.out[2]) * piece.columns / g.n
            e.kernel("conv", piece.params, args, share=share)


def _phase_panels(
    weights: np.ndarray, bias: np.ndarray | None, taps: tuple[tuple[int, ...], ...], g: Transposed, columns: Columns,
    lanes: int,
) -> np.ndarray:  # fmt: skip
    y, x = taps
    taken = weights.reshape(len(weights), *g.kernel[1:], g.c)[:, y][:, :, x]
    own = None if bias is None else bias.reshape(g.groups, -1)[:, columns.part]
    return pack_weights(taken.reshape(g.groups, g.n, -1)[:, columns.part], own, columns.nv, lanes)


def _run_panels(weights: np.ndarray, bias: np.ndarray | None, columns: Columns, lanes: int) -> np.ndarray:
    taps = tap_weights(weights, 1)[:, columns.part]
    first = None if bias is None else np.take(bias, range(*columns.part.indices(weights.size)), mode="wrap")
    return pack_weights(taps, first, columns.nv, lanes)


def _panels(weights: np.ndarray, groups: int, columns: Columns, lanes: int) -> np.ndarray:
    return pack_weights(tap_weights(weights, groups)[:, columns.part], None, columns.nv, lanes)


def _quantized(node: Node) -> tuple[Transposed, Integers] | None:
    layer = integers(node)
    g = transposed(node) if layer else None
    return (g, layer) if g and layer else None


@lowers("conv_transpose", match=_quantized, strided_in=True, strided_out=True)
def conv_transpose_int8(e: Emit, node: Node, plan: tuple[Transposed, Integers]) -> None:
    """The products are exact i32."""
    g, layer = plan
    products, stored = e.scratch(g.products), {**dict.fromkeys(layer.stored, 0), "form": 1}
    sums, again = layer.sums(e.tier)
    sums = sums._replace(out="words")
    for piece in pick_dot_int8(e.tier, g.product, sums, e.threads, again=again):
        words, width = words_of(g.c, sums), piece.nv * e.tier.lanes
        stride = -(-piece.columns // width) * panel_bytes(e.tier, piece.nv, sums.rowsum, -(-g.c // 4), sums.small)
        packed = e.packed(_tap_panels, e.tier, layer, zero_point(node.x), columns_of(piece), g.groups, words)
        own = {"a": node.x, "lda": e.stride(node.x), "b": packed, "b_stride": stride // 4}
        args = products_args(piece, g, k=-(-g.c // 4), c=products, **own, **stored)
        e.kernel("dot_int8", piece.params, args, share=piece.columns / g.columns)
    ends: dict[str, Slot] = {
        "t": products,
        "bias": layer.bias.astype(np.int32),
        "multipliers": layer.multipliers,
        **layer.stored,
    }
    _add_up(e, node, g, "col2im_int8", {"out": layer.out}, **ends)


def _add_up(e: Emit, node: Node, g: Transposed, kernel: str, params: dict[str, str], **own: Slot) -> None:
    """Write the col2im of the products."""
    args = col2im_args(g, y=node.out, ldy=e.stride(node.out), scratch=e.scratch(g.scratch * e.threads), **own)
    e.kernel(kernel, params, args)


def _tap_panels(tier: Tier, layer: Integers, zero: int, columns: Columns, groups: int, words: Words) -> np.ndarray:
    """Panels for the products of a pixel with all taps, (x - zero point) * (w - zero point), as i32."""
    weights = tap_weights(layer.weights, groups)
    n, c = len(layer.weights) // groups, weights.shape[-1]
    zeros = np.tile(layer.zeros.reshape(groups, n), weights.shape[1] // n).reshape(-1)
    taps = Integers(weights.reshape(-1, c), zeros, np.zeros_like(zeros), np.ones(len(zeros), np.float32))
    return panels(tier, taps, Arrangement(groups), zero, columns, words)
