"""Along contiguous elements: whole vectors, and the rest under a mask; sums of lanes; a thread's part of the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from .control import either, over, when
from .instructions import choose, divide, smaller
from .lanes import joined, shuffle
from .memory import register, registers
from .traced import traced
from .types import F32, Type
from .values import Value, number, tier

UNROLL = 4
"""Vectors per block."""
SLICE = 64
"""Columns are dealt to threads in multiples of this."""

Combine = Callable[[Value, Value], Value]


def whole(count: Any, step: int) -> Any:
    """The largest multiple of `step` (a power of two) not above count >= 0."""
    return count & -step


def along(kind: Type, left: Any, right: Value, unroll: int = UNROLL) -> Iterator[tuple[Type, Value, Value | None]]:
    """`for f32, i, mask in along(f32, left, right)`: the elements that a vector of the type that is given spans from i
    on, in blocks of `unroll` vectors (a power of two), then single ones, then the rest, under a mask.
    """
    # LLVM splits an instruction on a block into one per register: so the vectors' chains are interleaved.
    # Without masks in hardware a masked vector is a branch per lane: only the very last may be one.
    for count in [unroll, 1] if unroll > 1 else [unroll]:
        block = kind.times(count)
        end = left + whole(right - left, block.lanes)
        for i in over(left, end, block.lanes):
            yield block, i, None
        left = end
    for i in over(left, right, kind.lanes):
        yield kind, i, kind.below(right - i)


def cover(kind: Type, left: Any, right: Value, wide: bool, body: Callable[..., None]) -> None:
    """`body(f32, i)` for the elements that a vector spans from i on, `body(f32, i, rest)` when only `rest` of them
    count. The vector is as wide as four of the type or as one. `wide`: more than one vector of the last block may be
    read beyond `right`.
    """
    block = kind.times(UNROLL)
    end = left + whole(right - left, block.lanes)
    for i in over(left, end, block.lanes):
        body(block, i)
    rest = right - end
    if not wide:
        each_vector(kind, end, right, body)
        return
    with either(rest > kind.lanes) as (several, one):
        with several:
            body(block, end, rest)
        with one:
            each_vector(kind, end, right, body)


def each_vector(kind: Type, left: Any, right: Value, body: Callable[..., None]) -> None:
    """As `cover`, with vectors as wide as the type only."""
    end = left + whole(right - left, kind.lanes)
    for i in over(left, end, kind.lanes):
        body(kind, i)
    rest = right - end
    with when(rest > 0):
        body(kind, end, rest)


def total(
    kind: Type, n: Any, start: float, combine: Combine, term: Callable[..., Value], unroll: int = UNROLL
) -> Value:
    """The number that `combine` makes of all `term(f32, i, mask)` for i in range(n), in blocks of `unroll` vectors. The
    order depends on n only.
    """
    sums = {each: register(each(start)) for each in (kind.times(unroll), kind)}
    for each, i, mask in along(kind, 0, n, unroll):
        value = term(each, i, mask)
        if mask is not None:
            value = choose(mask, value, start)
        sums[each].value = combine(sums[each].value, value)
    parts = [fold(combine, each.value, kind.lanes) for each in sums.values()]
    return fold(combine, reduce(combine, parts))[0]


def of_chains(sums: Sequence[Value], count: int) -> list[Value]:
    """`count` sums, of partial sums of each: so many first ones, then second ones ..."""
    found = list(sums)
    while len(found) > count:
        half = len(found) // 2
        found = [x + y for x, y in zip(found[:half], found[half:], strict=True)]
    return found


@traced
def clear(to: Any, count: Value) -> None:
    """Zero so many f32 from an address on."""
    for some, i, mask in along(F32.vector(tier().lanes), 0, count, 1):
        some[F32.at(to) + i, mask] = 0


def masked(kind: Type, columns: Value, count: int, store: Callable[[Sequence[Value | None]], Any]) -> None:
    """`store(masks)`, with a mask for each of `count` vectors side by side as the tier does that best; None where all
    lanes are stored.
    """
    masks = [kind.below(columns - i * kind.lanes) for i in range(count)]
    if tier().masks:
        store(masks)
        return
    with either(columns >= count * kind.lanes) as (whole, part):
        with whole:
            store([None] * count)
        with part:
            store(masks)


def fold(combine: Combine, x: Value, lanes: int = 1) -> Value:
    """The vector of `lanes` that is left when the halves of x are combined until it is that short."""
    width = x.lanes
    while width > lanes:
        width //= 2
        x = combine(*(shuffle(x, range(start, start + width)) for start in (0, width)))
    return x


def folds(combine: Combine, vectors: Sequence[Value]) -> Value:
    """What `fold` leaves of each of these vectors, in the lanes of one."""
    parts = [(x, [i] * x.lanes) for i, x in enumerate(vectors)]
    width = vectors[0].lanes
    while width > 1:
        if 1 < len(parts) and len(parts) % 2:
            parts.append(parts[-1])
        parts = [_folded(combine, parts[i : i + 2], width) for i in range(0, len(parts), 2)]
        width //= 2
    while len(parts) & (len(parts) - 1):
        parts.append(parts[-1])
    found = [i for _, numbers in parts for i in numbers]
    return shuffle(joined(*(x for x, _ in parts)), [found.index(i) for i in range(len(vectors))])


def _folded(combine: Combine, parts: Sequence[tuple[Value, list[int]]], width: int) -> tuple[Value, list[int]]:
    """One vector or the two, with a number for each lane: of runs of `width` lanes the halves are combined."""
    numbers = [i for _, each in parts for i in each]
    runs = np.arange(len(numbers)).reshape(len(parts), -1, width)
    if width <= 4:  # within 128 bits, runs of the one beside those of the other
        runs = runs.swapaxes(0, 1)
    other = parts[1][0] if len(parts) > 1 else None
    low, high = (half.reshape(-1).tolist() for half in np.split(runs, 2, axis=-1))
    return combine(shuffle(parts[0][0], low, other), shuffle(parts[0][0], high, other)), [numbers[i] for i in low]


# -- what a thread does of the work


@traced
def share(total: Any, thread: Any, threads: Any) -> tuple[Any, Any]:
    """The thread's part [start, stop) of range(total)."""
    following = thread + 1
    return divide(total * thread, threads), divide(total * following, threads)


@traced
def slices(total: Any, thread: Any, threads: Any) -> tuple[Any, Any]:
    """As `share`, in multiples of SLICE."""
    start, stop = (end * SLICE for end in share(divide(total + (SLICE - 1), SLICE), thread, threads))
    return smaller(start, total), smaller(stop, total)


@traced
def thread_block(rows: Any, cols: Any, thread: Any, threads: Any) -> Any:
    """The thread's (first row, end, first column, end): some of the rows when they are many or
    columns few, else of the columns.
    """
    bounds = registers([number(x) for x in (0, rows, 0, cols)])
    with either((rows >= threads * 4) | (cols <= SLICE)) as (by_rows, by_columns):
        with by_rows:
            bounds[0], bounds[1] = share(rows, thread, threads)
        with by_columns:
            bounds[2], bounds[3] = slices(cols, thread, threads)
    return bounds.values()


@traced
def pieces(n: Any, size: Any) -> Any:
    """How many pieces of up to `size` make n."""
    less = size - 1
    return divide(n + less, size)
