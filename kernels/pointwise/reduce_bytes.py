"""The largest or smallest of bytes over n, of [outer, n, inner]; for bools any or all.

n is at least 1. Reads whole vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from functools import reduce as fold
from typing import Any

from ..core.record import fields
from ..isa.stores import store_first
from ..isa.tiers import Tier
from ..lang import (
    I8,
    U8,
    Type,
    Value,
    choose,
    constant,
    each_vector,
    halves,
    intrinsic,
    over,
    register,
    traced,
    when,
    whole,
)
from ..lang.lines import UNROLL
from .along_axis import along_axis, by_extreme, columns_of
from .rows import EXTREME

_START = {"umax": 0, "umin": 255, "smax": -128, "smin": 127}


def make(tier: Tier, last: bool) -> Callable[..., None]:
    """The kernel for rows of neighbors (`last`), or for columns."""
    return along_axis(last, (_row if last else _columns)(U8.vector(4 * tier.lanes)), 1, 1)


def _name(least: bool, signed: bool) -> str:
    return ("s" if signed else "u") + ("min" if least else "max")


def _row(u8: Type) -> Any:
    """What reduces one contiguous row of n bytes."""

    @traced
    def row(args: Value, y: Value, x: Value, n: Value) -> None:
        bytes_ = U8.at(x)

        def reduce(least: bool, signed: bool) -> None:
            op = _name(least, signed)
            better = partial(intrinsic, op)
            best = register(u8(_START[op]))
            blocks, end = whole(n, UNROLL * u8.lanes), whole(n, u8.lanes)
            for i in over(0, blocks, UNROLL * u8.lanes):
                best.value = fold(better, [u8[bytes_ + (i + k * u8.lanes)] for k in range(UNROLL)], best.value)
            for i in over(blocks, end, u8.lanes):
                best.value = better(best.value, u8[bytes_ + i])
            rest = n - end
            with when(rest > 0):
                mask = constant(u8, range(u8.lanes)) < rest.to(I8).unsigned
                best.value = better(best.value, choose(mask, u8[bytes_ + end], _START[op]))
            found = best.value
            while found.lanes > 1:
                found = better(*halves(found))
            U8[y] = found[0]

        by_extreme(fields(args, EXTREME), reduce)

    return row


def _columns(u8: Type) -> Any:
    """What reduces columns of bytes."""

    @traced
    def columns(args: Value, y: Value, x: Value, columns: Any) -> None:
        n, inner, left, right = columns_of(columns)

        def reduce(least: bool, signed: bool) -> None:
            op = _name(least, signed)

            def column(u8: Type, i: Value, rest: Any = None) -> None:
                best = register(u8(_START[op]))
                for r in over(n):
                    best.value = intrinsic(op, best.value, u8[U8.at(x) + (i + r * inner)])
                store_first(best.value, U8.at(y) + i, rest)

            each_vector(u8, left, right, column)

        by_extreme(fields(args, EXTREME), reduce)

    return columns
