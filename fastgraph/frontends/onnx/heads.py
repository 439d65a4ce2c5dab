"""Widths cut into heads, and put together again."""

from __future__ import annotations

from ...ir import Value
from .call import Call


def by_head(c: Call, x: Value, heads: int, size: int = -1) -> Value:
    """[B, S, heads * size] as [B, heads, S, size]; one of the two may be -1."""
    return c.turn(c.reshape(x, 0, 0, heads, size), 0, 2, 1, 3)


def flat(c: Call, x: Value) -> Value:
    """[B, heads, S, size] as [B, S, heads * size]."""
    return rows(c, c.turn(x, 0, 2, 1, 3))


def rows(c: Call, x: Value) -> Value:
    """[B, S, ...] as [B, S, width]."""
    return c.reshape(x, 0, 0, -1)
