"""Random numbers that a seed fixes on every machine: Philox and Threefry. Never folded.

Semantics: tflite/kernels/{random_ops, stablehlo_rng_bit_generator}.cc and tsl/lib/random. Each of the first three
takes how many blocks of four numbers were drawn before, and gives how many were drawn after it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Node, TensorType
from .common import FLOAT32, INT64, Types, fail, ints, need_rank, unknown_dims
from .registry import REQUIRED, attr, define

LOW = np.uint64(0xFFFFFFFF)
UINT64 = np.dtype(np.uint64)
CHUNK = 1 << 14
"""Blocks that are drawn at a time, so that what is between fits a cache."""
THREEFRY_TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))


def philox(key: int, high: int, first: int, count: int) -> np.ndarray:
    """[count, 4] uint32: Philox 4x32-10 of `count` counters from `first` on; `high` is their upper half."""
    out = np.empty((count, 4), np.uint32)
    for at in range(0, count, CHUNK):
        part = out[at : at + CHUNK]
        part[:] = _philox(key, high, _counters(first + at, len(part)))
    return out


def threefry(key: int, first: int, count: int) -> np.ndarray:
    """uint64 of `count` counters from `first` on: Threefry 2x32-20."""
    out = np.empty(count, np.uint64)
    for at in range(0, count, CHUNK):
        part = out[at : at + CHUNK]
        part[:] = _threefry((key & 0xFFFFFFFF, key >> 32), _counters(first + at, len(part)))
    return out


def _counters(first: int, count: int) -> np.ndarray:
    return np.arange(count, dtype=np.uint64) + np.uint64(first % 2**64)


def _philox(key: int, high: int, low: np.ndarray) -> np.ndarray:
    upper = [np.full(len(low), half, np.uint64) for half in (high & 0xFFFFFFFF, high >> 32)]
    c, k, up = [low & LOW, low >> np.uint64(32), *upper], [key & 0xFFFFFFFF, key >> 32], np.uint64(32)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [b >> up ^ c[1] ^ np.uint64(k[0]), b & LOW, a >> up ^ c[3] ^ np.uint64(k[1]), a & LOW]
        k = [k[0] + 0x9E3779B9 & 0xFFFFFFFF, k[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return np.stack(c, 1).astype(np.uint32)


def _threefry(keys: tuple[int, int], counters: np.ndarray) -> np.ndarray:
    k = [np.uint64(keys[0]), np.uint64(keys[1]), np.uint64(keys[0] ^ keys[1] ^ 0x1BD11BDA)]
    x, y = (counters & LOW) + k[0] & LOW, (counters >> np.uint64(32)) + k[1] & LOW
    for round_ in range(5):
        for turn in THREEFRY_TURNS[round_ % 2]:
            x = x + y & LOW
            y = (y << np.uint64(turn) | y >> np.uint64(32 - turn)) & LOW ^ x
        x = x + k[(round_ + 1) % 3] & LOW
        y = y + k[(round_ + 2) % 3] + np.uint64(round_ + 1) & LOW
    return y << np.uint64(32) | x


def _unit(words: np.ndarray) -> np.ndarray:
    """f32 from 0 (inclusive) to 1 out of 23 bits of each word."""
    return (words & np.uint32(0x7FFFFF) | np.uint32(127 << 23)).view(np.float32) - np.float32(1)


def _words(node: Node, drawn: Any, blocks: int) -> np.ndarray:
    """[blocks, 4] from the node's seeds, or fresh ones where they are None."""
    seeds = attr(node, "seeds") or tuple(np.random.default_rng().integers(1, 2**63, 2).tolist())
    return philox(seeds[0] % 2**64, seeds[1] % 2**64, int(np.reshape(drawn, -1)[0]), blocks)


def _counter(before: Any, blocks: int) -> np.ndarray:
    return np.array(int(np.reshape(before, -1)[0]) + blocks, np.int64)


def _infer_shaped(node: Node, types: Types) -> list[TensorType]:
    shape = node.const(0)
    known = unknown_dims(types[0]) if shape is None else tuple(ints(shape))
    return [TensorType(FLOAT32, known), TensorType(INT64, ())]


