"""Gather and scatter: elements and runs at offsets that are computed from indices at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

from ..core.record import fields
from ..isa.byte_ops import copy_run
from ..isa.tiers import Tier
from ..lang import I32, I64, Value, cases, either, every_tier, integer, named, over, register, share, traced, when, word
from ..lang.instructions import choose, div_rem, divide, is_nan, larger, smaller
from ..lang.lanes import any_lane
from ..lang.values import intrinsic, tier
from .outer_loops import outer_addresses, outer_count
from .rows import BACKWARDS, LEFT_OUT, NUMBERS, OPERATIONS, PLACES, REDUCED, REPORTED, WORDS, size_of


def gather(tier: Tier) -> Callable:
    """The kernel of y[n] = x[n + offset]: each of `depth` indices adds its stride times its value."""
    return _moved(_line(_elements, scatter=False))


def scatter(tier: Tier) -> Callable:
    """The kernel of y[n + offset] = x[n]: of equal offsets the last one wins."""
    return _moved(_line(_elements, scatter=True))


def scatter_reduce(tier: Tier) -> Callable:
    """As `scatter`, but elements are combined with those of y, one after the other."""
    return _moved(_line(_reduced, scatter=True))


@every_tier
def backwards(args, thread, threads):
    """The kernel that writes the source index of each step, for sequences whose first `lengths` steps are reversed."""
    r = fields(args, BACKWARDS)
    first, last = share(r.count, thread, threads)
    for i in range(first, last):
        end = _length(r, r.lengths + r.index_size * i)
        for t in range(r.steps):
            I64[r.places + 8 * (r.steps * i + t)] = end - 1 - t if t < end else t


@traced
def _length(r: Any, at: Value) -> Value:
    return _index(r, at, None)


def _moved(line: Callable) -> Callable:
    def kernel(args, thread, threads):
        r = fields(args, PLACES)
        each = divide(outer_count(args, PLACES) * r.count, r.parts)
        first, last = share(r.parts, thread, threads)
        begin, end, bad = first * each, last * each, 0
        while begin < end:
            o, i = div_rem(begin, r.count)
            stop = smaller(r.count, i + end - begin)
            begin += stop - i
            to, at, index = outer_addresses(args, PLACES, o, r.dst, r.src, r.index)
            bad |= line(args, to, at, index, i, stop)
        if bad != 0:
            if r.outside == REPORTED:
                I64[r.error] = 1

    return kernel


def _line(bodies: Callable, scatter: bool) -> Callable:
    """`line(args, to, at, index, i, stop)`: iterations i..stop of the inner loop; 1 if an index was out of range."""

    @traced
    def line(args: Value, to: Value, at: Value, index: Value, i: Value, stop: Value) -> Value:
        r, bad, begin = fields(args, PLACES), register(0), register(i)
        if not scatter and tier().lanes > 4:
            with when((r.word == 4) & _vectors_suit(r, stop - i)):
                cases(
                    r.index_size, {size: partial(_vectors, r, to, at, index, (i, stop), size, bad) for size in (4, 8)}
                )
                begin.value = stop

        def walk(move: Callable[[Value, Value], None], size: int | None = None) -> None:
            for j in over(begin.value, stop):
                at_index = index + j * r.i
                if size is None:
                    place, wrong = _place(args, r, at_index)
                else:
                    place, wrong = _component(r, at_index, size, (r.extent0, r.stride0, r.wrap0))
                bad.value |= wrong
                source, target = at + j * r.s, to + j * r.d
                if scatter:
                    with when(~((wrong != 0) & (r.outside == LEFT_OUT))):
                        move(target + place, source)
                else:
                    move(target, source + place)

        bodies(args, r, walk)
        return bad.value

    return line


def _vectors_suit(r: Any, count: Value) -> Value:
    """Whether so many places are a vector or more, of words of 4 bytes by one signed index each."""
    dense = (r.s == 0) & (r.d == 4) & (r.i == r.index_size) & (r.index_size >= 4)
    near = (r.stride0 > 0) & (r.extent0 < 1 << 31) & ((r.extent0 * r.stride0).unsigned < 1 << 31)
    return dense & near & (r.depth == 1) & (r.signed != 0) & (count >= tier().lanes)


def _vectors(r: Any, to: Value, at: Value, index: Value, between: tuple[Value, Value], size: int, bad: Any) -> None:
    """All places between two, by vectors of which the last overlaps the one before; `bad` is 1 after a wrong index."""
    words, numbers = I32.vector(tier().lanes), integer(8 * size).vector(tier().lanes)
    wrap, last, stride = numbers(_as(r.wrap0, size)), numbers(_as(r.extent0 - 1, size)), words(r.stride0.to(I32))
    begin, stop = between
    for place in over(begin, stop, tier().lanes):
        j = smaller(place, stop - tier().lanes)
        x = numbers[index + size * j]
        x = choose(x < 0, x + wrap, x)
        inside = intrinsic("smax", intrinsic("smin", x, last), 0)
        with when(any_lane(inside != x), likely=False):
            bad.value = 1
        words[to + 4 * j] = tier().isa.gathered(at, (inside if size == 4 else inside.to(I32)) * stride)


def _as(x: Value, size: int) -> Value:
    return x if size == 8 else x.to(I32)


def _elements(args: Value, r: Any, walk: Callable) -> None:
    def words(nbytes: int) -> None:
        item = word(nbytes)

        def move(target: Value, source: Value) -> None:
            item[target] = item[source]

        with either((r.depth == 1) & (r.index_size >= 4)) as (one, several):
            with one:
                cases(r.index_size, {size: partial(walk, move, size) for size in (4, 8)})
            with several:
                walk(move)

    runs = partial(walk, lambda target, source: copy_run(target, source, r.run))
    cases(r.word, {0: runs, **{nbytes: partial(words, nbytes) for nbytes in WORDS}})


def _reduced(args: Value, r: Any, walk: Callable) -> None:
    more = fields(args + 8 * len(PLACES), REDUCED)

    def reduce(kind: str, operation: str, target: Value, source: Value) -> None:
        number = named(kind)
        for at in over(0, r.run, size_of(kind)):
            place = target + at
            there, comes = number[place], number[source + at]
            number[place] = _combined(operation, there, comes)

    pairs = list(product(NUMBERS, OPERATIONS))
    chosen = more.kind * len(OPERATIONS) + more.operation

    def move(target: Value, source: Value) -> None:
        cases(chosen, {n: partial(reduce, *pair, target, source) for n, pair in enumerate(pairs)})

    walk(move)


def _place(args: Value, r: Any, index: Value) -> tuple[Value, Value]:
    """The offset in bytes of the indices from address `index` on; with 1 when one is out of range."""
    offset, wrong = map(register, _component(r, index, None, (r.extent0, r.stride0, r.wrap0)))
    first, step = PLACES.at("extent0"), PLACES.at("extent1") - PLACES.at("extent0")
    slots = I64.at(args)
    for k in over(1, r.depth):
        at = first + k * step
        axis = [slots[at + n] for n in range(3)]
        more, out = _component(r, index + k * r.component, None, axis)
        offset.value += more
        wrong.value |= out
    return offset.value, wrong.value


def _component(r: Any, at: Value, size: int | None, axis: Sequence[Value]) -> tuple[Value, Value]:
    """(offset, 1 if out of range) of an index, clamped to its axis; axis: (extent, stride, what is added to a negative
    index).
    """
    extent, stride, wrap = axis
    index = _index(r, at, size)
    place = index + ((index >> 63) & wrap)
    inside, wrong = register(place), register(0)
    with when(place.unsigned >= extent.unsigned, likely=False):
        least = larger(place, 0)
        inside.value = smaller(extent - 1, least)
        wrong.value = 1
    return inside.value * stride, wrong.value


def _index(r: Any, at: Value, size: int | None) -> Value:
    """The index at an address, of `size` bytes, or of as many as the record says."""
    if size is None:
        found = register(0)

        def read(n: int) -> None:
            found.value = _index(r, at, n)

        cases(r.index_size, {n: partial(read, n) for n in WORDS})
        return found.value
    value = integer(8 * size)[at]
    return value if size == 8 else choose(r.signed != 0, value.to(I64), value.unsigned.to(I64))


def _combined(operation: str, y: Value, x: Value) -> Value:
    """A scatter's reduction, one of OPERATIONS, of an element of y and one of x. NaNs stay; integers aren't divided."""
    real = y.type.real
    match operation:
        case "div":
            return y / x if real else y
        case "add":
            return y + x
        case "mul":
            return y * x
    less = operation == "min"
    if not real:
        return choose(y < x if less else y > x, y, x)
    best = choose(~(y >= x) if less else ~(y <= x), y, x)
    return choose(is_nan(x), x, best)
