"""Check a memory plan. Shares no code with the planner, so that no fault is made twice."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import PlanError

if TYPE_CHECKING:
    from .packing import Buffer


def verify(buffers: Sequence[Buffer], offsets: Sequence[int], size: int, loops: Sequence[tuple[int, int]] = ()) -> None:
    """Return None when `offsets` (bytes, in the order of `buffers`) is a safe plan of `size` bytes.

    Raises PlanError when the counts differ, an offset is negative or misaligned, a buffer ends beyond
    `size`, two buffers alive in the same step share a byte, or one is alive both outside of a loop (its first
    and last step) and in a part of it only.

    Method: sweep over the steps with the live byte ranges kept sorted; they are disjoint so far, hence a
    new range can only touch its two neighbors.
    """
    if len(buffers) != len(offsets):
        raise PlanError(f"{len(buffers)} buffers but {len(offsets)} offsets; give one offset per buffer")
    for buffer, offset in zip(buffers, offsets, strict=True):
        _check_range(buffer, offset, size)
        for head, tail in loops:
            if head <= buffer.last and buffer.first <= tail and (buffer.first < head or buffer.last > tail):
                if buffer.first > head or buffer.last < tail:
                    raise PlanError(f"ends within the loop of steps {head}..{tail}: {_describe(buffer, offset)}")
    events = [(b.first, 1, i) for i, b in enumerate(buffers) if b.size]
    events += [(b.last + 1, 0, i) for i, b in enumerate(buffers) if b.size]
    live: list[tuple[int, int]] = []
    for _, starts, i in sorted(events):
        entry = (offsets[i], i)
        if not starts:
            del live[bisect_left(live, entry)]
            continue
        at = bisect_left(live, entry)
        for _, other in live[max(at - 1, 0) : at + 1]:
            _check_apart(buffers, offsets, i, other)
        insort(live, entry)


def _check_range(buffer: Buffer, offset: int, size: int) -> None:
    where = f"{_describe(buffer, offset)} in an arena of {size} bytes"
    if offset < 0:
        raise PlanError(f"negative offset: {where}")
    if offset % buffer.align:
        raise PlanError(f"misaligned: {where} needs a multiple of {buffer.align}")
    if offset + buffer.size > size:
        raise PlanError(f"ends beyond the arena: {where}")


def _check_apart(buffers: Sequence[Buffer], offsets: Sequence[int], i: int, j: int) -> None:
    if offsets[i] < offsets[j] + buffers[j].size and offsets[j] < offsets[i] + buffers[i].size:
        one, two = (_describe(buffers[k], offsets[k]) for k in sorted((i, j)))
        raise PlanError(f"overlap: {one} and {two} are alive in the same step")


def _describe(buffer: Buffer, offset: int) -> str:
    return (
        f"{buffer.name!r} (bytes {offset}..{offset + buffer.size}, "
        f"steps {buffer.first}..{buffer.last}, align {buffer.align})"
    )
