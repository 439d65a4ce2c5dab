"""Keys and values as panels that tiles multiply with: for each word of a row, so many vectors of columns."""

from __future__ import annotations

from typing import Any

from ..isa.loops import lesser, loop, repeat
from ..isa.tiers import Tier
from ..isa.vector import F32, I32, I64, Vector, emits
from ..move.shuffles import transpose_square
from .pick import NV


def make_pack_keys(tier: Tier) -> Any:
    """keys(panels, k, row, t, d, scale): t keys, `row` bytes apart, times a scale; those beside the last are copies
    of it.
    """
    lanes, line = tier.lanes, 4 * NV * tier.lanes

    @emits
    def keys(b: Any, panels: Any, k: Any, row: Any, t: Any, d: Any, scale: Any) -> None:
        v = Vector(b, tier)
        factor = v.splat(b.bitcast(b.trunc(scale, I32), F32))
        last = b.sub(t, I64(1))
        with loop(b, 0, t, lanes) as i:
            rows = [b.add(k, b.mul(row, lesser(b, b.add(i, I64(j)), last))) for j in range(lanes)]
            panel = b.mul(b.udiv(i, I64(NV * lanes)), b.mul(d, I64(line)))
            start = b.add(panels, b.add(panel, b.mul(b.urem(i, I64(NV * lanes)), I64(4))))
            whole = b.and_(d, I64(-lanes))

            def square(at: Any, mask: Any, rest: Any, start: Any = start, rows: Any = rows) -> None:
                offset = b.mul(at, I64(4))
                words = [v.load(v.pointer(b.add(address, offset)), mask) for address in rows]
                for j, word in enumerate(transpose_square(b, words, 4)):
                    to = v.pointer(b.add(start, b.mul(b.add(at, I64(j)), I64(line))))
                    if mask is None:
                        v.store(b.fmul(word, factor), to)
                    else:
                        with b.if_then(b.icmp_signed("<", I64(j), rest)):
                            v.store(b.fmul(word, factor), to)

            with loop(b, 0, whole, lanes) as at:
                square(at, None, None)
            rest = b.sub(d, whole)
            with b.if_then(b.icmp_signed(">", rest, I64(0))):
                square(whole, v.mask(rest), rest)

    return keys


def make_pack_values(tier: Tier) -> Any:
    """values(panels, v, row, t, e): t values, `row` bytes apart, as panels of all of them; columns beyond e are 0."""
    lanes, width = tier.lanes, NV * tier.lanes

    @emits
    def values(b: Any, panels: Any, start: Any, row: Any, t: Any, e: Any) -> None:
        v = Vector(b, tier)

        def copy(column: Any, masks: list[Any]) -> None:
            to = b.add(panels, b.mul(column, b.mul(t, I64(4))))
            at = b.add(start, b.mul(column, I64(4)))

            def body(_: Any, state: list[Any]) -> list[Any]:
                to, at = state
                for i, mask in enumerate(masks):
                    offset = I64(4 * i * lanes)
                    v.store(v.load(v.pointer(b.add(at, offset)), mask), v.pointer(b.add(to, offset)))
                return [b.add(to, I64(4 * width)), b.add(at, row)]

            repeat(b, t, [to, at], body)

        with loop(b, 0, e, width) as column:
            rest = b.sub(e, column)
            with b.if_else(b.icmp_signed(">=", rest, I64(width))) as (whole, part):
                with whole:
                    copy(column, [None] * NV)
                with part:
                    copy(column, [v.mask(b.sub(rest, I64(i * lanes))) for i in range(NV)])

    return values
