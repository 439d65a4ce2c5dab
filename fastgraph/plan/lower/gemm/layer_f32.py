"""Convolutions and dense layers in f32: their candidates."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import Node
from ....kernels.gemm.pack import Arrangement, arranged, pack_weights
from ....kernels.gemm.pack_winograd import pack_winograd
from ....kernels.gemm.pick_conv import Geometry, pick_conv, pixels_together, plain_cycles, widened
from ....kernels.gemm.pick_dot import Product, pick_dot
from ....kernels.gemm.pick_winograd import GAIN, best_winograd, pick_winograd, reading_times
from ....kernels.isa.tiers import Tier
from ...choose import Candidate
from ...layer import Layer, Reals, together
from ...program import Ref
from ..emit import Rows
from ..epilogue import epilogue
from ..registry import Emit, Slot
from ..window.depthwise import DEPTHWISE
from .calls import Columns, conv_calls, dot_calls, part_of

WINOGRAD = 4
"""The largest Winograd tile used: 2 is more exact than the plain sum, 4 errs up to twice as much as it."""


def _together(layer: Layer[Reals], g: Geometry, tier: Tier) -> int:
    """How many outputs of a row are computed as one."""
    return pixels_together(tier, g) if layer.ldy == g.n and not layer.operands else 1


def _cycles(layer: Layer[Reals], tier: Tier) -> list[float]:
    g, _ = layer.merged(tier)
    return reading_times(plain_cycles(tier, widened(g, _together(layer, g, tier))), g.k * g.n)


def _dot(e: Emit, node: Node, layer: Layer[Reals], rows: Rows) -> None:
    (weights, bias), images = layer.numbers, layer.window.images
    weights = weights.reshape(layer.n, -1)
    m, k, ldx, ldy = layer.pixels // images, weights.shape[1], layer.ldx, layer.ldy

    def pack(columns: Columns) -> Ref:
        return e.packed(_dense_panels, weights, bias, columns, e.tier.lanes, placed=True)

    ending = epilogue(e, node, rows.start)
    dot_calls(
        e, "dot", pick_dot(e.tier, Product(m, layer.n, k, images, ldx), e.threads), rows, pack, layer.n,
        part_of(node, layer), lda=ldx, ldc=ldy, m=m, k=k, batch=images, a_stride=m * ldx, c_stride=m * ldy, **ending,
    )  # fmt: skip


def _dense_panels(
    weights: np.ndarray, bias: np.ndarray | None, columns: Columns, lanes: int, *, empty: Any
) -> np.ndarray:
    own = None if bias is None else bias[columns.part]
    return pack_weights(weights[columns.part], own, columns.nv, lanes, empty=empty)


def _conv(e: Emit, node: Node, layer: Layer[Reals], rows: Rows) -> None:
    g, how = layer.merged(e.tier)
    for part in together(g, how, _together(layer, g, e.tier)):

        def pack(columns: Columns, how: Arrangement = part.how) -> Ref:
            return e.packed(_panels, *layer.numbers, how, columns, e.tier.lanes, placed=True)

        own = Rows(_further(rows.x, part.x), _further(rows.y, part.y), rows.start)
        outputs = part.g.images * part.g.out[0] * part.g.out[1] * part.g.out[2] * part.how.together
        conv_calls(
            e, "conv", pick_conv(e.tier, part.g, e.threads), part, own, pack,
            outputs / layer.pixels * part_of(node, layer), ldy=layer.ldy * part.how.together,
            **epilogue(e, node, rows.start),
        )  # fmt: skip


def _further(place: Ref, elements: int) -> Ref:
    return place.plus(4 * elements)


def _panels(
    weights: np.ndarray, bias: np.ndarray | None, how: Arrangement, columns: Columns, lanes: int, *, empty: Any
) -> np.ndarray:
    """The panels of some columns of each group."""
    per_group = arranged(weights, how).reshape(how.merged, how.together * len(weights) // how.merged, -1)
    own = None if bias is None else np.tile(bias, how.together).reshape(how.merged, -1)[:, columns.part]
    return pack_weights(per_group[:, columns.part], own, columns.nv, lanes, empty=empty)


def _winograd_suits(layer: Layer[Reals], tier: Tier) -> bool:
    return layer.form == "conv" and best_winograd(tier, layer.merged(tier)[0], WINOGRAD) is not None


def _winograd_times(layer: Layer[Reals], tier: Tier) -> list[float]:
    found = best_winograd(tier, layer.merged(tier)[0], WINOGRAD)
    assert found is not None
    return found[2]


def _winograd(e: Emit, node: Node, layer: Layer[Reals], rows: Rows) -> None:
    """A convolution with fewer products: m x m outputs at a time, or m (Lavin and Gray 2016)."""
    g, how = layer.merged(e.tier)
    found = best_winograd(e.tier, g, WINOGRAD)
    assert found is not None
    form, m, _ = found
    choice = pick_winograd(e.tier, form, m, e.threads)
    shape = g.n, *form.g.kernel, g.c
    packed = e.packed(_winograd_panels, layer.numbers, how, shape, m, form.tall, choice.nv, e.tier.lanes)
    args: dict[str, Slot] = {
        **choice.fields, "x": rows.x, "w": packed, "y": rows.y, "ldy": layer.ldy,
        "scratch": e.scratch(choice.scratch * e.threads), **epilogue(e, node),
    }  # fmt: skip
    e.kernel("winograd", choice.params, args)


def _winograd_panels(
    numbers: Reals, how: Arrangement, shape: tuple[int, ...], m: int, tall: bool, nv: int, lanes: int
) -> np.ndarray:
    return pack_winograd(arranged(numbers.weights, how).reshape(shape), numbers.bias, m, tall, nv, lanes)


CANDIDATES = (
    Candidate("dot", lambda layer, tier: layer.form == "dense", _cycles, _dot),
    Candidate("conv", lambda layer, tier: layer.form == "conv", _cycles, _conv),
    Candidate("winograd", _winograd_suits, _winograd_times, _winograd, GAIN),
    *DEPTHWISE,
)
