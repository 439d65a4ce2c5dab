"""Tables of linear and cubic resize: which places of an axis make each output place, and with which weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from .coordinates import coordinates, outside
from .moves import Args, Move, dense, transposed

F = np.float32


@dataclass(frozen=True)
class Taps:
    """y[i] = sum over t of weight[i, t] * x[index[i, t]]; where `outside`, y[i] is the extrapolation value.

    index int64 [n_out, T] in range, weight f32 [n_out, T] (zeros where outside), outside bool [n_out].
    """

    index: np.ndarray
    weight: np.ndarray
    outside: np.ndarray


def axis_taps(
    n_in: int,
    n_out: int,
    mode: str,
    coordinate_mode: str,
    scale: float | None = None,
    cubic_coeff_a: float = -0.75,
    exclude_outside: bool = False,
    antialias: bool = False,
    roi: tuple[float, float] = (0.0, 1.0),
) -> Taps:
    """The taps of `mode` linear or cubic along one axis, with the meanings of ONNX Resize's attributes."""
    if mode not in ("linear", "cubic"):
        raise ValueError(f"resize mode {mode!r} has no taps: use linear or cubic, or nearest_places")
    if antialias and n_in == n_out:
        # As onnxruntime, which filters no axis that keeps its size.
        scale = None
    x = coordinates(coordinate_mode, n_in, n_out, scale, roi)
    beyond = outside(coordinate_mode, x, n_in)
    if mode == "linear" and not antialias:
        x = np.clip(x, F(0), F(n_in - 1))
    reach = 1 if mode == "linear" else 2
    shrink = float(min(F(n_out) / F(n_in) if scale is None else F(scale), F(1))) if antialias else 1.0
    first = int(np.floor(-reach / shrink)) + 1
    low = np.floor(x)
    distance = np.arange(first, 2 - first)[None, :] - (x - low).astype(np.float64)[:, None]
    places = low.astype(np.int64)[:, None] + np.arange(first, 2 - first)[None, :]
    weight = _triangle(distance * shrink) if mode == "linear" else cubic_weight(distance * shrink, cubic_coeff_a)
    if exclude_outside:
        weight = np.where((places < 0) | (places >= n_in), 0.0, weight)
    if exclude_outside or antialias:
        total = weight.sum(axis=1, keepdims=True)
        weight = weight / np.where(total == 0, 1.0, total)
    weight = np.where(beyond[:, None], 0.0, weight).astype(F)
    used = _used(weight)
    return Taps(np.clip(places[:, used], 0, n_in - 1), np.ascontiguousarray(weight[:, used]), beyond)


def _triangle(d: np.ndarray) -> np.ndarray:
    return np.clip(1.0 - np.abs(d), 0.0, 1.0)


