"""Coordinates of a resize along an axis, and the nearest index of each: for references and kernels.

f32 as the runtime of each format computes it, so that ties fall to the same side. ONNX: onnxruntime 1.31, whose
quotients by the scale differ from exact arithmetic in one pair of sizes in twenty (asymmetric and floor, 14 elements to
2: [0, 6] and not [0, 7]). Only crops to the same size, which it leaves out, are done as ONNX says. TensorFlow Lite:
LiteRT, products with in / out. Core ML's programs use the same products. Imports nothing that compiles.
"""

from __future__ import annotations

import numpy as np

F = np.float32
COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn",
    "tf_crop_and_resize", "tf_half_pixel", "tf_align_corners", "tf_asymmetric",
    "tf_half_pixel_10", "tf_align_corners_10", "tf_asymmetric_10",
)  # fmt: skip
"""ONNX's coordinate_transformation_modes, then TensorFlow's, and these in units of 2**-10."""
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
TENSORFLOW = frozenset({"tf_half_pixel", "tf_align_corners", "tf_asymmetric"})
WHOLE = frozenset(f"{mode}_10" for mode in TENSORFLOW)
_TIE = F(1e-6)
"""Coordinates that are at most so far from the middle between two pixels count as the middle, for ONNX."""


Roi = tuple[float, float]
"""Start and end of the part of an axis that a crop reads."""


def coordinates(mode: str, n_in: int, n_out: int, scale: float | None = None, roi: Roi = (0.0, 1.0)) -> np.ndarray:
    """The f32 coordinate in the input of each output.

    An axis that keeps its size keeps its coordinates. `scale` is n_out / n_in when None; `roi` (start, end) is for
    tf_crop_and_resize only.
    """
    x = np.arange(n_out, dtype=F)
    s = F(n_out) / F(max(n_in, 1)) if scale is None else F(scale)
    if s == 1 and n_in == n_out and mode != "tf_crop_and_resize":
        return x
    if mode in TENSORFLOW:
        corners, half = int(mode == "tf_align_corners" and n_out > 1), F(0.5 * (mode == "tf_half_pixel"))
        return (x + half) * (F(n_in - corners) / F(n_out - corners)) - half
    if mode in WHOLE:
        return _in_whole_units(mode.removesuffix("_10"), n_in, n_out)
    if mode == "half_pixel" or mode == "pytorch_half_pixel" and n_out > 1:
        return (x + F(0.5)) / s - F(0.5)
    if mode == "half_pixel_symmetric":
        offset = F(n_in) / F(2) * (F(1) - F(n_out) / (s * F(n_in)))
        return (float(offset) + (x + 0.5).astype(np.float64) / float(s) - 0.5).astype(F)
    if mode == "align_corners" and n_out > 1:
        return x * F(n_in - 1) / F(n_out - 1)
    if mode in ("pytorch_half_pixel", "align_corners"):
        return F(0) * x
    if mode == "asymmetric":
        return x / s
    if mode == "tf_half_pixel_for_nn":
        return (x + F(0.5)) / s
    if mode == "tf_crop_and_resize":
        start, end = F(roi[0]), F(roi[1])
        if n_out > 1:
            return start * F(n_in - 1) + x * (end - start) * F(n_in - 1) / F(n_out - 1)
        return (x + 0.5 * float(start + end) * (n_in - 1)).astype(F)
    raise ValueError(f"coordinate_transformation_mode {mode!r} is not one of {', '.join(COORDINATES)}")


def _in_whole_units(mode: str, n_in: int, n_out: int) -> np.ndarray:
    """Coordinates by a multiplier that is rounded to 10 bits after the point."""
    corners, half = int(mode == "tf_align_corners" and n_out > 1), mode == "tf_half_pixel"
    step = ((n_in - corners << 10) + (n_out - corners) // 2) // (n_out - corners)
    return ((np.arange(n_out) * step + half * (step // 2 - 512)) / 1024).astype(F)


def outside(mode: str, where: np.ndarray, n_in: int) -> np.ndarray:
    """Which coordinates get the extrapolation value: those of a crop that are outside of the axis."""
    return ((where < 0) | (where > n_in - 1)) if mode == "tf_crop_and_resize" else np.zeros(len(where), bool)


def nearest_indices(
    n_in: int, n_out: int, coordinate_mode: str, nearest_mode: str, scale: float | None = None, roi: Roi = (0.0, 1.0)
) -> np.ndarray:
    """The int64 index in the input that each output copies, -1 for the extrapolation value."""
    x = coordinates(coordinate_mode, n_in, n_out, scale, roi)
    low = np.floor(x)
    if nearest_mode in ("round_prefer_floor", "round_prefer_ceil"):
        beyond, ceil = x - low - F(0.5), nearest_mode == "round_prefer_ceil"
        tie = np.abs(beyond) <= (F(0) if coordinate_mode in TENSORFLOW else _TIE)
        near = low + np.where(tie, ceil, beyond > 0)
    elif nearest_mode in ("floor", "ceil"):
        near = low if nearest_mode == "floor" else np.ceil(x)
    else:
        raise ValueError(f"nearest_mode {nearest_mode!r} is not one of {', '.join(NEAREST)}")
    places = np.clip(near, 0, n_in - 1).astype(np.int64)
    return np.where(outside(coordinate_mode, x, n_in), -1, places)
