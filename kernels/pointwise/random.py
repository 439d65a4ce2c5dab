"""Counter-based random words: Philox 4x32-10 and Threefry 2x32-20. Semantics: Random123.

A block of Philox is four words from a key and a counter of 128 bits, one of Threefry two words from a key and a counter
of 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.primitives import clock
from ..core.record import fields
from ..lang import I64, U32, U64, Value, constant, every_tier, joined, over, share, shuffle, tier, traced, whole
from .random_rounds import halves, philox, threefry
from .rows import RANDOM

Scramble = Callable[[Value, Value, Value], list[Value]]
"""(key, upper half of the counters, their lower halves), of 64 bits, -> words of 32 bits, held in 64."""


@every_tier
def make(args, thread, threads):
    """The kernel; its record is RANDOM."""
    r = fields(args, RANDOM)
    first, end = share(r.blocks, thread, threads)
    high = I64[r.high]
    if r.fresh != 0:
        high += clock()
    if r.threefry != 0:
        _by_threefry(r.y, I64[r.key], high, I64[r.counter], first, end)
    else:
        _by_philox(r.y, I64[r.key], high, I64[r.counter], first, end)


def _blocks(scramble: Scramble) -> Callable[..., None]:
    """A function that writes the blocks from first up to end, a vector of counters at a time."""

    @traced
    def blocks(y: Value, key: Value, high: Value, counter: Value, first: Value, end: Value) -> None:
        left = first
        for lanes in (tier().lanes // 2, 1):
            u64 = U64.vector(lanes)
            right = left + whole(end - left, lanes)
            for i in over(left, right, lanes):
                counters = u64((counter + i).unsigned) + constant(u64, range(lanes))
                words = scramble(key.unsigned, high.unsigned, counters)
                block = _interleaved(words)
                block.type[y + i * (4 * len(words))] = block
            left = right

    return blocks


def _interleaved(words: list[Value]) -> Value:
    """[lanes, words] of 32 bits of as many vectors of words in 64 bits."""
    lanes = words[0].lanes
    rows = joined(*(word.to(U32) for word in words))
    return shuffle(rows, [lanes * word + lane for lane in range(lanes) for word in range(len(words))])


def _philox(key: Value, high: Value, counters: Value) -> list[Value]:
    each = counters.type
    return philox([*halves(counters), *halves(each(high))], halves(each(key)))


def _threefry(key: Value, high: Value, counters: Value) -> list[Value]:
    return threefry(halves(counters), halves(counters.type(key)))


_by_philox, _by_threefry = _blocks(_philox), _blocks(_threefry)
