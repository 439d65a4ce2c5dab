"""A heap of the best that were met: its root is the worst of them. Entries are (key, place), a greater key the better.

Of equal keys the lower place is the better. Where keys have 32 bits an entry is one int64 that holds both, else two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir

from ..isa.byte_ops import choose, get, put, read
from ..isa.loops import smaller, variable
from ..isa.tiers import Tier
from ..isa.vector import I32, I64, Vector, emits
from .rows import NUMBERS, entry_bytes, size_of

_LOW = (1 << 32) - 1


def key_reader(wide: bool) -> Callable:
    """`key(kind, at, place, least)`: what an element is held as, NaN above all and 0 as -0; `least`: the least best."""

    @emits
    def key(b: Any, kind: Any, at: Any, place: Any, least: Any) -> Any:
        slot = variable(b, I64(0))
        cases = {
            n: partial(lambda name: b.store(_key(b, name, at), slot), name)
            for n, name in enumerate(NUMBERS)
            if (size_of(name) == 8) == wide
        }
        choose(b, kind, cases)
        found = b.xor(b.load(slot), b.sub(I64(0), least))
        if wide:
            return found
        return b.or_(b.shl(found, I64(32)), b.sub(I64(_LOW), place))

    return key


def _key(b: Any, name: str, at: Any, lanes: int = 0) -> Any:
    """The key of the element at an address, as int64; of so many `lanes`, as int64 where it has 8 bytes, else int32."""
    bits = 8 * size_of(name)
    kind = ir.IntType(bits)

    def all_of(number: int) -> Any:
        return ir.Constant(ir.VectorType(kind, lanes), [number] * lanes) if lanes else kind(number)

    value = read(b, at, ir.VectorType(kind, lanes) if lanes else kind)
    if name[0] == "f":
        real = ir.FloatType() if bits == 32 else ir.DoubleType()
        x = read(b, at, ir.VectorType(real, lanes) if lanes else real)
        sign, most = 1 << (bits - 1), (1 << (bits - 1)) - 1
        value = b.select(b.icmp_signed("==", value, all_of(-sign)), all_of(0), value)
        value = b.xor(value, b.and_(b.ashr(value, all_of(bits - 1)), all_of(most)))
        value = b.select(b.fcmp_unordered("uno", x, x), all_of(most), value)
    elif name[0] == "u" and bits >= 32:
        value = b.xor(value, all_of(-(1 << (bits - 1))))
    wide = ir.VectorType(I64 if bits == 64 else I32, lanes) if lanes else I64
    if value.type == wide:
        return value
    return b.zext(value, wide) if name[0] == "u" and bits < 32 else b.sext(value, wide)


def seeker(tier: Tier, wide: bool) -> Callable:
    """`seek(kind, x, step, i, n, least, root)`: the first place from i on with a key above that of the entry `root`.

    n, or a place before it, from which on one has to look again.
    """
    lanes = tier.lanes if not wide else max(2, tier.lanes // 2)
    key = I64 if wide else I32

    @emits
    def seek(b: Any, kind: Any, x: Any, step: Any, i: Any, n: Any, least: Any, root: Any) -> Any:
        place = variable(b, i)

        def search(name: str) -> None:
            size = size_of(name)
            with b.if_then(b.icmp_signed("==", step, I64(size))):
                v = Vector(b, tier, lanes)
                bound = v.splat(root if wide else b.trunc(b.ashr(root, I64(32)), I32), lanes)
                turn = v.splat(b.trunc(b.sub(I64(0), least), key) if not wide else b.sub(I64(0), least), lanes)
                head, body, more, done = (b.append_basic_block(part) for part in ("head", "body", "more", "done"))
                b.branch(head)
                b.position_at_end(head)
                at = b.load(place)
                b.cbranch(b.icmp_signed("<=", b.add(at, I64(lanes)), n), body, done)
                b.position_at_end(body)
                found = b.xor(_key(b, name, b.add(x, b.mul(at, I64(size))), lanes), turn)
                better = b.bitcast(b.icmp_signed(">", found, bound), ir.IntType(lanes))
                b.cbranch(b.icmp_unsigned("!=", better, ir.IntType(lanes)(0)), done, more)
                b.position_at_end(more)
                b.store(b.add(at, I64(lanes)), place)
                b.branch(head)
                b.position_at_end(done)

        names = [name for name in NUMBERS if (size_of(name) == 8) == wide]
        choose(b, kind, {NUMBERS.index(name): partial(search, name) for name in names})
        return b.load(place)

    return seek


def place_of(wide: bool) -> Callable:
    """`place(at)`: that of the entry at an address."""

    def low(at):
        return _LOW - (get(at) & _LOW)

    def second(at):
        return get(at + 8)

    return second if wide else low


def worse(wide: bool) -> Callable:
    """`worse(key, place, other, elsewhere)`: 1 where the first entry is."""

    def both(key, place, other, elsewhere):
        return key < other or (key == other and place > elsewhere)

    def one(key, place, other, elsewhere):
        return key < other

    return both if wide else one


def sifter(wide: bool) -> Callable:
    """`sift(heap, n, at, key, place)`: puts an entry where the heap of n has its hole, or below it."""
    below, step = worse(wide), entry_bytes(wide)

    def sift(heap, n, at, key, place):
        hole = at
        child = 2 * hole + 1
        while child < n:
            entry = heap + step * child
            other = get(entry)
            elsewhere = get(entry + 8) if wide else 0
            if child + 1 < n:
                right = get(entry + step)
                beside = get(entry + step + 8) if wide else 0
                if below(right, beside, other, elsewhere):
                    other = right
                    elsewhere = beside
                    child += 1
            if below(other, elsewhere, key, place):
                put(heap + step * hole, other)
                if wide:
                    put(heap + step * hole + 8, elsewhere)
                hole = child
                child = 2 * hole + 1
            else:
                child = n
        put(heap + step * hole, key)
        if wide:
            put(heap + step * hole + 8, place)

    return sift


def selector(tier: Tier, wide: bool) -> Callable:
    """`select(heap, k, kind, x, step, n, least)`: a heap of the k best of n elements `step` bytes apart; 0 < k <= n."""
    key_of, sift, seek, entry = key_reader(wide), sifter(wide), seeker(tier, wide), entry_bytes(wide)
    together = tier.lanes

    def select(heap, k, kind, x, step, n, least):
        for i in range(k):
            put(heap + entry * i, key_of(kind, x + step * i, i, least))
            if wide:
                put(heap + entry * i + 8, i)
        half = k >> 1
        while half > 0:
            half -= 1
            at = heap + entry * half
            sift(heap, k, half, get(at), get(at + 8) if wide else 0)
        i = k
        while i < n:
            i = seek(kind, x, step, i, n, least, get(heap))
            stop = smaller(n, i + together)
            while i < stop:
                key = key_of(kind, x + step * i, i, least)
                if key > get(heap):
                    sift(heap, k, 0, key, i)
                i += 1

    return select


def popper(wide: bool) -> Callable:
    """`pop(heap, n)`: takes the root out of a heap of n entries; what it was stays behind the others."""
    sift, entry = sifter(wide), entry_bytes(wide)

    def pop(heap, n):
        last = heap + entry * (n - 1)
        key, root = get(last), get(heap)
        place, first = (get(last + 8), get(heap + 8)) if wide else (0, 0)
        sift(heap, n - 1, 0, key, place)
        put(last, root)
        if wide:
            put(last + 8, first)

    return pop
