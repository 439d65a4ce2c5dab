"""Rows and scratch of amx_blocks, for layers of weights in a few bits. NumPy only."""

from __future__ import annotations

import numpy as np

from .pack_amx import LINE, ROWS, SUMS
from .pack_real import MT, NUMBERS

NT, PLANES = 2, 3
"""Tiles across a block: those of a group of columns; and parts of a number of A."""
GROUPS, SMALL = 2, 64
"""Groups of columns that are multiplied at a time, of which the second reads A from the first-level cache; and the most
codes of a block with which it does: of more each group is alone.
"""
BAND, MOST_BLOCKS = 5 << 18, 4
"""Bytes of A's parts that a group is multiplied with before the next one, which stay in the second-level cache, and
the most blocks of tiles that they are for, whose totals stay in the first."""
LEAST_ROWS = 9
"""Rows from which on tiles are faster than vectors."""
MOST_SCALE = 2.0**30
"""The largest scale with which what parts lose never shows in sums from pack_real.SURE on."""


def suit(block: int, scales: np.ndarray) -> bool:
    """Whether tiles multiply by blocks of so many codes with these scales."""
    return block % NUMBERS == 0 and bool((np.abs(scales) <= MOST_SCALE).all())


def pick_codes(m: int, k: int, block: int) -> dict[str, int]:
    """The slots of rows.AMX_BLOCKS that follow from rows, products of a sum and the codes of a block."""
    count = -(-m // (MT * ROWS))
    rows = -(-m // (MT * count))
    height, lines = MT * rows, -(-k // NUMBERS)
    rs = lines * LINE + LINE * (lines * LINE % 4096 == 0)
    bands = -(-count // min(max(BAND // (PLANES * rs * height), 1), MOST_BLOCKS))
    band = height * -(-count // bands)
    plane, note = band * rs, 4 * (1 + -(-k // block))
    groups = GROUPS if block <= SMALL else 1
    panel = -(-(PLANES * plane + band * note) // LINE) * LINE
    work = panel + groups * block // NUMBERS * NT * ROWS * LINE
    places = {"plane": plane, "notes": PLANES * plane, "note": note, "panel": panel, "work": work}
    size = work + 2 * SUMS + groups * band * NT * LINE
    return {"rows": rows, "groups": groups, "band": band, "lines": lines, "rs": rs, **places, "scratch_bytes": size}
