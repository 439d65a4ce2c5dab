"""Candidates for f32 convolutions, depthwise convolutions and dense layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....cpus import level_two
from ....freedoms import free, threshold
from ....ir import Node
from ....ir.types import BFLOAT16
from ....kernels.gemm.pack import Arrangement, arranged, pack_weights
from ....kernels.gemm.pack_winograd import pack_winograd
from ....kernels.gemm.pick_conv import (
    CALL,
    Geometry,
    inner_and_edges,
    pick_conv,
    pixels_together,
    plain_cycles,
    widened,
)
from ....kernels.gemm.pick_dot import FEW_COLUMNS, Product, few_columns, few_starts, pick_dot
from ....kernels.gemm.pick_winograd import GAIN, WinogradForm, best_winograd, pick_winograd, reading_times
from ....kernels.isa.tiers import Tier
from ....kernels.window.pick import across, depthwise_any, depthwise_cycles, depthwise_tiles, grouped_tiles
from ....kernels.window.rows import STRIP
from ...choose import Candidate
from ...layer import Layer, Reals, by_tap, together
from ..emit import Rows
from ..epilogue import epilogue, product_ending
from ..registry import Emit, Slot, row_count
from .calls import Columns, Pack, conv_calls, dense_sizes, dot_calls, part_of, window_slots

WINOGRAD = 4
"""The largest Winograd tile: 2 is more exact than the plain sum, 4 has up to twice its error."""

F32_MAPS = 1.25
"""How many times as many cycles count where a layer's map is f32 and could be bf16, in half of the memory: 20 channels
across pixels take 0.83 to 0.95 of the time of tiles between layers of bf16, 40 and 56 take 0.88 to 1.31."""

COLUMNS_PART, COLUMNS_PRODUCT, COLUMNS_SUM = 0.65, {16: 0.53, 32: 0.45}, {16: 1.4, 32: 1.1}
"""Cycles of a layer of few outputs for each 32 bytes of a row (or a vector that is shorter), for a vector's product
with a column, and for adding a sum's lanes, by registers. Fitted to 60 shapes of 1 to 12 outputs and 16 to 1,024
inputs, on AVX-512 and Zen 3's AVX2."""


def outputs_together(layer: Layer[Reals], g: Geometry, tier: Tier) -> int:
    """How many outputs of a row are computed as one."""
    return pixels_together(tier, g) if layer.ldy == g.n and not layer.operands else 1


def _cycles(layer: Layer[Reals], tier: Tier) -> list[float]:
    g, _ = layer.merged(tier)
    wide = widened(g, 1 if layer.form == "dense" else outputs_together(layer, g, tier))
    return reading_times(plain_cycles(tier, wide), g.groups * g.k * g.n)


