"""A layer as the kernels take it, whatever operator it comes from: the product with its inputs, and the walk."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from ....ir import TensorType
from ....kernels.gemm.pick_dot import dot_args
from ....kernels.pointwise.rows import NO_EPILOGUE
from ....kernels.recurrent.pack import blocks
from ....kernels.recurrent.rows import ACTIVATIONS, INFO, PLACES, STATES, USUAL
from ...program import ERROR, Ref
from ..registry import Arg, Emit
from ..walk import f32_bits
from .weights import Panels, Place, width

Activation = tuple[str, float, float]
"""Name among ACTIVATIONS, alpha and beta."""


class Grid(NamedTuple):
    """What a state is rounded to: multiples of `scale`, from `least` to `most` of them."""

    scale: float
    least: int
    most: int


def grid(t: TensorType | None) -> Grid | None:
    """What values of a quantized type can be; None: any number."""
    if t is None or t.quant is None or t.dtype is None:
        return None
    (scale,), (zero,), limits = t.quant.scale, t.quant.zero_point, np.iinfo(t.dtype)
    return Grid(scale, limits.min - zero, limits.max - zero)


@dataclass(frozen=True)
class Layer:
    """Sizes and attributes. `reverse`: of each direction; `activations`: of each direction, by its places."""

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
    def plain(self) -> bool:
        """Whether nothing is unusual but peepholes."""
        usual = all(tuple(name for name, *_ in each) == USUAL[self.cell] for each in self.activations)
        return usual and self.clip == self.cell_clip == inf and not self.coupled


@dataclass
class Places:
    """x: [rows, inputs], the rows by step and row of the batch where `x_step` rows lie from step to step, `x_row` from
    row to row; y: [step, direction, row]; states: [direction, row], None: zeros, or nobody asks for them.
    """

    x: Ref
    ldx: int
    x_step: int
    x_row: int
    y: Place
    first: Place | None = None
    first_cell: Place | None = None
    last: Place | None = None
    last_cell: Place | None = None
    lengths: Ref | None = None


def emit_layer(e: Emit, layer: Layer, panels: Panels, places: Places) -> None:
    """Write the steps of a layer."""
    columns = width(e, layer.cell, layer.hidden)
    n, m = layer.directions * columns, layer.steps * layer.batch
    projected = e.scratch(4 * m * n)
    share = layer.inputs / (layer.inputs + layer.hidden)
    for piece in panels.pieces(m, places.ldx):
        args = dot_args(
            piece, a=places.x, lda=places.ldx, b=panels.inputs(piece), c=projected, ldc=n, m=m, k=layer.inputs,
            **NO_EPILOGUE,
        )  # fmt: skip
        e.kernel("dot", piece.params, args, share=share * piece.columns / n)
    walk: dict[str, Arg] = {
        "y": places.y.at, **_strides("y", places.y, "step", "direction", "row"), **_states(places),
        "projected": projected, "projected_step": places.x_step * 4 * n, "projected_row": places.x_row * 4 * n,
        "projected_direction": 4 * columns, **panels.slots, **_numbers(e, layer, panels.slots["peepholes"] != 0),
        "lengths": 0 if places.lengths is None else places.lengths, "error": 0 if places.lengths is None else ERROR,
    }  # fmt: skip
    e.kernel("recurrent", {"cell": layer.cell}, walk, share=1 - share)


def _strides(name: str, place: Place, *axes: str) -> dict[str, Arg]:
    return {f"{name}_{axis}": stride for axis, stride in zip(axes, place.strides, strict=True)}


def _states(places: Places) -> dict[str, Arg]:
    """The slots of initial and last states."""
    found: dict[str, Arg] = {}
    for name in ("first", "first_cell", "last", "last_cell"):
        place = getattr(places, name)
        found[name] = 0 if place is None else place.at
        found |= _strides(name, place or Place(ERROR, (0, 0)), "direction", "row")
    return found


def _grid(name: str, found: Grid | None) -> dict[str, Arg]:
    numbers = (0.0, 0.0, 0.0) if found is None else found
    return {f"{name}_{slot}": f32_bits(x) for slot, x in zip(("scale", "least", "most"), numbers, strict=True)}


def _numbers(e: Emit, layer: Layer, peepholes: bool) -> dict[str, Arg]:
    """Sizes and attributes."""
    table = np.zeros((layer.directions, PLACES, 3), np.int64)
    for d, each in enumerate(layer.activations):
        for place, (name, alpha, beta) in enumerate(each):
            table[d, place] = ACTIVATIONS.index(name), f32_bits(alpha), f32_bits(beta)
    row = 4 * STATES * blocks(layer.hidden, e.tier.lanes) * e.tier.lanes + 8 * len(INFO)
    return {
        "activations": e.constant(table), "scratch": e.scratch(layer.directions * layer.batch * row), "row_bytes": row,
        "steps": layer.steps, "directions": layer.directions, "batch": layer.batch, "hidden": layer.hidden,
        "reverse": sum(1 << d for d, backwards in enumerate(layer.reverse) if backwards),
        "low": f32_bits(-layer.clip), "high": f32_bits(layer.clip), "cell_low": f32_bits(-layer.cell_clip),
        "cell_high": f32_bits(layer.cell_clip), "coupled": layer.coupled, **_grid("cell", layer.cell_grid),
        **_grid("state", layer.state_grid), "plain": int(layer.plain and not peepholes),
    }  # fmt: skip
