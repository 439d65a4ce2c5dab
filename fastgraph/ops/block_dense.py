"""Dense layers of weights in a few bits, a scale for each block of them. Semantics: onnxruntime's MatMulNBits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import FLOAT32, Node, TensorType
from . import check
from .inference import Types, join
from .registry import REQUIRED, attr, define, fail


def block_weights(codes: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None, bits: int, k: int) -> np.ndarray:
    """f32 [N, k] of codes [N, blocks, block * bits / 8] as bytes, the first in the low bits; scales and zero points
    [N, blocks], where the middle of the codes stands for absent ones.
    """
    n, blocks = scales.shape
    parts = [(codes >> at) & ((1 << bits) - 1) for at in range(0, 8, bits)]
    numbers = np.stack(parts, -1).reshape(n, blocks, -1).astype(np.float32)
    numbers -= np.float32(1 << (bits - 1)) if zeros is None else zeros[..., None]
    numbers *= scales[..., None]
    return numbers.reshape(n, -1)[:, :k]


def round_blocks(x: np.ndarray, block: int) -> np.ndarray:
    """x with each row rounded block by block to whole steps, of which the largest number is 127."""
    k = x.shape[-1]
    blocks = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -k % block)]).reshape(*x.shape[:-1], -1, block)
    most = np.maximum(np.abs(blocks).max(-1, keepdims=True, initial=0), np.float32(1e-30))
    with np.errstate(invalid="ignore"):
        rounded = np.rint(blocks * (np.float32(127) / most)) * (most / np.float32(127))
    return rounded.reshape(*x.shape[:-1], -1)[..., :k]


@check.takes("x 1+, codes, scales, zero_points?")
def _infer(node: Node, types: Types) -> list[TensorType]:
    x, codes, scales, zeros = types
    bits, block = attr(node, "bits"), attr(node, "block")
    if x.dtype != FLOAT32 or scales.dtype != FLOAT32 or codes.dtype != np.uint8 or bits not in (2, 4, 8):
        fail(node, f"expected float32 and codes of 2, 4 or 8 bits as uint8, found {x}, {scales}, {codes} and {bits}")
    if x.shape is None or scales.shape is None:
        return [TensorType(FLOAT32)]
    n, blocks = scales.shape
    k = x.shape[-1]
    if isinstance(k, int) and codes.shape != (n, -(-k // block), block * bits // 8) or codes.shape[:2] != (n, blocks):
        fail(node, f"expected codes and scales of blocks of {block} for {k} columns, found {codes} and {scales}")
    if zeros is not None and zeros.shape is not None:
        for found, wanted in zip(zeros.shape, scales.shape, strict=True):
            join(node, found, wanted)
    return [TensorType(FLOAT32, (*x.shape[:-1], n))]


def _layer(node: Node, inputs: list[Any]) -> list[Any]:
    x, codes, scales, zeros = inputs
    if attr(node, "rounds"):
        x = round_blocks(x, attr(node, "block"))
    return [x @ block_weights(codes, scales, zeros, attr(node, "bits"), x.shape[-1]).T]


def _work(node: Node) -> tuple[int, int]:
    x, scales = node.x, node.operands[2]
    weights = scales.type.dims[0] * x.type.dims[-1]
    return weights * (2 + x.type.size // max(x.type.dims[-1], 1)), weights


ATTRS = {"bits": REQUIRED, "block": REQUIRED, "rounds": 0}
"""rounds: whether x is rounded to bytes, as `round_blocks` does; kernels may leave it as it is."""
define("block_dense", _infer, _layer, attrs=ATTRS, extras_at=4, sums=True, work=_work)
