"""Weights in a few bits, a scale for each block of them: those of products stay as they are stored, where blocks lie
along whole rows; others are unpacked when the file is loaded.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...ir import Value
from ...limits import current
from ..core.elements import unpack
from .call import Call
from .contrib import Attrs, contrib
from .linear import CAST


def _array(call: Call, index: int, name: str) -> np.ndarray:
    data = call.x(index).data
    if data is None:
        call.unsupported(f"whose {name} is computed")
    return data


def _shaped(call: Call, array: np.ndarray, name: str, *shape: int) -> np.ndarray:
    """The array in that shape; ModelError when it has another number of elements."""
    if array.size != prod(shape):
        call.fail(f"expected {name} of shape {list(shape)}, found {list(array.shape)}")
    return array.reshape(shape)


def _codes(call: Call, packed: np.ndarray, bits: int, width: int) -> np.ndarray:
    """uint8 [..., width] of the codes that the last axis packs from the low end of each byte on."""
    if bits not in (2, 4, 8):
        call.unsupported(f"with {bits} bits; 2, 4 and 8 are")
    if packed.dtype != np.uint8:
        call.fail(f"expected codes as uint8, found {packed.dtype}")
    rows, size = packed.reshape(-1, packed.shape[-1]), packed.shape[-1] * 8 // bits
    current().hold(rows.shape[0] * size, call.where)
    return unpack(rows.reshape(-1), bits, rows.size * 8 // bits).reshape(*packed.shape[:-1], size)[..., :width]


@contrib(
    "MatMulNBits: A B scales zero_points? g_idx? bias? -> Y"
    " | K:int! N:int! accuracy_level=0 bits=4 block_size:int! weight_prepacked=0"
)
def matmul_nbits(call: Call, attrs: Attrs) -> Value:
    """A @ W.T + bias, W [N, K] of blocks along K. `g_idx` says which block's scale a column has."""
    n, k, block, bits = (attrs[name] for name in ("N", "K", "block_size", "bits"))
    if block < 16 or block & (block - 1) or n < 1 or k < 1:
        call.fail(f"expected N and K from 1 on, and a block_size of 16, 32, ..., found {n}, {k} and {block}")
    if attrs["weight_prepacked"]:
        call.unsupported("with weight_prepacked: such weights are laid out for one GPU")
    blocks = -(-k // block)
    b = _shaped(call, _array(call, 1, "B"), "B", n, blocks * block * bits // 8)
    scales = _shaped(call, _array(call, 2, "scales"), "scales", n, blocks)
    x, groups = call.x(0), np.arange(k) // block
    if call.input(4) is not None:
        groups = _shaped(call, _array(call, 4, "g_idx"), "g_idx", k)
        if groups.min(initial=0) < 0 or groups.max(initial=0) >= blocks:
            call.fail(f"expected g_idx from 0 to {blocks - 1}, found {groups.min()} to {groups.max()}")
    zeros = None if call.input(3) is None else _zero_points(call, n, blocks, bits)
    order = np.argsort(groups, kind="stable")
    if bits in (2, 4, 8) and k % (32 // bits) == 0 and (groups[order] == np.arange(k) // block).all():
        if not (order == np.arange(k)).all():
            x, b = call.add("gather", [x, call.const(order)], axis=-1), _reordered(call, b, bits, order)
        y = _by_blocks(call, x, b.reshape(n, blocks, -1), scales, zeros, bits)
    else:
        current().hold(4 * n * k, call.where)
        shifts = np.float32(1 << (bits - 1)) if zeros is None else zeros[:, groups]
        weights = (_codes(call, b, bits, k) - shifts) * scales.astype(np.float32)[:, groups]
        y = call.add("matmul", [x, call.const(weights.astype(scales.dtype).T)])
    return y if call.input(5) is None else call.add("add", [y, call.x(5)])


def _by_blocks(
    call: Call, x: Value, codes: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None, bits: int
) -> Value:
    """x times weights of `bits` bits, codes [N, blocks, bytes of a block]; f32 in between where x is f16."""
    if codes.dtype != np.uint8:
        call.fail(f"expected codes as uint8, found {codes.dtype}")
    numbers = [call.const(codes), call.const(scales.astype(np.float32))]
    numbers += [] if zeros is None else [call.const(zeros)]
    narrow, block = scales.dtype != np.float32, codes.shape[2] * 8 // bits
    given = call.add("cast", [x], **CAST, to=np.dtype(np.float32)) if narrow else x
    y = call.add("block_dense", [given, *numbers], bits=bits, block=block)
    return call.add("cast", [y], **CAST, to=scales.dtype) if narrow else y


def _reordered(call: Call, packed: np.ndarray, bits: int, order: np.ndarray) -> np.ndarray:
    """Codes [N, bytes] in another order of columns, those that a last block lacks behind them."""
    codes = _codes(call, packed, bits, packed.shape[1] * 8 // bits)
    codes[:, : order.size] = codes[:, order]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(codes.reshape(len(codes), -1, shifts.size) << shifts, axis=-1, dtype=np.uint8)


def _zero_points(call: Call, n: int, blocks: int, bits: int) -> np.ndarray:
    """f32 [n, blocks]: packed as the weights are, or numbers."""
    found = _array(call, 3, "zero_points")
    if found.dtype.kind == "f":
        return _shaped(call, found, "zero_points", n, blocks).astype(np.float32)
    packed = _shaped(call, found, "zero_points", n, -(-blocks * bits // 8))
    return _codes(call, packed, bits, blocks).astype(np.float32)


@contrib("MatMulBnb4: A B absmax -> Y | K:int! N:int! block_size:int! quant_type:int! training_mode=0 transB=1")
def matmul_bnb4(call: Call, attrs: Attrs) -> Value:
    """A @ W.T, W [N, K]: each code of 4 bits, the first in the high ones, names a number, times its block's scale."""
    n, k, block = (attrs[name] for name in ("N", "K", "block_size"))
    if attrs["quant_type"] not in (0, 1) or n < 1 or k < 1 or block < 1:
        call.fail(f"expected quant_type 0 (FP4) or 1 (NF4), and N, K and block_size from 1 on, found {attrs}")
    b = _shaped(call, _array(call, 1, "B"), "B", -(-n * k // 2))
    scales = _shaped(call, _array(call, 2, "absmax"), "absmax", -(-n * k // block))
    current().hold(8 * n * k, call.where)
    codes = np.stack([b >> 4, b & 15], -1).reshape(-1)[: n * k]
    numbers = np.array(BNB4[attrs["quant_type"]], np.float32)[codes]
    weights = (numbers * scales.astype(np.float32)[np.arange(n * k) // block]).reshape(n, k)
    return call.add("matmul", [call.x(0), call.const(weights.astype(scales.dtype).T if attrs["transB"] else weights)])


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
def gather_block_quantized(call: Call, attrs: Attrs) -> Value:
    """Rows of a table in a few bits: their codes are gathered, and only they become reals."""
    data, scales = _array(call, 0, "data"), _array(call, 2, "scales")
    zeros = None if call.input(3) is None else _array(call, 3, "zero_points")
    rank, block = data.ndim, attrs["block_size"]
    axes = [attrs["gather_axis"], attrs["quantize_axis"]]
    if block < 16 or block & (block - 1) or not all(-rank <= a < rank for a in axes):
        call.fail(f"expected axes of {rank} and a block_size of 16, 32, ..., found {axes} and {block}")
    gathered, blocked = (a % rank for a in axes)
    if call.reader.formats.get(call.x(0), "") not in ("int4", "uint4"):
        bits = attrs["bits"]
        width = data.shape[-1] * 8 // bits
        middle = 1 << (bits - 1)
        data = _codes(call, data, bits, width)
        zeros = np.full(scales.shape, middle) if zeros is None else _codes(call, zeros, bits, scales.shape[-1])
    blocks = [-(-d // block) if i == blocked else d for i, d in enumerate(data.shape)]
    scales = _shaped(call, scales, "scales", *blocks)
    shifts = np.zeros_like(scales) if zeros is None else _shaped(call, zeros, "zero_points", *blocks) * scales
    if gathered == blocked:
        table = data * _spread(scales, block, data, blocked) - _spread(shifts, block, data, blocked)
        current().hold(table.nbytes, call.where)
        return call.add("gather", [call.const(table.astype(scales.dtype)), call.x(1)], axis=gathered)
    return _gathered(call, data, (scales, shifts.astype(scales.dtype)), gathered, blocked, block)


def _spread(numbers: np.ndarray, block: int, data: np.ndarray, axis: int) -> np.ndarray:
    return np.take(numbers, np.arange(data.shape[axis]) // block, axis)


def _gathered(
    call: Call, data: np.ndarray, factors: tuple[np.ndarray, np.ndarray], gathered: int, blocked: int, block: int
) -> Value:
    """code * scale - shift of what is gathered along one axis, a scale and a shift for each block along another."""
    parts = [call.add("gather", [call.const(a), call.x(1)], axis=gathered) for a in (data, *factors)]
    rank = call.known_rank(call.x(1))
    if rank is None:
        call.unsupported("by indices whose number of axes the file leaves open")
    at = blocked + (rank - 1 if blocked > gathered else 0)
    extent = data.shape[blocked]
    if extent % block:
        wide = [call.add("gather", [p, call.const(np.arange(extent) // block)], axis=at) for p in parts[1:]]
    else:
        lead, tail = (call.add("shape", [parts[0]], start=a, end=b) for a, b in ((0, at), (at + 1, None)))
        split = call.add("concat", [lead, call.const([extent // block, block]), tail], axis=0)
        wide = [call.add("unsqueeze", [p, call.const([at + 1])]) for p in parts[1:]]
        whole = call.add("shape", [parts[0]], start=0, end=None)
        parts[0] = call.add("reshape", [parts[0], split], allowzero=1)
    to: Any = {**CAST, "to": factors[0].dtype}
    y = call.add("sub", [call.add("mul", [call.add("cast", [parts[0]], **to), wide[0]]), wide[1]])
    return y if extent % block else call.add("reshape", [y, whole], allowzero=1)