def cubic_weight(d: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic convolution kernel."""
    d = np.abs(d)
    near = ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    far = ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    return np.where(d <= 1.0, near, np.where(d < 2.0, far, 0.0))


def _used(weight: np.ndarray) -> np.ndarray:
    """The taps that some output place uses; all of up to 4, for which the kernel has bodies of their own."""
    return np.flatnonzero((weight != 0).any(axis=0) | (weight.shape[1] <= 4))


# -- kernel calls


SIZES = {"f32": 4, "u8": 1, "s8": 1}
"""Bytes of the element types that can be resized."""


@dataclass(frozen=True)
class Ends:
    """The element types that a pass reads and writes, and the zero point of what it writes."""

    source: str = "f32"
    target: str = "f32"
    zero: int = 0

    @property
    def plain(self) -> bool:
        return self.source == self.target == "f32"


def resized(
    shape: Sequence[int],
    axes: Mapping[int, Taps],
    extrapolation: float = 0.0,
    element: str = "f32",
    zero: int = 0,
) -> list[tuple[Move, tuple[int, ...]]]:
    """The calls that resize these axes of a dense tensor, in order, each with its dense result's shape.

    All but the last write f32 to scratch, which the caller provides. No axes: no calls. `element`: "f32", or "u8"
    or "s8" with their zero point; the extrapolation value is a stored number too.
    """
    steps: list[tuple[Move, tuple[int, ...]]] = []
    at = list(shape)
    left = dict(axes)
    while left:
        pair = _pair(at, left)
        chosen = {pair, pair + 1} if pair is not None else {min(left, key=lambda a: _order(at, a, left[a]))}
        taps = [left.pop(axis) for axis in sorted(chosen)]
        ends = Ends("f32" if steps else element, "f32" if left else element, 0 if left else zero)
        if pair is not None:
            steps.append(_bilinear(at, pair, taps[0], taps[1], ends))
        else:
            steps += _passes(at, min(chosen), taps[0], extrapolation, ends)
        at = list(steps[-1][1])
    return steps


def _order(shape: Sequence[int], axis: int, taps: Taps) -> tuple[float, int]:
    """What shrinks most goes first; among equals the one in short runs, while there is little of them."""
    growth = len(taps.index) / max(shape[axis], 1)
    run = prod(shape[axis + 1 :])
    return growth, run if growth >= 1 else -run


def _pair(shape: Sequence[int], axes: Mapping[int, Taps]) -> int | None:
    """The first of the two last axes, when one bilinear call beats two passes: many channels."""
    first = min(axes)
    if sorted(axes) != [first, first + 1]:
        return None
    both = axes[first], axes[first + 1]
    if any(taps.index.shape[1] != 2 or taps.outside.any() for taps in both):
        return None
    grows = prod(len(taps.index) for taps in both) > shape[first] * shape[first + 1]
    return first if prod(shape[first + 2 :]) >= (32 if grows else 16) else None


def _passes(
    shape: Sequence[int], axis: int, taps: Taps, extrapolation: float, ends: Ends
) -> list[tuple[Move, tuple[int, ...]]]:
    """One pass; for the innermost axis of many lines, which has no runs, one between two transposes."""
    lines, n, count = prod(shape[:axis]), shape[axis], len(taps.index)
    if prod(shape[axis + 1 :]) > 1 or lines < 32 or min(n, count) < 16:
        return [_pass(shape, axis, taps, extrapolation, ends)]
    there = transposed((lines, n), (1, 0), SIZES[ends.source])
    back = transposed((count, lines), (1, 0), SIZES[ends.target])
    out = (*shape[:axis], count, *shape[axis + 1 :])
    return [(there, (n, lines)), _pass((n, lines), 0, taps, extrapolation, ends), (back, out)]


def _pass(
    shape: Sequence[int], axis: int, taps: Taps, extrapolation: float, ends: Ends
) -> tuple[Move, tuple[int, ...]]:
    out = [*shape[:axis], len(taps.index), *shape[axis + 1 :]]
    src, dst = dense(shape, SIZES[ends.source]), dense(out, SIZES[ends.target])
    run, count = prod(shape[axis + 1 :]), taps.index.shape[1]
    args: Args = {
        "offset": taps.index * src[axis],
        "weight": taps.weight,
        "bias": np.where(taps.outside, F(extrapolation), F(0)) - F(ends.zero),
        "count": count,
        "outer": prod(shape[:axis]),
        "outer_s": shape[axis] * src[axis],
        "outer_d": out[axis] * dst[axis],
        "n": out[axis],
        "d": dst[axis],
        "length": run,
    }
    params: dict[str, Any] = {"taps": count if count in (2, 4) else 0, "run": run if run <= 4 else 0}
    if ends.plain:
        return Move("resize", params, args), tuple(out)
    return Move("resize_stored", {**params, **_types(ends)}, {**args, "zero": ends.zero}), tuple(out)


def _types(ends: Ends) -> dict[str, Any]:
    return {"source": ends.source, "target": ends.target}


def _bilinear(shape: Sequence[int], axis: int, y: Taps, x: Taps, ends: Ends) -> tuple[Move, tuple[int, ...]]:
    out = [*shape[:axis], len(y.index), len(x.index), *shape[axis + 2 :]]
    src, dst = dense(shape, SIZES[ends.source]), dense(out, SIZES[ends.target])
    args: Args = {
        "offset_y": y.index * src[axis],
        "weight_y": y.weight,
        "offset_x": x.index * src[axis + 1],
        "weight_x": x.weight,
        "outer": prod(shape[:axis]),
        "outer_s": shape[axis] * src[axis],
        "outer_d": out[axis] * dst[axis],
        "height": out[axis],
        "dy": dst[axis],
        "width": out[axis + 1],
        "dx": dst[axis + 1],
        "run": prod(shape[axis + 2 :]),
    }
    if ends.plain:
        return Move("bilinear", {}, args), tuple(out)
    return Move("bilinear_stored", _types(ends), {**args, "zero": ends.zero}), tuple(out)


def apply_taps(x: np.ndarray, axis: int, taps: Taps, extrapolation: float = 0.0) -> np.ndarray:
    """What the resize pass along `axis` computes, in NumPy: the reference."""
    moved = np.moveaxis(x, axis, -1)
    y = (moved[..., taps.index] * taps.weight).sum(axis=-1, dtype=np.float64)
    return np.moveaxis(np.where(taps.outside, extrapolation, y), -1, axis).astype(x.dtype)
