"""The heights of tiles: which ones a kernel has bodies for, and how rows are covered by them. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache


@cache
def heights(most: int, nv: int) -> tuple[int, ...]:
    """The rows that tiles of nv vectors have, descending, where registers allow `most` (1 to 16).

    Half as many vectors of sums as 16 wait for one another: what has no more is not made of halves.
    """
    return tuple(range(most, 0, -1))


def even(nv: int) -> bool:
    """Whether tiles of a convolution have their rows at equal distances, and so end where a row of the map does.

    With one vector a row, they have no time to load offsets that registers don't hold.
    """
    return nv == 1


def mains(bodies: Sequence[int], nv: int, words: int) -> list[int]:
    """Those of the heights that main tiles may have.

    Few products are worth fewer rows: the CPU looks ahead far enough to store one tile while it sums the next.
    """
    return [h for h in bodies if 2 * h > bodies[0] or (words <= 32 and h * nv >= 14)]


def first_of(rest: int, bodies: Sequence[int]) -> int:
    """The height of the next tile for `rest` rows, fewer than a main tile has: all of them, or the larger part."""
    if rest in bodies:
        return rest
    return min(h for h in bodies if rest - h in bodies and 2 * h >= rest)


def packed(bodies: Sequence[int]) -> int:
    """first_of all rests below the greatest height as an int64: four bits each, from bit 4 * rest on."""
    word = sum(first_of(rest, bodies) << 4 * rest for rest in range(1, bodies[0]))
    return word - (word >> 63 << 64)


def cover(m: int, height: int, bodies: Sequence[int]) -> list[int]:
    """The heights of the tiles that cover m rows, in order, where main tiles have `height`."""
    whole, rest = divmod(m, height)
    tiles = [height] * whole
    while rest:
        tiles.append(first_of(rest, bodies))
        rest -= tiles[-1]
    return tiles
