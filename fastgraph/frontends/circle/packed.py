"""Constants that are not stored as arrays: in blocks with scales of their own, or sparse (TensorFlow Lite's form of
TACO's, a dense or a compressed level for each dimension and block).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np

from ...errors import ModelError
from ...ir import TensorType
from ...limits import current
from .wire import Table

BLOCK = 32
"""Elements of a GGML block."""

_BYTES = {"GGML_Q4_0": (2, 16), "GGML_Q4_1": (4, 16), "GGML_Q8_0": (2, 32), "GGML_Q8_1": (4, 32)}
"""Bytes of a block: its header (float16 scale; of Q4_1 also the minimum, of Q8_1 a sum), its numbers."""


def ggml(name: str, data: np.ndarray, dims: tuple[int, ...], where: str) -> np.ndarray:
    """GGML's blocks of 32 along the last dimension: scale * number (less 8 in Q4_0, plus the minimum in Q4_1)."""
    head, body = _BYTES[name]
    blocks = int(np.prod(dims, dtype=np.int64)) // BLOCK
    if not dims or dims[-1] % BLOCK or len(data) != blocks * (head + body):
        raise ModelError(
            f"{where}: expected blocks of {BLOCK} along the last dimension and a buffer of "
            f"{blocks * (head + body)} bytes for shape {list(dims)} of {name}, "
            f"found {len(data)} bytes; the file was not written correctly"
        )
    rows = data.reshape(blocks, head + body)
    header = np.ascontiguousarray(rows[:, :head]).view("<f2").astype(np.float32)
    scale, packed = header[:, :1], rows[:, head:]
    if body == BLOCK:
        numbers = packed.view(np.int8).astype(np.float32)
    else:  # the low halves are elements 0 to 15, the high ones 16 to 31
        numbers = np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32)
    if name == "GGML_Q4_0":
        numbers -= 8
    numbers *= scale
    if name == "GGML_Q4_1":
        numbers += header[:, 1:2]
    return numbers.reshape(dims)


def blockwise(stored: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None, block: int, where: str) -> np.ndarray:
    """TensorFlow Lite's blocks along the last dimension: scale * (number - zero point), one of each per block."""
    count = stored.size // block if block > 0 else 0
    fits = stored.ndim and block > 0 and stored.shape[-1] % block == 0 and scales.size == count
    if not fits or zeros is not None and zeros.size not in (1, count):
        raise ModelError(
            f"{where}: expected a scale, and a zero point if any, for each block of {block} along the "
            f"last dimension of shape {list(stored.shape)}, found {scales.size} scales; "
            "the file was not written correctly"
        )
    real = stored.astype(np.float32).reshape(-1, block)
    if zeros is not None:
        real -= zeros.reshape(-1, 1).astype(np.float32)
    real *= scales.reshape(-1, 1).astype(np.float32)
    return real.reshape(stored.shape)


def densify(sparsity: Table, numbers: Callable[[int], np.ndarray], type: TensorType, where: str) -> np.ndarray:
    """The dense array of `type`. `numbers(count)` gives the stored numbers, after it has checked their count.

    Level after level, in the order of traversal, every place stored so far becomes the places below it: all of them in
    a dense level, those that are listed in a compressed one.
    """

    def fail(what: str) -> NoReturn:
        raise ModelError(f"{where}: sparsity: {what}; the file was not written correctly")

    dims, rank = type.dims, len(type.dims)
    current().hold(8 * type.size + type.nbytes, f"{where}: sparsity")  # a dense level lists all places
    block, flat = _blocks(sparsity, dims, fail), np.zeros(1, np.int64)
    for level, place in zip(sparsity.dim_metadata, sparsity.traversal_order, strict=True):
        axis = place if place < rank else sparsity.block_map[place - rank]
        extent = dims[axis] // block[axis] if place < rank else block[axis]
        stride = int(np.prod(dims[axis + 1 :], dtype=np.int64)) * (block[axis] if place < rank else 1)
        if level.format != "DENSE":
            flat = _listed(level, flat, extent, stride, fail)
            continue
        if level.dense_size != extent:
            fail(f"expected a dense level of {extent} along axis {axis}, found {level.dense_size}")
        if len(flat) * extent > type.size:
            fail(f"expected at most {type.size} places, found more")
        flat = (flat[:, None] + np.arange(extent) * stride).reshape(-1)
    values = numbers(len(flat))
    dense = np.full(dims, 0 if type.quant is None else _zero_points(type), type.dtype).reshape(-1)
    dense[flat] = values
    return dense.reshape(dims)


def _blocks(sparsity: Table, dims: tuple[int, ...], fail: Callable[[str], NoReturn]) -> list[int]:
    """The extent of a block along each axis, 1 where there are none."""
    levels, order, block_map, rank = sparsity.dim_metadata, sparsity.traversal_order, sparsity.block_map, len(dims)
    if sorted(order) != list(range(rank + len(block_map))) or sorted(order[:rank]) != list(range(rank)):
        fail(f"expected traversal_order to list {rank} dimensions, then {len(block_map)} of blocks, found {order}")
    if len(levels) != len(order) or len(set(block_map)) != len(block_map) or not set(block_map) <= set(range(rank)):
        fail(
            f"expected a level for each of {len(order)} dimensions and blocks of different ones, "
            f"found {len(levels)} levels and block_map {block_map}"
        )
    block = [1] * rank
    for level, place in list(zip(levels, order, strict=True))[rank:]:
        axis = block_map[place - rank]
        if level.format != "DENSE" or level.dense_size < 1 or dims[axis] % level.dense_size:
            fail(f"expected dense blocks that divide shape {list(dims)}, found {level.dense_size}")
        block[axis] = level.dense_size
    return block


def _listed(level: Table, flat: np.ndarray, extent: int, stride: int, fail: Callable[[str], NoReturn]) -> np.ndarray:
    """The places below `flat` in a compressed level: array_segments says how many each has, array_indices which."""
    vectors = [level.array_segments, level.array_indices]
    if None in vectors:
        fail("expected array_segments and array_indices of a compressed level, found none")
    segments, indices = (vector.array("values").astype(np.int64) for vector in vectors if vector is not None)
    if len(segments) != len(flat) + 1 or segments[0] != 0 or segments[-1] != len(indices):
        fail(f"expected {len(flat) + 1} segments that share out {len(indices)} indices, found {len(segments)}")
    counts = np.diff(segments)
    if (counts < 0).any() or (len(indices) and not 0 <= indices.min() <= indices.max() < extent):
        fail(f"expected segments in order and indices from 0 to {extent - 1}")
    return np.repeat(flat, counts) + indices * stride


def _zero_points(type: TensorType) -> np.ndarray:
    """The stored number for 0.0, of places where nothing is stored, shaped to broadcast."""
    quant, shape = type.quantization, [1] * len(type.dims)
    if quant.axis is not None:
        shape[quant.axis] = -1
    return np.asarray(quant.zero_point, type.dtype).reshape(shape)
