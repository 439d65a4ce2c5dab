"""A heap of the best elements so far, with the worst of them at its root. Entries are (key, index); greater keys are
better.

Of equal keys the lower index is better. With keys of 32 bits an entry is one int64, else two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..isa.tiers import Tier
from ..lang import Value, any_lane, cases, choose, during, is_nan, number, register, smaller, tier, traced, when
from ..lang.types import I32, I64, Type, integer, named
from .rows import NUMBERS, entry_bytes, size_of

_LOW = (1 << 32) - 1


def _by_kind(kind: Value, wide: bool, body: Callable[[Type], None]) -> None:
    """`body(type)` for the type of NUMBERS at index `kind`, of 8 bytes (`wide`) or fewer."""
    names = [name for name in NUMBERS if (size_of(name) == 8) == wide]
    cases(number(kind), {NUMBERS.index(name): partial(body, named(name)) for name in names})


def _key(kind: Type, at: Value) -> Value:
    """The number at an address as a signed integer of the same order, NaN above all and 0 as -0; of 64 bits or of
    32.
    """
    bits = kind.bits
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    key = integer(bits, kind.signed).like(kind)[at]
    if kind.real:
        x = key.bits(kind.number)
        key = choose(key == least, 0, key)
        key = key ^ ((key >> (bits - 1)) & most)
        key = choose(is_nan(x), most, key)
    elif not kind.signed and bits >= 32:
        key = (key ^ least).signed
    return key.to(I64 if bits == 64 else I32)


@traced
def key_of(wide: bool, kind: Any, at: Any, place: Any, least: Any) -> Any:
    """An element's key; `least`: smaller elements are better."""
    found = register(0)

    def take(number: Type) -> None:
        found.value = _key(number, at).to(I64)

    _by_kind(kind, wide, take)
    turned = found.value ^ -least
    return turned if wide else (turned << 32) | (_LOW - place)


@traced
def _seek(wide: bool, numbers: tuple[Value, Value, Value], i: Any, n: Value, least: Value, root: Value) -> Any:
    """The first index from i on, of n numbers, (kind, address, stride in bytes), with a better key than the entry
    `root`; n, or a lower index from which to search again, where there is none.
    """
    kind, x, step = numbers
    lanes = tier().lanes if not wide else max(2, tier().lanes // 2)
    keys = (I64 if wide else I32).vector(lanes)
    place = register(i)

    def search(number: Type) -> None:
        with when(step == number.size):
            bound = keys((root if wide else root >> 32).to(keys.number))
            turn = keys((-least).to(keys.number))

            def better() -> Value:
                return (_key(number.vector(lanes), x + place.value * number.size) ^ turn) > bound

            for _ in during(lambda: place.value + lanes <= n, lambda: ~any_lane(better())):
                place.value = place.value + lanes

    _by_kind(kind, wide, search)
    return place.value


@traced
def place_of(wide: bool, at: Any) -> Any:
    """The index in the entry at an address."""
    return I64[at + 8] if wide else _LOW - (I64[at] & _LOW)


def worse(wide: bool) -> Callable:
    """`worse(key, place, other, elsewhere)`: 1 where the first entry is worse."""

    def both(key, place, other, elsewhere):
        return key < other or (key == other and place > elsewhere)

    def one(key, place, other, elsewhere):
        return key < other

    return both if wide else one


def sifter(wide: bool) -> Callable:
    """`sift(heap, n, at, key, place)`: put an entry into the hole `at` of the heap of n, or below it."""
    below, step = worse(wide), entry_bytes(wide)

    def sift(heap, n, at, key, place):
        hole = at
        child = 2 * hole + 1
        while child < n:
            entry = heap + step * child
            other = I64[entry]
            elsewhere = I64[entry + 8] if wide else 0
            if child + 1 < n:
                right = I64[entry + step]
                beside = I64[entry + step + 8] if wide else 0
                if below(right, beside, other, elsewhere):
                    other = right
                    elsewhere = beside
                    child += 1
            if below(other, elsewhere, key, place):
                I64[heap + step * hole] = other
                if wide:
                    I64[heap + step * hole + 8] = elsewhere
                hole = child
                child = 2 * hole + 1
            else:
                child = n
        I64[heap + step * hole] = key
        if wide:
            I64[heap + step * hole + 8] = place

    return sift


def selector(tier: Tier, wide: bool) -> Callable:
    """`select(heap, k, elements, n, least)`: a heap of the k best of n elements, 0 < k <= n.

    elements: (kind, address of the first, bytes from one to the next).
    """
    sift, entry = sifter(wide), entry_bytes(wide)
    together = tier.lanes

    def select(heap, k, elements, n, least):
        kind, x, step = elements
        for i in range(k):
            I64[heap + entry * i] = key_of(wide, kind, x + step * i, i, least)
            if wide:
                I64[heap + entry * i + 8] = i
        half = k >> 1
        while half > 0:
            half -= 1
            at = heap + entry * half
            sift(heap, k, half, I64[at], I64[at + 8] if wide else 0)
        i = k
        while i < n:
            i = _seek(wide, elements, i, n, least, I64[heap])
            stop = smaller(n, i + together)
            while i < stop:
                key = key_of(wide, kind, x + step * i, i, least)
                if key > I64[heap]:
                    sift(heap, k, 0, key, i)
                i += 1

    return select


def popper(wide: bool) -> Callable:
    """`pop(heap, n)`: move the root of a heap of n entries behind the n - 1 others."""
    sift, entry = sifter(wide), entry_bytes(wide)

    def pop(heap, n):
        last = heap + entry * (n - 1)
        key, root = I64[last], I64[heap]
        place, first = (I64[last + 8], I64[heap + 8]) if wide else (0, 0)
        sift(heap, n - 1, 0, key, place)
        I64[last] = root
        if wide:
            I64[last + 8] = first

    return pop
