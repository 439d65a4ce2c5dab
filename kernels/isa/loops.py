"""Loops and variables in LLVM IR, for micro-kernels that are more than straight-line code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba import types

from .vector import I64, emits


@contextmanager
def loop(b: Any, start: Any, stop: Any, step: Any) -> Iterator[Any]:
    """for i in range(start, stop, step), over int64 values or Python ints; step > 0."""
    start, stop, step = (I64(x) if isinstance(x, int) else x for x in (start, stop, step))
    before = b.block
    head, body, done = (b.append_basic_block(name) for name in ("head", "body", "done"))
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(I64)
    i.add_incoming(start, before)
    b.cbranch(b.icmp_signed("<", i, stop), body, done)
    b.position_at_end(body)
    yield i
    i.add_incoming(b.add(i, step), b.block)
    b.branch(head)
    b.position_at_end(done)


def variable(b: Any, value: Any) -> Any:
    """A slot that holds `value` first, for b.load and b.store; LLVM turns it into a register."""
    with b.goto_entry_block():
        slot = b.alloca(value.type)
    b.store(value, slot)
    return slot


def whole(b: Any, count: Any, step: int) -> Any:
    """The largest multiple of `step` (a power of two) not above count >= 0."""
    return b.and_(count, I64(-step))


def lesser(b: Any, x: Any, y: Any) -> Any:
    """The lesser of two int64 values."""
    return b.select(b.icmp_signed("<", x, y), x, y)


@emits(returns=types.int64)
def divide(b: Any, x: Any, y: Any) -> Any:
    """x // y of non-negative numbers, y > 0: one instruction, where Python's rule takes many."""
    return b.udiv(x, y)


@emits(returns=types.int64)
def remainder(b: Any, x: Any, y: Any) -> Any:
    """x % y of non-negative numbers, y > 0."""
    return b.urem(x, y)


@emits(returns=types.int64)
def smaller(b: Any, x: Any, y: Any) -> Any:
    """The smaller of two numbers: numba can't lower min() in an object file."""
    return lesser(b, x, y)


@emits(returns=types.int64)
def share(b: Any, total: Any, thread: Any, threads: Any) -> Any:
    """Where the thread's part of range(total) begins; the next thread's beginning is its end."""
    return b.udiv(b.mul(total, thread), threads)


@emits(returns=types.int64)
def slice_share(b: Any, total: Any, thread: Any, threads: Any) -> Any:
    """As `share`, in multiples of 64."""
    slices = b.udiv(b.add(total, I64(63)), I64(64))
    start = b.mul(b.udiv(b.mul(slices, thread), threads), I64(64))
    return b.select(b.icmp_signed("<", start, total), start, total)
