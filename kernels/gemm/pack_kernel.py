"""pack_b: packs a matrix that is only known at run time into the panels that dot reads (pack.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import reader
from ..isa.loops import repeat
from ..isa.tiers import Tier
from ..isa.vector import I64, Vector, emits
from .rows import PACK


def make_pack(tier: Tier, nv: int) -> Callable[..., None]:
    """The kernel for panels of nv vectors. No bias: that line is 0."""
    fields, lines = reader(PACK), _lines(tier, nv)
    width = nv * tier.lanes

    def pack(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        panels = (r.n + width - 1) // width
        total = r.batch * panels
        for unit in range(total * thread // threads, total * (thread + 1) // threads):
            i = unit // panels
            column = (unit - i * panels) * width
            panel = r.packed + unit * (r.k + 1) * width * 4
            lines(panel, r.b + (i * r.b_stride + column) * 4, r.ldb * 4, r.k, r.n - column)

    return pack


def _lines(tier: Tier, nv: int) -> Any:
    """lines(panel, start, stride, k, columns) from k rows of B."""
    width = nv * tier.lanes * 4

    @emits
    def lines(b: Any, panel: Any, start: Any, stride: Any, k: Any, columns: Any) -> None:
        v = Vector(b, tier)
        for i in range(nv):
            v.store(v.const(0), v.at(v.pointer(panel), i * v.lanes))

        def rows(masks: list[Any]) -> None:
            def body(_: Any, state: list[Any]) -> list[Any]:
                to, at = state
                for i, mask in enumerate(masks):
                    offset = I64(i * tier.lanes * 4)
                    v.store(v.load(v.pointer(b.add(at, offset)), mask), v.pointer(b.add(to, offset)))
                return [b.add(to, I64(width)), b.add(at, stride)]

            repeat(b, k, [b.add(panel, I64(width)), start], body)

        with b.if_else(b.icmp_signed(">=", columns, I64(nv * tier.lanes))) as (whole, partial):
            with whole:
                rows([None] * nv)
            with partial:
                rows([v.mask(b.sub(columns, I64(i * tier.lanes))) for i in range(nv)])

    return lines
