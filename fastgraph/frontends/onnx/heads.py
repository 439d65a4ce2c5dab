"""Widths cut into heads, and put together again."""

from __future__ import annotations

from ...ir import Value
from .call import Call


def by_head(call: Call, x: Value, heads: int, size: int = -1) -> Value:
    """[B, S, heads * size] as [B, heads, S, size]; one of the two may be -1."""
    split = call.add("reshape", [x, call.const([0, 0, heads, size])], allowzero=0)
    return call.add("transpose", [split], perm=(0, 2, 1, 3))


def flat(call: Call, x: Value) -> Value:
    """[B, heads, S, size] as [B, S, heads * size]."""
    return rows(call, call.add("transpose", [x], perm=(0, 2, 1, 3)))


def rows(call: Call, x: Value) -> Value:
    """[B, S, ...] as [B, S, width]."""
    return call.add("reshape", [x, call.const([0, 0, -1])], allowzero=0)
