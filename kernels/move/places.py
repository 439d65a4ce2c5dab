"""Elements and runs moved from, or to, places that are read from memory when the kernel runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

from llvmlite import ir

from ..core.record import loaded, reader
from ..isa.byte_ops import choose, copy_run, put, read, word, write
from ..isa.loops import div_rem, divide, lesser, loop, smaller, thread_range, variable
from ..isa.tiers import Tier
from ..isa.vector import I64, emits
from .outer_loops import outer_addresses, outer_count
from .reductions import combined, type_of
from .rows import BACKWARDS, LEFT_OUT, NUMBERS, OPERATIONS, PLACES, REDUCED, REPORTED, WORDS, size_of

_INDEX_BYTES = (1, 2, 4, 8)


def gather(tier: Tier) -> Callable:
    """The kernel of y[n] = x[n + place]: each of `depth` indices moves its stride as often as it says."""
    return _moved(_line(partial(_elements, tier), scatter=False))


def scatter(tier: Tier) -> Callable:
    """The kernel of y[n + place] = x[n]: where places are the same, the last one stays."""
    return _moved(_line(partial(_elements, tier), scatter=True))


def scatter_reduce(tier: Tier) -> Callable:
    """As `scatter`, but what is there is combined with what comes, one after the other."""
    return _moved(_line(_reduced, scatter=True))


def backwards(tier: Tier) -> Callable:
    """The kernel that writes where each step of sequences comes from whose first `lengths` steps turn round."""
    fields = reader(BACKWARDS)

    def kernel(args, thread, threads):
        r = fields(args)
        first, last = thread_range(r.count, thread, threads)
        for i in range(first, last):
            end = _length(args, r.lengths + r.index_size * i)
            for t in range(r.steps):
                put(r.places + 8 * (r.steps * i + t), end - 1 - t if t < end else t)

    return kernel


@emits
def _length(b: Any, args: Any, at: Any) -> Any:
    return _index(b, loaded(b, args, BACKWARDS), at, None)


def _moved(line: Callable) -> Callable:
    fields, outer, addresses = reader(PLACES), outer_count(PLACES), outer_addresses(PLACES)

    def kernel(args, thread, threads):
        r = fields(args)
        each = divide(outer(args) * r.count, r.apart)
        first, last = thread_range(r.apart, thread, threads)
        begin, end, bad = first * each, last * each, 0
        while begin < end:
            o, i = div_rem(begin, r.count)
            stop = smaller(r.count, i + end - begin)
            begin += stop - i
            to, at, index = addresses(args, o, r.dst, r.src, r.index)
            bad |= line(args, to, at, index, i, stop)
        if bad != 0:
            if r.outside == REPORTED:
                put(r.error, 1)

    return kernel


def _line(bodies: Callable, scatter: bool) -> Callable:
    """`line(args, to, at, index, i, stop)`: places i..stop of the inner loop; 1 if one was out of range."""

    @emits
    def line(b: Any, args: Any, to: Any, at: Any, index: Any, i: Any, stop: Any) -> Any:
        r, bad = loaded(b, args, PLACES), variable(b, I64(0))

        def walk(move: Callable[[Any, Any], None], size: int | None = None) -> None:
            with loop(b, i, stop, 1) as j:
                at_index = b.add(index, b.mul(j, r.i))
                if size is None:
                    place, wrong = _place(b, args, r, at_index)
                else:
                    place, wrong = _component(b, r, at_index, size, r.extent0, r.stride0, r.wrap0)
                b.store(b.or_(b.load(bad), wrong), bad)
                source, target = b.add(at, b.mul(j, r.s)), b.add(to, b.mul(j, r.d))
                if not scatter:
                    move(target, b.add(source, place))
                    return
                out = b.and_(b.icmp_signed("!=", wrong, I64(0)), b.icmp_signed("==", r.outside, I64(LEFT_OUT)))
                with b.if_then(b.not_(out)):
                    move(b.add(target, place), source)

        bodies(b, args, r, walk)
        return b.load(bad)

    return line


def _elements(tier: Tier, b: Any, args: Any, r: Any, walk: Callable) -> None:
    def element(nbytes: int, target: Any, source: Any) -> None:
        write(b, read(b, source, word(nbytes)), target)

    def words(nbytes: int) -> None:
        move = partial(element, nbytes)
        short = b.and_(b.icmp_signed("==", r.depth, I64(1)), b.icmp_signed(">=", r.index_size, I64(4)))
        with b.if_else(short) as (one, several):
            with one:
                choose(b, r.index_size, {size: partial(walk, move, size) for size in (4, 8)})
            with several:
                walk(move)

    runs = partial(walk, lambda target, source: copy_run(b, tier, target, source, r.run))
    choose(b, r.word, {0: runs, **{nbytes: partial(words, nbytes) for nbytes in WORDS}})


def _reduced(b: Any, args: Any, r: Any, walk: Callable) -> None:
    more = loaded(b, b.add(args, I64(8 * len(PLACES))), REDUCED)

    def reduce(kind: str, operation: str, target: Any, source: Any) -> None:
        with loop(b, 0, r.run, size_of(kind)) as at:
            place = b.add(target, at)
            there, comes = read(b, place, type_of(kind)), read(b, b.add(source, at), type_of(kind))
            write(b, combined(b, kind, operation, there, comes), place)

    pairs = list(product(NUMBERS, OPERATIONS))
    number = b.add(b.mul(more.kind, I64(len(OPERATIONS))), more.operation)

    def move(target: Any, source: Any) -> None:
        choose(b, number, {n: partial(reduce, *pair, target, source) for n, pair in enumerate(pairs)})

    walk(move)


def _place(b: Any, args: Any, r: Any, index: Any) -> tuple[Any, Any]:
    """Bytes to the place that the indices from `index` on say; with 1 when one is out of range."""
    offset, wrong = _component(b, r, index, None, r.extent0, r.stride0, r.wrap0)
    offset, wrong = variable(b, offset), variable(b, wrong)
    first, step = PLACES.at("extent0"), PLACES.at("extent1") - PLACES.at("extent0")
    pointer = b.inttoptr(args, I64.as_pointer())
    with loop(b, 1, r.depth, 1) as k:
        at = b.add(I64(first), b.mul(k, I64(step)))
        extent, stride, wrap = (b.load(b.gep(pointer, [b.add(at, I64(n))])) for n in range(3))
        more, out = _component(b, r, b.add(index, b.mul(k, r.component)), None, extent, stride, wrap)
        b.store(b.add(b.load(offset), more), offset)
        b.store(b.or_(b.load(wrong), out), wrong)
    return b.load(offset), b.load(wrong)


def _component(b: Any, r: Any, at: Any, size: int | None, extent: Any, stride: Any, wrap: Any) -> tuple[Any, Any]:
    index = _index(b, r, at, size)
    place = b.add(index, b.and_(b.ashr(index, I64(63)), wrap))
    inside, wrong = variable(b, place), variable(b, I64(0))
    with b.if_then(b.icmp_unsigned(">=", place, extent), likely=False):
        least = b.select(b.icmp_signed(">", place, I64(0)), place, I64(0))
        b.store(lesser(b, b.sub(extent, I64(1)), least), inside)
        b.store(I64(1), wrong)
    return b.mul(b.load(inside), stride), b.load(wrong)


def _index(b: Any, r: Any, at: Any, size: int | None) -> Any:
    """The index of `size` bytes, or of as many as the record says."""
    if size is None:
        slot = variable(b, I64(0))
        cases = {n: partial(lambda n: b.store(_index(b, r, at, n), slot), n) for n in _INDEX_BYTES}
        choose(b, r.index_size, cases)
        return b.load(slot)
    value = read(b, at, ir.IntType(8 * size))
    if size == 8:
        return value
    return b.select(b.icmp_signed("!=", r.signed, I64(0)), b.sext(value, I64), b.zext(value, I64))
