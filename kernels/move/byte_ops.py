"""Byte operations, of which data-movement kernels are made: move an element, copy a run, fill a run, share work out.

Addresses, lengths and strides are bytes. All are intrinsics, so that they cost numba little time to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils

from ..core.record import Record, reader
from ..isa.tiers import Tier
from ..isa.vector import I8, I32, I64, emits

PAIR = types.UniTuple(types.int64, 2)


def word(size: int) -> Any:
    """The LLVM type that moves `size` bytes, a power of two."""
    return ir.VectorType(I8, size) if size > 8 else ir.IntType(8 * size)


def read(b: Any, address: Any, kind: Any) -> Any:
    """Load an LLVM type from any address."""
    return b.load(b.inttoptr(address, kind.as_pointer()), align=1)


def write(b: Any, value: Any, address: Any) -> None:
    """Store an LLVM value to any address."""
    b.store(value, b.inttoptr(address, value.type.as_pointer()), align=1)


# -- elements


@cache
def mover(size: int) -> Callable:
    """`move(dst, src)`: copies `size` bytes (a power of two up to 64)."""

    @emits
    def move(b: Any, dst: Any, src: Any) -> None:
        write(b, read(b, src, word(size)), dst)

    return move


@cache
def putter(size: int) -> Callable:
    """`put(dst, bits)`: stores the low `size` bytes (1, 2, 4 or 8) of `bits`."""

    @emits
    def put(b: Any, dst: Any, bits: Any) -> None:
        write(b, bits if size == 8 else b.trunc(bits, word(size)), dst)

    return put


@cache
def loader(size: int) -> Callable:
    """`load(src)`: the signed integer of `size` bytes (1, 2, 4 or 8) at `src`."""

    @emits(returns=types.int64)
    def load(b: Any, src: Any) -> Any:
        value = read(b, src, word(size))
        return value if size == 8 else b.sext(value, I64)

    return load


@cache
def repeater(size: int) -> Callable:
    """`repeat(src)`: the element of `size` bytes at `src`, repeated to 8 bytes."""

    @emits(returns=types.int64)
    def repeat(b: Any, src: Any) -> Any:
        value = read(b, src, word(size))
        if size == 8:
            return value
        return b.mul(b.zext(value, I64), I64(sum(1 << (8 * size * i) for i in range(8 // size))))

    return repeat


# -- runs


def _cover(b: Any, n: Any, width: int, put: Callable[[Any, int], None]) -> None:
    """Cover n >= 0 bytes with whole words: `put(offset, size)` writes one.

    The last word overlaps the one before it, so that nothing outside is touched and nothing is masked.
    """
    with ExitStack() as otherwise:
        size = width
        while size > 1:
            then, other = otherwise.enter_context(b.if_else(b.icmp_signed(">=", n, I64(size))))
            with then:
                last = b.sub(n, I64(size))
                if size == width:
                    with cgutils.for_range_slice(b, I64(0), last, I64(size), I64) as (offset, _):
                        put(offset, size)
                else:
                    put(I64(0), size)
                put(last, size)
            otherwise.enter_context(other)
            size //= 2
        with b.if_then(b.icmp_signed("==", n, I64(1))):
            put(I64(0), 1)


@cache
def run_copier(tier: Tier) -> Callable:
    """`copy(dst, src, n)`: copies n >= 0 bytes between runs that don't overlap; touches nothing else."""

    @emits
    def copy(b: Any, dst: Any, src: Any, n: Any) -> None:
        def put(offset: Any, size: int) -> None:
            write(b, read(b, b.add(src, offset), word(size)), b.add(dst, offset))

        _cover(b, n, 4 * tier.lanes, put)

    return copy


