"""Shapes -> tiles of the int8 dot and convolution kernels. Pure arithmetic."""

from __future__ import annotations

from functools import lru_cache, partial
from math import ceil
from typing import Any, NamedTuple

from ..isa.tiers import TOGETHER, Tier
from .pack_int8 import vectors_per_word
from .pick_conv import ConvPiece, Geometry, conv_pieces, upright, widened
from .pick_dot import L2, Costs, DotPiece, Product, byte_widths, dot_pieces

VNNI = 0.85 * 64 * 1.96
"""Products a cycle in vectors."""
FINISH = 11.0
"""Cycles to scale and store 64 sums."""
MEMORY, SECOND_LEVEL = 8.0, 48.0
"""Bytes a cycle from memory and from the second-level cache."""


class Sums(NamedTuple):
    """What sums of bytes become, one of rows.STORES; whether rows of A are summed, too; whether weights are small:
    products with bytes of TOGETHER words, or of one for a single row, are summed in 16 bits.
    """

    out: str
    rowsum: bool = False
    small: bool = False


SMALL = 64
"""Weights up to which two products with u8 fit 16 bits: 2 * 255 * 64 < 2**15."""
AGAIN = 0.35
"""The most words that are summed again, of all words of a panel of one vector, with which weights count as small."""


def one_by_one(tier: Tier, each: int, small: bool) -> bool:
    """Whether 16-bit weights are loaded one by one, each for all rows of a tile, of `each` vectors of sums a row: there
    are no registers for all.
    """
    return tier.fma and not tier.byte_dot and not small and tier.registers < 32 and each > 2


