"""The heights of tiles: which ones main tiles have, and which may go on in another row of a map. Pure arithmetic.

A kernel has a body for each number of rows up to the most that registers allow (at most 16): what main tiles leave over
is one more tile.
"""

from __future__ import annotations


def crossing(most: int, nv: int) -> int:
    """The most rows that a convolution's tile may have which goes on in another row of the map; taller ones end there.

    With one vector a row, there is no time to load offsets that registers don't hold: rows are at equal distances.
    """
    return min(most, 8) if nv == 1 else most


def mains(m: int, most: int, nv: int, words: int) -> set[int]:
    """Heights that main tiles may have for m rows, `most` rows at most: as many, or as many as make tiles alike.

    Few products are worth fewer rows: the CPU looks ahead far enough to store one tile while it sums the next.
    """
    few = range(-(-14 // nv), most) if words <= 32 else ()
    return {most, -(-m // -(-max(m, 1) // most)) or 1, *few}
