"""Non-maximum suppression: boxes by descending score, without those that a better one covers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.record import fields
from ..lang import BIT, F32, I32, I64, Value, during, either, every_tier, register, registers, share, tier, traced, when
from ..lang.instructions import choose, divide, larger, smaller
from ..lang.lanes import any_lane
from .heap import key_of, popper, sifter
from .rows import BOX, NUMBERS, SUPPRESS

_F32 = NUMBERS.index("f32")
_LOW = (1 << 32) - 1


_sift, _pop = sifter(False), popper(False)


@every_tier
def suppress(args, thread, threads):
    """The kernel. Of equal scores the first box comes first; all is computed in f32.

    Candidate scores are a heap with the best at its root, from which boxes are taken until enough are kept.
    """
    r = fields(args, SUPPRESS)
    begin, end = share(r.items, thread, threads)
    heap = r.scratch + thread * r.scratch_bytes
    kept = heap + 8 * r.n
    space = divide(r.scratch_bytes - 8 * r.n, 4 * BOX)
    n, most = r.n, r.most
    if r.count != 0:
        n = larger(smaller(I64[r.count], n), 0)
    if r.wanted != 0:
        most = larger(smaller(I64[r.wanted], most), 0)
    for item in range(begin, end):
        scores, boxes = r.scores + 4 * r.n * item, r.boxes + 16 * r.n * divide(item, r.share)
        waiting = _candidates(r, heap, scores, n)
        places, found = r.places + 8 * r.most * item, r.found + 4 * r.most * item
        count = 0
        while waiting > 0 and count < most:
            best = I64[heap] & _LOW
            _pop(heap, waiting)
            waiting -= 1
            if not _covered(args, boxes + 16 * best, kept, space, count):
                I64[places + 8 * count] = best
                if r.found != 0:
                    I32[found + 4 * count] = I32[scores + 4 * best]
                count += 1
        I64[r.counts + 8 * item] = count
        for i in range(count, r.most):
            I64[places + 8 * i] = r.empty
            if r.found != 0:
                I32[found + 4 * i] = 0


def _candidates(r, heap, scores, n):
    """Make the heap of those of n scores that count; how many there are."""
    count = 0
    for i in range(n):
        if _counts(F32[scores + 4 * i], r) != 0:
            # The greatest key is the best, and the root is the least.
            I64[heap + 8 * count] = key_of(False, _F32, scores + 4 * i, _LOW - i, 1)
            count += 1
    half = count >> 1
    while half > 0:
        half -= 1
        _sift(heap, count, half, I64[heap + 8 * half], 0)
    return count


@traced
def _counts(score: Value, r: Any) -> Value:
    """1 where there is no threshold, or a score is above it, or equal to it where the record's `reaches` says so."""
    counts = register(1)
    with when(r.least != 0):
        bound = F32[r.least]
        same = (score == bound) & (r.reaches != 0)
        counts.value = ((score > bound) | same).to(I64)
    return counts.value


@traced
def _covered(args: Value, box: Value, kept: Value, space: Value, count: Any) -> Value:
    """Whether a kept box covers this one; if not, it is added to them."""
    f32 = F32.vector(tier().lanes)
    r = fields(args, SUPPRESS)
    corners = _corners(r, [F32[box + 4 * k] for k in range(4)])
    area = (corners[2] - corners[0]) * (corners[3] - corners[1])
    arrays = [F32.at(kept + space * (4 * k)) for k in range(BOX)]
    limit, own = f32(F32[r.limit]), [f32(x) for x in (*corners, area)]
    strict = BIT.like(f32)(r.strict != 0)
    at, hits = register(0), register(BIT.like(f32)(0))
    for _ in during(lambda: ~any_lane(hits.value) & (at.value < count)):
        i = at.value
        overlap = _overlap(own, [f32[array + i] for array in arrays])
        # An overlap that is no number is too much, too.
        too_much = ~(overlap <= limit) | (strict & (overlap == limit))
        hits.value = too_much & f32.below(count - i)
        at.value = i + f32.lanes
    found = any_lane(hits.value)
    with when(~found):
        for array, x in zip(arrays, (*corners, area), strict=True):
            array[count] = x
    return found


def _corners(r: Any, box: Sequence[Value]) -> list[Value]:
    """(low, low, high, high) of a box in the record's format."""
    corners = registers(box)
    with either(r.centered != 0) as (middle, opposite):
        with middle:
            for axis, (at, size) in enumerate(((1, 3), (0, 2))):
                half = box[size] * 0.5
                corners[axis] = box[at] - half
                corners[2 + axis] = box[at] + half
        with opposite:
            for axis in range(2):
                one, other = box[axis], box[2 + axis]
                below = ~(one >= other)
                corners[axis] = choose(below, one, other)
                corners[2 + axis] = choose(below, other, one)
    return corners.values()


def _overlap(own: Sequence[Value], others: Sequence[Value]) -> Value:
    """Intersection over union, 0 for empty boxes."""

    def side(axis: int) -> Value:
        low = larger(own[axis], others[axis])
        high = smaller(own[2 + axis], others[2 + axis])
        return larger(high - low, 0.0)

    shared = side(0) * side(1)
    union = own[4] + others[4] - shared
    some = union > 0.0
    return choose(some, shared / choose(some, union, 1.0), 0.0)
