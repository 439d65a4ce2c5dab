"""pack_b: packs a matrix that isn't constant into the panels that dot reads (pack.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.record import fields
from ..isa.tiers import Tier
from ..lang import F32, Type, Value, either, repeat, tier, traced
from .rows import PACK


def make_pack(tier: Tier, nv: int) -> Callable[..., None]:
    """The kernel for panels of nv vectors. No bias: that line is 0."""
    width = nv * tier.lanes

    def pack(args: int, thread: int, threads: int) -> None:
        r = fields(args, PACK)
        panels = (r.n + width - 1) // width
        total = r.batch * panels
        for unit in range(total * thread // threads, total * (thread + 1) // threads):
            i = unit // panels
            column = (unit - i * panels) * width
            panel = r.packed + unit * (r.k + 1) * width * 4
            _lines(nv, panel, r.b + (i * r.b_stride + column) * 4, r.ldb * 4, r.k, r.n - column)

    return pack


@traced
def _lines(nv: int, panel: Value, start: Value, stride: Value, k: Value, columns: Value) -> None:
    """The lines of a panel from k rows of B."""
    f32 = F32.vector(tier().lanes)
    for i in range(nv):
        f32[F32.at(panel) + i * f32.lanes] = 0

    def rows(masks: Masks) -> None:
        copy_lines(f32, masks, panel + nv * f32.size, (start, stride), k)

    by_columns(f32, nv, columns, rows)


Masks = Sequence[Value | None]
"""Of vectors beside one another; None where all lanes count."""


def by_columns(f32: Type, nv: int, columns: Value, body: Callable[[Masks], None]) -> None:
    """Write body(masks) for nv whole vectors, and for their first `columns` columns."""
    with either(columns >= nv * f32.lanes) as (whole, partial):
        with whole:
            body([None] * nv)
        with partial:
            body([f32.below(columns - i * f32.lanes) for i in range(nv)])


def copy_lines(f32: Type, masks: Masks, to: Value, source: tuple[Value, Value], count: Value) -> None:
    """Copy lines of vectors under masks from source = (address, stride in bytes) to adjacent lines."""
    size, (start, stride) = f32.size, source

    def line(_: Value, state: Sequence[Value]) -> list[Value]:
        to, at = state
        for i, mask in enumerate(masks):
            f32[to + i * size] = f32[at + i * size, mask]
        return [to + len(masks) * size, at + stride]

    repeat(count, [to, start], line)
