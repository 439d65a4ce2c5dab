"""Tables of linear and cubic resize: the indices and weights of the inputs of each output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .coordinates import coordinates, outside

F = np.float32


@dataclass(frozen=True)
class ResizeTable:
    """y[i] = sum over t of weight[i, t] * x[index[i, t]]; where `outside`, y[i] is the extrapolation value.

    index int64 [n_out, T] in range, weight f32 [n_out, T] (zeros where outside), outside bool [n_out].
    """

    index: np.ndarray
    weight: np.ndarray
    outside: np.ndarray


class Axis(NamedTuple):
    """An axis (number `axis`) that is resized from n_in to n_out elements. A crop reads its part `roi`, (start,
    end).
    """

    n_in: int
    n_out: int
    scale: float | None = None
    roi: tuple[float, float] = (0.0, 1.0)
    axis: int = 0


def resize_table(
    axis: Axis,
    mode: str,
    coordinate_mode: str,
    cubic_coeff_a: float = -0.75,
    exclude_outside: bool = False,
    antialias: bool = False,
) -> ResizeTable:
    """The table of `mode` linear or cubic along one axis, with the meanings of ONNX Resize's attributes."""
    if mode not in ("linear", "cubic"):
        raise ValueError(f"resize mode {mode!r} has no table: use linear or cubic, or nearest_indices")
    n_in, n_out, scale, roi, _ = axis
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
    return ResizeTable(np.clip(places[:, used], 0, n_in - 1), np.ascontiguousarray(weight[:, used]), beyond)


def _triangle(d: np.ndarray) -> np.ndarray:
    return np.clip(1.0 - np.abs(d), 0.0, 1.0)


def cubic_weight(d: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic convolution kernel."""
    d = np.abs(d)
    near = ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    far = ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    return np.where(d <= 1.0, near, np.where(d < 2.0, far, 0.0))


def _used(weight: np.ndarray) -> np.ndarray:
    """The taps that any output uses; all of up to 4, for which the kernel has special bodies."""
    return np.flatnonzero((weight != 0).any(axis=0) | (weight.shape[1] <= 4))
