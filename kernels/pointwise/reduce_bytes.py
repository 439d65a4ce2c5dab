"""The largest or smallest of bytes over n, of [outer, n, inner]; for bools any or all.

Record: as that of the f32 kernel: y, x, outer, n, inner, then element strides y_outer, x_outer, x_axis. With `last`,
inner is 1 and the axis contiguous; else inner is contiguous in x and y. n is at least 1. Reads whole vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..isa.elements import ELEMENTS, halves, overloaded, splat, write
from ..isa.loops import loop, share, slice_share, variable, whole
from ..isa.tiers import Tier
from ..isa.vector import I8, I32, I64, Vector, arg, emits

_START = {("u8", "max"): 0, ("u8", "min"): 255, ("s8", "max"): -128, ("s8", "min"): 127}


def make(tier: Tier, op: str, element: str, last: bool) -> Callable[..., None]:
    """The kernel for `op` "max" or "min" of "u8" or "s8"; bools are u8."""
    row = _row(tier, op, element)
    columns = _columns(tier, op, element)

    def reduce_last(args: int, thread: int, threads: int) -> None:
        y, x, outer, n = arg(args, 0), arg(args, 1), arg(args, 2), arg(args, 3)
        y_outer, x_outer = arg(args, 5), arg(args, 6)
        for o in range(share(outer, thread, threads), share(outer, thread + 1, threads)):
            row(y + o * y_outer, x + o * x_outer, n)

    def reduce_inner(args: int, thread: int, threads: int) -> None:
        y, x, outer, n, inner = arg(args, 0), arg(args, 1), arg(args, 2), arg(args, 3), arg(args, 4)
        y_outer, x_outer, x_axis = arg(args, 5), arg(args, 6), arg(args, 7)
        first, end, left, right = 0, outer, 0, inner
        if outer >= 4 * threads:
            first, end = share(outer, thread, threads), share(outer, thread + 1, threads)
        else:
            left, right = slice_share(inner, thread, threads), slice_share(inner, thread + 1, threads)
        for o in range(first, end):
            columns(y + o * y_outer, x + o * x_outer, n, x_axis, left, right)

    return reduce_last if last else reduce_inner


def _combined(v: Vector, op: str, element: str, a: Any, b: Any) -> Any:
    return overloaded(v, ("u" if element == "u8" else "s") + op, a, b)


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
            mask = b.icmp_unsigned("<", inside, splat(b, b.trunc(rest, I8), v.lanes))
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

        def column(i: Any, rest: Any = None) -> None:
            best = variable(b, start)
            with loop(b, 0, n, 1) as r:
                place = v.at(x, b.add(i, b.mul(r, step)))
                b.store(_combined(v, op, element, b.load(best), _load(b, place, kind)), best)
            write(v, b.load(best), v.at(y, i), rest)

        end = b.add(left, whole(b, b.sub(right, left), v.lanes))
        with loop(b, left, end, v.lanes) as i:
            column(i)
        rest = b.sub(right, end)
        with b.if_then(b.icmp_signed(">", rest, I64(0))):
            column(end, rest)

    return columns
