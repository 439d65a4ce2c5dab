"""Constants quantized in blocks, each with scales of its own: they become the float32 that they stand for."""

from __future__ import annotations

import numpy as np

from ...errors import ModelError

BLOCK = 32
"""Elements of a GGML block."""

_BYTES = {"GGML_Q4_0": (2, 16), "GGML_Q4_1": (4, 16), "GGML_Q8_0": (2, 32), "GGML_Q8_1": (4, 32)}
"""Bytes of a block: its header (float16 scale; of Q4_1 also the minimum, of Q8_1 a sum), its numbers."""


def ggml(name: str, data: np.ndarray, dims: tuple[int, ...], where: str) -> np.ndarray:
    """GGML's blocks of 32 along the last dimension: scale * number (less 8 in Q4_0, plus the minimum in Q4_1)."""
    head, body = _BYTES[name]
    blocks = int(np.prod(dims, dtype=np.int64)) // BLOCK
    if not dims or dims[-1] % BLOCK or len(data) != blocks * (head + body):
        raise ModelError(f"{where}: expected blocks of {BLOCK} along the last dimension and a buffer of "
                         f"{blocks * (head + body)} bytes for shape {list(dims)} of {name}, "
                         f"found {len(data)} bytes; the file was not written correctly")  # fmt: skip
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
        raise ModelError(f"{where}: expected a scale, and a zero point if any, for each block of {block} along the "
                         f"last dimension of shape {list(stored.shape)}, found {scales.size} scales; "
                         "the file was not written correctly")  # fmt: skip
    real = stored.astype(np.float32).reshape(-1, block)
    if zeros is not None:
        real -= zeros.reshape(-1, 1).astype(np.float32)
    real *= scales.reshape(-1, 1).astype(np.float32)
    return real.reshape(stored.shape)
