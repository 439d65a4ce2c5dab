"""A layer as the kernels take it, whatever operator it comes from: the product with its inputs, and the walk."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

import numpy as np

from ....kernels.gemm.pack import pack_weights
from ....kernels.gemm.pick_dot import dot_args, pick_dot
from ....kernels.pointwise.rows import NO_EPILOGUE
from ....kernels.recurrent.pack import blocks, by_block, pack_peepholes, pack_state_weights
from ....kernels.recurrent.rows import ACTIVATIONS, GATES, INFO, PLACES, STATES, USUAL
from ...program import ERROR, Ref
from ..registry import Arg, Emit
from ..walk import f32_bits

Activation = tuple[str, float, float]
"""Name among ACTIVATIONS, alpha and beta."""


class Weights(NamedTuple):
    """Constants of all directions: w [D, gates * hidden, I], r [D, gates * hidden, hidden], biases of the products with
    the input and with the state [D, gates * hidden], peepholes [D, 3 * hidden]; gates in the canonical order.

    The bias of the state is None where it is a part of that of the input.
    """

    w: np.ndarray
    r: np.ndarray
    bias: np.ndarray | None
    state_bias: np.ndarray | None
    peepholes: np.ndarray | None


class Place(NamedTuple):
    """Where something lies: byte strides by axis, in the order that the name of the field says."""

    at: Ref
    strides: tuple[int, ...]


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
    more: dict[str, Arg] = field(default_factory=dict)


def emit_layer(e: Emit, layer: Layer, weights: Weights, places: Places, key: tuple[object, ...]) -> None:
    """Write the steps of a layer. `key`: names its weights, for constants that plans share."""
    lanes, gates = e.tier.lanes, GATES[layer.cell]
    width = blocks(layer.hidden, lanes) * gates * lanes
    projected = e.scratch(4 * layer.steps * layer.batch * layer.directions * width)
    _project(e, layer, weights, places, projected, key)
    row = 4 * layer.directions * width
    args: dict[str, Arg] = {
        "y": places.y.at, **_strides("y", places.y, "step", "direction", "row"), **_states(places),
        "projected": projected, "projected_step": places.x_step * row, "projected_row": places.x_row * row,
        "projected_direction": 4 * width, **_weights(e, layer, weights, key), **_numbers(e, layer, weights),
        "lengths": 0 if places.lengths is None else places.lengths, "error": 0 if places.lengths is None else ERROR,
    }  # fmt: skip
    e.kernel("recurrent", {"cell": layer.cell}, args, share=1 - _input_share(layer))


def _input_share(layer: Layer) -> float:
    """The part of a layer's products that its inputs take."""
    return layer.inputs / (layer.inputs + layer.hidden)


def _project(e: Emit, layer: Layer, weights: Weights, places: Places, out: Ref, key: tuple[object, ...]) -> None:
    """Inputs of all steps times the weights of all directions, plus biases."""
    lanes, gates = e.tier.lanes, GATES[layer.cell]
    n, m = layer.directions * blocks(layer.hidden, lanes) * gates * lanes, layer.steps * layer.batch
    for piece in pick_dot(e.tier, m, n, layer.inputs, 1, e.threads, places.ldx):
        part = slice(piece.start, piece.start + piece.columns)

        def packed(part: slice = part, nv: int = piece.nv) -> np.ndarray:
            columns = by_block(weights.w, gates, lanes).reshape(n, -1)[part]
            bias = None if weights.bias is None else by_block(weights.bias, gates, lanes).reshape(n)[part]
            return pack_weights(columns, bias, nv, lanes)

        args = dot_args(
            piece, a=places.x, lda=places.ldx, b=e.packed((*key, "inputs", piece.start, piece.columns, piece.nv), packed),
            c=out, ldc=n, m=m, k=layer.inputs, **NO_EPILOGUE,
        )  # fmt: skip
        e.kernel("dot", piece.params, args, share=_input_share(layer) * piece.columns / n)


def _strides(name: str, place: Place, *axes: str) -> dict[str, Arg]:
    return {f"{name}_{axis}": stride for axis, stride in zip(axes, place.strides, strict=True)}


def _states(places: Places) -> dict[str, Arg]:
    """The slots of initial and last states."""
    found: dict[str, Arg] = {}
    for name in ("first", "first_cell", "last", "last_cell"):
        place = getattr(places, name)
        found[name] = 0 if place is None else place.at
        found |= _strides(name, place or Place(Ref(-1), (0, 0)), "direction", "row")
    return found


def _weights(e: Emit, layer: Layer, weights: Weights, key: tuple[object, ...]) -> dict[str, Arg]:
    """The slots of what is multiplied by the state: of a gru that resets the state, in two."""
    lanes, gates, hidden = e.tier.lanes, GATES[layer.cell], layer.hidden
    first = 2 if layer.cell == "gru" else gates

    def panels(start: int, end: int) -> Ref:
        part = slice(start * hidden, end * hidden)

        def packed() -> np.ndarray:
            bias = None if weights.state_bias is None else weights.state_bias[:, part]
            return pack_state_weights(weights.r[:, part], bias, end - start, lanes)

        return e.packed((*key, "states", start), packed)

    found: dict[str, Arg] = {"weights": panels(0, first), "second": panels(first, gates) if first < gates else 0}
    peepholes = weights.peepholes
    none = peepholes is None
    found["peepholes"] = 0 if none else e.packed((*key, "peepholes"), lambda: pack_peepholes(peepholes, lanes))  # type: ignore[arg-type]
    return found


def _numbers(e: Emit, layer: Layer, weights: Weights) -> dict[str, Arg]:
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
        "cell_high": f32_bits(layer.cell_clip), "coupled": layer.coupled,
        "plain": int(layer.plain and weights.peepholes is None),
    }  # fmt: skip
