"""Spectra and complex numbers by kernels: against numpy.fft in f64, onnxruntime and LiteRT.

An f32 transform of n elements is off by some roundings of the largest result: 2**-23 times log2(n), or the square root
of a factor of n that is multiplied with at once.
"""

from typing import Any

import numpy as np
import onnxruntime
import pytest
from flatbuffers.flexbuffers import Dumps
from onnx import numpy_helper

import fastgraph as fg
from tests.circle.write import Model, litert
from tests.nets import Net, numpy_steps

F32, F64, I64 = np.float32, np.float64, np.int64
NEAR = {F32: 1e-6, F64: 4e-15}
"""Of the largest result."""
ORT = 2e-4
"""How far onnxruntime's f32 transforms, of lengths that are no power of two above all, are from numpy.fft's."""


def near(found: np.ndarray, right: np.ndarray, share: float) -> None:
    assert found.shape == right.shape
    assert np.abs(found - right).max() <= share * np.abs(right).max()


def complexes(x: np.ndarray) -> np.ndarray:
    return x[..., 0].astype(F64) + (0 if x.shape[-1] == 1 else 1j * x[..., 1].astype(F64))


def pairs(y: np.ndarray) -> np.ndarray:
    return np.stack([y.real, y.imag], -1)


def dft(x: np.ndarray, length: int | None, axis: int | None, **attrs: int) -> tuple[np.ndarray, np.ndarray]:
    """(what a native model gives, what numpy.fft does)."""
    net = Net(20)
    operands = [net.input("x", x.shape, x.dtype), "" if length is None else net.const(np.array(length, I64))]
    net.output(net("DFT", *operands, "" if axis is None else net.const(np.array(axis, I64)), **attrs), dtype=x.dtype)
    model = net.load()
    assert numpy_steps(model) == []
    c, at = complexes(x), -2 if axis is None else axis
    at = at % x.ndim
    if attrs.get("onesided"):
        half = np.fft.irfft if attrs.get("inverse") else np.fft.rfft
        right = half(c if attrs.get("inverse") else c.real, length, at)
        right = right[..., None] if attrs.get("inverse") else pairs(right)
    else:
        right = pairs((np.fft.ifft if attrs.get("inverse") else np.fft.fft)(c, length, at))
    return model(x), right


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("n", [1, 2, 7, 10, 257, 331, 400, 512, 1000, 1024])
def test_dft_of_any_length(n: int, onesided: int, inverse: int, dtype: Any) -> None:
    """Primes, and products of one matrix and of two."""
    if onesided and inverse and n < 2:
        return
    parts = 2 if inverse else 1
    x = np.random.default_rng(n).standard_normal((3, n, parts)).astype(dtype)
    near(*dft(x, None, None, onesided=onesided, inverse=inverse), NEAR[dtype])


