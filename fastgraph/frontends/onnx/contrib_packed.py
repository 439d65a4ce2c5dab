"""Weights in a few bits, a scale for each block of them: those of products stay as they are stored, where blocks lie
along whole rows; others are unpacked when the file is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...ir import Value
from ...limits import current
from ..core.elements import unpack
from .call import Call
from .contrib import contrib


def _array(c: Call, value: Value, name: str, *shape: int) -> np.ndarray:
    """The array of a constant, reshaped where a shape is given."""
    if value.data is None:
        c.unsupported(f"whose {name} is computed")
    return _shaped(c, value.data, name, *shape) if shape else value.data


def _shaped(c: Call, array: np.ndarray, name: str, *shape: int) -> np.ndarray:
    """The array in that shape; ModelError when it has another number of elements."""
    if array.size != prod(shape):
        c.fail(f"expected {name} of shape {list(shape)}, found {list(array.shape)}")
    return array.reshape(shape)


def _codes(c: Call, packed: np.ndarray, bits: int, width: int) -> np.ndarray:
    """uint8 [..., width] of the codes that the last axis packs from the low end of each byte on."""
    if bits not in (2, 4, 8):
        c.unsupported(f"with {bits} bits; 2, 4 and 8 are")
    if packed.dtype != np.uint8:
        c.fail(f"expected codes as uint8, found {packed.dtype}")
    rows, size = packed.reshape(-1, packed.shape[-1]), packed.shape[-1] * 8 // bits
    current().hold(rows.shape[0] * size, c.where)
    return unpack(rows.reshape(-1), bits, rows.size * 8 // bits).reshape(*packed.shape[:-1], size)[..., :width]


@contrib(
    "MatMulNBits: A B scales zero_points? g_idx? bias? -> Y"
    " | K:int! N:int! accuracy_level=0 bits=4 block_size:int! weight_prepacked=0"
)
def matmul_nbits(c: Call, x: Value, *inputs: Any, **attrs: int) -> Value:
    """A @ W.T + bias, W [N, K] of blocks along K. `g_idx` says which block's scale a column has."""
    b, scale, zero, order, bias = inputs
    n, k, block, bits = (attrs[name] for name in ("N", "K", "block_size", "bits"))
    if block < 16 or block & (block - 1) or n < 1 or k < 1:
        c.fail(f"expected N and K from 1 on, and a block_size of 16, 32, ..., found {n}, {k} and {block}")
    if attrs["weight_prepacked"]:
        c.unsupported("with weight_prepacked: such weights are laid out for one GPU")
    blocks = -(-k // block)
    codes = _array(c, b, "B", n, blocks * block * bits // 8)
    scales, groups = _array(c, scale, "scales", n, blocks), np.arange(k) // block
    if order is not None:
        groups = _array(c, order, "g_idx")
        groups = _shaped(c, groups, "g_idx", blocks * block if groups.size > k else k)[:k]  # whole blocks, or K
        if groups.min(initial=0) < 0 or groups.max(initial=0) >= blocks:
            c.fail(f"expected g_idx from 0 to {blocks - 1}, found {groups.min()} to {groups.max()}")
    zeros = None if zero is None else _zero_points(c, zero, n, blocks, bits)
    columns = np.argsort(groups, kind="stable")
    if bits in (2, 4, 8) and k % (32 // bits) == 0 and (groups[columns] == np.arange(k) // block).all():
        if not (columns == np.arange(k)).all():
            x, codes = c.pick(x, columns, axis=-1), _reordered(c, codes, bits, columns)
        y = _by_blocks(c, x, [codes.reshape(n, blocks, -1), scales, zeros], bits, attrs["accuracy_level"] == 4)
    else:
        current().hold(4 * n * k, c.where)
        shifts = np.float32(1 << (bits - 1)) if zeros is None else zeros[:, groups]
        weights = (_codes(c, codes, bits, k) - shifts) * scales.astype(np.float32)[:, groups]
        y = x @ weights.astype(scales.dtype).T
    return y if bias is None else y + bias


def _by_blocks(c: Call, x: Value, weights: Sequence[Any], bits: int, rounds: bool) -> Value:
    """x times weights of `bits` bits: codes [N, blocks, bytes of a block], scales, and zero points or None; f32 in
    between where x is f16. rounds: whether x may be rounded to bytes.
    """
    codes, scales, zeros = weights
    if codes.dtype != np.uint8:
        c.fail(f"expected codes as uint8, found {codes.dtype}")
    numbers = [codes, scales.astype(np.float32)] + ([] if zeros is None else [zeros])
    narrow, block = scales.dtype != np.float32, codes.shape[2] * 8 // bits
    y = c("block_dense", c.cast(x, np.float32) if narrow else x, *numbers, bits=bits, block=block, rounds=int(rounds))
    return c.cast(y, scales.dtype) if narrow else y


def _reordered(c: Call, packed: np.ndarray, bits: int, order: np.ndarray) -> np.ndarray:
    """Codes [N, bytes] in another order of columns, those that a last block lacks behind them."""
    codes = _codes(c, packed, bits, packed.shape[1] * 8 // bits)
    codes[:, : order.size] = codes[:, order]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(codes.reshape(len(codes), -1, shifts.size) << shifts, axis=-1, dtype=np.uint8)


def _zero_points(c: Call, zero: Value, n: int, blocks: int, bits: int) -> np.ndarray:
    """f32 [n, blocks]: packed as the weights are, or numbers."""
    found = _array(c, zero, "zero_points")
    if found.dtype.kind == "f":
        return _shaped(c, found, "zero_points", n, blocks).astype(np.float32)
    packed = _shaped(c, found, "zero_points", n, -(-blocks * bits // 8))
    return _codes(c, packed, bits, blocks).astype(np.float32)


@contrib("MatMulBnb4: A B absmax -> Y | K:int! N:int! block_size:int! quant_type:int! training_mode=0 transB=1")
def matmul_bnb4(c: Call, x: Value, b: Value, absmax: Value, **attrs: int) -> Value:
    """A @ W.T, W [N, K]: each code of 4 bits, the first in the high ones, names a number, times its block's scale."""
    n, k, block = (attrs[name] for name in ("N", "K", "block_size"))
    if attrs["quant_type"] not in (0, 1) or n < 1 or k < 1 or block < 1:
        c.fail(f"expected quant_type 0 (FP4) or 1 (NF4), and N, K and block_size from 1 on, found {attrs}")
    packed, scales = _array(c, b, "B", -(-n * k // 2)), _array(c, absmax, "absmax", -(-n * k // block))
    current().hold(8 * n * k, c.where)
    codes = np.stack([packed >> 4, packed & 15], -1).reshape(-1)[: n * k]
    numbers = np.array(BNB4[attrs["quant_type"]], np.float32)[codes]
    weights = (numbers * scales.astype(np.float32)[np.arange(n * k) // block]).reshape(n, k).astype(scales.dtype)
    return x @ (weights.T if attrs["transB"] else weights)


_FP4 = (0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 0.5, 1 / 6, 0.25)
BNB4 = (
    (*_FP4, *(-x for x in _FP4)),
    (-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0.0,
     0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0),
)  # fmt: skip
"""The numbers of bitsandbytes' FP4 and NF4."""


@contrib(
    "GatherBlockQuantized: data indices scales zero_points? -> output"
    " | bits=4 block_size=128 gather_axis=0 quantize_axis=1"
)
def gather_block_quantized(c: Call, table: Value, at: Value, scale: Value, zero: Value | None, **attrs: int) -> Value:
    """Rows of a table in a few bits: their codes are gathered, and only they become reals."""
    data, scales = _array(c, table, "data"), _array(c, scale, "scales")
    zeros = None if zero is None else _array(c, zero, "zero_points")
    rank, block = data.ndim, attrs["block_size"]
    axes = [attrs["gather_axis"], attrs["quantize_axis"]]
    if block < 16 or block & (block - 1) or not all(-rank <= a < rank for a in axes):
        c.fail(f"expected axes of {rank} and a block_size of 16, 32, ..., found {axes} and {block}")
    gathered, blocked = (a % rank for a in axes)
    if c.format_of(table) not in ("int4", "uint4"):
        bits = attrs["bits"]
        middle, data = 1 << (bits - 1), _codes(c, data, bits, data.shape[-1] * 8 // bits)
        zeros = np.full(scales.shape, middle) if zeros is None else _codes(c, zeros, bits, scales.shape[-1])
    blocks = [-(-d // block) if i == blocked else d for i, d in enumerate(data.shape)]
    scales = _shaped(c, scales, "scales", *blocks)
    shifts = np.zeros_like(scales) if zeros is None else _shaped(c, zeros, "zero_points", *blocks) * scales
    if gathered == blocked:
        of_column = np.arange(data.shape[blocked]) // block
        reals = data * np.take(scales, of_column, blocked) - np.take(shifts, of_column, blocked)
        current().hold(reals.nbytes, c.where)
        return c.pick(c.const(reals.astype(scales.dtype)), at, gathered)
    parts = [c.pick(c.const(array), at, gathered) for array in (data, scales, shifts.astype(scales.dtype))]
    parts[0] = c.cast(parts[0], scales.dtype)
    return _reals(c, parts, blocked - rank if blocked > gathered else blocked, data.shape[blocked], block)


def _reals(c: Call, parts: list[Value], axis: int, extent: int, block: int) -> Value:
    """code * scale - shift, with a scale and a shift for each block along an axis, counted from either end."""
    codes, *factors = parts
    if extent % block:
        scale, shift = (c.pick(x, np.arange(extent) // block, axis) for x in factors)
        return codes * scale - shift
    scale, shift = (c("unsqueeze", x, [axis if axis < 0 else axis + 1]) for x in factors)
    tail = [] if axis == -1 else [c.extents(codes, axis + 1)]
    split = c("concat", c.extents(codes, 0, axis), [extent // block, block], *tail, axis=0)
    y = c("reshape", codes, split, allowzero=1) * scale - shift
    return c("reshape", y, c.extents(codes), allowzero=1)
