"""Non-maximum suppression: boxes by descending score, without those that a better one covers.

Kept boxes lie in buckets by their low edges along the first axis, so that a box is compared with those only that it may
touch: boxes of many classes, which networks move apart by class, are compared within theirs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.record import fields
from ..lang import (
    BIT,
    F32,
    I32,
    I64,
    Value,
    during,
    either,
    every_tier,
    number,
    register,
    registers,
    share,
    tier,
    traced,
    when,
)
from ..lang.instructions import choose, divide, larger, smaller
from ..lang.lanes import any_lane
from .heap import key_of, popper, sifter
from .rows import BOX, BUCKET_BYTES, BUCKETS, NUMBERS, SUPPRESS

_F32 = NUMBERS.index("f32")
_LOW = (1 << 32) - 1
_CANDIDATES = 16
"""How many there are for each bucket, where that gives fewer than BUCKETS."""

_sift, _pop = sifter(False), popper(False)


@every_tier
def suppress(args, thread, threads):
    """The kernel. Of equal scores the first box comes first; all is computed in f32.

    Candidate scores are a heap with the best at its root, from which boxes are taken until enough are kept.
    """
    r = fields(args, SUPPRESS)
    begin, end = share(r.items, thread, threads)
    heap = r.scratch + thread * r.scratch_bytes
    table = heap + 8 * r.n
    n, most = r.n, r.most
    if r.count != 0:
        n = larger(smaller(I64[r.count], n), 0)
    if r.wanted != 0:
        most = larger(smaller(I64[r.wanted], most), 0)
    if _any_covers(args):
        most = smaller(most, 1)
    for item in range(begin, end):
        scores, boxes = r.scores + 4 * r.n * item, r.boxes + 16 * r.n * divide(item, r.share)
        places, found = r.places + 8 * r.most * item, r.found + 4 * r.most * item
        waiting = _candidates(r, heap, scores, n)
        buckets = larger(smaller(divide(waiting, _CANDIDATES), BUCKETS), 1)
        _spread(args, boxes, heap, waiting, table, buckets)
        blocks = table + BUCKET_BYTES * (BUCKETS + 1)
        count = 0
        while waiting > 0 and count < most:
            best = I64[heap] & _LOW
            _pop(heap, waiting)
            waiting -= 1
            box = boxes + 16 * best
            if not _covered(args, box, table, buckets):
                blocks = _keep(args, box, table, buckets, blocks)
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
def _any_covers(args: Value) -> Value:
    """Whether boxes apart overlap too much already: then the best one is all there is."""
    r = fields(args, SUPPRESS)
    limit = F32[r.limit]
    return ~(limit >= 0.0) | ((r.strict != 0) & (limit == 0.0))


@traced
def _spread(args: Value, boxes: Value, heap: Value, waiting: Value, table: Value, buckets: Value) -> None:
    """Empty the buckets, and write before them where the first one begins and how many there are to a pixel."""
    r = fields(args, SUPPRESS)
    low, high, at = register(F32(math.inf)), register(F32(-math.inf)), register(0)
    for _ in during(lambda: at.value < waiting):
        edge = _box(r, boxes + 16 * (I64[heap + 8 * at.value] & _LOW))[0]
        low.value, high.value = smaller(edge, low.value), larger(edge, high.value)
        at.value = at.value + 1
    span = high.value - low.value
    F32[table] = low.value
    F32[table + 4] = choose(span > 0.0, buckets.to(F32) / span, 0.0)
    at.value = 0
    for _ in during(lambda: at.value < buckets):
        at.value = at.value + 1
        bucket = table + BUCKET_BYTES * at.value
        I64[bucket] = 0
        F32[bucket + 12] = F32(-math.inf)


@traced
def _bucket(table: Value, edge: Value, buckets: Value) -> Value:
    """The index from 1 on of the bucket of a low edge; of a greater one never a lower index."""
    place = (edge - F32[table]) * F32[table + 4]
    return smaller(larger(place, 0.0), (buckets - 1).to(F32)).to(I64) + 1


@traced
def _covered(args: Value, box: Value, table: Value, buckets: Value) -> Value:
    """Whether a kept box covers this one."""
    corners = _box(fields(args, SUPPRESS), box)
    own = (*corners, _area(corners))
    last, at, found = _bucket(table, corners[2], buckets), register(1), register(BIT(0))
    for _ in during(lambda: ~found.value & (at.value <= last)):
        bucket = table + BUCKET_BYTES * at.value
        at.value = at.value + 1
        with when(F32[bucket + 12] > corners[0]):
            found.value = _covers(args, own, I64[bucket], I32[bucket + 8].to(I64))
    return found.value


def _covers(args: Value, box: Sequence[Value], newest: Value, there: Value) -> Value:
    """Whether a box of these blocks, `there` in the newest of them, covers this one."""
    lanes = tier().lanes
    f32, r = F32.vector(lanes), fields(args, SUPPRESS)
    limit, own = f32(F32[r.limit]), [f32(x) for x in box]
    strict = BIT.like(f32)(r.strict != 0)
    block, count, hits = register(newest), register(there), register(BIT.like(f32)(0))
    for _ in during(lambda: ~any_lane(hits.value) & (block.value != 0)):
        overlap = _overlap(own, [f32[block.value + 4 * lanes * k] for k in range(BOX)])
        too_much = ~(overlap <= limit) | (strict & (overlap == limit))
        hits.value = too_much & f32.below(count.value)
        block.value, count.value = I64[block.value + 4 * lanes * BOX], number(lanes)
    return any_lane(hits.value)


@traced
def _keep(args: Value, box: Value, table: Value, buckets: Value, free: Value) -> Value:
    """Add a box to its bucket, whose newest block has room or else is made in `free`; what is free then."""
    lanes = tier().lanes
    corners = _box(fields(args, SUPPRESS), box)
    bucket = table + BUCKET_BYTES * _bucket(table, corners[0], buckets)
    block, count, left = register(I64[bucket]), register(I32[bucket + 8].to(I64)), register(free)
    with when((block.value == 0) | (count.value == lanes)):
        I64[free + 4 * lanes * BOX] = block.value
        I64[bucket] = free
        block.value, count.value, left.value = free, number(0), free + 4 * lanes * (BOX + 1)
    for k, x in enumerate((*corners, _area(corners))):
        F32[block.value + 4 * (lanes * k + count.value)] = x
    I32[bucket + 8] = (count.value + 1).to(I32)
    F32[bucket + 12] = larger(corners[2], F32[bucket + 12])
    return left.value


def _area(corners: Sequence[Value]) -> Value:
    return (corners[2] - corners[0]) * (corners[3] - corners[1])


def _box(r: Any, box: Value) -> list[Value]:
    return _corners(r, [F32[box + 4 * k] for k in range(4)])


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
