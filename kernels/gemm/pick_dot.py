"""Shapes -> tile sizes and blocking of the dot kernel. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import permutations
from math import ceil, inf
from typing import Any, NamedTuple

import numpy as np

from ..isa.tiers import Tier

L2 = 1 << 20
"""Bytes of second-level cache that blocking assumes by default."""
STANDARD = 0.98
"""Factor on the cost of the usual tile, so that fewer kernels are compiled."""
SPLIT_GAIN = 0.93
"""Two calls split a layer's columns only when they cost less than this fraction of one call."""
WHOLE = (1, 2, 3, 4)
"""Widths of panels in whole vectors."""
UNEVEN, EVEN = 0.2, 0.06
"""Differences of `idle`: rows that balance so much worse than panels are not split, panels that do so little are not.
A core that writes panels takes half of the lines that the next step reads from another core's cache."""
APART, APART_OF_MORE = 8, 4
"""Bytes of a thread's panels over those of its rows, from which on each core better reads its own panels of the
weights only: of two or three threads, and of more, that read weights from one cache."""
FAR, FAR_ROWS = 16, 96
"""Weights of so many times the second-level cache come from memory for each block of rows, which then has so many rows
at least: from the third-level cache, rows are fetched ahead.
"""
LATER_TILES = 8
"""Tiles of rows, at least, over which a chain is walked at once."""
AHEAD, ALONE = 9.0, 2.5
"""Bytes a cycle of a panel that comes from memory: of several tiles, which have it fetched while they read the one
before; and for each of its vectors where there is one tile, the wider the more lines are waited for at once. Measured
on Zen 4, of 2 to 16 rows of f32 in 32 registers.
"""
FEW = 8
"""Rows of A up to which a B that isn't constant is read without packing."""
BLOCK = 512
"""Most columns of a block of `dot_few`: they and the rows of B that are added to them stay in the first-level cache."""

FEW_COLUMNS, FEW_ROWS = {16: 8, 32: 12}, 8
"""Most columns that `dot_few` sums along rows, by registers, and most rows at a time."""


class Product(NamedTuple):
    """C [batch, m, n] = A [batch, m, k] x B; lda: elements from row to row of A, k when 0. later: whether a chain is
    walked over blocks of rows.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    lda: int = 0
    later: bool = False


class DotPiece(NamedTuple):
    """One dot call: `columns` columns from `start` on, packed with `nv`; `params` makes the kernel."""

    start: int
    columns: int
    nv: int
    params: dict[str, Any]
    height: int
    block: int
    column_parts: int


class Costs(NamedTuple):
    """The cost model of tiles over operands of one type: widths(tier), of panels in vectors; most_rows(tier, nv) of a
    tile; tile_cost(tier, rows, nv, words), its cycles; item, bytes of an element of A; halves: whether a panel's last
    vector may be half, which is a parameter of kernels then.
    """

    widths: Callable[[Tier], Sequence[float]]
    most_rows: Callable[[Tier, int], int]
    tile_cost: Callable[[Tier, int, float, int], float]
    item: int
    halves: bool = False

    def params(self, nv: float) -> dict[str, Any]:
        """A kernel's parameters that depend on the width of its panels."""
        return {"nv": ceil(nv), **({"half": nv % 1 > 0} if self.halves else {})}

    def rows_cost(self, tier: Tier, m: int, height: int, nv: float, words: int) -> float:
        """Cycles of m rows of one panel in tiles of `height` rows and one of the remaining rows."""
        whole, rest = divmod(m, height)
        cycles = whole * self.tile_cost(tier, height, nv, words) if whole else 0.0
        return cycles + self.tile_cost(tier, rest, nv, words) if rest else cycles

    def choices(self, tier: Tier, m: int, nv: float, words: int, most: int) -> dict[int, float]:
        """Candidate heights of the main tiles, at most `most` rows, each with its `rows_cost`."""
        heights = mains(tier, m, most, ceil(nv), words)
        return {height: self.rows_cost(tier, m, height, nv, words) for height in heights}


