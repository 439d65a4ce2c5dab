"""Spectra of audio, and transforms near them. Semantics: tflite/kernels/{audio_spectrogram, mfcc, rfft2d,
hadamard_rotation}.cc and tflite/kernels/internal/{spectrogram, mfcc_mel_filterbank, mfcc_dct}.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Node, TensorType
from .common import FLOAT, FLOAT32, NUMBER, Types, fail, fits, ints, need_kind, need_one, need_rank, need_vector
from .registry import REQUIRED, attr, define
from .work import squares

COMPLEX64 = np.dtype(np.complex64)
FLOOR = 1e-12
"""Logarithms are taken of nothing smaller."""


def _fft_length(node: Node) -> int:
    size, stride = attr(node, "window_size"), attr(node, "stride")
    if size < 2 or stride < 1 or size > 2**24:
        fail(node, f"window_size must be 2 or more and stride 1 or more, found {size} and {stride}")
    return 1 << (size - 1).bit_length()


def _infer_spectrogram(node: Node, types: Types) -> list[TensorType]:
    need_rank(node, types[0], 2, 2, "the samples")
    need_kind(node, types[0], FLOAT, "the samples")
    bins = _fft_length(node) // 2 + 1
    if types[0].shape is None:
        return [TensorType(FLOAT32, (None, None, bins))]
    n, channels = types[0].shape
    frames = max((n - attr(node, "window_size")) // attr(node, "stride") + 1, 0) if isinstance(n, int) else None
    return [TensorType(FLOAT32, (channels, frames, bins))]


def _spectrogram(node: Node, inputs: list[Any]) -> list[Any]:
    """[channels, frames, bins] of samples [n, channels], each frame under a Hann window that is periodic."""
    samples, length = inputs[0].astype(np.float64).T, _fft_length(node)
    size = attr(node, "window_size")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    if samples.shape[1] < size:
        return [np.zeros((len(samples), 0, length // 2 + 1), np.float32)]
    frames = np.lib.stride_tricks.sliding_window_view(samples, size, axis=1)[:, :: attr(node, "stride")]
    power = np.abs(np.fft.rfft(frames * window, length)) ** 2
    return [(power if attr(node, "squared") else np.sqrt(power)).astype(np.float32)]


def _infer_mfcc(node: Node, types: Types) -> list[TensorType]:
    need_rank(node, types[0], 3, 3, "the spectrogram")
    need_kind(node, types[0], FLOAT, "the spectrogram")
    need_one(node, types[1], "the sample rate", NUMBER)
    rate = node.const(1)
    if rate is not None and not 0 < float(rate.reshape(-1)[0]) < 1e12:
        fail(node, f"needs a sample rate above 0, found {rate.reshape(-1)[0]}")
    if types[0].shape and isinstance(types[0].shape[2], int) and types[0].shape[2] < 2:
        fail(node, f"needs two bins, found {types[0].shape[2]}")
    low, high = attr(node, "lower_frequency"), attr(node, "upper_frequency")
    if attr(node, "filters") < 1 or not 0 < attr(node, "coefficients") <= attr(node, "filters") or not 0 <= low < high:
        fail(node, "the filter bank needs channels, as many as coefficients, and a range of frequencies")
    lead = (None, None) if types[0].shape is None else types[0].shape[:2]
    return [TensorType(FLOAT32, (*lead, attr(node, "coefficients")))]


def _mel(frequency: Any) -> Any:
    return 1127.0 * np.log1p(frequency / 700.0)


def filters(node: Node, bins: int, rate: float) -> np.ndarray:
    """[bins, filters]: triangles that are equally wide in mel; the lowest bin is in none."""
    count, low, high = attr(node, "filters"), attr(node, "lower_frequency"), attr(node, "upper_frequency")
    edges = _mel(low) + (_mel(high) - _mel(low)) / (count + 1) * np.arange(count + 2)
    hertz = 0.5 * rate / (bins - 1)
    first, last = int(1.5 + low / hertz), int(high / hertz)
    if last >= bins:
        fail(node, f"{bins} bins of {hertz:g} Hz end below the upper frequency {high:g}")
    weights = np.zeros((bins, count + 2))
    for i in range(first, last + 1):
        mel = _mel(i * hertz)
        band = min(int(np.searchsorted(edges[1:-1], mel, "left")), count)
        share = (edges[band + 1] - mel) / (edges[band + 1] - edges[band])
        weights[i, band], weights[i, band + 1] = share, 1 - share
    return weights[:, 1:-1]


def cosines(node: Node, n: int) -> np.ndarray:
    """[n, coefficients]: the cosine transform of n filters."""
    turns = np.arange(attr(node, "coefficients")) * np.pi / n * (np.arange(n)[:, None] + 0.5)
    return np.sqrt(2.0 / n) * np.cos(turns)


def _mfcc(node: Node, inputs: list[Any]) -> list[Any]:
    """Cosine transform of the logarithms of what the mel filters let through of each frame's magnitudes."""
    power, rate = inputs[0].astype(np.float64), float(np.reshape(inputs[1], -1)[0])
    bands = np.log(np.maximum(np.sqrt(power) @ filters(node, power.shape[2], rate), FLOOR))
    return [(bands @ cosines(node, bands.shape[2])).astype(np.float32)]


