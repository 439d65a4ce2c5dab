"""Fourier transforms of signals, complex numbers, windows and mel weights. Semantics: ONNX; of rfft2d and complex_abs
TensorFlow Lite. Complex numbers are a last axis of two, or complex types, which are cast to that.

A transform is a product with a constant matrix; so is its meaning.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir import FLOAT32, Dim, Node, TensorType, Value
from ..ops import check
from ..ops.inference import Types, axis_of, ints, join, whole
from ..ops.registry import Layout, attr, define, fail
from ..ops.work import squares
from ..rules.operands import decided, known, number
from ..rules.rule import rule
from ..rules.sweep import Sweep
from .fourier import Transform, along, backward, backward_real, forward, framed, transformed

COMPLEX64 = np.dtype(np.complex64)


def widened(g: Sweep, x: Value) -> Value:
    """x in the type that transforms are computed in: f64, or else f32."""
    return x if x.type.dtype == np.float64 else g.cast(x, np.float32)


def _dft_axis(node: Node, axis: int | None, rank: int) -> int:
    found = axis_of(node, -2 if axis is None else axis, rank)
    if found == rank - 1:
        fail(node, "axis must not be the last one, which holds real and imaginary parts")
    return found


@check.takes("x f 2+, dft_length? iu one, axis? iu one")
def _infer_dft(node: Node, types: Types) -> list[TensorType]:
    x = types[0]
    count = whole(node, 1)
    check.at_least(node, "dft_length", 1 if count is None else count, 1)
    if x.shape is None or (types[2] is not None and node.const(2) is None):
        return [TensorType(x.dtype, None if x.shape is None else (None,) * len(x.shape))]
    if x.shape[-1] not in (1, 2) and isinstance(x.shape[-1], int):
        fail(node, f"the last axis must have 1 (real) or 2 (complex) entries, found {x.shape[-1]}")
    axis = _dft_axis(node, number(node, 2), len(x.shape))
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


define("dft", _infer_dft, attrs={"inverse": 0, "onesided": 0}, work=squares, shaped_by=(1, 2))


@rule("rare", "dft")
def dft(g: Sweep, node: Node) -> bool:
    """Transforms along any axis but the last."""
    if not known(node.x, node.out) or not decided(node, 1, 2):
        return False
    dims, axis = node.x.type.dims, number(node, 2)
    inverse, onesided = bool(attr(node, "inverse")), bool(attr(node, "onesided"))
    axis = len(dims) - 2 if axis is None else axis % len(dims)
    made, half = node.out.type.dims[axis], inverse and onesided
    n = number(node, 1) or (2 * (dims[axis] - 1) if half else dims[axis])
    taken = min(dims[axis], n // 2 + 1 if half else n)
    if half:
        f = backward_real(n, taken)
    else:
        f = backward(n, taken)._replace(made=made) if inverse else forward(n, taken, made)
    y = along(g, g.cut(widened(g, node.x), axis, 0, taken), axis, f)
    return g.becomes(g.cast(y, node.out.type.dtype))


def _frame_length(length: int | None, window_shape: Any, signal: Dim) -> Dim:
    if length is not None:
        return length
    return signal if window_shape is None else window_shape[0]


@check.takes("signal f 2-3, frame_step iu one, window? f 1, frame_length? iu one")
def _infer_stft(node: Node, types: Types) -> list[TensorType]:
    x, step = types[0], whole(node, 1)
    check.one_dtype(node, [x, types[2]])
    shape = x.shape or (None, None, 1)
    window = None if types[2] is None else types[2].shape or (None,)
    unknown = types[3] is not None and node.const(3) is None
    n = None if unknown else _frame_length(number(node, 3), window, shape[1])
    check.at_least(node, "frame_step", 1 if step is None else step, 1)
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


define("stft", _infer_stft, attrs={"onesided": 1}, work=squares, shaped_by=(1, 3))


@rule("rare", "stft")
def stft(g: Sweep, node: Node) -> bool:
    """Spectra of windowed frames, [batch, frames, bins, 2]: a constant window is part of the matrix."""
    step, window, weight = number(node, 1), node.input(2), node.const(2)
    if not known(node.x, window, node.out) or not decided(node, 1, 3):
        return False
    batch, length, parts = (*node.x.type.dims, 1)[:3]
    n = number(node, 3) or (length if window is None else window.type.size)
    x = framed(g, g.shape(widened(g, node.x), batch, length, parts), n, step)
    if window is not None and weight is None:
        x = x * g.shape(widened(g, window), n, 1)
    weight = np.ones(n) if weight is None else weight.astype(np.float64)
    y = transformed(g, x, Transform(n, weight, node.out.type.dims[2]))
    return g.becomes(g.cast(y, node.out.type.dtype))


@check.takes("x f 2+, lengths iu 1")
def _infer_rfft(node: Node, types: Types) -> list[TensorType]:
    check.shape(node, types[1], "the lengths", 2)
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


define("rfft2d", _infer_rfft, work=squares, shaped_by=(1,))


@rule("rare", "rfft2d")
def rfft2d(g: Sweep, node: Node) -> bool:
    """The half spectrum of the last two axes, which are cut or filled with zeros to the lengths: along rows, then along
    columns where there are several.
    """
    lengths = node.const(1)
    if not known(node.x, node.out) or lengths is None:
        return False
    height, width = (int(n) for n in lengths.ravel())
    rank, (*_, h, w) = len(node.x.type.dims), node.x.type.dims
    h, w = min(h, height), min(w, width)
    x = g.cut(g.cut(g.cast(node.x, FLOAT32), rank - 2, 0, h), rank - 1, 0, w)
    y = along(g, g.shape(x, *x.type.dims, 1), rank - 1, forward(width, w, width // 2 + 1))
    if height > 1:
        y = along(g, y, rank - 2, forward(height, h, height))
    return g.becomes(g("bit_cast", y, to="complex64", resize=1))


# -- complex types


def _infer_part(node: Node, types: Types) -> list[TensorType]:
    dtype = types[0].dtype
    if dtype is not None and dtype.kind != "c":
        fail(node, f"expected complex numbers, found {dtype}")
    return [TensorType(None if dtype is None else np.dtype(f"f{dtype.itemsize // 2}"), types[0].shape)]


for _name in ("real", "imag", "complex_abs"):
    define(_name, _infer_part, inputs=(1, 1), layout=Layout.EACH)


@rule("rare", "real imag")
def part(g: Sweep, node: Node) -> bool:
    """The first of each pair, or the second."""
    return known(node.x) and g.becomes(_parts(g, node.x)[node.op == "imag"])


def _parts(g: Sweep, x: Value) -> list[Value]:
    """The real and the imaginary part of complex numbers."""
    dims, maker = x.type.dims, g.maker.get(x)
    if maker is not None and maker.op == "bit_cast" and maker.x.type.dims == (*dims, 2):
        pairs = maker.x
    else:
        pairs = g("bit_cast", x, to="float64" if x.type.dtype == np.complex128 else "float32", resize=1)
    return [g.shape(g.cut(pairs, len(dims), i, i + 1), *dims) for i in (0, 1)]


@rule("rare", "complex_abs")
def complex_abs(g: Sweep, node: Node) -> bool:
    """Given ``y = |a + bi|`` with |a| >= |b|; result ``|a| * sqrt(1 + (b / a)**2)``, in which no square overflows."""
    if not known(node.x):
        return False
    a, b = (abs(each) for each in _parts(g, node.x))
    large, small = g.max(a, b), g.min(a, b)
    share = g.choose(g.equal(large, small), 1, small / large)
    return g.becomes(large * g.sqrt(share * share + 1))


# -- constants: they are folded, where their sizes are known


WINDOWS: dict[str, tuple[float, float, float]] = {
    "hann_window": (0.5, 0.5, 0.0),
    "hamming_window": (25 / 46, 21 / 46, 0.0),
    "blackman_window": (0.42, 0.5, 0.08),
}
"""Weights a, b, c of a - b cos(2 pi n / N) + c cos(4 pi n / N)."""


@check.takes("size iu one")
def _infer_window(node: Node, types: Types) -> list[TensorType]:
    dtype = np.dtype(attr(node, "output_datatype"))
    check.operand(node, TensorType(dtype, ()), "output_datatype iuf")
    return [TensorType(dtype, (whole(node, 0),))]


def _window(node: Node, inputs: list[Any]) -> list[Any]:
    size = ints(inputs[0])[0]
    n = size if attr(node, "periodic") else size - 1
    phase = 2 * math.pi * np.arange(size) / max(n, 1)
    a, b, c = WINDOWS[node.op]
    return [(a - b * np.cos(phase) + c * np.cos(2 * phase)).astype(attr(node, "output_datatype"))]


@check.takes(
    "num_mel_bins iu one, dft_length iu one, sample_rate iu one, lower_edge_hertz f one, upper_edge_hertz f one"
)
def _infer_mel(node: Node, types: Types) -> list[TensorType]:
    bands, n, rate = (whole(node, i) for i in range(3))
    for what, count in (("num_mel_bins", bands), ("dft_length", n), ("sample_rate", rate)):
        check.at_least(node, what, 1 if count is None else count, 1)
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


for _name in WINDOWS:
    define(_name, _infer_window, _window, attrs={"output_datatype": FLOAT32, "periodic": 1}, shaped_by=(0,))
define(
    "mel_weight_matrix", _infer_mel, _mel, attrs={"output_datatype": FLOAT32}, work=squares, shaped_by=(0, 1, 2, 3, 4)
)