@pytest.mark.parametrize("axis", [0, 1, 2, -2, -4])
@pytest.mark.parametrize("length", [None, 4, 600])
@pytest.mark.parametrize("flags", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_dft_along_any_axis_cut_and_padded(axis: int, length: int | None, flags: tuple[int, int]) -> None:
    onesided, inverse = flags
    parts = 1 if (onesided and not inverse) else 2
    x = np.random.default_rng(5).standard_normal((5, 6, 7, parts)).astype(F32)
    near(*dft(x, length, axis, onesided=onesided, inverse=inverse), NEAR[F32])


@pytest.mark.parametrize("n", [400, 512])
def test_imaginary_parts_that_a_real_signal_has_not_mean_nothing(n: int) -> None:
    """Of the first bin and, where n is even, the last."""
    x = np.zeros((1, n // 2 + 1, 2), F32)
    x[:, [0, -1], 1] = 3
    x[:, 1] = 1
    near(*dft(x, None, None, onesided=1, inverse=1), NEAR[F32])


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("size, step", [(400, 160), (16, 5), (512, 128), (64, 64), (320, 400), (1000, 1), (1200, 7)])
@pytest.mark.parametrize("rank", [2, 3])
def test_stft(size: int, step: int, onesided: int, rank: int, dtype: Any) -> None:
    """Against onnxruntime where it has it (f32 and f64), with a window that is part of the matrix."""
    length = 1200
    net = Net(17)
    x = np.random.default_rng(1).standard_normal((2, length, 1)[:rank]).astype(dtype)
    window = net.const(np.hanning(size + 1)[:size])
    net.constants[-1] = numpy_helper.from_array(np.hanning(size + 1)[:size].astype(dtype), window)
    operands = [net.input("x", x.shape, dtype), net.const(np.array(step, I64)), window, net.const(np.array(size, I64))]
    net.output(net("STFT", *operands, onesided=onesided), dtype=dtype)
    model = net.load()
    assert numpy_steps(model) == []
    frames = np.lib.stride_tricks.sliding_window_view(x.reshape(2, -1).astype(F64), size, 1)[:, ::step]
    windowed = frames * np.hanning(size + 1)[:size].astype(dtype)
    near(model(x), pairs(np.fft.rfft(windowed) if onesided else np.fft.fft(windowed)), NEAR[dtype])
    if rank == 3 and onesided:
        (wanted,) = onnxruntime.InferenceSession(net.bytes()).run(None, {"x": x})
        near(model(x), wanted, ORT)


def test_stft_of_complex_numbers_without_a_window() -> None:
    net = Net(17)
    x = np.random.default_rng(1).standard_normal((2, 90, 2)).astype(F32)
    net.output(net("STFT", net.input("x", x.shape), 9, "", 20, onesided=0))
    model = net.load()
    assert numpy_steps(model) == []
    frames = np.lib.stride_tricks.sliding_window_view(complexes(x), 20, 1)[:, ::9]
    near(model(x), pairs(np.fft.fft(frames)), NEAR[F32])


def single(op: str, x: np.ndarray, shape: tuple[int, ...], dtype: Any = F32, constants: Any = (), **more: Any) -> bytes:
    m = Model()
    operands = [m.input(x.shape, x.dtype), *map(m.const, constants)]
    return m.bytes(m.op(op, operands, [(shape, dtype)], **more))


def agree(data: bytes, x: np.ndarray, share: float) -> np.ndarray:
    """A native model of one input against LiteRT."""
    pytest.importorskip("ai_edge_litert")
    model = fg.load(data, threads=1)
    assert numpy_steps(model) == []
    y = np.asarray(model(x))
    near(y, litert(data, [[x]])[0][0], share)
    return y


@pytest.mark.parametrize(
    "shape, lengths",
    [((1, 512), (1, 512)), ((3, 8, 16), (8, 16)), ((2, 3, 5, 20), (4, 16)), ((6, 30), (8, 64)), ((1, 400), (1, 512))],
)
def test_rfft2d(shape: tuple[int, ...], lengths: tuple[int, int]) -> None:
    """Rows and columns cut and padded to the lengths; LiteRT's is computed in f64."""
    x = np.random.default_rng(3).standard_normal(shape).astype(F32)
    out = (*shape[:-2], lengths[0], lengths[1] // 2 + 1)
    agree(single("RFFT2D", x, out, np.complex64, [np.array(lengths, np.int32)]), x, 1e-6)


def test_magnitudes_that_have_no_square() -> None:
    """Beyond the range of f32, and 0, and infinite ones."""
    x = np.array([3e30 + 4e30j, 3e-30 + 4e-30j, 0, complex(np.inf, -np.inf), complex(-np.inf, 2), -5], np.complex64)
    model = fg.load(single("COMPLEX_ABS", x, x.shape))
    assert numpy_steps(model) == []
    np.testing.assert_allclose(model(x), np.abs(x), rtol=3e-7)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("size, stride", [(480, 160), (32, 10), (640, 320)])
def test_audio_spectrogram(size: int, stride: int, squared: bool) -> None:
    x = np.random.default_rng(6).uniform(-1, 1, (4000, 2)).astype(F32)
    frames, bins = (4000 - size) // stride + 1, (1 << (size - 1).bit_length()) // 2 + 1
    told = bytes(Dumps({"window_size": size, "stride": stride, "magnitude_squared": squared}))
    agree(single("AudioSpectrogram", x, (2, frames, bins), custom=told), x, 1e-6)


def test_mfcc() -> None:
    """Logarithms of small sums: an error of theirs is one of the result, whatever its size."""
    x = np.random.default_rng(6).uniform(0, 9, (1, 20, 257)).astype(F32)
    told = {"upper_frequency_limit": 7000.0, "lower_frequency_limit": 20.0, "filterbank_channel_count": 40}
    custom = bytes(Dumps(told | {"dct_coefficient_count": 13}))
    agree(single("Mfcc", x, (1, 20, 13), F32, [np.array([16000], np.int32)], custom=custom), x, 2e-6)


@pytest.mark.parametrize("size", [1, 2, 64, 256, 2048])
def test_hadamard_rotation(size: int) -> None:
    """LiteRT lacks it: against the matrix that doubles itself."""
    x = np.random.default_rng(6).standard_normal((3, 2 * size)).astype(F32)
    told = bytes(Dumps({"hadamard_size": size, "random_binary_vector": [1] * size}))
    model = fg.load(single("aeq.hadamard_rotation", x, x.shape, custom=told))
    assert numpy_steps(model) == []
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.kron([[1, 1], [1, -1]], matrix)
    near(model(x), (x.reshape(-1, size) @ matrix / np.sqrt(size)).reshape(x.shape), 1e-6)
