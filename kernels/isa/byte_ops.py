"""Byte operations: what moves an element, copies a run, fills a run.

Addresses, lengths and strides are bytes. All write IR themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache, partial
from typing import Any

from llvmlite import ir

from ..lang.both import both
from .loops import UNROLL, loop, variable, whole
from .tiers import Tier
from .vector import I8, I32, I64, emits


def word(size: int) -> Any:
    """The LLVM type that moves `size` bytes, a power of two."""
    return ir.VectorType(I8, size) if size > 8 else ir.IntType(8 * size)


@both
def read(b: Any, address: Any, kind: Any) -> Any:
    """Load an LLVM type from any address."""
    return b.load(b.inttoptr(address, kind.as_pointer()), align=1)


@both
def write(b: Any, value: Any, address: Any) -> None:
    """Store an LLVM value to any address."""
    b.store(value, b.inttoptr(address, value.type.as_pointer()), align=1)


# -- elements


@both
def choose(b: Any, value: Any, cases: Mapping[int, Callable[[], None]]) -> None:
    """The code of the case that `value` is; nothing when it is none of them."""
    after = b.append_basic_block("after")
    switch = b.switch(value, after)
    for case, body in cases.items():
        block = b.append_basic_block("case")
        switch.add_case(I64(case), block)
        b.position_at_end(block)
        body()
        b.branch(after)
    b.position_at_end(after)


@both
def by_size(b: Any, size: Any, body: Callable[[int], None]) -> None:
    """`body(n)` for the n of 1, 2, 4 and 8 that `size` is at run time."""
    choose(b, size, {n: partial(body, n) for n in (1, 2, 4, 8)})


@emits
@both
def put(b: Any, dst: Any, value: Any) -> None:
    """Stores an int64."""
    write(b, value, dst)


@emits
@both
def get(b: Any, src: Any) -> Any:
    """The int64 at `src`."""
    return read(b, src, I64)


@emits
@both
def repeat(b: Any, src: Any, size: Any) -> Any:
    """The element of `size` bytes (1, 2, 4 or 8) at `src`, repeated to 8 bytes."""
    slot = variable(b, I64(0))

    def element(n: int) -> None:
        value = read(b, src, word(n))
        if n < 8:
            value = b.mul(b.zext(value, I64), I64(sum(1 << (8 * n * i) for i in range(8 // n))))
        b.store(value, slot)

    by_size(b, size, element)
    return b.load(slot)


# -- runs


@both
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
                    end = whole(b, n, UNROLL * size)
                    with loop(b, 0, end, UNROLL * size) as offset:
                        for k in range(UNROLL):
                            put(b.add(offset, I64(k * size)), size)
                    with loop(b, end, last, size) as offset:
                        put(offset, size)
                else:
                    put(I64(0), size)
                put(last, size)
            otherwise.enter_context(other)
            size //= 2
        with b.if_then(b.icmp_signed("==", n, I64(1))):
            put(I64(0), 1)


@both
def copy_run(b: Any, tier: Tier, dst: Any, src: Any, n: Any) -> None:
    """Copy n >= 0 bytes between runs that don't overlap; touches nothing else."""

    def put(offset: Any, size: int) -> None:
        write(b, read(b, b.add(src, offset), word(size)), b.add(dst, offset))

    _cover(b, n, 4 * tier.lanes, put)


@cache
def run_copier(tier: Tier) -> Callable:
    """`copy(dst, src, n)`: `copy_run` within a kernel."""

    @emits
    def copy(b: Any, dst: Any, src: Any, n: Any) -> None:
        copy_run(b, tier, dst, src, n)

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

        _cover(b, n, 4 * tier.lanes, put)

    return fill
