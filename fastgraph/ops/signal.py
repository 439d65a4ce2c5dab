"""Fourier transforms, windows and mel weights. Semantics: ONNX. Complex numbers are a last axis of two."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir import Dim, Node, TensorType
from .common import (
    FLOAT,
    FLOAT32,
    NUMBER,
    Types,
    at_least,
    axis_of,
    fail,
    ints,
    join,
    need_kind,
    need_one,
    need_rank,
    need_vector,
    one_dtype,
    whole,
)
from .registry import attr, define
from .work import squares


def _scalar(array: Any) -> int | None:
    return None if array is None else ints(array)[0]


def _dft_axis(node: Node, axis: int | None, rank: int) -> int:
    found = axis_of(node, -2 if axis is None else axis, rank)
    if found == rank - 1:
        fail(node, "axis must not be the last one, which holds real and imaginary parts")
    return found


def _infer_dft(node: Node, types: Types) -> list[TensorType]:
    x = types[0]
    need_rank(node, x, 2)
    need_kind(node, x, FLOAT)
    count = whole(node, 1, "dft_length")
    at_least(node, "dft_length", 1 if count is None else count, 1)
    whole(node, 2, "axis")
    if x.shape is None or (types[2] is not None and node.const(2) is None):
        return [TensorType(x.dtype, None if x.shape is None else (None,) * len(x.shape))]
    if x.shape[-1] not in (1, 2) and isinstance(x.shape[-1], int):
        fail(node, f"the last axis must have 1 (real) or 2 (complex) entries, found {x.shape[-1]}")
    axis = _dft_axis(node, _scalar(node.const(2)), len(x.shape))
    back = attr(node, "onesided") and attr(node, "inverse")
    n: Dim = x.shape[axis]
    if types[1] is not None:
        n = count
    elif back:
        n = 2 * (n - 1) if isinstance(n, int) else None
    if attr(node, "onesided") and not attr(node, "inverse"):
        n = n // 2 + 1 if isinstance(n, int) else None
    if attr(node, "onesided") and x.shape[-1] == (1 if back else 2):
        fail(node, f"onesided needs {'complex' if back else 'real'} numbers, found {x.shape[-1]} entries")
    if x.shape[axis] == 0 or (isinstance(n, int) and n < 1):
        fail(node, f"axis {axis} must not be empty")
    return [TensorType(x.dtype, (*x.shape[:axis], n, *x.shape[axis + 1 : -1], 1 if back else 2))]


def _complex(x: np.ndarray) -> np.ndarray:
    return x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]


def _parts(y: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return np.stack([y.real, y.imag], -1).astype(dtype)


def _dft(node: Node, inputs: list[Any]) -> list[Any]:
    x, count, axis = inputs
    axis, n = _dft_axis(node, _scalar(axis), x.ndim), _scalar(count)
    values = _complex(x.astype(np.promote_types(x.dtype, np.float32), copy=False))
    if attr(node, "onesided") and attr(node, "inverse"):
        return [np.fft.irfft(values, n, axis)[..., None].astype(x.dtype)]
    if attr(node, "onesided"):
        return [_parts(np.fft.rfft(values.real, n, axis), x.dtype)]
    return [_parts((np.fft.ifft if attr(node, "inverse") else np.fft.fft)(values, n, axis), x.dtype)]


def _frame_length(length: Any, window_shape: Any, signal: Dim) -> Dim:
    if length is not None:
        return ints(length)[0]
    return signal if window_shape is None else window_shape[0]


def _infer_stft(node: Node, types: Types) -> list[TensorType]:
    x, step = types[0], whole(node, 1, "frame_step")
    need_rank(node, x, 2, 3, "signal")
    need_kind(node, x, FLOAT, "signal")
    whole(node, 3, "frame_length")
    need_vector(node, types[2], "window", FLOAT)
    one_dtype(node, [x, types[2]])
    shape = x.shape or (None, None, 1)
    window = None if types[2] is None else types[2].shape or (None,)
    unknown = types[3] is not None and node.const(3) is None
    n = None if unknown else _frame_length(node.const(3), window, shape[1])
    at_least(node, "frame_step", 1 if step is None else step, 1)
    if len(shape) == 3 and isinstance(shape[2], int) and not 1 <= shape[2] <= (1 if attr(node, "onesided") else 2):
        fail(node, f"the last axis must have 1 (real) or, unless onesided, 2 (complex) entries, found {shape[2]}")
    if window is not None:
        join(node, n, window[0])
    if not (isinstance(n, int) and isinstance(shape[1], int) and step):
        frames = None
    elif not 1 <= n <= shape[1]:
        fail(node, f"frame_length {n} must be from 1 to the signal's length {shape[1]}")
    else:
        frames = (shape[1] - n) // step + 1
    bins = n if not isinstance(n, int) or not attr(node, "onesided") else n // 2 + 1
    return [TensorType(x.dtype, (shape[0], frames, bins, 2))]


def _stft(node: Node, inputs: list[Any]) -> list[Any]:
    """Spectra of windowed frames: [batch, frames, bins, 2]."""
    x, step, window, length = inputs
    values = _complex(x if x.ndim == 3 else x[..., None])
    n = _frame_length(length, None if window is None else window.shape, x.shape[1])
    assert isinstance(n, int)
    frames = np.lib.stride_tricks.sliding_window_view(values, n, axis=1)[:, :: ints(step)[0]]
    frames = frames if window is None else frames * window
    return [_parts(np.fft.rfft(frames) if attr(node, "onesided") else np.fft.fft(frames), x.dtype)]


WINDOWS: dict[str, tuple[float, float, float]] = {
    "hann_window": (0.5, 0.5, 0.0),
    "hamming_window": (25 / 46, 21 / 46, 0.0),
    "blackman_window": (0.42, 0.5, 0.08),
}
"""Weights a, b, c of a - b cos(2 pi n / N) + c cos(4 pi n / N)."""


def _infer_window(node: Node, types: Types) -> list[TensorType]:
    dtype = np.dtype(attr(node, "output_datatype"))
    need_kind(node, TensorType(dtype, ()), NUMBER, "output_datatype")
    return [TensorType(dtype, (whole(node, 0, "size"),))]


def _window(node: Node, inputs: list[Any]) -> list[Any]:
    size = ints(inputs[0])[0]
    n = size if attr(node, "periodic") else size - 1
    phase = 2 * math.pi * np.arange(size) / max(n, 1)
    a, b, c = WINDOWS[node.op]
    return [(a - b * np.cos(phase) + c * np.cos(2 * phase)).astype(attr(node, "output_datatype"))]


def _infer_mel(node: Node, types: Types) -> list[TensorType]:
    bands, n, rate = (whole(node, i, f"input {i}") for i in range(3))
    for t in types[3:]:
        need_one(node, t, "an edge of the spectrum", FLOAT)
    for what, number in (("num_mel_bins", bands), ("dft_length", n), ("sample_rate", rate)):
        at_least(node, what, 1 if number is None else number, 1)
    low, high = (node.const(i) for i in (3, 4))
    if low is not None and high is not None and rate is not None:
        first, last = float(low.reshape(-1)[0]), float(high.reshape(-1)[0])
        if not 0 <= first <= last < 2**31:
            fail(node, f"the edges of the spectrum must be from 0 on, found {first} and {last}")
    return [TensorType(np.dtype(attr(node, "output_datatype")), (None if n is None else n // 2 + 1, bands))]


def _mel(node: Node, inputs: list[Any]) -> list[Any]:
    """Triangles over a spectrum's bins, their corners equally spaced in mel, then cut down to whole bins."""
    bands, n, rate = (ints(v)[0] for v in inputs[:3])
    low, high = (2595 * math.log10(1 + float(np.reshape(v, -1)[0]) / 700) for v in inputs[3:])
    mels = low + np.arange(bands + 2) * ((high - low) / (bands + 2))
    corners = np.floor((n + 1) * (700 * (10 ** (mels / 2595) - 1)) / rate)
    left, peak, right = corners[:-2], corners[1:-1], corners[2:]
    bins = np.arange(n // 2 + 1)[:, None]
    rise = np.where(peak == left, bins == peak, (bins - left) / np.maximum(peak - left, 1))
    fall = (right - bins) / np.maximum(right - peak, 1)
    inside = (bins >= left) & ((bins < right) | (bins == peak))
    weights = np.where(inside, np.where(bins <= peak, rise, fall), 0)
    return [weights.astype(attr(node, "output_datatype"))]


define("dft", _infer_dft, _dft, inputs=(1, 3), attrs={"inverse": 0, "onesided": 0}, work=squares, shaped_by=(1, 2))
define("stft", _infer_stft, _stft, inputs=(2, 4), attrs={"onesided": 1}, work=squares, shaped_by=(1, 3))
for _name in WINDOWS:
    define(
        _name, _infer_window, _window, inputs=(1, 1), attrs={"output_datatype": FLOAT32, "periodic": 1}, shaped_by=(0,)
    )
define(
    "mel_weight_matrix", _infer_mel, _mel, inputs=(5, 5), attrs={"output_datatype": FLOAT32}, work=squares,
    shaped_by=(0, 1, 2, 3, 4),
)  # fmt: skip
