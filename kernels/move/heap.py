"""A heap of the best that were met: its root is the worst of them. Entries are (key, place), a greater key the better.

Of equal keys the lower place is the better. Where keys have 32 bits an entry is one int64 that holds both, else two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir

from ..isa.byte_ops import choose, get, put, read
from ..isa.loops import variable
from ..isa.vector import I64, emits

NUMBERS = ("f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
"""The element types of keys, by their place here."""
_LOW = (1 << 32) - 1


def size_of(kind: str) -> int:
    """Bytes of an element."""
    return int(kind[1:]) // 8


def entry_bytes(wide: bool) -> int:
    return 16 if wide else 8


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


def _key(b: Any, name: str, at: Any) -> Any:
    bits = 8 * size_of(name)
    kind = ir.IntType(bits)
    value = read(b, at, kind)
    if name[0] == "f":
        x = read(b, at, ir.FloatType() if bits == 32 else ir.DoubleType())
        sign, most = 1 << (bits - 1), (1 << (bits - 1)) - 1
        value = b.select(b.icmp_signed("==", value, kind(-sign)), kind(0), value)
        value = b.xor(value, b.and_(b.ashr(value, kind(bits - 1)), kind(most)))
        value = b.select(b.fcmp_unordered("uno", x, x), kind(most), value)
    elif name[0] == "u" and bits >= 32:
        value = b.xor(value, kind(-(1 << (bits - 1))))
    if bits == 64:
        return value
    return b.zext(value, I64) if name[0] == "u" and bits < 32 else b.sext(value, I64)


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


def selector(wide: bool) -> Callable:
    """`select(heap, k, kind, x, step, n, least)`: the heap of the k best of n elements `step` bytes apart; 0 < k <= n."""
    key_of, below, sift, entry = key_reader(wide), worse(wide), sifter(wide), entry_bytes(wide)

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
        root = get(heap)
        for i in range(k, n):
            key = key_of(kind, x + step * i, i, least)
            if key > root:
                sift(heap, k, 0, key, i)
                root = get(heap)

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
