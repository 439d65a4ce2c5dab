"""Scales and zero points for the values of a composition, as a converter would choose them from a run."""

from dataclasses import dataclass
from zlib import crc32

import numpy as np

from .composition import Composition, Op

MOVES = frozenset({
    "reshape", "transpose", "slice", "split", "concat", "max_pool", "pad", "depth_to_space", "space_to_depth", "gather",
    "expand", "identity",
})  # fmt: skip
"""Operators that only move numbers: what they read and make has one quantization."""

FIXED = {"sigmoid": (0.0, 1.0), "hard_sigmoid": (0.0, 1.0), "softmax": (0.0, 1.0), "tanh": (-1.0, 1.0)}
"""Operators whose results have a known range."""


@dataclass(frozen=True)
class Scheme:
    """`signed` activations; `weights` "s8" or "u8", per channel or not; `apart`: some moves change the quantization."""

    signed: bool = False
    weights: str = "s8"
    per_channel: bool = True
    apart: bool = True


@dataclass(frozen=True)
class Params:
    scale: float
    zero: int

    def stored(self, array: np.ndarray, signed: bool) -> np.ndarray:
        low = -128 if signed else 0
        return np.clip(np.rint(array / self.scale) + self.zero, low, low + 255).astype(np.int8 if signed else np.uint8)


def one_in(name: str, count: int) -> bool:
    """For one name in so many: a choice that stays when a network gets smaller."""
    return crc32(name.encode()) % count == 0


def params(net: Composition, values: dict[str, np.ndarray], scheme: Scheme) -> dict[str, Params]:
    """Of all values that are quantized, by name: inputs of floats, constants that are moved, and results."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.get(name, name) != name:
            name = leader[name]
        return name

    fixed: dict[str, tuple[float, float]] = {}
    for op in net.ops:
        fixed.update({name: FIXED[op.kind] for name in op.outputs if op.kind in FIXED})
        if moves(op) and not (scheme.apart and one_in(op.outputs[0], 7)):
            for name in (*joined(op), *op.outputs):
                leader[find(name)] = find(op.outputs[0])
    ranges: dict[str, tuple[float, float]] = {}
    named = {name for name, given in net.inputs.items() if not given.below} | set(net.made())
    named |= {name for op in net.ops if moves(op) for name in joined(op) if name in net.consts}
    for name in named:
        array = values[name] if name in values else net.consts[name].array()
        low, high = fixed.get(name, (float(array.min(initial=0)), float(array.max(initial=0))))
        was = ranges.get(find(name), (0.0, 0.0))
        ranges[find(name)] = min(was[0], low), max(was[1], high)
    kept = {name for name in named if not one_in(find(name), 9)}
    return {name: _params(*ranges[find(name)], scheme.signed) for name in kept}


def moves(op: Op) -> bool:
    return op.kind in MOVES or op.kind == "resize" or op.kind == "reduce" and op.attrs["how"] in ("max", "min")


def joined(op: Op) -> list[str]:
    """The operands that are moved."""
    return op.inputs if op.kind == "concat" else op.inputs[:1]


def _params(low: float, high: float, signed: bool) -> Params:
    scale = float(np.float32(max(high - low, 1e-3) / 255))
    return Params(scale, int(np.clip(round(-low / scale), 0, 255)) - 128 * signed)


def weights(array: np.ndarray, axis: int | None, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(stored, scales, zero points), symmetric where they are signed; along an axis or for all."""
    others = tuple(i for i in range(array.ndim) if i != axis) if axis is not None else None
    if kind == "s8":
        scales = np.maximum(np.abs(array).max(axis=others, initial=1e-3), 1e-3) / 127
        zeros = np.zeros_like(scales)
        low, high = -127, 127
    else:
        least, most = array.min(axis=others, initial=0), array.max(axis=others, initial=0)
        scales = np.maximum(most - least, 1e-3) / 255
        zeros = np.rint(-least / scales)
        low, high = 0, 255
    spread = (
        (np.expand_dims(scales, others or ()), np.expand_dims(zeros, others or ()))
        if axis is not None
        else (scales, zeros)
    )
    stored = np.clip(np.rint(array / spread[0]) + spread[1], low, high)
    dtype = np.int8 if kind == "s8" else np.uint8
    return stored.astype(dtype), scales.astype(np.float32), zeros.astype(dtype)


LAYERS = {"conv": 0, "conv_transpose": 1, "dense": 1}
"""Operators whose second operand is weights, and its axis of output channels."""
