"""The largest or smallest of bytes over n, of [outer, n, inner]; for bools any or all.

n is at least 1. Reads whole vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..isa.elements import ELEMENTS, halves, write
from ..isa.integer import binary
from ..isa.loops import each_vector, loop, variable, whole
from ..isa.tiers import Tier
from ..isa.vector import I8, I32, I64, Vector, emits
from .along_axis import along_axis

_START = {("u8", "max"): 0, ("u8", "min"): 255, ("s8", "max"): -128, ("s8", "min"): 127}


def make(tier: Tier, op: str, element: str, last: bool) -> Callable[..., None]:
    """The kernel for `op` "max" or "min" of "u8" or "s8"; bools are u8."""
    return along_axis(last, (_row if last else _columns)(tier, op, element), 1, 1)


def _combined(v: Vector, op: str, element: str, a: Any, b: Any) -> Any:
    return binary(v, ("u" if element == "u8" else "s") + op, a, b)


def _load(b: Any, pointer: Any, kind: Any) -> Any:
    return b.load(b.bitcast(pointer, kind.as_pointer()), align=1)


def _row(tier: Tier, op: str, element: str) -> Any:
    """An intrinsic that reduces one contiguous row of n bytes."""

    @emits
    def row(b: Any, y: Any, x: Any, n: Any) -> None:
        v = Vector(b, tier, 4 * tier.lanes)
        kind = ir.VectorType(I8, v.lanes)
        x, y = v.pointer(x, ELEMENTS[element]), v.pointer(y, ELEMENTS[element])
        start = ir.Constant(kind, [_START[element, op]] * v.lanes)
        best = variable(b, start)
        end = whole(b, n, v.lanes)
        with loop(b, 0, end, v.lanes) as i:
            b.store(_combined(v, op, element, b.load(best), _load(b, v.at(x, i), kind)), best)
        rest = b.sub(n, end)
        with b.if_then(b.icmp_signed(">", rest, I64(0))):
            inside = ir.Constant(kind, list(range(v.lanes)))
            mask = b.icmp_unsigned("<", inside, v.splat(b.trunc(rest, I8), v.lanes))
            tail = b.select(mask, _load(b, v.at(x, end), kind), start)
            b.store(_combined(v, op, element, b.load(best), tail), best)
        found = b.load(best)
        while found.type.count > 1:
            found = _combined(v, op, element, *halves(b, found))
        b.store(b.extract_element(found, I32(0)), y)

    return row


def _columns(tier: Tier, op: str, element: str) -> Any:
    """An intrinsic that reduces columns left..right, each over n bytes `step` apart."""

    @emits
    def columns(b: Any, y: Any, x: Any, n: Any, step: Any, left: Any, right: Any) -> None:
        v = Vector(b, tier, 4 * tier.lanes)
        kind = ir.VectorType(I8, v.lanes)
        x, y = v.pointer(x, ELEMENTS[element]), v.pointer(y, ELEMENTS[element])
        start = ir.Constant(kind, [_START[element, op]] * v.lanes)

        def column(w: Vector, i: Any, rest: Any = None) -> None:
            best = variable(b, start)
            with loop(b, 0, n, 1) as r:
                place = w.at(x, b.add(i, b.mul(r, step)))
                b.store(_combined(w, op, element, b.load(best), _load(b, place, kind)), best)
            write(w, b.load(best), w.at(y, i), rest)

        each_vector(v, left, right, column)

    return columns
