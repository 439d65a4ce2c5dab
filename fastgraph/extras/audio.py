"""Spectra of audio, and a transform near them. Semantics: tflite/kernels/{audio_spectrogram, mfcc,
hadamard_rotation}.cc and tflite/kernels/internal/{spectrogram, mfcc_mel_filterbank, mfcc_dct}.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import FLOAT32, Node, TensorType, Value
from ..ops import check
from ..ops.inference import Types
from ..ops.registry import REQUIRED, attr, define, fail
from ..ops.work import squares
from ..rules.operands import known, number
from ..rules.rule import rule
from ..rules.sweep import Sweep
from .fourier import Transform, framed, transformed

FLOOR = 1e-12
"""Logarithms are taken of nothing smaller."""


def _fft_length(node: Node) -> int:
    size, stride = attr(node, "window_size"), attr(node, "stride")
    if size < 2 or stride < 1 or size > 2**24:
        fail(node, f"window_size must be 2 or more and stride 1 or more, found {size} and {stride}")
    return 1 << (size - 1).bit_length()


@check.takes("samples f 2")
def _infer_spectrogram(node: Node, types: Types) -> list[TensorType]:
    bins = _fft_length(node) // 2 + 1
    if types[0].shape is None:
        return [TensorType(FLOAT32, (None, None, bins))]
    n, channels = types[0].shape
    frames = max((n - attr(node, "window_size")) // attr(node, "stride") + 1, 0) if isinstance(n, int) else None
    return [TensorType(FLOAT32, (channels, frames, bins))]


_WINDOW = {"window_size": REQUIRED, "stride": REQUIRED, "squared": 0}
define("audio_spectrogram", _infer_spectrogram, attrs=_WINDOW, work=squares)


@rule("rare", "audio_spectrogram")
def audio_spectrogram(g: Sweep, node: Node) -> bool:
    """[channels, frames, bins] of samples [n, channels], each frame under a periodic Hann window: squares of the
    spectra, or their roots.
    """
    if not known(node.x, node.out):
        return False
    size, bins = attr(node, "window_size"), node.out.type.dims[2]
    x = g.transpose(g.cast(node.x, FLOAT32), 1, 0)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    x = framed(g, g.shape(x, *x.type.dims, 1), size, attr(node, "stride"))
    y = transformed(g, x, Transform(2 * (bins - 1), window, bins))
    y = g.sum(y * y, [2])
    return g.becomes(y if attr(node, "squared") else g.sqrt(y))


@check.takes("spectrogram f 3, sample_rate iuf one")
def _infer_mfcc(node: Node, types: Types) -> list[TensorType]:
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


def _filters(node: Node, bins: int, rate: float) -> np.ndarray:
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


def _cosines(node: Node, n: int) -> np.ndarray:
    """[n, coefficients]: the cosine transform of n filters."""
    turns = np.arange(attr(node, "coefficients")) * np.pi / n * (np.arange(n)[:, None] + 0.5)
    return np.sqrt(2.0 / n) * np.cos(turns)


_BANK = {"upper_frequency": 4000.0, "lower_frequency": 20.0, "filters": 40, "coefficients": 13}
define("mfcc", _infer_mfcc, attrs=_BANK, work=squares, shaped_by=(1,))


@rule("rare", "mfcc")
def mfcc(g: Sweep, node: Node) -> bool:
    """The cosine transform of the logarithms of each frame's mel-filtered magnitudes."""
    rate = number(node, 1)
    if not known(node.x, node.out) or rate is None:
        return False
    weights = _filters(node, node.x.type.dims[2], float(rate)).astype(np.float32)
    y = g.log(g.max(g.sqrt(g.cast(node.x, FLOAT32)) @ weights, FLOOR))
    return g.becomes(y @ _cosines(node, weights.shape[1]).astype(np.float32))


@check.takes("x f 1+")
def _infer_hadamard(node: Node, types: Types) -> list[TensorType]:
    size, t = attr(node, "size"), types[0]
    if size < 1 or size & (size - 1) or (t.shape and isinstance(t.shape[-1], int) and t.shape[-1] % size):
        fail(node, f"size must be a power of two that divides the last axis of {t}, found {size}")
    return [TensorType(t.dtype, t.shape)]


define("hadamard_rotation", _infer_hadamard, attrs={"size": REQUIRED}, work=squares)

WIDEST = 256
"""Up to this width a Hadamard matrix is multiplied with as one."""


@rule("rare", "hadamard_rotation")
def hadamard_rotation(g: Sweep, node: Node) -> bool:
    """Each run of `size` elements by the orthonormal Walsh-Hadamard matrix of that size; a wide one is the product of
    smaller ones, along the axes of a block.
    """
    if not known(node.x, node.out):
        return False
    return g.becomes(_rotated(g, node.x, node.x.type.size // attr(node, "size"), attr(node, "size")))


def _rotated(g: Sweep, x: Value, rows: int, size: int) -> Value:
    """x [rows * size] as [rows, size], each row rotated."""
    if size <= WIDEST:
        matrix, pair = np.ones((1, 1)), np.array([[1, 1], [1, -1]])
        while len(matrix) < size:
            matrix = np.kron(pair, matrix)
        return g.shape(x, rows, size) @ (matrix / np.sqrt(size)).astype(x.type.dtype)
    left, right = size // WIDEST, WIDEST
    y = g.transpose(g.shape(_rotated(g, x, rows * left, right), rows, left, right), 0, 2, 1)
    y = g.shape(_rotated(g, y, rows * right, left), rows, right, left)
    return g.shape(g.transpose(y, 0, 2, 1), rows, size)