def _most_rows(rowsum: bool, small: bool, tier: Tier, nv: int) -> int:
    """The most rows whose sums fit the registers beside the weights and the word of A: in halves without vnni, beside
    ones where weights are small, with copies of operands that two-operand instructions overwrite on the generic tier.
    """
    each = nv + rowsum
    if one_by_one(tier, each, small):
        return (tier.registers - 2) // (each + 1)
    spare = 1 if tier.byte_dot else 3 if tier.fma else 5
    words = TOGETHER if small else 1
    free = tier.registers - words * vectors_per_word(tier, nv, rowsum, small) - spare
    return max(1, min(16 if nv == 1 else 14, free // (nv + rowsum)))


_STORING = {1: 0.6, 2: 0.15, 3: 0.5}
"""Cycles more for each vector that is stored, where a row isn't four vectors."""


def _tile_cost(rowsum: bool, small: bool, again: float, tier: Tier, rows: int, nv: float, words: int) -> float:
    """Cycles of one tile: two multiply-adds and two loads a cycle, latency of four cycles, weights in L1 or L2.

    Without vnni three instructions a cycle: a word is split by two, a product and its sum are two of each half. Small
    weights take two and a half, and three where a word is summed again.
    Storing overlaps with the next tile's sums the better the smaller tiles are (measured).
    """
    weights, sums = vectors_per_word(tier, ceil(nv), rowsum, small), rows * (nv + rowsum)
    nbytes = weights * tier.lanes * 4
    products = sums / 2 if tier.byte_dot else (4 * sums + 2 * rows) / 3
    if small:
        products = sums * (0.76 + min(again * nv, 1)) + 0.04 * rows
    step = max(products, (rows + weights) / 2, 4)
    if nbytes * words > 16384:
        step = max(step, nbytes / 40) + nbytes / 400
    stored = rows * nv
    return (step + 0.1) * words + stored * (0.82 + 0.035 * stored + _STORING.get(ceil(nv), 0)) + 6


def int8_costs(sums: Sums, again: float = 0) -> Costs:
    """Of the kernels that have these parameters; again: the part of a panel's words that are summed again, of panels of
    one vector.
    """
    out, rowsum, small = sums
    widths, most_rows = partial(byte_widths, out, rowsum, small), partial(_most_rows, rowsum, small)
    return Costs(widths, most_rows, partial(_tile_cost, rowsum, small, again), 1, halves=True)


INT8_COSTS = {rowsum: int8_costs(Sums("words", rowsum))._replace(halves=False) for rowsum in (False, True)}
"""Of kernels that have no halves."""


def parts_of_vectors(tier: Tier, sums: Sums) -> int:
    """The parts of a vector that there are kernels for: 2 with halves, else 1."""
    return 2 if 0.5 in int8_costs(sums).widths(tier) else 1


@lru_cache(1024)
def pick_dot_int8(
    tier: Tier,
    product: Product,
    sums: Sums,
    threads: int = 1,
    widths: tuple[int, ...] = (),
    row: bool = False,
    again: float = 0,
) -> tuple[DotPiece, ...]:
    """The dot calls of a product of bytes. widths: those that panels may have, if not all. row: whether "row_int8"
    computes the only row; then panels may have eight vectors. again: as of `int8_costs`.
    """
    costs = int8_costs(sums, again)
    if widths:
        costs = costs._replace(widths=lambda tier: widths)
    elif row:
        whole = INT8_COSTS[sums.rowsum].widths(tier)
        costs = costs._replace(widths=lambda tier: (*whole, 8) if tier.registers >= 32 else whole)
    return dot_pieces(tier, product, threads, costs, sums._asdict())


def chains(nv: int) -> int:
    """Partial sums in the kernel of a single row, to hide the latency of additions: eight vectors of sums in all."""
    return {1: 8, 2: 4, 3: 2, 4: 2}.get(nv, 1)


def row_params(piece: DotPiece) -> dict[str, Any]:
    """The parameters of `row_int8`, for a piece of one row."""
    return {name: piece.params[name] for name in ("nv", *Sums._fields)}


def row_args(piece: DotPiece, k: int, signed: bool) -> dict[str, int]:
    """The slots of `rows.ROW_INT8` that a piece of one row decides, for k products; signed: A is s8."""
    together = chains(piece.nv)
    words = -(-k // (4 * together)) * together
    return {"n": piece.columns, "n0": piece.start, "k": words, "signs": signed * word_of(128)}


def pick_conv_int8(
    tier: Tier, g: Geometry, sums: Sums, threads: int = 1, again: float = 0
) -> tuple[Geometry, tuple[ConvPiece, ...]]:
    """The conv calls for a geometry of u8, and the geometry as computed, whose `run` packing needs; again: as of
    `int8_costs`.
    """
    assert g.item == 1
    g = upright(g, L2)
    return g, conv_pieces(tier, g, threads, int8_costs(sums, again), sums._asdict(), L2)


def pixels_together_int8(tier: Tier, g: Geometry, part: int) -> int:
    """How many adjacent outputs of a row to compute as one with as many times the channels (`widened`): 1, 2, 4 or 8.

    That pays where channels fill less than a vector (or a part of one), or the bytes of a window less than whole words.
    """
    if g.groups > 1 or g.dilations[2] != 1:
        return 1

    def cost(factor: int) -> float:
        wide = widened(g, factor)
        vectors, stored = -(-wide.n * part // tier.lanes) / part, -(-wide.n // tier.lanes)
        return (vectors * (wide.words / 2 + 1.2) + stored * _STORING.get(stored, 0)) / factor

    fits = [f for f in (1, 2, 4, 8) if g.out[2] % f == 0 and (f == 1 or f * g.n <= 2 * tier.lanes)]
    best = min(fits, key=cost)
    return best if cost(best) < 0.95 * cost(1) else 1


def merged_cycles(tier: Tier, g: Geometry, parts: int) -> float:
    """The cycles of an output pixel of a depthwise layer whose channels are merged, beside `window_cycles`."""
    return 1.5 * g.groups * (g.words * -(-g.n * parts // tier.lanes) / parts + 6)


def vector_cycles(g: Geometry) -> float:
    """The cycles of one thread, of the kernels that sum in vectors."""
    pixels = g.images * g.groups * g.out[0] * g.out[1] * g.out[2]
    columns = -(-g.n // 16) * 16
    weights = 4 * g.words * columns * g.groups
    return with_memory(pixels * columns * (4 * g.words / VNNI + FINISH / 64), weights, L2)


def with_memory(cycles: float, weights: int, l2: int) -> float:
    """Cycles until the work is done and the weights are read, partly at the same time."""
    waiting = weights / (MEMORY if weights > l2 // 2 else SECOND_LEVEL)
    return max(cycles, waiting) + min(cycles, waiting) / 8


def word_of(byte: int) -> int:
    """A word of four equal bytes."""
    return byte * 0x01010101
