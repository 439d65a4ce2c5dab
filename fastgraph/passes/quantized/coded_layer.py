"""Products of few rows by stored bytes, which no kernel multiplies as integers."""

from __future__ import annotations

import numpy as np

from ...freedoms import threshold
from ...ir import Node, TensorType, Value
from ...ir.weights import once
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .block_layer import codes_of

F32 = np.dtype(np.float32)
FEW, MANY = 8, 1 << 16
"""Rows up to which a product takes as long as its weights take to read, where there are so many."""


@rule("coded_layers", "matmul dense", quantized=True)
def coded_layer(g: Sweep, node: Node) -> bool:
    """A product of few rows reads the bytes of its weights, and not the reals that they stand for.

    Given ``y = matmul(x, requantize(w))``, w a constant of bytes, x f32 or int16; result ``y = block_dense(x, codes,
    s)`` on the reals of x.
    """
    w = _bytes_of(g, node.inputs[1])
    if w is None or w.data is None or w.type.quant is None or "chain" in node.attrs or not node.out.type.concrete:
        return False
    along = 1 if node.op == "dense" else 0
    k, n = w.data.shape[along], w.data.shape[1 - along]
    if w.type.quant.axis not in (None, 1 - along) or k % 4:
        return False
    if w.data.size < threshold("coded_large", MANY) or node.out.type.size > FEW * n:
        return False
    if not _wide(node.x) or not _wide(node.out):
        return False
    bias = node.inputs[2] if node.has(2) else None
    if bias is not None and bias.data is None:
        return False
    data, quant, middle = w.data, w.type.quant, 128 if w.data.dtype == np.int8 else 0
    codes = once(codes_of, data if along else data.T, 8, k)
    numbers = [codes, once(_column, quant.scale, n)]
    points = tuple(z + middle for z in quant.zero_point)
    numbers += [once(_column, points, n)] if set(points) != {128} else []
    y = g("block_dense", _real(g, node.x), *numbers, type=TensorType(F32, node.out.type.shape), bits=8, block=k)
    y = y if bias is None else y + _real(g, bias)
    return g.becomes(y if node.out.type.quant is None else g("requantize", y, type=node.out.type))


def _real(g: Sweep, value: Value) -> Value:
    return value if value.type.quant is None else g.requantize(value, TensorType(F32, value.type.shape))


def _column(values: tuple[float, ...], n: int) -> np.ndarray:
    """f32 [n, 1] of one number or n."""
    return np.broadcast_to(np.array(values, F32), n).reshape(n, 1).copy()


def _bytes_of(g: Sweep, w: Value | None) -> Value | None:
    """The stored matrix of bytes whose reals, or which itself, a value is."""
    maker = None if w is None else g.maker.get(w)
    if maker is not None and maker.op == "requantize" and w is not None and w.type.quant is None:
        w = maker.x
    return w if w is not None and w.type.dtype in (np.int8, np.uint8) and len(w.type.dims) == 2 else None


def _wide(value: Value) -> bool:
    """Whether it is f32, or words of one scale: what has no kernels for integers."""
    if value.type.quant is None:
        return value.type.dtype == F32
    return value.type.dtype == np.int16 and value.type.quant.axis is None
