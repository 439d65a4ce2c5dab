"""Shapes -> tile sizes and blocking of the dot kernel. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

from ..isa.tiers import Tier
from .heights import mains

L2 = 1 << 20
"""Bytes of second-level cache that blocking assumes when it isn't told."""
STANDARD = 0.98
"""What a cost is multiplied by for a tile that most layers use: fewer kernels to compile."""
SPLIT_GAIN = 0.93
"""Two kernels share one layer's columns only when they cost less than this part of one."""


FEW = 8
"""Rows of A up to which B that is known at run time only is not packed."""
BLOCK = 512
"""Columns of few rows that are made together: they and the rows of B that go into them stay in the first cache."""


class DotPiece(NamedTuple):
    """One dot call: `columns` columns from `start` on, packed with `nv`; `params` makes the kernel."""

    start: int
    columns: int
    nv: int
    params: dict[str, Any]
    height: int
    block: int
    by_columns: bool


class Costs(NamedTuple):
    """What an arithmetic lets tiles be: widths(tier) in vectors, most_rows(tier, nv), and the cycles that
    tile_cost(tier, rows, nv, words) estimates for one.
    """

    widths: Callable[[Tier], Sequence[int]]
    most_rows: Callable[[Tier, int], int]
    tile_cost: Callable[[Tier, int, int, int], float]

    def rows_cost(self, tier: Tier, m: int, height: int, nv: int, words: int) -> float:
        """Cycles of m rows of one panel in tiles of `height` and what is left."""
        whole, rest = divmod(m, height)
        tiles = ((height, whole), (rest, 1))
        return sum(count * self.tile_cost(tier, rows, nv, words) for rows, count in tiles if rows and count)

    def choices(self, tier: Tier, m: int, nv: int, words: int, most: int) -> dict[int, float]:
        """The heights that main tiles of at most so many rows may have, each with its `rows_cost`."""
        found = mains(m, most, nv, words)
        return {height: self.rows_cost(tier, m, height, nv, words) for height in found}