def emit_dot(e: Emit, node: Node, layer: Layer[Reals], rows: Rows) -> None:
    images, k, ending = layer.window.images, layer.numbers.weights[0].size, product_ending(e, node, rows.start)
    product = Product(layer.pixels // images, layer.n, k, images, layer.ldx, bool(ending["later"]))
    pieces, pack = pick_dot(e.tier, product, e.threads, level_two()), packed(e, layer, Arrangement())
    dot_calls(e, layer, rows, "dot", pieces, pack, **dense_sizes(layer, images, k), **ending)


def _columns_cycles(layer: Layer[Reals], tier: Tier) -> list[float]:
    k = layer.numbers.weights[0].size
    vectors, n = -(-k // tier.lanes), layer.n
    products = vectors * (COLUMNS_PART * max(1, tier.lanes // 8) + COLUMNS_PRODUCT[tier.registers] * n)
    cycles = layer.pixels * (1 + products + COLUMNS_SUM[tier.registers] * n)
    return reading_times(cycles * F32_MAPS if layer.narrow else cycles, n * k)


def _rows_of(weights: np.ndarray) -> np.ndarray:
    return weights.reshape(len(weights), -1)


def _emit_columns(e: Emit, node: Node, layer: Layer[Reals], rows: Rows) -> None:
    (weights, bias), images = layer.numbers, layer.window.images
    own: dict[str, Slot] = {"a": rows.x, "lda": layer.ldx, "c": rows.y, "ldc": layer.ldy}
    own |= {"b": e.packed(_rows_of, weights), "b_stride": 0, "n": layer.n, "block": e.tier.lanes}
    own |= {"start": e.packed(few_starts, bias, layer.n), "columns": few_columns(layer.n, row_count(node.out))}
    args = {**dense_sizes(layer, images, weights[0].size), **own, **epilogue(e, node, rows.start)}
    e.kernel("dot_few", {}, args, share=part_of(e, layer.pixels))


def emit_conv(e: Emit, node: Node, layer: Layer[Reals], rows: Rows) -> None:
    (g, how), ending = layer.merged(e.tier), product_ending(e, node, rows.start)
    plain, call = free("edges") and not layer.operands and not ending["later"], threshold("edges_call", CALL)
    for part in together(g, how, outputs_together(layer, g, e.tier)):
        pack, pieces = packed(e, layer, part.how), pick_conv(e.tier, part.g, e.threads, level_two())
        cut = inner_and_edges(e.tier, part.g, pieces[0].fields["height"], call) if plain else []
        if len(cut) < 2:
            conv_calls(e, layer, rows, "conv", pieces, part, pack, **ending)
            continue
        pitch = layer.window.out[2] * layer.ldy
        for own in cut:
            y = part.y + own.row * pitch + own.column * layer.ldy * part.how.together
            there = part._replace(g=own.g, x=part.x + own.x, y=y)
            pieces = pick_conv(e.tier, own.g, e.threads, level_two())
            conv_calls(e, layer, rows, "conv", pieces, there, pack, y_y=pitch, **ending)


def packed(e: Emit, layer: Layer[Reals], how: Arrangement) -> Pack:
    return lambda columns: e.packed(_panels, *layer.numbers, how, columns, e.tier.lanes, placed=True)


def _panels(
    weights: np.ndarray, bias: np.ndarray | None, how: Arrangement, columns: Columns, lanes: int, *, empty: Any
) -> np.ndarray:
    """The panels of some columns of each group."""
    return panels_of(lambda part: part, weights, bias, how, columns, lanes, empty)


def panels_of(
    words: Callable[[np.ndarray], np.ndarray], weights: np.ndarray, bias: np.ndarray | None, how: Arrangement,
    columns: Columns, lanes: int, empty: Any,
) -> np.ndarray:  # fmt: skip
    """The panels of some columns of each group; words: of weights [..., K], as f32."""
    per_group = arranged(weights, how).reshape(how.merged, how.together * len(weights) // how.merged, -1)
    own = None if bias is None else np.tile(bias, how.together).reshape(how.merged, -1)[:, columns.part]
    return pack_weights(words(per_group[:, columns.part]), own, columns.nv, lanes, empty=empty)


def _best_winograd(layer: Layer[Reals], tier: Tier) -> tuple[WinogradForm, int, list[float]] | None:
    return best_winograd(tier, layer.merged(tier)[0], WINOGRAD) if layer.form == "conv" else None


def _winograd_times(layer: Layer[Reals], tier: Tier) -> list[float]:
    found = _best_winograd(layer, tier)
    assert found is not None
    one, two = found[2]
    return [GAIN * one, two]


def _winograd(e: Emit, node: Node, layer: Layer[Reals], rows: Rows) -> None:
    """A convolution by Winograd's algorithm, of m x m outputs at a time, or m (Lavin and Gray 2016)."""
    found = _best_winograd(layer, e.tier)
    assert found is not None
    (form, m, _), (g, how) = found, layer.merged(e.tier)
    choice = pick_winograd(e.tier, form, m, e.threads)
    shape = g.groups, g.n, *form.g.kernel, g.c
    sizes = m, form.tall, choice.nv, e.tier.lanes
    packed = e.packed(_winograd_panels, layer.numbers, how, shape, sizes, placed=True)
    ends: dict[str, Slot] = {"x": rows.x, "w": packed, "y": rows.y, "scratch": e.scratch(choice.scratch * e.threads)}
    e.kernel("winograd", choice.params, {**choice.fields, **ends, "ldy": layer.ldy, **epilogue(e, node)})


def _winograd_panels(
    numbers: Reals, how: Arrangement, shape: tuple[int, ...], sizes: tuple[Any, ...], *, empty: Any
) -> np.ndarray:
    return pack_winograd(arranged(numbers.weights, how).reshape(shape), numbers.bias, *sizes, empty=empty)


def _tiles(layer: Layer[Reals], tier: Tier, narrow: bool = False) -> dict[str, Any] | None:
    """The parameters of the kernel of depthwise tiles; narrow: x and y are bf16."""
    single = layer.form == "depthwise" and layer.n == layer.inputs
    return depthwise_tiles(tier, layer.window, narrow) if single else None


def _depthwise(e: Emit, node: Node, layer: Layer[Reals], rows: Rows) -> None:
    params = _tiles(layer, e.tier, node.x.type.dtype == BFLOAT16)
    assert params is not None
    _call_depthwise(e, node, layer, rows, "depthwise", params)


def _depthwise_any(e: Emit, node: Node, layer: Layer[Reals], rows: Rows) -> None:
    multiplier = layer.n // layer.inputs
    params = depthwise_any(e.tier, layer.window, multiplier)
    _call_depthwise(e, node, layer, rows, "depthwise_any", params, multiplier=multiplier, across=0)


def _across(layer: Layer[Reals], tier: Tier) -> int:
    """`across` of a layer whose vectors can run across pixels; 0 for others, as with weights that are infinite or NaN,
    which lanes in padding would multiply by zero.
    """
    dense = layer.form == "depthwise" and layer.ldx == layer.ldy == layer.n == layer.inputs
    suits = dense and not layer.operands and np.isfinite(layer.numbers.weights).all()
    return across(tier, layer.window) if suits else 0


def _across_cycles(layer: Layer[Reals], tier: Tier) -> list[float]:
    cycles = depthwise_cycles(tier, layer.window, "across")
    return [cycles * F32_MAPS if layer.narrow and _tiles(layer, tier) is not None else cycles]


def _depthwise_across(e: Emit, node: Node, layer: Layer[Reals], rows: Rows) -> None:
    """By another kernel where the map has gaps: in bands, which keep the choice for dense maps, the first and the last
    may have.
    """
    if count := _across(layer, e.tier):
        params = {"vectors": STRIP, "repeated": False}
        _call_depthwise(e, node, layer, rows, "depthwise_any", params, multiplier=1, across=count)
    else:
        (_depthwise if _tiles(layer, e.tier) else _depthwise_any)(e, node, layer, rows)


def groups(layer: Layer[Reals], tier: Tier, narrow: bool = False) -> dict[str, Any] | None:
    """The parameters of the kernel of groups of few channels, as many out as in; narrow: x is bf16."""
    each = layer.numbers.weights.shape[-1]
    square = layer.form == "conv" and layer.groups > 1 and layer.n == layer.groups * each
    return grouped_tiles(tier, layer.window, each, narrow) if square else None


def grouped_cycles(layer: Layer[Reals], tier: Tier) -> list[float]:
    one = layer.numbers.weights.shape[-1] * depthwise_cycles(tier, layer.window, "tiles")
    return reading_times(one, layer.numbers.weights.size)


def emit_grouped(e: Emit, node: Node, layer: Layer[Reals], rows: Rows, narrow: bool = False) -> None:
    params = groups(layer, e.tier, narrow or node.x.type.dtype == BFLOAT16)
    assert params is not None
    _call_depthwise(e, node, layer, rows, "grouped", params, y_item=node.out.type.itemsize)


def _call_depthwise(
    e: Emit, node: Node, layer: Layer[Reals], rows: Rows, kernel: str, params: dict[str, Any], **own: Slot
) -> None:
    weights, bias = layer.numbers
    ending = epilogue(e, node, rows.start, in_place=True, long=e.tier.registers >= 32)
    shape = window_slots(e, kernel, params, layer.window)
    own |= {"x": rows.x, "ldx": layer.ldx, "y": rows.y, "ldy": layer.ldy}
    count = own.get("across") or len(weights)
    if own.get("across"):
        own["weights"] = e.packed(_in_columns, weights, count)
    else:
        own["weights"] = e.packed(_in_taps, weights, params.get("element") == "bf16")
    own["bias"] = e.packed(_zeros, count) if bias is None else e.packed(_repeated, bias, count)
    e.kernel(kernel, params, {**shape, **ending, **own}, share=part_of(e, layer.pixels))


def _in_taps(weights: np.ndarray, paired: bool) -> np.ndarray:
    """As `by_tap`; paired: two channels a word."""
    if paired:
        from ....kernels.gemm.pack_bf16 import balanced, pairs

        weights = pairs(balanced(weights))
    return by_tap(weights)


def _in_columns(weights: np.ndarray, count: int) -> np.ndarray:
    """[k_w, k_h, count] from weights [n, ..., k_h, k_w, 1]."""
    return _repeated(weights.reshape(len(weights), weights.shape[-3], -1).T, count)


def _repeated(numbers: np.ndarray, count: int) -> np.ndarray:
    """Numbers whose last axis is repeated until it has `count`, with 0 for -0: products of padding, of which there are
    more or fewer as vectors lie, would make a sum's first -0 a 0.
    """
    return numbers.take(np.arange(count), axis=-1, mode="wrap") + np.float32(0)


def _zeros(count: int) -> np.ndarray:
    return np.zeros(count, np.float32)


CANDIDATES: tuple[Candidate[Layer[Reals]], ...] = (
    Candidate("dot", lambda layer, tier: layer.form == "dense", _cycles, emit_dot),
    Candidate("columns", lambda layer, tier: layer.form == "dense" and layer.n <= FEW_COLUMNS[tier.registers],
              _columns_cycles, _emit_columns),
    Candidate("conv", lambda layer, tier: layer.form == "conv", _cycles, emit_conv),
    Candidate("winograd", lambda layer, tier: _best_winograd(layer, tier) is not None, _winograd_times, _winograd),
    Candidate("depthwise_any", lambda layer, tier: layer.form == "depthwise",
              lambda layer, tier: [depthwise_cycles(tier, layer.window, "any")], _depthwise_any),
    Candidate("depthwise", lambda layer, tier: _tiles(layer, tier) is not None,
              lambda layer, tier: [depthwise_cycles(tier, layer.window, "tiles")], _depthwise),
    Candidate("depthwise_across", lambda layer, tier: _across(layer, tier) > 0,
              _across_cycles, _depthwise_across),
    Candidate("grouped", lambda layer, tier: groups(layer, tier) is not None, grouped_cycles, emit_grouped),
)  # fmt: skip
