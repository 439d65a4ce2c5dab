"""dot: C = chain(A x B + bias), B packed in panels; fully connected, 1x1 convolution and matrix product."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .chain import Chain
from .isa.tiers import Tier
from .rows_dot import DOT_ARGS
from .tile import make_fields, make_tile


def make_dot(
    tier: Tier, mr: int, nv: int, tail: int, ragged: bool, chain: Chain = (), extras: Sequence[str] = ()
) -> Callable[..., None]:
    """The kernel for tiles of mr rows x nv vectors; tail = m % mr; ragged when n isn't whole panels.

    Its record is `rows_dot.DOT_ARGS`, then (address, stride per batch, stride per row) for each extra.
    """
    fields = make_fields(len(DOT_ARGS))
    tile = make_tile(tier, (1, mr), (min(tail, 1), tail), nv, False, ragged, chain, extras, len(DOT_ARGS))
    width = nv * tier.lanes
    line = tier.lanes * 4

    def dot(args: int, thread: int, threads: int) -> None:
        a, lda, b, c, ldc, m, n, n0, k, batch, sa, sb, sc, block, by_columns = fields(args)
        tiles = (m + mr - 1) // mr
        panels = (n + width - 1) // width
        step = (k + 1) * width * 4
        last = step + (nv - 1) * line
        units = panels if by_columns else tiles
        unit = batch * units * thread // threads
        end = batch * units * (thread + 1) // threads
        while unit < end:
            i = unit // units
            lo = unit - i * units
            hi = units if end - i * units > units else end - i * units
            t0, t1, p0, p1 = (0, tiles, lo, hi) if by_columns else (lo, hi, 0, panels)
            for start in range(t0, t1, block):
                stop = start + block if start + block < t1 else t1
                for p in range(p0, p1):
                    column = n0 + p * width
                    ahead = step
                    for t in range(start, stop):
                        row = t * mr
                        # fmt: off
                        tile(row + mr > m, args, a + (i * sa + row * lda) * 4, lda * 4, 0, 0, 1, k,
                             b + i * sb * 4 + p * step, ahead, c + (i * sc + row * ldc + column) * 4, ldc * 4,
                             n - p * width, i, row, column)
                        # fmt: on
                        ahead = ahead + line if 0 < ahead < last else 0
            unit += hi - lo

    return dot
