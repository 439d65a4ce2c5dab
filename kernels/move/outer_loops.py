"""The outer loops of a move, from its record: how many places they have, and where each of them lies."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ..core.record import Record, reader
from ..isa.loops import loop, variable
from ..isa.vector import I64, emits


def _slot(b: Any, args: Any, slot: Any) -> Any:
    return b.load(b.gep(b.inttoptr(args, I64.as_pointer()), [slot]))


def _fields(b: Any, args: Any, record: Record, k: Any, count: int) -> list[Any]:
    """The first `count` fields of outer loop k."""
    first = b.add(I64(record.at("n0")), b.mul(k, I64(record.at("n1") - record.at("n0"))))
    return [_slot(b, args, b.add(first, I64(i))) for i in range(count)]


@cache
def outer_count(record: Record) -> Callable:
    """`count(args)`: the product of the outer loops' n."""

    @emits
    def count(b: Any, args: Any) -> Any:
        total = variable(b, I64(1))
        with loop(b, 0, _slot(b, args, I64(record.at("rank"))), 1) as k:
            (n,) = _fields(b, args, record, k, 1)
            b.store(b.mul(b.load(total), n), total)
        return b.load(total)

    return count


@cache
def outer_address(record: Record) -> Callable:
    """`address(args, index, dst, src)`: both, at the index-th place of outer loops of n, s and d, innermost first."""

    @emits(returns=2)
    def address(b: Any, args: Any, index: Any, dst: Any, src: Any) -> Any:
        at, to = _advanced(b, args, record, index, [src, dst])
        return [to, at]

    return address


@cache
def outer_addresses(record: Record) -> Callable:
    """`addresses(args, index, dst, src, indices)`, alike, of outer loops of n, s, i and d."""

    @emits(returns=3)
    def addresses(b: Any, args: Any, index: Any, dst: Any, src: Any, indices: Any) -> Any:
        at, there, to = _advanced(b, args, record, index, [src, indices, dst])
        return [to, at, there]

    return addresses


def _advanced(b: Any, args: Any, record: Record, index: Any, starts: list[Any]) -> list[Any]:
    """Addresses at the index-th place of outer loops of n and a step of each."""
    rest, found = variable(b, index), [variable(b, start) for start in starts]
    with loop(b, 0, _slot(b, args, I64(record.at("rank"))), 1) as k:
        n, *steps = _fields(b, args, record, k, 1 + len(starts))
        whole = b.load(rest)
        quotient = b.udiv(whole, n)
        i = b.sub(whole, b.mul(quotient, n))
        b.store(quotient, rest)
        for each, step in zip(found, steps, strict=True):
            b.store(b.add(b.load(each), b.mul(i, step)), each)
    return [b.load(each) for each in found]


@cache
def outer_fields(record: Record, slots: Record) -> Callable:
    """`fields(args, k)`: those of outer loop k, by their names in `slots`."""
    read, first, step = reader(slots), 8 * record.at("n0"), 8 * len(slots)

    def fields(args, k):
        return read(args + first + k * step)

    return fields
