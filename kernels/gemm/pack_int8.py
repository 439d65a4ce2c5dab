"""Packs constant s8 weights into the panels that the int8 dot and convolution kernels read. NumPy only.

A panel of nv vectors holds, for its columns, an i32 line that sums begin with, an f32 line of multipliers, with
`rowsum` an i32 line of minus the weights' zero points, and then for each word of A its weights. Bytes are stored
four vectors at a time by pack instructions: `column_order` says which column stands where.

Where products are summed in 16 bits (`together`), weights whose sums of products could exceed these are made smaller,
and what they lack are words that are summed again: behind all panels there is a block for each, of an i32 for each run
of A and one behind, the offset in the block of the run's first word, then words: the number of their run, the offset of
the word in it, both i32, WORD_HEAD bytes with these, and weights. The last line of a panel's head begins with the bytes
from the panel to its block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..isa.tiers import Tier

HEAD_LINES = {False: 2, True: 3}
"""Lines of a panel before its weights, without and with `rowsum`."""
WORD_HEAD = 32
"""Bytes before the weights of a word that is summed again."""
MOST = 128
"""The most that weights of one sign may be whose products with u8 are summed in 16 bits."""


def parts(nv: int) -> list[tuple[int, int]]:
    """(first, how many) of the vectors of a row that are packed to bytes together: four, and the rest."""
    return [(first, min(4, nv - first)) for first in range(0, nv, 4)]


def sums_per_row(nv: int, rowsum: bool) -> int:
    """Vectors of sums for each row of a tile: the last is the sum of the row of A itself, with `rowsum`."""
    return nv + rowsum


def vectors_per_word(tier: Tier, nv: int, rowsum: bool, narrow: bool = False) -> int:
    """Vectors of weights for a word of A: four bytes a lane, or twice two i16 (bytes 0 and 2, then 1 and 3); narrow: as
    of `Words`.
    """
    return nv if narrow else sums_per_row(nv, rowsum) * (1 if tier.byte_dot else 2)


def panel_bytes(tier: Tier, nv: int, rowsum: bool, words: int, small: bool = False) -> int:
    """Bytes of a panel for rows of A of `words` words; small: of weights that are summed in 16 bits."""
    lines = (HEAD_LINES[rowsum] + small) * nv + words * vectors_per_word(tier, nv, rowsum, small)
    return 4 * tier.lanes * lines


def fours(width: int, lanes: int, half: bool) -> list[tuple[int, int]]:
    """(128 bits, vector) where each four columns of `width` vectors that are packed together stand, in order of the
    columns; half: the upper half of the last vector has the last ones.
    """
    places = [(i, j) for i in range(lanes // 4) for j in range(width)]
    return sorted(places, key=lambda place: half and place[0] >= lanes // 8 and place[1] == width - 1)


def column_order(nv: int, lanes: int, out: str, half: bool = False) -> np.ndarray:
    """The column that stands in each of a panel's nv * lanes places; out: one of rows.STORES, half: as of `fours`."""
    columns = np.arange(nv * lanes).reshape(-1, 4)
    if out == "bytes":
        order = [(first + j, i) for first, width in parts(nv) for i, j in fours(width, lanes, half)]
        places = [vector * lanes // 4 + i for vector, i in order]
        columns = columns[np.argsort(places)]
    return columns.reshape(-1)


class Head(NamedTuple):
    """The head of a panel, before its weights: a line for each of these arrays [batch, N].

    start: i32 that sums begin with; multipliers: f32; minus_zero: i32, minus the zero points of the weights, for a
    kernel with `rowsum`; bias: f32, for the kernels of dynamic_layer.py, whose start is the sum of a column's weights.
    """

    start: np.ndarray
    multipliers: np.ndarray
    minus_zero: np.ndarray | None = None
    bias: np.ndarray | None = None


class Words(NamedTuple):
    """How weights become words of A: `run` products of each run of A, rounded up to a multiple of `chains` words.

    narrow: they stay bytes on all tiers, for kernels that widen them as they read, and have no ones for `rowsum`;
    together: for those that multiply them as they are, how many words are summed in 16 bits, else 0.
    """

    run: int
    chains: int = 1
    narrow: bool = False
    together: int = 0


def pack_int8(
    tier: Tier, weights: np.ndarray, head: Head, words_of: Words, nv: int, out: str, half: bool = False
) -> np.ndarray:
    """uint8 [batch, panels, bytes] from s8 weights [batch, N, K], or s16 on tiers without `byte_dot`; with words that
    are summed again uint8 [bytes].

    half: for kernels that compute only half of the last vector.
    """
    (batch, n, k), (run, chains, narrow, together) = weights.shape, words_of
    narrow = narrow or together > 0
    rowsum, width = head.minus_zero is not None, nv * tier.lanes
    panels, runs, words = -(-n // width), k // run, -(-run // (4 * chains)) * chains
    order = column_order(nv, tier.lanes, out, half)
    full = np.zeros((batch, panels * width, runs, words * 4), weights.dtype)
    full[:, :n, :, :run] = weights.reshape(batch, n, runs, run)
    full, again = split(full, together) if together else (full, None)
    # Four weights are moved as one number: NumPy takes as long for a byte as for that.
    quads = full.reshape(batch, panels, width, -1).view(f"i{4 * full.itemsize}")[:, :, order]
    lines = np.ascontiguousarray(quads.transpose(0, 1, 3, 2)).view(full.dtype).reshape(batch, panels, -1, width, 4)
    if rowsum and not narrow:
        ones = np.zeros((runs, words * 4), np.int8)
        ones[:, :run] = 1
        ones = ones.reshape(1, 1, runs * words, 1, 4)
        lines = np.concatenate([lines, np.broadcast_to(ones, (*lines.shape[:3], tier.lanes, 4))], axis=3)
    if not tier.byte_dot and not narrow:
        lines = np.stack([lines[..., 0::2], lines[..., 1::2]], axis=3).astype(np.int16)

    def line(values: np.ndarray, kind: type) -> np.ndarray:
        padded = np.zeros((batch, panels * width), kind)
        padded[:, :n] = values.reshape(batch, n)
        return _bytes(padded.reshape(batch, panels, width)[:, :, order])

    kinds = (np.int32, np.float32, np.int32, np.float32)
    lines_of_head = [line(values, kind) for values, kind in zip(head, kinds, strict=True) if values is not None]
    if again is not None:
        lines_of_head.append(np.zeros((batch, panels, 4 * width), np.uint8))
    packed = np.concatenate([*lines_of_head, _bytes(lines.reshape(batch, panels, -1))], axis=2)
    if again is None:
        return packed
    return _with_blocks(packed, 4 * width * (len(lines_of_head) - 1), again.of_panels(order, width))


class Again(NamedTuple):
    """Words that are summed again: the panel, run and place in it of each, in this order; weights [words, width, 4].

    As `split` gives them, those of each column: then `panels` are columns, and width is 1.
    """

    panels: np.ndarray
    runs: np.ndarray
    places: np.ndarray
    weights: np.ndarray
    words: tuple[int, int]
    """Runs, and words of each."""

    def of_panels(self, order: np.ndarray, width: int) -> Again:
        """Those of panels of `width` columns, which stand in an order."""
        (runs, words), places = self.words, np.argsort(order)
        keys = (self.panels // width * runs + self.runs) * words + self.places
        found, inverse = np.unique(keys, return_inverse=True)
        weights = np.zeros((len(found), width, 4), np.int16)
        np.add.at(weights, (inverse.reshape(-1), places[self.panels % width]), self.weights[:, 0])
        levels = [(found[:0], weights[:0])]
        while weights.any():
            some = np.flatnonzero(weights.any(axis=(1, 2)))
            found, weights = found[some], weights[some]
            fits = _fitting(weights.reshape(-1, 2)).reshape(weights.shape)
            levels.append((found, fits))
            weights = weights - fits
        every, fits = (np.concatenate(parts) for parts in zip(*levels, strict=True))
        by_panel = np.argsort(every, kind="stable")
        every = every[by_panel]
        return Again(every // (runs * words), every // words % runs, every % words, fits[by_panel], self.words)


def _fitting(weights: np.ndarray) -> np.ndarray:
    """Of weights [sums, those of one sum] what products with u8 may be summed in 16 bits of, the first ones first."""
    parts = []
    for own in (np.maximum(weights, 0), np.maximum(-weights, 0)):
        before = np.cumsum(own, axis=1, dtype=np.int16) - own
        parts.append(np.clip(MOST - before, 0, np.minimum(own, 127)))
    return parts[0] - parts[1]


def split(weights: np.ndarray, together: int) -> tuple[np.ndarray, Again]:
    """s8 weights of which the products of so many words fit 16 bits, and what they lack, from weights [batch, columns,
    runs, 4 * words]. Where a run's words are no multiple, the first ones are fewer together.
    """
    batch, columns, runs, length = weights.shape
    words = length // 4
    lacking = -words % together
    padded = np.zeros((batch * columns, runs, words + lacking, 4), np.int16)
    padded[:, :, lacking:] = weights.reshape(batch * columns, runs, words, 4)
    sums = padded.reshape(batch * columns, runs, -1, together, 2, 2)
    places = np.flatnonzero(_beyond(padded, together))
    column, run, group, half = np.unravel_index(places, (*sums.shape[:3], 2))
    own = sums[column, run, group, :, half].reshape(len(column), 2 * together)
    fits = _fitting(own)
    sums[column, run, group, :, half] = fits.reshape(-1, together, 2)
    rest = (own - fits).reshape(-1, together, 2)
    i, j = np.nonzero(rest.any(axis=2))
    lacked = np.zeros((len(i), 1, 2, 2), np.int16)
    lacked[range(len(i)), 0, half[i]] = rest[i, j]
    places = group[i] * together + j - lacking
    again = Again(column[i], run[i], places, lacked.reshape(-1, 1, 4), (runs, words))
    main = padded[:, :, lacking:].astype(np.int8).reshape(weights.shape)
    return main, again


def _beyond(words: np.ndarray, together: int) -> np.ndarray:
    """Whether the products with bytes 0 and 1, and 2 and 3, of each so many words exceed 16 bits, or weights bytes."""
    up, total = _sums(np.maximum(words, 0), together), _sums(words, together)
    found: np.ndarray = (up > MOST) | (up - total > MOST)
    if words.max(initial=0) > 127:
        found |= _sums((words > 127).astype(np.int16), together) > 0
    return found


def _sums(words: np.ndarray, together: int) -> np.ndarray:
    """The sums of bytes 0 and 1, and of 2 and 3, of each so many words, one after the other: in long rows with a
    stride, which NumPy adds faster than many short ones.
    """
    flat = words.reshape(-1)
    pairs = flat[0::2] + flat[1::2]
    out = np.empty((len(pairs) // (2 * together), 2), pairs.dtype)
    for half in (0, 1):
        out[:, half] = sum(pairs[2 * i + half :: 2 * together] for i in range(together))
    return out.reshape(-1)


SAMPLED = 8, 128
"""Panels, and words of each, of which `part_again` is."""


def part_again(weights: np.ndarray, zeros: np.ndarray, together: int, lanes: int) -> float:
    """The part of the words of a panel of one vector that are summed again, about: one word of those whose products are
    summed in 16 bits, where they exceed these. Of weights [columns, k] and their zero points.
    """
    count, words = SAMPLED
    n, panels = len(weights), -(-len(weights) // lanes)
    first = np.linspace(0, panels - 1, min(count, panels)).astype(np.int64) * lanes
    columns = np.minimum(first[:, None] + np.arange(lanes), n - 1).reshape(-1)
    some = weights[columns, : 4 * words] - zeros[columns, None]
    whole = np.zeros((len(some), -(-some.shape[1] // (4 * together)), 4 * together), np.int16)
    whole.reshape(len(some), -1)[:, : some.shape[1]] = some
    beyond = _beyond(whole, together).reshape(len(first), lanes, -1, 2)
    return float(beyond.any(axis=(1, 3)).mean()) / together


def _with_blocks(packed: np.ndarray, at: int, again: Again) -> np.ndarray:
    """Panels, and behind them blocks of words that are summed again. at: where a panel says where its block is."""
    panels = packed.reshape(-1, packed.shape[2])
    runs, size = again.words[0], WORD_HEAD + 4 * again.weights.shape[1]
    head = -(-4 * (runs + 1) // 32) * 32
    counts = np.zeros((len(panels), runs), np.int64)
    np.add.at(counts, (again.panels, again.runs), 1)
    before = np.concatenate([np.zeros((len(panels), 1), np.int64), np.cumsum(counts, axis=1)], axis=1)
    bytes_of = head + size * before[:, -1]
    starts = panels.size + np.cumsum(bytes_of) - bytes_of
    out = np.zeros(panels.size + int(bytes_of.sum()), np.uint8)
    out[: panels.size] = panels.reshape(-1)
    mine = out[: panels.size].reshape(panels.shape)
    mine[:, at : at + 8] = _bytes(starts - np.arange(len(panels)) * panels.shape[1]).reshape(-1, 8)
    records = np.zeros((len(again.panels), size), np.uint8)
    records[:, :4], records[:, 4:8] = _i32(again.runs), _i32(4 * again.places)
    records[:, WORD_HEAD:] = _bytes(again.weights.astype(np.int8)).reshape(len(records), size - WORD_HEAD)
    last = 0
    for p, start in enumerate(starts):
        out[start : start + 4 * (runs + 1)] = _bytes((head + size * before[p]).astype(np.int32))
        first, last = last, last + int(before[p, -1])
        out[start + head : start + bytes_of[p]] = records[first:last].reshape(-1)
    return out


def _i32(values: np.ndarray) -> np.ndarray:
    return _bytes(values.astype(np.int32)).reshape(-1, 4)


def _bytes(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.uint8)
