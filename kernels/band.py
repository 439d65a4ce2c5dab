"""Copies into a convolution's scratch: whole vectors in ascending order, each may run into the next."""

from __future__ import annotations

from typing import Any

from numba import types

from .isa.tiers import Tier
from .isa.vector import I64, Vector, emits
from .tile import repeat


def make_copy(tier: Tier) -> Any:
    """An intrinsic copy(to, source, count) -> to + 4 * count: f32s, rounded up to whole vectors."""
    return _filler(tier, True)


def make_clear(tier: Tier) -> Any:
    """An intrinsic clear(to, to, count) that writes zeros instead."""
    return _filler(tier, False)


def _filler(tier: Tier, loads: bool) -> Any:
    @emits(returns=types.int64)
    def fill(b: Any, to: Any, source: Any, count: Any) -> Any:
        v = Vector(b, tier)

        def body(_: Any, state: list[Any]) -> list[Any]:
            target, start = state
            v.store(v.load(v.pointer(start)) if loads else v.const(0), v.pointer(target))
            step = I64(v.lanes * 4)
            return [b.add(target, step), b.add(start, step)]

        vectors = b.ashr(b.add(count, I64(v.lanes - 1)), I64(v.lanes.bit_length() - 1))
        with b.if_then(b.icmp_signed(">", vectors, I64(0))):
            repeat(b, vectors, [to, source], body)
        return b.add(to, b.shl(count, I64(2)))

    return fill
