"""Copies into a convolution's scratch: whole vectors in ascending order, each may run into the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types

from ..isa.tiers import Tier
from ..isa.vector import I32, I64, Vector, emits
from .tile import repeat


def make_copy(tier: Tier, item: int = 4) -> Any:
    """An intrinsic copy(to, source, count) -> to + item * count: elements of `item` bytes, rounded up to
    whole vectors.
    """

    @emits(returns=types.int64)
    def copy(b: Any, to: Any, source: Any, count: Any) -> Any:
        v = Vector(b, tier)
        return _fill(v, to, b.mul(count, I64(item)), source, lambda at: v.load(v.pointer(at), align=1))

    return copy


def make_clear(tier: Tier, item: int = 4) -> Any:
    """An intrinsic clear(to, word, count) that writes the low 4 bytes of `word` over and over instead."""

    @emits(returns=types.int64)
    def clear(b: Any, to: Any, word: Any, count: Any) -> Any:
        v = Vector(b, tier)
        value = v.b.bitcast(v.splat(b.trunc(word, I32)), v.type)
        return _fill(v, to, b.mul(count, I64(item)), to, lambda at: value)

    return clear


def _fill(v: Vector, to: Any, nbytes: Any, source: Any, value: Callable[[Any], Any]) -> Any:
    b = v.b
    size = v.lanes * 4

    def body(_: Any, state: list[Any]) -> list[Any]:
        target, start = state
        v.store(value(start), v.pointer(target), align=1)
        return [b.add(target, I64(size)), b.add(start, I64(size))]

    vectors = b.ashr(b.add(nbytes, I64(size - 1)), I64(size.bit_length() - 1))
    with b.if_then(b.icmp_signed(">", vectors, I64(0))):
        repeat(b, vectors, [to, source], body)
    return b.add(to, nbytes)
