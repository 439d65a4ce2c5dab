"""A layer as the kernels take it, whatever operator it comes from: the product with its inputs, and the walk."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from ....freedoms import threshold
from ....ir import TensorType
from ....kernels.gemm.pick_dot import dot_args
from ....kernels.pointwise.rows import NO_EPILOGUE
from ....kernels.recurrent.pack_recurrent import blocks
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
    """x: [rows, inputs], the rows by step, then by row of the batch, or with `batch_first` the other way round; y: by
    [step, direction, row]; states: by [direction, row], None: zeros, or nobody asks for them.
    """

    x: Ref
    ldx: int
    batch_first: bool
    y: Place
    first: Place | None = None
    first_cell: Place | None = None
    last: Place | None = None
    last_cell: Place | None = None
    lengths: Ref | None = None


LARGE, PART, MOST = 1 << 20, 1 << 19, 64
"""Bytes of projected inputs from which a layer goes in parts, bytes of a part, and how many parts there are at most."""


def emit_layer(e: Emit, layer: Layer, panels: Panels, places: Places) -> None:
    """Write the steps of a layer: its inputs times weights, then the walk over them; for some steps at a time, where
    all of them would not stay in the cache.
    """
    columns = width(e, layer.cell, layer.hidden)
    n = layer.directions * columns
    parts = _parts(layer, places, 4 * layer.batch * n)
    projected = e.scratch(4 * layer.batch * n * max(count for _, count in parts))
    common: dict[str, Arg] = {
        **_strides("y", places.y, "step", "direction", "row"), **panels.slots,
        **_numbers(e, layer, panels.slots["peepholes"] != 0), "projected": projected,
        "projected_direction": 4 * columns,
        "lengths": 0 if places.lengths is None else places.lengths, "error": 0 if places.lengths is None else ERROR,
    }  # fmt: skip
    for start, count in parts:
        share = count / layer.steps * layer.inputs / (layer.inputs + layer.hidden)
        time = layer.steps - start - count if layer.reverse[0] and layer.directions == 1 else start
        _project(e, layer, panels, places, projected, time, count, share)
        last = start + count == layer.steps
        e.kernel("recurrent", {"cell": layer.cell}, {
            **common, **_states(places, start == 0, last), "start": start, "steps": count,
            "y": Ref(places.y.at.base, places.y.at.offset + time * places.y.strides[0]),
            "projected_step": 4 * n * (1 if places.batch_first else layer.batch),
            "projected_row": 4 * n * (count if places.batch_first else 1),
        }, share=count / layer.steps - share)  # fmt: skip


def _parts(layer: Layer, places: Places, step: int) -> list[tuple[int, int]]:
    """(first step, how many) of each part. step: bytes of the projected input of one.

    Directions that go opposite ways take all at once, and so do sequences that begin at ends of their own.
    """
    whole = layer.directions > 1 or (layer.reverse[0] and places.lengths is not None)
    if whole or layer.steps * step < threshold("steps_large", LARGE):
        return [(0, layer.steps)]
    each = max(threshold("steps_part", PART) // step, 1, -(-layer.steps // MOST))
    return [(start, min(each, layer.steps - start)) for start in range(0, layer.steps, each)]


def _project(
    e: Emit, layer: Layer, panels: Panels, places: Places, out: Ref, time: int, count: int, share: float
) -> None:
    """Inputs of `count` steps from `time` on, times the weights of all directions, plus biases."""
    n, ldx = layer.directions * width(e, layer.cell, layer.hidden), places.ldx
    matrices = layer.batch if places.batch_first and count < layer.steps else 1
    m, first = layer.batch * count // matrices, time * (1 if places.batch_first else layer.batch)
    for piece in panels.pieces(m, matrices, ldx):
        args = dot_args(
            piece, a=Ref(places.x.base, places.x.offset + 4 * first * ldx), lda=ldx, b=panels.inputs(piece), c=out,
            ldc=n, m=m, k=layer.inputs, **NO_EPILOGUE,
        ) | {"batch": matrices, "a_stride": layer.steps * ldx, "c_stride": m * n}  # fmt: skip
        e.kernel("dot", piece.params, args, share=share * piece.columns / n)


def _strides(name: str, place: Place, *axes: str) -> dict[str, Arg]:
    return {f"{name}_{axis}": stride for axis, stride in zip(axes, place.strides, strict=True)}


def _states(places: Places, begins: bool, ends: bool) -> dict[str, Arg]:
    """The slots of initial states, for the part that begins, and of last ones, for that which ends."""
    found: dict[str, Arg] = {}
    for name, wanted in {"first": begins, "first_cell": begins, "last": ends, "last_cell": ends}.items():
        place = getattr(places, name) if wanted else None
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
        "total": layer.steps, "directions": layer.directions, "batch": layer.batch, "hidden": layer.hidden,
        "reverse": sum(1 << d for d, backwards in enumerate(layer.reverse) if backwards),
        "low": f32_bits(-layer.clip), "high": f32_bits(layer.clip), "cell_low": f32_bits(-layer.cell_clip),
        "cell_high": f32_bits(layer.cell_clip), "coupled": layer.coupled, **_grid("cell", layer.cell_grid),
        **_grid("state", layer.state_grid), "plain": int(layer.plain and not peepholes),
    }  # fmt: skip
