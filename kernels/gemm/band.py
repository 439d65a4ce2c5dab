"""A band: rows of a convolution's input, copied into scratch with their padding; and who computes which bands.

`r` is a record with slots called as those of `rows.CONV`. Copies are whole vectors in ascending order: each may run
into the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..isa.loops import loop, repeat
from ..isa.tiers import Tier
from ..isa.vector import I32, I64, Vector, emits
from ..lang.both import both

NONE = I64(0)


def make_band(tier: Tier, item: int) -> Any:
    """An intrinsic that writes `rows` rows to each slice of a band at `to`: those from (z, y) of the input on.

    `source` is where the input of the image and group begins; an element has `item` bytes.
    """

    @emits
    def band(b: Any, r: Any, to: Any, source: Any, z: Any, y: Any, rows: Any) -> None:
        with loop(b, 0, r.k_d, 1) as k:
            iz = b.add(z, b.mul(k, r.dilation_z))
            plane = b.add(source, b.mul(iz, r.x_z))
            inside = b.icmp_unsigned("<", iz, r.d)
            _rows(Vector(b, tier), r, b.add(to, b.mul(k, r.band_z)), plane, y, rows, inside, r.step_y, r.fill, item)

    return band


def make_rows(tier: Tier) -> Any:
    """As `make_band` of every row of f32, with zeros around them; the last row of a slice of x lacks `lacking` f32."""

    @emits
    def band(b: Any, r: Any, to: Any, source: Any, z: Any, y: Any, rows: Any) -> None:
        with loop(b, 0, r.k_d, 1) as k:
            iz = b.add(z, b.mul(k, r.dilation_z))
            plane = b.add(source, b.mul(iz, r.x_z))
            inside = b.icmp_unsigned("<", iz, r.d)
            into = b.add(to, b.mul(k, r.band_z))
            _rows(Vector(b, tier), r, into, plane, y, rows, inside, I64(1), I64(0), 4, r.lacking)

    return band


def _rows(
    v: Vector, r: Any, to: Any, source: Any, y: Any, rows: Any, inside: Any, step: Any, fill: Any, item: int,
    lacking: Any = NONE,
) -> None:  # fmt: skip
    """Rows of one slice, every step-th of the input; padding repeats the word `fill`. lacking: elements that the last
    row of the input, which is one run, has not.
    """
    b = v.b
    word = b.bitcast(v.splat(b.trunc(fill, I32)), v.type)

    def copy(to: Any, source: Any, count: Any) -> Any:
        return _vectors(v, to, b.mul(count, I64(item)), source, lambda at: v.load(v.pointer(at), align=1))

    def clear(to: Any, count: Any) -> Any:
        return _vectors(v, to, b.mul(count, I64(item)), to, lambda at: word)

    with loop(b, 0, rows, 1) as i:
        iy = b.add(y, b.mul(i, step))
        line = b.add(to, b.mul(i, r.band_y))
        with b.if_else(b.and_(inside, b.icmp_unsigned("<", iy, r.h))) as (there, padding):
            with there:
                run = clear(line, r.left)
                short = b.select(b.icmp_signed("==", iy, b.sub(r.h, I64(1))), lacking, I64(0))
                count = b.sub(r.run, short)
                first = b.add(b.add(source, b.mul(iy, r.x_y)), r.x_first)
                with loop(b, 0, r.pixels, 1) as j:
                    copy(b.add(run, b.mul(j, r.pixel_step)), b.add(first, b.mul(j, r.x_step)), count)
                behind = b.add(run, b.mul(r.pixels, r.pixel_step))
                clear(b.sub(behind, b.mul(short, I64(item))), b.add(r.right, short))
            with padding:
                _vectors(v, line, r.band_y, line, lambda at: word)


def _vectors(v: Vector, to: Any, nbytes: Any, source: Any, value: Callable[[Any], Any]) -> Any:
    """Whole vectors, value(address from `source` on), to nbytes from `to` on; the end of these."""
    b = v.b
    size = v.lanes * 4

    def body(_: Any, state: list[Any]) -> list[Any]:
        target, start = state
        v.store(value(start), v.pointer(target), align=1)
        return [b.add(target, I64(size)), b.add(start, I64(size))]

    vectors = b.ashr(b.add(nbytes, I64(size - 1)), I64(size.bit_length() - 1))
    with b.if_then(b.icmp_signed(">", vectors, I64(0))):
        repeat(b, vectors, [to, source], body, once=True)
    return b.add(to, nbytes)


@emits(returns=4)
@both
def deal(b: Any, r: Any, panels: Any, units: Any, thread: Any, threads: Any) -> Any:
    """(first panel, end, first unit, end) of a thread: its part of the panels when r.by_columns, else of the units."""
    columns = b.icmp_signed("!=", r.by_columns, I64(0))
    total = b.select(columns, panels, units)
    first, end = (b.udiv(b.mul(total, at), threads) for at in (thread, b.add(thread, I64(1))))
    p0, p1 = b.select(columns, first, I64(0)), b.select(columns, end, panels)
    u0, u1 = b.select(columns, I64(0), first), b.select(columns, units, end)
    return [p0, p1, u0, b.select(b.icmp_signed("<", p0, p1), u1, u0)]