def _drawn(node: Node, inputs: list[Any]) -> list[Any]:
    shape, before = ints(inputs[0]), inputs[1]
    size = int(np.prod(shape))
    blocks = -(-size // 4)
    words = _words(node, before, blocks)
    if node.op == "philox_uniform":
        numbers = _unit(words)
    else:
        radius = np.sqrt(np.float32(-2) * np.log(np.maximum(_unit(words[:, ::2]), np.float32(1e-7))))
        angle = np.float32(2 * np.pi) * _unit(words[:, 1::2])
        numbers = np.stack([np.sin(angle) * radius, np.cos(angle) * radius], 2)
    return [numbers.reshape(-1)[:size].reshape(shape).astype(np.float32), _counter(before, blocks)]


def _infer_multinomial(node: Node, types: Types) -> list[TensorType]:
    need_rank(node, types[0], 2, 2, "logits")
    count = node.const(1)
    rows = types[0].shape[0] if types[0].shape else None
    columns = None if count is None else ints(count)[0]
    return [TensorType(np.dtype(attr(node, "dtype")), (rows, columns)), TensorType(INT64, ())]


def _multinomial(node: Node, inputs: list[Any]) -> list[Any]:
    """Classes by each row's unnormalized log probabilities; what is not finite has none."""
    logits, count, before = inputs[0].astype(np.float64), ints(inputs[1])[0], inputs[2]
    if logits.shape[1] == 0 or count < 0:
        fail(node, f"needs classes and a count from 0 on, found {logits.shape[1]} classes and count {count}")
    finite = np.isfinite(logits)
    top = np.max(logits, axis=1, keepdims=True, initial=float(np.finfo(np.float32).min), where=finite)
    edges = np.cumsum(np.where(finite, np.exp(np.where(finite, logits, 0) - top), 0), axis=1)
    pairs = _words(node, before, -(-len(logits) * count // 2)).reshape(-1, 2)[: len(logits) * count].astype(np.uint64)
    bits = (pairs[:, 0] & np.uint64(0xFFFFF)) << np.uint64(32) | pairs[:, 1] | np.uint64(1023 << 52)
    points = (bits.view(np.float64) - 1).reshape(len(logits), count) * edges[:, -1:]
    found = [np.searchsorted(row, at, "right") for row, at in zip(edges, points, strict=True)]
    skipped = len(logits) * (-(-count // 4) * 4) * 2 * 256
    return [np.array(found).reshape(len(logits), count).astype(attr(node, "dtype")), _counter(before, skipped)]


def _infer_bits(node: Node, types: Types) -> list[TensorType]:
    if types[0].dtype != UINT64:
        fail(node, f"the state must be uint64, found {types[0].dtype}")
    return [TensorType(UINT64, types[0].shape), TensorType(np.dtype(attr(node, "dtype")), tuple(attr(node, "shape")))]


def _bits(node: Node, inputs: list[Any]) -> list[Any]:
    """(next state, bits): the state is a key and a counter of 64 (Threefry) or 128 bits (Philox)."""
    state, dtype = inputs[0].reshape(-1), np.dtype(attr(node, "dtype"))
    shape, after = tuple(attr(node, "shape")), inputs[0].reshape(-1).copy()
    words = -(-int(np.prod(shape)) * dtype.itemsize // 4) if dtype.itemsize >= 4 else int(np.prod(shape))
    key, counter = int(state[0]), int(state[1])
    if attr(node, "algorithm") == "THREEFRY":
        if len(state) != 2:
            fail(node, f"Threefry's state must have 2 numbers, found {len(state)}")
        blocks = -(-words // 2)
        stream = threefry(key, counter, blocks).view(np.uint32)
        after[1] = (counter + blocks) % 2**64
    else:
        if len(state) not in (2, 3):
            fail(node, f"Philox' state must have 2 or 3 numbers, found {len(state)}")
        blocks = -(-words // 4)
        high = int(state[2]) if len(state) == 3 else key
        stream = philox(key, high, counter, blocks).reshape(-1)
        after[1] = (counter + blocks) % 2**64
    whole = stream[:words]
    numbers = whole.view(dtype) if dtype.itemsize >= 4 else whole.astype(dtype)
    return [after.reshape(inputs[0].shape), numbers[: int(np.prod(shape))].reshape(shape)]


def _infer_words(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(np.dtype(np.uint32), (attr(node, "blocks"), 2 if attr(node, "threefry") else 4))]


def _random_words(node: Node, inputs: list[Any]) -> list[Any]:
    """[blocks, 4] words of a key and the upper and lower half of the first counter, uint64; [blocks, 2] of Threefry's,
    which has no upper half. What is `fresh` has an upper half of its own at each call.
    """
    key, high, first = (int(np.reshape(v, -1)[0]) for v in inputs)
    if attr(node, "fresh"):
        high = int(np.random.default_rng().integers(0, 2**63))
    if attr(node, "threefry"):
        return [threefry(key, first, attr(node, "blocks")).view(np.uint32).reshape(-1, 2)]
    return [philox(key, high, first, attr(node, "blocks"))]


define(
    "random_words", _infer_words, _random_words, pure=False, inputs=(3, 3),
    attrs={"blocks": REQUIRED, "threefry": 0, "fresh": 0},
)  # fmt: skip
for _name in ("philox_uniform", "philox_normal"):
    define(_name, _infer_shaped, _drawn, pure=False, inputs=(2, 2), attrs={"seeds": None}, shaped_by=(0,))
define(
    "philox_multinomial", _infer_multinomial, _multinomial, pure=False, inputs=(3, 3),
    attrs={"seeds": None, "dtype": INT64}, shaped_by=(1,),
)  # fmt: skip
define(
    "random_bits", _infer_bits, _bits, inputs=(1, 1),
    attrs={"algorithm": "PHILOX", "dtype": REQUIRED, "shape": REQUIRED},
)  # fmt: skip
