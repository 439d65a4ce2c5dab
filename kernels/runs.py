"""Building blocks of the data-movement kernels: move an element, copy a run, fill a run, share work out.

Addresses, lengths and strides are bytes. Every function here is inlined into the kernel that calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba import njit, types

from .isa.tiers import Tier
from .isa.vector import I8, I32, I64, arg, emits


def _bytes(size: int) -> Any:
    return ir.VectorType(I8, size) if size > 8 else ir.IntType(8 * size)


@cache
def mover(size: int) -> Callable:
    """`move(dst, src)`: copies `size` bytes (a power of two up to 64), unaligned."""
    kind = _bytes(size).as_pointer()

    @emits
    def move(b, dst, src):
        b.store(b.load(b.inttoptr(src, kind), align=1), b.inttoptr(dst, kind), align=1)

    return move


@cache
def putter(size: int) -> Callable:
    """`put(dst, bits)`: stores `size` bytes of the 8-byte pattern `bits`, unaligned."""

    @emits
    def put(b, dst, bits):
        if size <= 8:
            value = bits if size == 8 else b.trunc(bits, _bytes(size))
        else:
            kind = ir.VectorType(I64, size // 8)
            undef = ir.Constant(kind, ir.Undefined)
            one = b.insert_element(undef, bits, I32(0))
            value = b.shuffle_vector(one, undef, ir.Constant(ir.VectorType(I32, size // 8), [0] * (size // 8)))
        b.store(value, b.inttoptr(dst, value.type.as_pointer()), align=1)

    return put


@cache
def loader(size: int) -> Callable:
    """`value(src)`: the signed integer of `size` bytes at `src`."""

    @emits(returns=types.int64)
    def value(b, src):
        loaded = b.load(b.inttoptr(src, _bytes(size).as_pointer()), align=1)
        return loaded if size == 8 else b.sext(loaded, I64)

    return value


@cache
def run_copier(tier: Tier) -> Callable:
    """`copy(dst, src, n)`: copies n >= 0 bytes; the two runs must not overlap. Touches nothing outside them."""
    width = 4 * tier.lanes
    wide, m32, m16, m8, m4, m2, m1 = (mover(size) for size in (width, 32, 16, 8, 4, 2, 1))

    @njit(inline="always")
    def copy(dst, src, n):
        if n >= width:
            last = n - width
            for i in range(0, last, width):
                wide(dst + i, src + i)
            wide(dst + last, src + last)
        elif n >= 32:
            m32(dst, src)
            m32(dst + n - 32, src + n - 32)
        elif n >= 16:
            m16(dst, src)
            m16(dst + n - 16, src + n - 16)
        elif n >= 8:
            m8(dst, src)
            m8(dst + n - 8, src + n - 8)
        elif n >= 4:
            m4(dst, src)
            m4(dst + n - 4, src + n - 4)
        elif n >= 2:
            m2(dst, src)
            m2(dst + n - 2, src + n - 2)
        elif n == 1:
            m1(dst, src)

    return copy


@cache
def run_filler(tier: Tier) -> Callable:
    """`fill(dst, bits, n)`: repeats an element over n >= 0 bytes.

    `bits` is the element repeated to 8 bytes, and n a multiple of its size: the overlapping last store relies on both.
    """
    width = 4 * tier.lanes
    wide, p32, p16, p8, p4, p2, p1 = (putter(size) for size in (width, 32, 16, 8, 4, 2, 1))

    @njit(inline="always")
    def fill(dst, bits, n):
        if n >= width:
            last = n - width
            for i in range(0, last, width):
                wide(dst + i, bits)
            wide(dst + last, bits)
        elif n >= 32:
            p32(dst, bits)
            p32(dst + n - 32, bits)
        elif n >= 16:
            p16(dst, bits)
            p16(dst + n - 16, bits)
        elif n >= 8:
            p8(dst, bits)
            p8(dst + n - 8, bits)
        elif n >= 4:
            p4(dst, bits)
            p4(dst + n - 4, bits)
        elif n >= 2:
            p2(dst, bits)
            p2(dst + n - 2, bits)
        elif n == 1:
            p1(dst, bits)

    return fill


@cache
def repeater(size: int) -> Callable:
    """`repeat(src)`: the element of `size` bytes at `src`, repeated to 8 bytes."""

    @emits(returns=types.int64)
    def repeat(b, src):
        value = b.load(b.inttoptr(src, _bytes(size).as_pointer()), align=1)
        if size == 8:
            return value
        return b.mul(b.zext(value, I64), I64(sum(1 << (8 * size * i) for i in range(8 // size))))

    return repeat


@njit(inline="always")
def share(total, thread, threads):
    """This thread's part [start, stop) of `total` equal pieces of work."""
    return total * thread // threads, total * (thread + 1) // threads


@njit(inline="always")
def places(args, slot):
    """How many places the outer dimensions at `slot` have: rank, then (n, src stride, dst stride) innermost first."""
    total = 1
    for k in range(arg(args, slot)):
        total *= arg(args, slot + 1 + 3 * k)
    return total


@njit(inline="always")
def place(args, slot, index, dst, src):
    """The (dst, src) addresses of the index-th place of the outer dimensions at `slot`."""
    for k in range(arg(args, slot)):
        n = arg(args, slot + 1 + 3 * k)
        rest = index // n
        at = index - rest * n
        src += at * arg(args, slot + 2 + 3 * k)
        dst += at * arg(args, slot + 3 + 3 * k)
        index = rest
    return dst, src