@lru_cache(1024)
def pick_dot(tier: Tier, product: Product, threads: int = 1, l2: int = L2) -> tuple[DotPiece, ...]:
    """The dot calls of a product of f32: one, or two that share the columns."""
    return dot_pieces(tier, product, threads, _of_rows(F32_COSTS, product, threads), {}, l2)


@lru_cache(1024)
def pick_dot_bf16(tier: Tier, product: Product, element: str, out: str, threads: int, l2: int) -> tuple[DotPiece, ...]:
    """As `pick_dot`, of elements of A and of C, f32 or bf16."""
    costs = _of_rows(real_costs(element), product, threads)
    return dot_pieces(tier, product, threads, costs, {"element": element, "out": out}, l2)


def _of_rows(costs: Costs, product: Product, threads: int) -> Costs:
    """The costs for the product's rows. For a single row, which waits for its weights, panels are as wide as possible,
    with one for each thread: more sums hide the latency of additions.
    """
    if product.m > 1:
        return costs
    return costs._replace(
        widths=lambda tier: (min(4, -(-product.n // (threads * tier.lanes))), *((8,) if tier.registers >= 32 else ()))
    )


def dot_pieces(
    tier: Tier, product: Product, threads: int, costs: Costs, params: Mapping[str, Any], l2: int = L2
) -> tuple[DotPiece, ...]:
    """As `pick_dot`, for operands of any type; params: the kernel's parameters beside nv."""
    m, n, k, batch, lda, later = product
    words = -(-k * costs.item // 4)
    colliding = (lda or k) * costs.item % 4096 == 0  # rows 4 KiB apart fall into one set of the first-level cache
    many = tier.registers >= 32

    def cost(height: int, nv: float, cycles: float) -> float:
        tiles, shared = -(-m // height), 1.0
        if threads > 1:
            found = grids(batch * tiles, -(-n // (ceil(nv) * tier.lanes)), threads)
            shared = min(idle * (tiles * height / m if c < threads else 1) for c, idle in found.items())
        slower = 1.0
        if colliding and height > (12 if many else 7):
            slower = 1.05 if many else 2.0
        if many and m > 1 and costs.item == 4:
            waiting = 4 * tier.lanes * words * (ceil(nv) / AHEAD if tiles > 1 else 1 / ALONE)
            cycles = max(cycles, waiting) + min(cycles, waiting) / 8
        return cycles * shared * slower

    def best(nv: float) -> tuple[float, int]:
        heights = costs.choices(tier, m, nv, words, costs.most_rows(tier, ceil(nv)))
        return min((cost(h, nv, cycles), -h) for h, cycles in heights.items())

    found, pieces = {nv: best(nv) for nv in costs.widths(tier)}, []
    for start, columns, nv in split_columns(tier, n, {nv: cycles for nv, (cycles, _) in found.items()}):
        height, wide = -found[nv][1], ceil(nv)
        units, panels = -(-m // height), -(-columns // (wide * tier.lanes))
        parts = column_parts(batch * units, panels, m, columns, threads)
        least = FAR_ROWS if 4 * words * n > FAR * l2 else height
        block = max(least // height, l2 * 3 // 8 // (4 * words * height))
        if later:  # its sums are read again: they stay in the cache, but weights are not read for few rows
            block = min(block, max(LATER_TILES, l2 // 4 // (4 * columns * height)))
        pieces.append(DotPiece(start, columns, wide, {**costs.params(nv), **params}, height, block, parts))
    return tuple(pieces)


def rows_together(tier: Tier, n: int) -> int:
    """Rows that `dot_few` sums at a time with n columns: a power of two, whose sums stay in registers beside a vector
    of each row and one of a column; products with a single column read rows from memory.
    """
    return max(r for r in (1, 2, 4, FEW_ROWS) if r == 1 or (n + 1) * r + (n > 1) <= tier.registers)


def few_columns(n: int, rows: int) -> int:
    """`columns` of `dot_few`, for so many rows and n columns."""
    return 1 if n == 1 and rows < FEW_ROWS else 2


def few_starts(bias: np.ndarray | None, n: int) -> np.ndarray:
    """`start` of `dot_few`."""
    return np.zeros((FEW_ROWS, n), np.float32) if bias is None else np.tile(bias, (FEW_ROWS, 1))


def few_block(tier: Tier, n: int, batch: int, threads: int) -> int:
    """Columns of a block of `dot_few`: whole cache lines, at least one block for each thread."""
    line = 4 * tier.lanes
    shares = max(1, threads // batch)
    return min(BLOCK, -(-n // (shares * line)) * line)


def dot_args(piece: DotPiece, **operands: Any) -> dict[str, Any]:
    """The slots of `rows.DOT`: what the piece decides, and `operands`. One matrix unless they say otherwise.

    b: this piece's columns packed; c: whole, the kernel starts at the piece's first column.
    """
    alone = {"batch": 1, "a_stride": 0, "b_stride": 0, "c_stride": 0}
    tiles = {"height": piece.height, "block": piece.block, "column_parts": piece.column_parts}
    return {**alone, "n": piece.columns, "n0": piece.start, **tiles, **operands}


def widths(tier: Tier) -> tuple[float, ...]:
    """The panel widths in vectors of a tile. Half of 64 bytes, as 24 and 40 columns have, takes half the time
    where CPUs multiply 32 at a time, and never longer.
    """
    return (*WHOLE, 1.5, 2.5) if tier.lanes == 16 else WHOLE


def byte_widths(out: str, rowsum: bool, small: bool, tier: Tier) -> tuple[float, ...]:
    """As `widths`, of products of bytes, up to four of which are packed to bytes together; out, rowsum, small: as of
    `dot_int8`. Where sums become bytes, half a vector may be a panel. Weights with zero points, which are few, have
    less widths, and so have small ones, of which registers hold no more than two lines of two vectors.
    """
    if small:
        return (1, 2)
    if rowsum:
        return (1, 2, 4)
    halves = out == "bytes" and tier.byte_dot and tier.lanes == 16 and not tier.tiles
    return (*WHOLE, 0.5, 1.5, 2.5) if halves else WHOLE


def max_rows(tier: Tier, nv: int) -> int:
    """The most rows whose sums fit the registers beside nv weights and the broadcast operand; at most 14, of 16
    registers 12, as LLVM keeps a sum in memory else.
    """
    spare = 1 if tier.fma else 2
    return max(1, min(14 if tier.registers >= 32 else 12, (tier.registers - nv - spare) // nv))


def tile_cost(tier: Tier, rows: int, nv: float, k: int) -> float:
    """Cycles of one tile: two FMAs and two loads a cycle, latency of four cycles, weights in L2.

    With 16 registers a broadcast is no operand of an FMA: then the prefetch, which a single vector lacks, counts among
    the loads, and they come at 1.8 a cycle (measured on Zen 3). Without FMA six instructions a cycle: a broadcast takes
    two, a product and its sum three.
    """
    weights = nv * tier.lanes * 4
    if tier.fma:
        loads = (rows + ceil(nv)) / 2 if tier.registers >= 32 else (rows + nv + (nv > 1)) / 1.8
        step = max(rows * nv / 2, loads, 4, weights / 40)
    else:
        step = max((nv + 2 * rows + 3 * rows * nv) / 6, 7)
    return (step + weights / 400 + 0.2) * k + rows * nv + 20


F32_COSTS = Costs(widths, max_rows, tile_cost, item=4, halves=True)


def real_costs(element: str) -> Costs:
    """Costs of products where A or C is bf16; element: of A, f32 or bf16. As many pairs of bf16 are multiplied in a
    cycle as single f32.
    """
    return Costs(lambda tier: WHOLE, max_rows, tile_cost, item=2 if element == "bf16" else 4)


def crossing(most: int, nv: int) -> int:
    """The most rows of a convolution's tile that may continue in the next row of the map; taller tiles end with a row.

    With one vector a row there is no time to load more offsets than registers hold: rows are at equal distances.
    """
    return min(most, 8) if nv == 1 else most


def mains(tier: Tier, m: int, most: int, nv: int, words: int) -> set[int]:
    """Candidate heights of the main tiles for m rows: `most`, and that of tiles of equal height.

    Short sums allow lower ones, too: the CPU then stores one tile while it sums the next. So do 16 registers, whose
    tiles are low: what main tiles leave over, one more tile, may be a row. A kernel has a body for each height up to
    `most` (at most 16).
    """
    few = range(-(-14 // nv), most) if words <= 32 else ()
    lower = range(max(most - 2, 1), most) if tier.registers < 32 and most < 7 else ()
    return {most, -(-m // -(-max(m, 1) // most)) or 1, *few, *lower}


def split_columns(tier: Tier, n: int, cost: dict[float, float]) -> list[tuple[int, int, float]]:
    """(start, columns, nv) of the one or two ranges of columns that cost least; cost[nv]: cycles of one panel."""
    vectors, used = -(-n // tier.lanes), -(-2 * n // tier.lanes) / 2
    single = min((ceil(used / nv) * each, -nv) for nv, each in cost.items() if nv % 1 == 0 or nv == used)
    pairs = (pair for count in {vectors, used} for pair in _pairs(count, cost))
    pair = min(pairs, default=(inf, 0, 0, 0))
    if pair[0] >= single[0] * SPLIT_GAIN:
        return [(0, n, -single[1])]
    first = int(pair[1] * pair[2] * tier.lanes)
    return [(0, first, pair[1]), (first, n - first, pair[3])]


def _pairs(vectors: float, cost: dict[float, float]) -> Iterator[tuple[float, float, int, float]]:
    """(cost, nv, its panels, other nv) of each exact cover by panels of two widths; a second call costs 300 cycles.
    A half is in the last panel.
    """
    halves = vectors % 1 > 0
    for wide, other in permutations(cost, 2):
        if wide % 1 or (other % 1 > 0) != halves or not halves and other > wide:
            continue
        left = other if halves else 2 * wide
        for panels in range(max(ceil((vectors - left) / wide), 1), int(vectors / wide) + 1):
            rest = vectors - panels * wide
            if rest == other if halves else rest and rest % other == 0:
                yield panels * cost[wide] + rest // other * cost[other] + 300, wide, panels, other


def beats(times: Sequence[float], others: Sequence[float], factor: float) -> bool:
    """Whether cycles on one thread are fewer by a factor, and those on two threads, if given, fewer at all."""
    return times[0] * factor < others[0] and all(x < y for x, y in zip(times[1:], others[1:], strict=True))


def idle(units: int, threads: int) -> float:
    """Load imbalance: the work of the busiest thread over the mean, for `units` equal pieces; 1 is best."""
    return -(-units // threads) * threads / units


@cache
def _divisors(threads: int) -> tuple[int, ...]:
    return tuple(parts for parts in range(1, threads + 1) if threads % parts == 0)


def grids(rows: int, panels: int, threads: int) -> dict[int, float]:
    """The `idle` of so many equal rows by panels for each grid of threads, by its parts of the panels."""
    return {parts: idle(rows, threads // parts) * idle(panels, parts) for parts in _divisors(threads)}


def column_parts(rows: int, panels: int, row_size: int, column_size: int, threads: int) -> int:
    """Into how many parts a grid of threads splits the panels; else they split the rows, as the layers before and after
    do. So many that each reads few weights where these are far more than what the layer reads; others, where that
    balances far worse."""
    found = grids(rows, panels, threads)
    apart = APART if threads < 4 else APART_OF_MORE
    wanted = max(parts for parts in found if parts == 1 or column_size * threads > apart * row_size * parts)

    def cost(parts: int) -> float:
        return found[parts] + (UNEVEN if parts > wanted else EVEN * (wanted / parts - 1))

    return min(found, key=lambda parts: (cost(parts), abs(parts - wanted)))
