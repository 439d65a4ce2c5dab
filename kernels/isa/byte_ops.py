"""Byte operations: what moves an element, copies a run, fills a run.

Addresses, lengths and strides are bytes. All are intrinsics, so that they cost numba little time to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from .tiers import Tier
from .vector import I8, I32, I64, emits


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


def cover_run(b: Any, n: Any, width: int, put: Callable[[Any, int], None]) -> None:
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

        cover_run(b, n, 4 * tier.lanes, put)

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
                value = b.shuffle_vector(wide, undef, ir.Constant(ir.VectorType(I32, size // 8), [0] * (size // 8)))
            else:
                value = bits if size == 8 else b.trunc(bits, word(size))
            write(b, value, b.add(dst, offset))

        cover_run(b, n, 4 * tier.lanes, put)

    return fill