@lru_cache(1024)
def pick_dot(
    tier: Tier,
    m: int,
    n: int,
    k: int,
    batch: int = 1,
    threads: int = 1,
    lda: int = 0,
    l2: int = L2,
) -> tuple[DotPiece, ...]:
    """The dot calls for C [batch, m, n] = A [batch, m, k] x B: one, or two that share the columns.

    lda: A's row stride in f32 (k when 0), of interest only because rows 4 KiB apart collide in the cache.
    """
    costs = F32
    if m == 1:  # at the pace of the weights: the more sums, the fewer wait for one another
        wide = (8,) if tier.registers >= 32 else ()
        costs = F32._replace(widths=lambda tier: (min(4, -(-n // tier.lanes)), *wide))
    return dot_pieces(tier, m, n, k, batch, threads, costs, {}, (lda or k) * 4, l2)


def dot_pieces(
    tier: Tier,
    m: int,
    n: int,
    words: int,
    batch: int,
    threads: int,
    costs: Costs,
    more: Mapping[str, Any],
    row_bytes: int,
    l2: int = L2,
) -> tuple[DotPiece, ...]:
    """As `pick_dot`, for rows of `words` words, `row_bytes` apart; `more`: the kernel's other parameters."""
    colliding = row_bytes % 4096 == 0

    def cost(height: int, nv: int, cycles: float) -> float:
        tiles = -(-m // height)
        by_rows = idle(batch * tiles, threads) * tiles * height / m
        by_columns = idle(batch * -(-n // (nv * tier.lanes)), threads)
        slower = 1.05 if colliding and height > 12 else 1.0
        return cycles * (min(by_rows, by_columns) if threads > 1 else 1.0) * slower

    def best(nv: int) -> tuple[float, int]:
        found = costs.choices(tier, m, nv, words, costs.most_rows(tier, nv))
        return min((cost(h, nv, cycles), -h) for h, cycles in found.items())

    pieces = []
    for start, columns, nv in split_columns(tier, n, {nv: best(nv)[0] for nv in costs.widths(tier)}):
        height = -best(nv)[1]
        units, panels = -(-m // height), -(-columns // (nv * tier.lanes))
        by_columns = columns_first(batch * units, batch * panels, m, columns, threads)
        block = max(1, l2 * 3 // 8 // (4 * words * height))
        pieces.append(DotPiece(start, columns, nv, {"nv": nv, **more}, height, block, by_columns))
    return tuple(pieces)


def few_block(tier: Tier, n: int, batch: int, threads: int) -> int:
    """How many columns of few rows a thread makes at a time: whole lines, a share for each thread."""
    line = 4 * tier.lanes
    shares = max(1, threads // batch)
    return min(BLOCK, -(-n // (shares * line)) * line)


def dot_args(piece: DotPiece, **operands: Any) -> dict[str, Any]:
    """The slots of `rows.DOT`: what the piece decides, and `operands`. One matrix unless they say otherwise.

    b: this piece's columns packed; c: whole, the kernel starts at the piece's first column.
    """
    alone = {"batch": 1, "a_stride": 0, "b_stride": 0, "c_stride": 0}
    tiles = {"height": piece.height, "block": piece.block, "by_columns": int(piece.by_columns)}
    return {**alone, "n": piece.columns, "n0": piece.start, **tiles, **operands}


def widths(tier: Tier) -> range:
    """The panel widths in vectors that a tile can have."""
    return range(1, 5)


def max_rows(tier: Tier, nv: int) -> int:
    """The most rows whose sums fit the registers beside nv weights and the broadcast operand; at most 14."""
    spare = 1 if tier.fma else 2
    return max(1, min(14, (tier.registers - nv - spare) // nv))


def tile_cost(tier: Tier, rows: int, nv: int, k: int) -> float:
    """Cycles of one tile: two FMAs and two loads a cycle, latency of four cycles, weights in L2.

    Without FMA six instructions a cycle: a broadcast takes two, a product and its sum three.
    """
    weights = nv * tier.lanes * 4
    if tier.fma:
        step = max(rows * nv / 2, (rows + nv) / 2, 4, weights / 40)
    else:
        step = max((nv + 2 * rows + 3 * rows * nv) / 6, 7)
    return (step + weights / 400 + 0.2) * k + rows * nv + 20


F32 = Costs(widths, max_rows, tile_cost)


def split_columns(tier: Tier, n: int, cost: dict[int, float]) -> list[tuple[int, int, int]]:
    """(start, columns, nv) of the one or two parts with the least cost; cost[nv] is that of one panel."""
    vectors = -(-n // tier.lanes)
    single = min((-(-vectors // nv) * each, -nv) for nv, each in cost.items())
    pair = min(_pairs(vectors, cost), default=(float("inf"), 0, 0, 0))
    if pair[0] >= single[0] * SPLIT_GAIN:
        return [(0, n, -single[1])]
    first = pair[1] * pair[2] * tier.lanes
    return [(0, first, pair[1]), (first, n - first, pair[3])]


def _pairs(vectors: int, cost: dict[int, float]) -> Iterator[tuple[float, int, int, int]]:
    """(cost, nv, its panels, other nv) of each exact cover by two widths; 300 cycles are a second call's."""
    for wide, narrow in combinations(sorted(cost, reverse=True), 2):
        for panels in range(1, vectors // wide + 1):
            rest = vectors - panels * wide
            if 0 < rest <= 2 * wide and rest % narrow == 0:
                yield panels * cost[wide] + rest // narrow * cost[narrow] + 300, wide, panels, narrow


def idle(units: int, threads: int) -> float:
    """How much longer than its share a thread works when `units` equal pieces are dealt out; 1 is best."""
    return -(-units // threads) * threads / units


def columns_first(row_units: int, column_units: int, row_size: int, column_size: int, threads: int) -> bool:
    """Whether threads share panels, else rows: what is balanced better, then what is read less."""
    rows, columns = idle(row_units, threads), idle(column_units, threads)
    if abs(rows - columns) > 0.06:
        return columns < rows
    return column_size > row_size
