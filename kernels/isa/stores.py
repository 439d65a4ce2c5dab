"""Stores of the first elements of a vector, where a row ends within it: memory beyond is not touched."""

from __future__ import annotations

from ..lang import I8, U8, Value, either, integer, register, smaller, tier, when


def first_lanes(lanes: int, count: Value) -> Value:
    """The mask of the first `count` (int64, within an int8) lanes; none if it is 0 or less."""
    index = I8.vector(lanes)
    return index(range(lanes)) < index(count.to(I8))


def store_first(value: Value, place: Value, count: Value | None) -> None:
    """Store the first `count` (int64) elements of a vector, not all of them; all for None."""
    kind = value.type
    if count is None:
        kind[place] = value
    elif tier().masks:
        kind[place, first_lanes(kind.lanes, count)] = value
    else:
        _store_parts(value, U8.at(place), count * kind.number.size)


def store_some(value: Value, place: Value, count: Value) -> None:
    """Store the first `count` (int64) elements, or all if it is larger."""
    kind = value.type
    if tier().masks:
        store_first(value, place, smaller(count, kind.lanes))
        return
    with either(count >= kind.lanes, likely=True) as (whole, part):
        with whole:
            kind[place] = value
        with part:
            store_first(value, place, count)


def _store_parts(value: Value, place: Value, nbytes: Value) -> None:
    """The first bytes of a vector in pieces of powers of two, the largest first."""
    total = 8 * value.type.size
    rest, at = register(value.bits(integer(total, signed=False))), register(place)
    size = total // 16
    while size >= value.type.number.size:
        with when((nbytes & size) != 0):
            now, here, word = rest.value, at.value, integer(8 * size, signed=False)
            word[here] = now.to(word)
            rest.value = now >> 8 * size
            at.value = here + size
        size //= 2
