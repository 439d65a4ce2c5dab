"""The lowering of recurrent layers, whatever operator they come from: the product with the inputs, and the walk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np

from ....cpus import level_two
from ....freedoms import threshold
from ....ir import TensorType
from ....kernels.gemm.pick_conv import Geometry
from ....kernels.gemm.pick_dot import dot_args
from ....kernels.gemm.rows import NO_ENDING
from ....kernels.isa.tiers import has_pairs, multiplies_pairs, multiplies_tiles
from ....kernels.recurrent.pack_recurrent import blocks
from ....kernels.recurrent.rows import ACTIVATIONS, GATES, INFO, PLACES, STATES, USUAL
from ...program import ERROR, Ref
from ..emit import Rows, Strided
from ..registry import Emit, Slot
from ..walk import f32_bits
from .weights import Panels, width

Activation = tuple[str, float, float]
"""Name among ACTIVATIONS, alpha and beta."""


class Grid(NamedTuple):
    """The numbers that a state is rounded to: multiples of `scale`, from `least` to `most` times."""

    scale: float
    least: int
    most: int


def grid(t: TensorType | None) -> Grid | None:
    """The grid of a quantized type; None for others."""
    if t is None or t.quant is None or t.dtype is None:
        return None
    (scale,), (zero,), limits = t.quant.scale, t.quant.zero_point, np.iinfo(t.dtype)
    return Grid(scale, limits.min - zero, limits.max - zero)


@dataclass(frozen=True)
class Recurrence:
    """Sizes and attributes. `reverse`: for each direction; `activations`: for each direction and gate."""

    cell: str
    steps: int
    batch: int
    inputs: int
    hidden: int
    reverse: tuple[bool, ...]
    activations: tuple[tuple[Activation, ...], ...]
    clip: float = inf
    cell_clip: float = inf
    coupled: int = 0
    state_grid: Grid | None = None
    cell_grid: Grid | None = None

    @property
    def directions(self) -> int:
        return len(self.reverse)

    @property
    def quantized(self) -> bool:
        return self.cell == "lstm_bytes" or self.state_grid is not None or self.cell_grid is not None

    @property
    def plain(self) -> bool:
        """Whether it is a standard layer; it may have peepholes."""
        usual = all(tuple(name for name, *_ in each) == USUAL[self.cell] for each in self.activations)
        return usual and self.clip == self.cell_clip == inf and not self.coupled


@dataclass
class Buffers:
    """x: [rows, inputs], the rows by step, then by row of the batch, or with `batch_first` the other way round; y: by
    [step, direction, row]; states: by [direction, row]; None: initial ones are zeros, final ones unused."""

    x: Ref
    ldx: int
    batch_first: bool
    y: Strided
    first: Strided | None = None
    first_cell: Strided | None = None
    last: Strided | None = None
    last_cell: Strided | None = None
    lengths: Ref | None = None


def element_of(e: Emit, layer: Recurrence) -> str:
    """What a layer of constant weights multiplies; quantized ones stay as exact as they are. CPUs with tiles multiply
    pairs at half the rate of f32, which pays where half of the bytes do.
    """
    far = 4 * GATES[layer.cell] * layer.hidden**2 >= threshold("recurrent_far", level_two())
    paired = multiplies_pairs(e.tier) or (has_pairs(e.tier) and far)
    return "bf16" if e.precision == "bfloat16" and paired and not layer.quantized else "f32"


class Multiplied(NamedTuple):
    """The kernel of the product with the inputs, the bytes of an input, and slots beside operands and sizes; for tiles,
    what numbers become.
    """

    kernel: str
    item: int
    ending: Mapping[str, Slot]
    parts: tuple[int, str] | None = None


LARGE, PART, MOST = 1 << 20, 1 << 19, 64
"""Bytes of projected inputs from which a layer goes in parts, bytes of a part, and how many parts there are at most."""


def emit_layer(e: Emit, layer: Recurrence, panels: Panels, buffers: Buffers) -> None:
    """Write the steps of a layer: the product with the inputs, then the walk; for parts of the time axis, where the
    projected inputs would exceed the cache."""
    columns = width(e, layer.cell, layer.hidden)
    n = layer.directions * columns
    product, rows = Multiplied("dot", 4, NO_ENDING), layer.steps * layer.batch
    parts = _parts(layer, buffers, 4 * layer.batch * n)
    tiled = _tile_parts(e, layer, panels, _dense(layer, buffers, n, max(count for _, count in parts)))
    if tiled is not None:
        product = product._replace(parts=tiled)
    elif panels.element == "bf16":
        from ..gemm.layer_bf16 import rounded_rows

        product = Multiplied("dot_bf16", 2, {**NO_ENDING, "addend_item": 4})
        x = rounded_rows(e, e.node.x, buffers.x, buffers.ldx, rows, layer.inputs)
        buffers = replace(buffers, x=x, ldx=layer.inputs + layer.inputs % 2)
    elif panels.rounds:
        from .rounded_inputs import rounded

        x, ranges = rounded(e, e.node, rows, layer.inputs)
        product = Multiplied("dot_dynamic", 1, {**NO_ENDING, "ranges": ranges, "per_image": 0, "per_row": 0})
        buffers = replace(buffers, x=x, ldx=layer.inputs)
    projected = e.scratch(4 * layer.batch * n * max(count for _, count in parts))
    common = {**_strides("y", buffers.y, "step", "direction", "row"), **panels.slots}
    common |= _numbers(e, layer, panels.slots["peepholes"] != 0)
    common |= {"projected": projected, "projected_direction": 4 * columns}
    params = {"cell": layer.cell, "element": panels.element}
    common |= {"lengths": buffers.lengths, "error": 0 if buffers.lengths is None else ERROR}
    for start, count in parts:
        time = layer.steps - start - count if layer.reverse[0] and layer.directions == 1 else start
        _project(e, layer, panels, buffers, product, projected, range(time, time + count))
        last = start + count == layer.steps
        own: dict[str, Slot] = {"start": start, "steps": count}
        own["y"] = buffers.y.address.plus(time * buffers.y.strides[0])
        own["projected_step"] = 4 * n * (1 if buffers.batch_first else layer.batch)
        own["projected_row"] = 4 * n * (count if buffers.batch_first else 1)
        record = {**common, **_states(buffers, start == 0, last), **own}
        e.kernel("recurrent", params, record, share=count / layer.steps - _product_share(layer, count))


def _parts(layer: Recurrence, buffers: Buffers, step: int) -> list[tuple[int, int]]:
    """(first step, number of steps) of each part. step: bytes of one step's projected input. A layer with both
    directions, or sequences of several lengths in reverse, is one part."""
    whole = layer.directions > 1 or (layer.reverse[0] and buffers.lengths is not None)
    if whole or layer.steps * step < threshold("steps_large", LARGE):
        return [(0, layer.steps)]
    each = max(threshold("steps_part", PART) // step, 1, -(-layer.steps // MOST))
    return [(start, min(each, layer.steps - start)) for start in range(0, layer.steps, each)]


def _product_share(layer: Recurrence, steps: int) -> float:
    """The share of the node's work in the product of the inputs of so many steps."""
    return steps / layer.steps * layer.inputs / (layer.inputs + layer.hidden)


