"""dot: C = chain(A x B + bias), B packed in panels; fully connected, 1x1 convolution and matrix product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .chain import Chain
from .isa.tiers import Tier
from .isa.vector import arg, emits
from .rows_dot import DOT_ARGS
from .tile import make_tile


@emits
def nothing(builder: Any, args: Any, a: Any, rs: Any, gs: Any, table: Any, segments: Any, length: Any, panel: Any,
            ahead: Any, c: Any, ldc: Any, columns: Any, image: Any, row: Any, column: Any) -> None:
    """The tail of a kernel that has none."""


def make_dot(tier: Tier, mr: int, nv: int, tail: int, ragged: bool, chain: Chain = (),
             extras: Sequence[str] = ()) -> Callable[..., None]:
    """The kernel for tiles of mr rows x nv vectors; tail = m % mr; ragged when n isn't whole panels.

    Its record is `rows_dot.DOT_ARGS`, then (address, stride per batch, stride per row) for each extra.
    """
    def part(rows: int) -> Any:
        return make_tile(tier, 1, rows, nv, False, ragged, chain, extras, len(DOT_ARGS))

    whole, rest = part(mr), part(tail) if tail else nothing
    width = nv * tier.lanes

    def dot(args: int, thread: int, threads: int) -> None:
        a, lda, b, c, ldc = arg(args, 0), arg(args, 1) * 4, arg(args, 2), arg(args, 3), arg(args, 4) * 4
        m, n, k, batch = arg(args, 5), arg(args, 6), arg(args, 7), arg(args, 8)
        sa, sb, sc = arg(args, 9) * 4, arg(args, 10) * 4, arg(args, 11) * 4
        block, by_columns = arg(args, 12), arg(args, 13)
        tiles = (m + mr - 1) // mr
        panels = (n + width - 1) // width
        step = (k + 1) * width * 4
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
                    for t in range(start, stop):
                        ahead = step + (t - start) * 64 if t - start < nv else 0
                        row = t * mr
                        if row + mr <= m:
                            whole(args, a + i * sa + row * lda, lda, 0, 0, 1, k, b + i * sb + p * step, ahead,
                                  c + i * sc + row * ldc + p * width * 4, ldc, n - p * width, i, row, p * width)
                        else:
                            rest(args, a + i * sa + row * lda, lda, 0, 0, 1, k, b + i * sb + p * step, ahead,
                                 c + i * sc + row * ldc + p * width * 4, ldc, n - p * width, i, row, p * width)
            unit += hi - lo

    return dot
