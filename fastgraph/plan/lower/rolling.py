"""Which rows of their maps windows in a row compute band by band, each row once. Arithmetic over rows only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from ...kernels.window.pick import Window


class Piece(NamedTuple):
    """A band of a layer: it reads the rows from `low` to `high` of x, and makes those from `start` to
    `end` of the result, perhaps none. Its x in scratch begins with row `low`."""

    low: int
    high: int
    start: int
    end: int

    @property
    def rows(self) -> int:
        return self.end - self.start


Band = tuple[Piece, ...]


@lru_cache(256)
def bands(windows: tuple[Window, ...], height: int, rows: range) -> list[Band]:
    """The bands, of `height` rows each, that make rows of the last result; each layer makes what the next one reads and
    is not made yet."""
    made, lows = [0] * len(windows), [0] * len(windows)
    found = []
    for first in range(rows.start, rows.stop, height):
        wanted, need, pieces = first, min(first + height, rows.stop), list[Piece]()
        for i in reversed(range(len(windows))):
            pieces.append(piece := _piece(windows[i], max(made[i], wanted), max(made[i], need), lows[i]))
            made[i], lows[i] = piece.end, piece.low
            wanted, need = piece.low, piece.high
        found.append(tuple(reversed(pieces)))
    return found


def _piece(where: Window, start: int, end: int, low: int) -> Piece:
    """low: the first row of x that the band before reads."""
    if start >= end:
        return Piece(low, low, end, end)
    stride, pad, reach = where.strides[1], where.pads[1], where.reach[1]
    high = min((end - 1) * stride - pad + reach, where.size[1])
    return Piece(max(start * stride - pad, 0), high, start, end)


def kept(before: Band | None, band: Band, i: int) -> tuple[int, int]:
    """(distance, rows): so many rows of the result of layer i, which the next band reads too, move down by a distance
    within scratch before the layer makes more; no rows where there is nothing to do."""
    if before is None:
        return 0, 0
    distance = band[i + 1].low - before[i + 1].low
    return distance, max(before[i].end - band[i + 1].low, 0) if distance else 0


def slides(found: Sequence[Band]) -> bool:
    """Whether no rows that are kept move onto themselves, so that one copy moves them."""
    pairs = zip(found, found[1:], strict=False)
    return all(rows <= by for a, b in pairs for by, rows in (kept(a, b, i) for i in range(len(b) - 1)))


def room(found: Sequence[Band], i: int) -> int:
    """The most rows of the result of layer i that are there at a time."""
    return max(max(band[i].end, band[i + 1].high) - band[i + 1].low for band in found)


def band_height(windows: tuple[Window, ...], lines: Sequence[int], budget: int, height: int) -> int:
    """Rows of the last result in a band, of `height` rows that begin anywhere, whose scratch is within the budget where
    possible. lines: bytes of scratch for a row of each result but the last."""
    each, more, step = 0, 0, 1
    for where, line in zip(reversed(windows[1:]), reversed(lines), strict=True):
        more += line * (where.reach[1] - where.strides[1])
        step *= where.strides[1]
        each += line * step
    if height == windows[-1].out[1] and each * height <= budget:
        return height  # there are no rows beyond the edges
    fits = max((budget - more) // max(each, 1), 1)
    found = -(-height // -(-height // min(fits, height)))
    whole = range(windows[-1].out[1])
    while found < height and not slides(bands(windows, found, whole)):
        found += 1
    return found


def alike(windows: tuple[Window, ...], found: Sequence[Band]) -> range:
    """The most bands in a row that do the same, each further on than the one before by the same numbers of rows."""

    def said(b: int) -> tuple[Any, Any]:
        before, band = found[b - 1], found[b]
        shifts = [
            (new.start - old.start, new.low - old.low, new.rows, new.high - new.low)
            for old, new in zip(before, band, strict=True)
        ]
        ends = [
            (new.low - new.start * where.strides[1], new.high == where.size[1])
            for where, new in zip(windows, band, strict=True)
        ]
        held = [(*kept(before, band, i), band[i].start - band[i + 1].low) for i in range(len(band) - 1)]
        return (shifts, ends), held

    runs = [list(run) for _, run in groupby(range(1, len(found)), said)]
    longest = max(runs, key=len, default=[0])
    return range(longest[0], longest[-1] + 1)