def _project(
    e: Emit, layer: Recurrence, panels: Panels, buffers: Buffers, product: Multiplied, out: Ref, steps: range
) -> None:
    """Write the product of these steps' inputs with the weights of all directions, plus biases."""
    n, ldx = layer.directions * width(e, layer.cell, layer.hidden), buffers.ldx
    g, first = _dense(layer, buffers, n, len(steps)), steps.start * (1 if buffers.batch_first else layer.batch)
    kernel, item, ending, parts = product
    a, share = buffers.x.plus(item * first * ldx), _product_share(layer, len(steps))
    if parts is not None and panels.constants is not None:
        from .tiled_inputs import multiply

        return multiply(e, parts, g, panels.constants, GATES[layer.cell], Rows(a, out), share)
    m = g.out[2]
    sizes = {"m": m, "k": -(-layer.inputs * item // 4), "batch": g.images}
    sizes |= {"a_stride": layer.steps * ldx, "c_stride": m * n}
    for piece in panels.pieces(m, g.images, ldx):
        args = dot_args(piece, a=a, lda=ldx, b=panels.inputs(piece), c=out, ldc=n, **sizes, **ending)
        e.kernel(kernel, piece.params, args, share=share * piece.columns / n)


def _dense(layer: Recurrence, buffers: Buffers, n: int, steps: int) -> Geometry:
    """The product with the inputs of so many steps: of each row of the batch by itself, where their steps do not follow
    one another."""
    images = layer.batch if buffers.batch_first and steps < layer.steps else 1
    row, ldx = (1, 1, layer.batch * steps // images), buffers.ldx
    apart = layer.steps * ldx
    return Geometry(images, 1, layer.inputs, n, row, (1, 1, 1), row, (apart, apart, apart, ldx))


def _tile_parts(e: Emit, layer: Recurrence, panels: Panels, g: Geometry) -> tuple[int, str] | None:
    """The element type for tiles, where these multiply inputs; quantized layers stay as exact as they are."""
    if panels.constants is None or panels.rounds or layer.quantized or not multiplies_tiles(e.tier):
        return None
    from .tiled_inputs import parts_of

    return parts_of(e, g, panels.constants)


def _strides(name: str, place: Strided, *axes: str) -> dict[str, Slot]:
    return {f"{name}_{axis}": stride for axis, stride in zip(axes, place.strides, strict=True)}


def _states(buffers: Buffers, begins: bool, ends: bool) -> dict[str, Slot]:
    """The slots of initial states, in the first part, and of final ones, in the last."""
    found: dict[str, Slot] = {}
    for name, wanted in {"first": begins, "first_cell": begins, "last": ends, "last_cell": ends}.items():
        place = getattr(buffers, name) if wanted else None
        found[name] = None if place is None else place.address
        found |= _strides(name, place or Strided(ERROR, (0, 0)), "direction", "row")
    return found


def _grid(name: str, found: Grid | None) -> dict[str, Slot]:
    numbers = (0.0, 0.0, 0.0) if found is None else found
    return {f"{name}_{slot}": f32_bits(x) for slot, x in zip(("scale", "least", "most"), numbers, strict=True)}


def _numbers(e: Emit, layer: Recurrence, peepholes: bool) -> dict[str, Slot]:
    """The slots of sizes and attributes."""
    table = np.zeros((layer.directions, PLACES, 3), np.int64)
    for d, each in enumerate(layer.activations):
        for place, (name, alpha, beta) in enumerate(each):
            table[d, place] = ACTIVATIONS.index(name), f32_bits(alpha), f32_bits(beta)
    row = 4 * STATES * blocks(layer.hidden, e.tier.lanes) * e.tier.lanes + 8 * len(INFO)
    reverse = sum(1 << d for d, backwards in enumerate(layer.reverse) if backwards)
    scratch: dict[str, Slot] = {"scratch": e.scratch(layer.directions * layer.batch * row), "row_bytes": row}
    sizes = {"total": layer.steps, "directions": layer.directions, "batch": layer.batch, "hidden": layer.hidden}
    clips = {"low": -layer.clip, "high": layer.clip, "cell_low": -layer.cell_clip, "cell_high": layer.cell_clip}
    how = {"reverse": reverse, "coupled": layer.coupled, "plain": int(layer.plain and not peepholes)}
    grids = {**_grid("cell", layer.cell_grid), **_grid("state", layer.state_grid)}
    bounds = {name: f32_bits(bound) for name, bound in clips.items()}
    return {"activations": table, **scratch, **sizes, **how, **bounds, **grids}
