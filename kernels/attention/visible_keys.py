"""The keys that each query sees."""

from __future__ import annotations

from typing import Any

from ..lang import I64, larger, smaller, traced

Numbers = tuple[Any, ...]


@traced
def _length(valid: Any, image: Any) -> Any:
    return I64.at(valid)[image]


def bounds(r: Any, image: int) -> tuple[int, int]:
    """(number of keys of an image, position of its first query among them)."""
    limit, place = r.t, r.place
    if r.valid:
        limit = larger(0, smaller(_length(r.valid, image), r.t))
        if r.follows:
            place = limit - r.s
    return limit, place


def at_key(r: Any, mask: int, key: int) -> Any:
    """The address of a key's number in a row of the mask."""
    return mask + (4 * key if r.kind == 1 else key)


def span(r: Any, limit: int, place: int, rows: int) -> tuple[int, int]:
    """The range of keys that `rows` queries from position `place` on see together."""
    return larger(0, place + r.low), smaller(limit, place + rows - 1 + r.high)


def seen(r: Any, limit: int, place: int, key: int, n: int) -> tuple[int, int]:
    """The range, within n keys from `key` on, that the query at position `place` sees."""
    left = larger(0, smaller(n, place + r.low - key))
    return left, larger(left, smaller(n, smaller(limit, place + r.high) - key))
