"""The largest or smallest of bytes over n, of [outer, n, inner]; for bools any or all.

n is at least 1. Reads whole vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from functools import reduce as fold
from typing import Any

from llvmlite import ir

from ..core.record import loaded
from ..isa.elements import halves, write
from ..isa.integer import binary
from ..isa.loops import UNROLL, each_vector, loop, variable, whole
from ..isa.tiers import Tier
from ..isa.vector import I8, I32, I64, Vector, emits
from .along_axis import along_axis, by_extreme
from .rows import EXTREME

_START = {"umax": 0, "umin": 255, "smax": -128, "smin": 127}


def make(tier: Tier, last: bool) -> Callable[..., None]:
    """The kernel for rows of neighbors (`last`), or for columns."""
    return along_axis(last, (_row if last else _columns)(tier), 1, 1)


def _name(least: bool, signed: bool) -> str:
    return ("s" if signed else "u") + ("min" if least else "max")


def _load(b: Any, pointer: Any, kind: Any) -> Any:
    return b.load(b.bitcast(pointer, kind.as_pointer()), align=1)


def _row(tier: Tier) -> Any:
    """An intrinsic that reduces one contiguous row of n bytes."""

    @emits
    def row(b: Any, args: Any, y: Any, x: Any, n: Any) -> None:
        v = Vector(b, tier, 4 * tier.lanes)
        kind, x, y = ir.VectorType(I8, v.lanes), v.pointer(x, I8), v.pointer(y, I8)

        def reduce(least: bool, signed: bool) -> None:
            op = _name(least, signed)
            start = ir.Constant(kind, [_START[op]] * v.lanes)
            best = variable(b, start)
            blocks, end = whole(b, n, UNROLL * v.lanes), whole(b, n, v.lanes)
            with loop(b, 0, blocks, UNROLL * v.lanes) as i:
                parts = [_load(b, v.at(x, b.add(i, I64(k * v.lanes))), kind) for k in range(UNROLL)]
                b.store(fold(partial(binary, v, op), parts, b.load(best)), best)
            with loop(b, blocks, end, v.lanes) as i:
                b.store(binary(v, op, b.load(best), _load(b, v.at(x, i), kind)), best)
            rest = b.sub(n, end)
            with b.if_then(b.icmp_signed(">", rest, I64(0))):
                inside = ir.Constant(kind, list(range(v.lanes)))
                mask = b.icmp_unsigned("<", inside, v.splat(b.trunc(rest, I8), v.lanes))
                tail = b.select(mask, _load(b, v.at(x, end), kind), start)
                b.store(binary(v, op, b.load(best), tail), best)
            found = b.load(best)
            while found.type.count > 1:
                found = binary(v, op, *halves(b, found))
            b.store(b.extract_element(found, I32(0)), y)

        by_extreme(b, loaded(b, args, EXTREME), reduce)

    return row


def _columns(tier: Tier) -> Any:
    """An intrinsic that reduces columns left..right, each over n bytes `step` apart."""

    @emits
    def columns(b: Any, args: Any, y: Any, x: Any, n: Any, step: Any, left: Any, right: Any) -> None:
        v = Vector(b, tier, 4 * tier.lanes)
        kind, x, y = ir.VectorType(I8, v.lanes), v.pointer(x, I8), v.pointer(y, I8)

        def reduce(least: bool, signed: bool) -> None:
            op = _name(least, signed)

            def column(w: Vector, i: Any, rest: Any = None) -> None:
                best = variable(b, ir.Constant(kind, [_START[op]] * w.lanes))
                with loop(b, 0, n, 1) as r:
                    place = w.at(x, b.add(i, b.mul(r, step)))
                    b.store(binary(w, op, b.load(best), _load(b, place, kind)), best)
                write(w, b.load(best), w.at(y, i), rest)

            each_vector(v, left, right, column)

        by_extreme(b, loaded(b, args, EXTREME), reduce)

    return columns
