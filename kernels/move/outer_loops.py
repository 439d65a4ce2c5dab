"""The outer loops in a move's record: the number of iterations, and the addresses of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ..core.record import Record, fields
from ..lang import I64, Value, div_rem, over, register, registers, traced


def _fields(args: Value, record: Record, k: Value, count: int) -> list[Value]:
    """The first `count` fields of outer loop k."""
    first = record.at("n0") + k * (record.at("n1") - record.at("n0"))
    return [I64.at(args)[first + i] for i in range(count)]


@traced
def outer_count(args: Value, record: Record) -> Any:
    """The product of the loops' n."""
    total = register(1)
    for k in over(I64.at(args)[record.at("rank")]):
        (n,) = _fields(args, record, k, 1)
        total.value *= n
    return total.value


@traced
def outer_address(args: Value, record: Record, index: Value, dst: Value, src: Value) -> Any:
    """Both addresses in iteration `index` of loops of n, s and d, innermost first."""
    return _advanced(args, record, index, [src, dst])[::-1]


@traced
def outer_addresses(args: Value, record: Record, index: Value, dst: Value, src: Value, indices: Value) -> Any:
    """The same for loops of n, s, i and d."""
    at, there, to = _advanced(args, record, index, [src, indices, dst])
    return to, at, there


def _advanced(args: Value, record: Record, index: Value, starts: list[Value]) -> list[Value]:
    """Addresses in iteration `index` of loops of n and a stride for each address."""
    rest, found = register(index), registers(starts)
    for k in over(I64.at(args)[record.at("rank")]):
        n, *steps = _fields(args, record, k, 1 + len(starts))
        rest.value, i = div_rem(rest.value, n)
        for each, step in zip(found.all, steps, strict=True):
            each.value += i * step
    return found.values()


@cache
def outer_fields(record: Record, slots: Record) -> Callable:
    """`loop(args, k)`: the fields of outer loop k, by their names in `slots`."""
    first, step = 8 * record.at("n0"), 8 * len(slots)

    def loop(args, k):
        return fields(args + first + k * step, slots)

    return loop
