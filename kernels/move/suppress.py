"""Boxes by falling score, each without those that it covers: non-maximum suppression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from ..core.record import loaded, reader
from ..isa.byte_ops import get, put, read, write
from ..isa.loops import divide, larger, room, smaller, thread_range, variable
from ..isa.tiers import Tier
from ..isa.vector import F32, I32, I64, Vector, emits
from .heap import key_reader, popper, sifter
from .rows import BOX, NUMBERS, SUPPRESS

_F32 = NUMBERS.index("f32")
_LOW = (1 << 32) - 1


def suppress(tier: Tier) -> Callable:
    """The kernel. Of equal scores the first box comes first; all is computed in f32.

    The scores that count are a heap with the best at its root, from which one is taken after the other until enough
    are kept.
    """
    fields, sift, pop, key_of = reader(SUPPRESS), sifter(False), popper(False), key_reader(False)
    covered = _covered(tier)

    def kernel(args, thread, threads):
        r = fields(args)
        begin, end = thread_range(r.items, thread, threads)
        heap = r.scratch + thread * r.scratch_bytes
        kept = heap + 8 * r.n
        room = divide(r.scratch_bytes - 8 * r.n, 4 * BOX)
        n, most = r.n, r.most
        if r.count != 0:
            n = larger(smaller(get(r.count), n), 0)
        if r.wanted != 0:
            most = larger(smaller(get(r.wanted), most), 0)
        for item in range(begin, end):
            scores = r.scores + 4 * r.n * item
            boxes = r.boxes + 16 * r.n * divide(item, r.share)
            waiting = 0
            for i in range(n):
                if _counts(scores + 4 * i, r.least, r.reaches) != 0:
                    # The greatest key is the best, and the root is the least.
                    put(heap + 8 * waiting, key_of(_F32, scores + 4 * i, _LOW - i, 1))
                    waiting += 1
            half = waiting >> 1
            while half > 0:
                half -= 1
                sift(heap, waiting, half, get(heap + 8 * half), 0)
            places = r.places + 8 * r.most * item
            found = r.found + 4 * r.most * item
            count = 0
            while waiting > 0 and count < most:
                best = get(heap) & _LOW
                pop(heap, waiting)
                waiting -= 1
                if covered(args, boxes + 16 * best, kept, room, count) == 0:
                    put(places + 8 * count, best)
                    if r.found != 0:
                        _move(found + 4 * count, scores + 4 * best)
                    count += 1
            put(r.counts + 8 * item, count)
            for i in range(count, r.most):
                put(places + 8 * i, r.empty)
                if r.found != 0:
                    _nothing(found + 4 * i)

    return kernel


@emits
def _move(b: Any, to: Any, at: Any) -> None:
    write(b, read(b, at, I32), to)


@emits
def _nothing(b: Any, to: Any) -> None:
    write(b, I32(0), to)


@emits
def _counts(b: Any, at: Any, least: Any, reaches: Any) -> Any:
    """1 where a score counts."""
    slot, score = variable(b, I64(1)), read(b, at, F32)
    with b.if_then(b.icmp_signed("!=", least, I64(0))):
        bound = read(b, least, F32)
        same = b.and_(b.fcmp_ordered("==", score, bound), b.icmp_signed("!=", reaches, I64(0)))
        b.store(b.zext(b.or_(b.fcmp_ordered(">", score, bound), same), I64), slot)
    return b.load(slot)


def _covered(tier: Tier) -> Any:
    """`covered(args, box, kept, room, count)`: 1 where one of the kept boxes covers this one; else this joins them."""

    @emits
    def covered(b: Any, args: Any, box: Any, kept: Any, space: Any, count: Any) -> Any:
        r, v = loaded(b, args, SUPPRESS), Vector(b, tier)
        corners = _corners(b, r, [read(b, b.add(box, I64(4 * k)), F32) for k in range(4)])
        area = b.fmul(b.fsub(corners[2], corners[0]), b.fsub(corners[3], corners[1]))
        arrays = [v.pointer(b.add(kept, b.mul(space, I64(4 * k)))) for k in range(BOX)]
        limit, own = v.splat(read(b, r.limit, F32)), [v.splat(x) for x in (*corners, area)]
        strict = v.splat(b.icmp_signed("!=", r.strict, I64(0)))
        at, found = variable(b, I64(0)), variable(b, ir.IntType(tier.lanes)(0))
        head, body, done = (b.append_basic_block(name) for name in ("head", "body", "done"))
        b.branch(head)
        b.position_at_end(head)
        i = b.load(at)
        none = b.icmp_unsigned("==", b.load(found), ir.IntType(tier.lanes)(0))
        b.cbranch(b.and_(none, b.icmp_signed("<", i, count)), body, done)
        b.position_at_end(body)
        overlap = _overlap(v, own, [v.load(v.at(array, i)) for array in arrays])
        too_much = b.or_(b.fcmp_unordered(">", overlap, limit), b.and_(strict, b.fcmp_ordered("==", overlap, limit)))
        hit = b.and_(too_much, v.mask(b.sub(count, i)))
        b.store(b.bitcast(hit, ir.IntType(tier.lanes)), found)
        b.store(b.add(i, I64(tier.lanes)), at)
        b.branch(head)
        b.position_at_end(done)
        free = b.icmp_unsigned("==", b.load(found), ir.IntType(tier.lanes)(0))
        with b.if_then(free):
            for array, x in zip(arrays, (*corners, area), strict=True):
                b.store(x, v.at(array, count))
        return b.zext(b.not_(free), I64)

    return covered


def _corners(b: Any, r: Any, box: Sequence[Any]) -> list[Any]:
    """(low, low, high, high) of a box, as the record says that it is written."""
    slots = [room(b, F32) for _ in range(4)]
    with b.if_else(b.icmp_signed("!=", r.centered, I64(0))) as (middle, opposite):
        with middle:
            for axis, (at, size) in enumerate(((1, 3), (0, 2))):
                half = b.fmul(box[size], F32(0.5))
                b.store(b.fsub(box[at], half), slots[axis])
                b.store(b.fadd(box[at], half), slots[2 + axis])
        with opposite:
            for axis in range(2):
                below = b.fcmp_unordered("<", box[axis], box[2 + axis])
                b.store(b.select(below, box[axis], box[2 + axis]), slots[axis])
                b.store(b.select(below, box[2 + axis], box[axis]), slots[2 + axis])
    return [b.load(slot) for slot in slots]


def _overlap(v: Vector, own: Sequence[Any], others: Sequence[Any]) -> Any:
    """Intersection over union, 0 where there is no area."""
    b, zero = v.b, v.const(0)

    def side(axis: int) -> Any:
        low = b.select(b.fcmp_ordered(">", own[axis], others[axis]), own[axis], others[axis])
        high = b.select(b.fcmp_ordered("<", own[2 + axis], others[2 + axis]), own[2 + axis], others[2 + axis])
        length = b.fsub(high, low)
        return b.select(b.fcmp_ordered(">", length, zero), length, zero)

    shared = b.fmul(side(0), side(1))
    union = b.fsub(b.fadd(own[4], others[4]), shared)
    some = b.fcmp_ordered(">", union, zero)
    return b.select(some, b.fdiv(shared, b.select(some, union, v.const(1))), zero)
