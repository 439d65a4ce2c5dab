"""pack_b: packs a matrix that is only known at run time into the panels that dot reads (kernels/pack.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..isa.shuffles import transpose_square
from ..isa.tiers import Tier
from ..isa.vector import I64, Vector, emits
from .rows import PACK_ARGS
from .tile import make_fields, repeat


def make_pack(tier: Tier, nv: int, transposed: bool) -> Callable[..., None]:
    """The kernel for panels of nv vectors; `transposed`: B's rows are columns, [n, k]. No bias: that
    line is 0.

    Its record is `rows_dot.PACK_ARGS`.
    """
    fields = make_fields(len(PACK_ARGS))
    width = nv * tier.lanes
    lines = _turn_lines(tier, nv) if transposed else _copy_lines(tier, nv)

    def pack(args: int, thread: int, threads: int) -> None:
        b, ldb, packed, n, k, batch, b_stride = fields(args)
        panels = (n + width - 1) // width
        total = batch * panels
        for unit in range(total * thread // threads, total * (thread + 1) // threads):
            i = unit // panels
            column = (unit - i * panels) * width
            start = b + (i * b_stride + column * (ldb if transposed else 1)) * 4
            lines(packed + unit * (k + 1) * width * 4, start, ldb * 4, k, n - column)

    return pack


def _copy_lines(tier: Tier, nv: int) -> Any:
    """lines(panel, start, stride, k, columns) from k rows of B."""
    width = nv * tier.lanes * 4

    @emits
    def lines(b: Any, panel: Any, start: Any, stride: Any, k: Any, columns: Any) -> None:
        v = Vector(b, tier)
        _zeros(v, nv, panel)

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


def _turn_lines(tier: Tier, nv: int) -> Any:
    """lines(panel, start, stride, k, columns) from rows of B, columns here; past the last it repeats."""
    width, lanes = nv * tier.lanes * 4, tier.lanes

    @emits
    def lines(b: Any, panel: Any, start: Any, stride: Any, k: Any, columns: Any) -> None:
        v = Vector(b, tier)
        _zeros(v, nv, panel)
        last = b.sub(columns, I64(1))

        def group(g: Any, state: list[Any]) -> list[Any]:
            column = b.mul(g, I64(lanes))
            index = [b.add(column, I64(i)) for i in range(lanes)]
            rows = [
                b.add(start, b.mul(b.select(b.icmp_signed("<", i, last), i, last), stride)) for i in index
            ]
            to = b.add(b.add(panel, I64(width)), b.mul(column, I64(4)))

            def block(step: Any, _: list[Any]) -> list[Any]:
                first = b.mul(step, I64(lanes))
                turned = transpose_square(b, [v.load(v.pointer(b.add(row, b.mul(first, I64(4))))) for row in rows], 4)
                for i, vector in enumerate(turned):
                    line = b.add(first, I64(i))
                    with b.if_then(b.icmp_signed("<", line, k)):
                        v.store(vector, v.pointer(b.add(to, b.mul(line, I64(width)))))
                return []

            repeat(b, b.sdiv(b.add(k, I64(lanes - 1)), I64(lanes)), [], block)
            return []

        repeat(b, I64(nv), [], group)

    return lines


def _zeros(v: Vector, nv: int, panel: Any) -> None:
    for i in range(nv):
        v.store(v.const(0), v.at(v.pointer(panel), i * v.lanes))
