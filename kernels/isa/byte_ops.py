"""Byte operations: move an element, copy a run, fill a run. Addresses, lengths and strides are bytes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from ..lang import I64, Value, cases, either, over, register, shuffle, splat, tier, traced, when, whole, word
from ..lang.lines import UNROLL

# -- elements


def by_size(size: Value, body: Callable[[int], None]) -> None:
    """`body(n)` for the `size` of 1, 2, 4 or 8 at run time."""
    cases(size, {n: partial(body, n) for n in (1, 2, 4, 8)})


@traced
def repeat(src: Value, size: Value) -> Value:
    """The element of `size` bytes (1, 2, 4 or 8) at `src`, repeated to 8 bytes."""
    found = register(0)

    def element(n: int) -> None:
        value = word(n)[src]
        found.value = value.signed if n == 8 else value.to(I64) * sum(1 << (8 * n * i) for i in range(8 // n))

    by_size(size, element)
    return found.value


# -- runs


def _cover(n: Value, width: int, put: Callable[[Any, int], None]) -> None:
    """Cover n >= 0 bytes with words: `put(offset, size)` writes one.

    The last word overlaps the one before, so that nothing outside is written and no mask is needed.
    """
    with ExitStack() as otherwise:
        size = width
        while size > 1:
            then, other = otherwise.enter_context(either(n >= size))
            with then:
                last = n - size
                if size == width:
                    end = whole(n, UNROLL * size)
                    for offset in over(0, end, UNROLL * size):
                        for k in range(UNROLL):
                            put(offset + k * size, size)
                    for offset in over(end, last, size):
                        put(offset, size)
                else:
                    put(I64(0), size)
                put(last, size)
            otherwise.enter_context(other)
            size //= 2
        with when(n == 1):
            put(I64(0), 1)


@traced
def copy_run(dst: Value, src: Value, n: Value) -> None:
    """Copy n >= 0 bytes between runs that don't overlap; touches nothing else."""

    def put(offset: Value, size: int) -> None:
        item = word(size)
        at = src + offset
        item[dst + offset] = item[at]

    _cover(n, 4 * tier().lanes, put)


@traced
def fill_run(dst: Any, bits: Any, n: Any) -> None:
    """Repeat an element over n >= 0 bytes.

    `bits` is the element repeated to 8 bytes, and n a multiple of its size: the overlapping last store needs both.
    """
    element = I64(bits).unsigned
    wide = splat(element, tier().lanes // 2)

    def put(offset: Value, size: int) -> None:
        value = shuffle(wide, [0] * (size // 8)) if size > 8 else element.to(word(size))
        value.type[dst + offset] = value

    _cover(n, 4 * tier().lanes, put)
