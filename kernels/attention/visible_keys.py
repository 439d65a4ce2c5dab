"""Which keys queries see: what the kernels' loops have in common."""

from __future__ import annotations

from typing import Any

from ..lang import I64, larger, smaller, traced


@traced
def _length(valid: Any, image: Any) -> Any:
    return I64.at(valid)[image]


def bounds(r: Any, image: int) -> tuple[int, int]:
    """(keys of an image, place of its first query)."""
    limit, place = r.t, r.place
    if r.valid:
        limit = larger(0, smaller(_length(r.valid, image), r.t))
        if r.follows:
            place = limit - r.s
    return limit, place


def seen(r: Any, limit: int, place: int, key: int, n: int) -> tuple[int, int]:
    """Of n keys from `key` on, the first that the query at this place sees, and the end of those."""
    left = larger(0, smaller(n, place + r.low - key))
    return left, larger(left, smaller(n, smaller(limit, place + r.high) - key))
