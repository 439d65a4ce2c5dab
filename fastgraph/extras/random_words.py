"""Pseudorandom words made of consecutive counters: Philox 4x32-10, Threefry 2x32-20. Semantics: Random123."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Node, TensorType
from ..kernels.pointwise.random_rounds import halves, philox, threefry
from ..ops.inference import Types
from ..ops.registry import REQUIRED, attr, define
from ..plan.lower.registry import Emit, Slot, lowers


def words(key: int, high: int, first: int, count: int, by_threefry: bool = False) -> np.ndarray:
    """[count, 4] uint32 of `count` counters from `first` on, whose upper half is `high`; [count, 2] of Threefry's,
    which has no upper half.
    """
    counters = np.arange(count, dtype=np.uint64) + np.uint64(first % 2**64)
    keys, upper = halves(np.array([key], np.uint64)), halves(np.full(count, high, np.uint64))
    made = threefry(halves(counters), keys) if by_threefry else philox([*halves(counters), *upper], keys)
    return np.stack(made, 1).astype(np.uint32)


def _infer(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(np.dtype(np.uint32), (attr(node, "blocks"), 2 if attr(node, "threefry") else 4))]


def _words(node: Node, inputs: list[Any]) -> list[Any]:
    """Of a key and the upper and lower half of the first counter, uint64. What is `fresh` has an upper half of its own
    at each call.
    """
    key, high, first = (int(np.reshape(v, -1)[0]) for v in inputs)
    if attr(node, "fresh"):
        high = int(np.random.default_rng().integers(0, 2**63))
    return [words(key, high, first, attr(node, "blocks"), attr(node, "threefry"))]


_ATTRS = {"blocks": REQUIRED, "threefry": 0, "fresh": 0}
define("random_words", _infer, _words, pure=False, inputs=(3, 3), attrs=_ATTRS)


def _match(node: Node) -> bool:
    states = all(v is not None and v.type.dtype == np.uint64 and v.type.size == 1 for v in node.inputs)
    return states and attr(node, "blocks") > 0


@lowers("random_words", match=_match)
def random(e: Emit, node: Node, _: bool) -> None:
    args: dict[str, Slot] = {"y": node.out}
    args |= {name: e.address(v) for name, v in zip(("key", "high", "counter"), node.inputs, strict=True) if v}
    flags = {name: int(attr(node, name)) for name in ("blocks", "threefry", "fresh")}
    e.kernel("random", {}, {**args, **flags})