def _infer_rfft(node: Node, types: Types) -> list[TensorType]:
    need_rank(node, types[0], 2, None, "x")
    need_kind(node, types[0], FLOAT, "x")
    need_vector(node, types[1], "the lengths")
    fits(node, types[1], "the lengths", 2)
    lengths = node.const(1)
    if lengths is not None and lengths.min() < 1:
        fail(node, f"the lengths must be positive numbers, found {lengths.tolist()}")
    if types[0].shape is not None and 0 in types[0].shape[-2:]:
        fail(node, f"there is nothing to transform in {types[0]}")
    if types[0].shape is None:
        return [TensorType(COMPLEX64, None)]
    last: tuple[Any, ...] = (None, None)
    if lengths is not None:
        last = (ints(lengths)[0], ints(lengths)[1] // 2 + 1)
    return [TensorType(COMPLEX64, (*types[0].shape[:-2], *last))]


def _rfft(node: Node, inputs: list[Any]) -> list[Any]:
    """The half spectrum of the last two axes, which are cut or filled with zeros to the lengths."""
    return [np.fft.rfft2(inputs[0].astype(np.float64), ints(inputs[1])).astype(np.complex64)]


def _infer_hadamard(node: Node, types: Types) -> list[TensorType]:
    size, t = attr(node, "size"), types[0]
    need_rank(node, t, 1)
    need_kind(node, t, FLOAT)
    if size < 1 or size & (size - 1) or (t.shape and isinstance(t.shape[-1], int) and t.shape[-1] % size):
        fail(node, f"size must be a power of two that divides the last axis of {t}, found {size}")
    return [TensorType(t.dtype, t.shape)]


def _hadamard(node: Node, inputs: list[Any]) -> list[Any]:
    """Each run of `size` elements by the orthonormal Walsh-Hadamard matrix of that size."""
    x, size = inputs[0], attr(node, "size")
    y, step = x.reshape(-1, size), 1
    while step < size:
        pairs = y.reshape(-1, size // (2 * step), 2, step)
        y = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], 2).reshape(-1, size)
        step *= 2
    return [(y / np.sqrt(y.dtype.type(size))).reshape(x.shape).astype(x.dtype)]


define(
    "audio_spectrogram", _infer_spectrogram, _spectrogram, inputs=(1, 1),
    attrs={"window_size": REQUIRED, "stride": REQUIRED, "squared": 0}, work=squares,
)  # fmt: skip
define(
    "mfcc", _infer_mfcc, _mfcc, inputs=(2, 2),
    attrs={"upper_frequency": 4000.0, "lower_frequency": 20.0, "filters": 40, "coefficients": 13}, work=squares,
)  # fmt: skip
define("rfft2d", _infer_rfft, _rfft, inputs=(2, 2), work=squares, shaped_by=(1,))
define("hadamard_rotation", _infer_hadamard, _hadamard, inputs=(1, 1), attrs={"size": REQUIRED}, work=squares)
