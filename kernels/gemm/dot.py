"""dot: C = chain(A x B + bias), B packed in panels; fully connected, 1x1 convolution and matrix product."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.record import reader
from ..isa.tiers import Tier
from ..pointwise.chain import Chain
from .rows import DOT
from .tile import Arithmetic, f32_arithmetic, make_tile


def make_dot(
    tier: Tier, mr: int, nv: int, tail: int, ragged: bool, chain: Chain = (), extras: Sequence[str] = ()
) -> Callable[..., None]:
    """The kernel for tiles of mr rows x nv vectors; tail = m % mr; ragged when n isn't whole panels."""
    arithmetic = f32_arithmetic(tier, nv, chain, extras, len(DOT))
    return dot_kernel(tier, mr, nv, tail, ragged, arithmetic)


def dot_kernel(tier: Tier, mr: int, nv: int, tail: int, ragged: bool, arithmetic: Arithmetic) -> Callable[..., None]:
    """The loops of a dot kernel around a tile; its record begins with `rows.DOT`.

    Where m isn't a multiple of mr, tail is m % mr, or 0 and the last tile computes rows again (m >= mr, and C is
    no operand).
    """
    fields = reader(DOT)
    tile = make_tile(tier, (1, mr), (min(tail, 1), tail), False, ragged, arithmetic)
    width = nv * tier.lanes
    line = tier.lanes * 4
    head, word = arithmetic.head, arithmetic.vectors * line
    item, out_item = arithmetic.item, arithmetic.out_item

    def dot(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        tiles = (r.m + mr - 1) // mr
        panels = (r.n + width - 1) // width
        step = head + r.k * word
        last = step + word - line
        units = panels if r.by_columns else tiles
        unit, end = 0, r.batch * units
        if threads > 1:
            unit, end = end * thread // threads, end * (thread + 1) // threads
        while unit < end:
            # Divisions wait for one another: small layers do without.
            i = unit // units if r.batch > 1 else 0
            lo = unit - i * units
            hi = units if end - i * units > units else end - i * units
            t0, t1, p0, p1 = (0, tiles, lo, hi) if r.by_columns else (lo, hi, 0, panels)
            start = t0
            while start < t1:
                stop = start + r.block if start + r.block < t1 else t1
                for p in range(p0, p1):
                    column = r.n0 + p * width
                    ahead = step
                    for t in range(start, stop):
                        row = t * mr
                        if tail == 0 and row + mr > r.m:
                            row = r.m - mr
                        tile(
                            args, row + mr > r.m,
                            a=r.a + (i * r.a_stride + row * r.lda) * item, rs=r.lda * item, gs=0,
                            table=0, segments=1, length=r.k,
                            panel=r.b + i * r.b_stride * 4 + p * step, ahead=ahead,
                            c=r.c + (i * r.c_stride + row * r.ldc + column) * out_item, ldc=r.ldc * out_item,
                            columns=r.n - p * width, image=i, row=row, column=column,
                        )  # fmt: skip
                        ahead = ahead + line if 0 < ahead < last else 0
                start = stop
            unit += hi - lo

    return dot
