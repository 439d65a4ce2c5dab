"""The heights of tiles: which ones main tiles have, and whether their rows are at equal distances. Pure arithmetic.

A kernel has a body for each number of rows up to the most that registers allow (at most 16): what main tiles leave over
is one more tile.
"""

from __future__ import annotations


def even(nv: int) -> bool:
    """Whether tiles of a convolution have their rows at equal distances, and so end where a row of the map does.

    With one vector a row, they have no time to load offsets that registers don't hold.
    """
    return nv == 1


def mains(m: int, most: int, nv: int, words: int) -> set[int]:
    """Heights that main tiles may have for m rows, `most` rows at most: as many, or as many as make tiles alike.

    Few products are worth fewer rows: the CPU looks ahead far enough to store one tile while it sums the next.
    """
    few = range(-(-14 // nv), most) if words <= 32 else ()
    return {most, -(-m // -(-max(m, 1) // most)) or 1, *few}
