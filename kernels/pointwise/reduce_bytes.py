"""The largest or smallest of bytes over n, of [outer, n, inner]; for bools any or all.

It is the largest as unsigned numbers, once the bits that the record's `flip` says are turned: none for that of u8, all
for the smallest, the highest for s8. n is at least 1. Reads whole vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..core.record import loaded
from ..isa.elements import constant, halves, write
from ..isa.integer import binary
from ..isa.loops import each_vector, loop, variable, whole
from ..isa.tiers import Tier
from ..isa.vector import I8, I32, I64, Vector, emits
from .along_axis import along_axis
from .rows import FLIPPED


def make(tier: Tier, last: bool) -> Callable[..., None]:
    """The kernel for rows of neighbors (`last`), or for columns."""
    return along_axis(last, (_row if last else _columns)(tier), 1, 1)


def _load(b: Any, pointer: Any, flip: Any) -> Any:
    return b.xor(b.load(b.bitcast(pointer, flip.type.as_pointer()), align=1), flip)


def _flip(v: Vector, args: Any) -> Any:
    return v.splat(v.b.trunc(loaded(v.b, args, FLIPPED).flip, I8), v.lanes)


def _row(tier: Tier) -> Any:
    """An intrinsic that reduces one contiguous row of n bytes."""

    @emits
    def row(b: Any, args: Any, y: Any, x: Any, n: Any) -> None:
        v = Vector(b, tier, 4 * tier.lanes)
        x, y, flip = v.pointer(x, I8), v.pointer(y, I8), _flip(v, args)
        best = variable(b, constant(flip, 0))
        end = whole(b, n, v.lanes)
        with loop(b, 0, end, v.lanes) as i:
            b.store(binary(v, "umax", b.load(best), _load(b, v.at(x, i), flip)), best)
        rest = b.sub(n, end)
        with b.if_then(b.icmp_signed(">", rest, I64(0))):
            inside = ir.Constant(flip.type, list(range(v.lanes)))
            mask = b.icmp_unsigned("<", inside, v.splat(b.trunc(rest, I8), v.lanes))
            tail = b.select(mask, _load(b, v.at(x, end), flip), constant(flip, 0))
            b.store(binary(v, "umax", b.load(best), tail), best)
        found = b.load(best)
        while found.type.count > 1:
            found = binary(v, "umax", *halves(b, found))
        b.store(b.xor(b.extract_element(found, I32(0)), b.extract_element(flip, I32(0))), y)

    return row


def _columns(tier: Tier) -> Any:
    """An intrinsic that reduces columns left..right, each over n bytes `step` apart."""

    @emits
    def columns(b: Any, args: Any, y: Any, x: Any, n: Any, step: Any, left: Any, right: Any) -> None:
        v = Vector(b, tier, 4 * tier.lanes)
        x, y, flip = v.pointer(x, I8), v.pointer(y, I8), _flip(v, args)

        def column(w: Vector, i: Any, rest: Any = None) -> None:
            best = variable(b, constant(flip, 0))
            with loop(b, 0, n, 1) as r:
                place = w.at(x, b.add(i, b.mul(r, step)))
                b.store(binary(w, "umax", b.load(best), _load(b, place, flip)), best)
            write(w, b.xor(b.load(best), flip), w.at(y, i), rest)

        each_vector(v, left, right, column)

    return columns