@cache
def run_filler(tier: Tier) -> Callable:
    """`fill(dst, bits, n)`: repeats an element over n >= 0 bytes.

    `bits` is the element repeated to 8 bytes, and n a multiple of its size: the overlapping last store needs
    both.
    """

    @emits
    def fill(b: Any, dst: Any, bits: Any, n: Any) -> None:
        kind = ir.VectorType(I64, tier.lanes // 2)
        undef = ir.Constant(kind, ir.Undefined)
        zeros = ir.Constant(ir.VectorType(I32, kind.count), [0] * kind.count)
        wide = b.shuffle_vector(b.insert_element(undef, bits, I32(0)), undef, zeros)

        def put(offset: Any, size: int) -> None:
            if size > 8:
                value = b.shuffle_vector(
                    wide, undef, ir.Constant(ir.VectorType(I32, size // 8), [0] * (size // 8))
                )
            else:
                value = bits if size == 8 else b.trunc(bits, word(size))
            write(b, value, b.add(dst, offset))

        _cover(b, n, 4 * tier.lanes, put)

    return fill


# -- work


@emits(returns=types.int64)
def smaller(b: Any, x: Any, y: Any) -> Any:
    """min(x, y), which numba has only as a library function."""
    return b.select(b.icmp_signed("<", x, y), x, y)


@emits(returns=types.int64)
def larger(b: Any, x: Any, y: Any) -> Any:
    """max(x, y), which numba has only as a library function."""
    return b.select(b.icmp_signed(">", x, y), x, y)


@emits(returns=types.int64)
def pieces(b: Any, n: Any, size: Any) -> Any:
    """How many pieces of up to `size` make n."""
    return b.udiv(b.add(n, b.sub(size, I64(1))), size)


@emits(returns=PAIR)
def divided(b: Any, n: Any, by: Any) -> Any:
    """Quotient and remainder of n >= 0 by a positive number."""
    quotient = b.udiv(n, by)
    return cgutils.pack_array(b, [quotient, b.sub(n, b.mul(quotient, by))])


@emits(returns=PAIR)
def thread_range(b: Any, total: Any, thread: Any, threads: Any) -> Any:
    """This thread's part [start, stop) of `total` equal pieces of work."""
    bounds = [b.udiv(b.mul(total, t), threads) for t in (thread, b.add(thread, I64(1)))]
    return cgutils.pack_array(b, bounds)


# -- the outer loops of a record


def _slot(b: Any, args: Any, slot: Any) -> Any:
    return b.load(b.gep(b.inttoptr(args, I64.as_pointer()), [slot]))


def _fields(b: Any, args: Any, record: Record, k: Any, count: int) -> list[Any]:
    """The first `count` fields of outer loop k."""
    first = b.add(I64(record.at("n0")), b.mul(k, I64(record.at("n1") - record.at("n0"))))
    return [_slot(b, args, b.add(first, I64(i))) for i in range(count)]


@cache
def outer_count(record: Record) -> Callable:
    """`count(args)`: the product of the outer loops' n."""

    @emits(returns=types.int64)
    def count(b: Any, args: Any) -> Any:
        total = cgutils.alloca_once_value(b, I64(1))
        with cgutils.for_range(b, _slot(b, args, I64(record.at("rank")))) as loop:
            (n,) = _fields(b, args, record, loop.index, 1)
            b.store(b.mul(b.load(total), n), total)
        return b.load(total)

    return count


@cache
def outer_address(record: Record) -> Callable:
    """`address(args, index, dst, src)`: both, at the index-th place of outer loops of n, s and d, innermost first."""

    @emits(returns=PAIR)
    def address(b: Any, args: Any, index: Any, dst: Any, src: Any) -> Any:
        rest, to, at = (cgutils.alloca_once_value(b, v) for v in (index, dst, src))
        with cgutils.for_range(b, _slot(b, args, I64(record.at("rank")))) as loop:
            n, s, d = _fields(b, args, record, loop.index, 3)
            whole = b.load(rest)
            quotient = b.udiv(whole, n)
            i = b.sub(whole, b.mul(quotient, n))
            b.store(quotient, rest)
            b.store(b.add(b.load(to), b.mul(i, d)), to)
            b.store(b.add(b.load(at), b.mul(i, s)), at)
        return cgutils.pack_array(b, [b.load(to), b.load(at)])

    return address


@cache
def outer_fields(record: Record, loop: Record) -> Callable:
    """`fields(args, k)`: those of outer loop k, by their names in `loop`."""
    read, first, step = reader(loop), 8 * record.at("n0"), 8 * len(loop)

    @njit(inline="always")
    def fields(args, k):
        return read(args + first + k * step)

    return fields
