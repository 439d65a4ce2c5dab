"""Products with constants of few bits, or of few rows with bytes, as layers that read the stored codes."""

from __future__ import annotations

import numpy as np

from ...freedoms import threshold
from ...ir import FLOAT32, Node, TensorType, Value
from ...ir.build import constant
from ...ir.weights import once
from ...ops.registry import attr
from ...rules.rule import rule
from ...rules.sweep import Sweep

BITS = (2, 4, 8)


@rule("block_weights", "matmul gemm")
def block_layer(g: Sweep, node: Node) -> bool:
    """A product with weights dequantized by blocks.

    Given ``y = matmul(x, dequantize_linear(w, s, z) {axis=0, block_size=32})``, w, s and z constants; result ``y =
    block_dense(x, codes, s, z)``. The weights may be transposed, and the product a gemm.
    """
    if len(node.inputs) < 2 or not node.out.type.concrete or node.out.type.dtype != FLOAT32 or not _plain(node):
        return False
    turned = g.made_by(node.inputs[1], "transpose")
    real = g.made_by(node.inputs[1] if turned is None else turned.x, "dequantize_linear")
    across = (node.op == "gemm" and bool(attr(node, "trans_b"))) != (turned is not None)
    if real is None:
        return False
    stored, scale, zero, block = real.const(0), real.const(1), real.const(2), attr(real, "block_size")
    if stored is None or scale is None or not block or stored.ndim != 2 or real.has(2) and zero is None:
        return False
    along = 1 if across else 0
    bits = _bits(stored, stored.shape[along], block)
    if bits is None or attr(real, "axis") % 2 != along or scale.dtype != FLOAT32 or not np.isfinite(scale).all():
        return False
    codes = once(codes_of, stored if across else stored.T, bits, block)
    numbers = [codes, once(_by_row, scale, across)]
    if zero is not None or stored.dtype == np.uint8:
        middle = 0 if stored.dtype == np.uint8 else 1 << (bits - 1)
        numbers.append(once(_zero_points, np.zeros_like(scale) if zero is None else zero, across, middle))
    inputs = [constant(node.inputs[1], data, "codes") for data in numbers]  # type: ignore[arg-type]
    y = g("block_dense", node.x, *inputs, type=TensorType(FLOAT32, node.out.type.shape), bits=bits, block=block)
    return g.becomes(y + node.inputs[2] if node.has(2) else y)


def _by_row(numbers: np.ndarray, across: bool) -> np.ndarray:
    """[N, blocks] from [N, blocks] or [blocks, N]."""
    return np.ascontiguousarray(numbers if across else numbers.T)


def _zero_points(points: np.ndarray, across: bool, middle: int) -> np.ndarray:
    """The zero points of codes, which are the stored numbers plus `middle`."""
    return _by_row(points.astype(np.float32) + np.float32(middle), across)


def _plain(node: Node) -> bool:
    """Whether a product has no factors and no transposed first operand, as a gemm may."""
    if node.op != "gemm":
        return True
    return not attr(node, "trans_a") and attr(node, "alpha") == 1 and (not node.has(2) or attr(node, "beta") == 1)


def _bits(stored: np.ndarray, k: int, block: int) -> int | None:
    """The fewest bits that hold all numbers and fill whole 32-bit words in each row and block; None where none do, and
    for other types than int8 and uint8."""
    if stored.dtype not in (np.int8, np.uint8) or not stored.size:
        return None
    low, high = int(stored.min()), int(stored.max())
    signed = stored.dtype == np.int8
    limits = ((-(1 << b >> 1), (1 << b >> 1) - 1) if signed else (0, (1 << b) - 1) for b in BITS)
    whole = (k * b % 32 == 0 == block * b % 32 for b in BITS)
    found = zip(BITS, limits, whole, strict=True)
    return next((b for b, (least, most), fits in found if fits and least <= low and high <= most), None)


def codes_of(rows: np.ndarray, bits: int, block: int) -> np.ndarray:
    """uint8 [N, blocks, block * bits / 8] of integers [N, K], 0 and up, the first in the low bits of a byte."""
    n, k = rows.shape
    blocks, together = -(-k // block), 8 // bits
    full = np.zeros((n, blocks * block), np.uint8)
    full[:, :k] = rows.astype(np.uint8) + (np.uint8(1 << (bits - 1)) if rows.dtype == np.int8 else np.uint8(0))
    parts = full.reshape(n, blocks, -1, together) << np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(parts, axis=-1)


FEW, MANY = 8, 1 << 16
"""Rows up to which a product takes as long as its weights take to read, where there are so many."""


@rule("coded_layers", "matmul dense", quantized=True)
def coded_layer(g: Sweep, node: Node) -> bool:
    """A product of few rows reads the bytes of its weights instead of their reals.

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
    y = g("block_dense", g.reals(node.x), *numbers, type=TensorType(FLOAT32, node.out.type.shape), bits=8, block=k)
    y = y if bias is None else y + g.reals(bias)
    return g.becomes(y if node.out.type.quant is None else g("requantize", y, type=node.out.type))


def _column(values: tuple[float, ...], n: int) -> np.ndarray:
    """f32 [n, 1] of one number or n."""
    return np.broadcast_to(np.array(values, FLOAT32), n).reshape(n, 1).copy()


def _bytes_of(g: Sweep, w: Value | None) -> Value | None:
    """The constant matrix of stored bytes that a value is, or is the reals of."""
    maker = g.made_by(w, "requantize")
    if maker is not None and w is not None and w.type.quant is None:
        w = maker.x
    return w if w is not None and w.type.dtype in (np.int8, np.uint8) and len(w.type.dims) == 2 else None


def _wide(value: Value) -> bool:
    """Whether a value is f32, or int16 of one scale: types without integer kernels."""
    if value.type.quant is None:
        return value.type.dtype == FLOAT32
    return value.type.dtype == np.int16 and value.type.quant.axis is None
