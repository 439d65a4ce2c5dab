"""Lanes of vectors."""

from __future__ import annotations

from collections.abc import Sequence

from . import llvm
from .types import I32, integer
from .values import Value, builder


def any_lane(mask: Value) -> Value:
    """Whether a mask has a lane."""
    return mask.bits(integer(mask.lanes, signed=False)) != 0


def shuffle(x: Value, order: Sequence[int], y: Value | None = None) -> Value:
    """The lanes of x, and then of y, that are named."""
    other = x.type.undefined() if y is None else y
    lanes = llvm.Constant(I32.vector(len(order)).llvm, list(order))
    return Value(builder().shuffle_vector(x.x, other.x, lanes), x.type.vector(len(order)))


def halves(x: Value) -> list[Value]:
    """The lower and the upper half of a vector."""
    n = x.lanes
    return [shuffle(x, range(start, start + n // 2)) for start in (0, n // 2)]


def joined(*vectors: Value) -> Value:
    """The lanes of some vectors (a power of two), one after the other."""
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = tuple(shuffle(x, range(2 * x.lanes), y) for x, y in pairs)
    return vectors[0]
