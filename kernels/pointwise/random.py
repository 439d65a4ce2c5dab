"""Words that look random: Philox 4x32-10 and Threefry 2x32-20, of counters one after the other. Semantics: Random123.

Philox' blocks of four words are of a key and a counter of 128 bits, Threefry's of two of a key and a counter of 64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..core.primitives import clock
from ..core.record import reader
from ..isa.byte_ops import get, write
from ..isa.elements import shuffle
from ..isa.loops import loop, thread_range, whole
from ..isa.tiers import Tier
from ..isa.vector import I32, I64, emits
from .rows import RANDOM

LOW = 0xFFFFFFFF
TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


def make(tier: Tier) -> Callable[..., None]:
    """The kernel; its record is RANDOM."""
    fields, philox, threefry = reader(RANDOM), _blocks(tier, _philox), _blocks(tier, _threefry)

    def random(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        first, end = thread_range(r.blocks, thread, threads)
        high = get(r.high)
        if r.fresh != 0:
            high += clock()
        if r.threefry != 0:
            threefry(r.y, get(r.key), high, get(r.counter), first, end)
        else:
            philox(r.y, get(r.key), high, get(r.counter), first, end)

    return random


def _blocks(tier: Tier, scramble: Callable[..., list[Any]]) -> Any:
    """What writes the blocks from first up to end, a vector of counters at a time."""

    @emits
    def blocks(b: Any, y: Any, key: Any, high: Any, counter: Any, first: Any, end: Any) -> None:
        left = first
        for lanes in (tier.lanes // 2, 1):
            kind = ir.VectorType(I64, lanes)
            right = b.add(left, whole(b, b.sub(end, left), lanes))
            places = ir.Constant(kind, list(range(lanes)))
            with loop(b, left, right, lanes) as i:
                counters = b.add(_spread(b, b.add(counter, i), kind), places)
                words = scramble(b, key, high, counters)
                write(b, _interleaved(b, words), b.add(y, b.mul(i, I64(4 * len(words)))))
            left = right

    return blocks


def _spread(b: Any, number: Any, kind: Any) -> Any:
    """A number in all lanes."""
    one = b.insert_element(ir.Constant(kind, ir.Undefined), number, I32(0))
    return shuffle(b, one, one, [0] * kind.count)


def _interleaved(b: Any, words: list[Any]) -> Any:
    """[lanes, words] of 32 bits of as many vectors of words in 64 bits."""
    lanes = words[0].type.count
    rows = [b.trunc(word, ir.VectorType(I32, lanes)) for word in words]
    while len(rows) > 1:
        pairs = zip(rows[::2], rows[1::2], strict=True)
        rows = [shuffle(b, x, y, range(2 * x.type.count)) for x, y in pairs]
    return shuffle(b, rows[0], rows[0], [lanes * word + lane for lane in range(lanes) for word in range(len(words))])


class _Words:
    """Arithmetic on vectors of words of 32 bits that are held in 64."""

    def __init__(self, b: Any, kind: Any) -> None:
        self.b, self.kind = b, kind

    def const(self, number: int) -> Any:
        return ir.Constant(self.kind, [number] * self.kind.count)

    def low(self, x: Any) -> Any:
        return self.b.and_(x, self.const(LOW))

    def high(self, x: Any) -> Any:
        return self.b.lshr(x, self.const(32))

    def sum(self, x: Any, y: Any) -> Any:
        return self.low(self.b.add(x, y))

    def halves(self, number: Any) -> tuple[Any, Any]:
        """The words of a number of 64 bits, in all lanes."""
        wide = _spread(self.b, number, self.kind)
        return self.low(wide), self.high(wide)


def _philox(b: Any, key: Any, high: Any, counters: Any) -> list[Any]:
    w = _Words(b, counters.type)
    c = [w.low(counters), w.high(counters), *w.halves(high)]
    keys = w.halves(key)
    for _ in range(10):
        x, y = b.mul(c[0], w.const(0xD2511F53)), b.mul(c[2], w.const(0xCD9E8D57))
        c = [b.xor(b.xor(w.high(y), c[1]), keys[0]), w.low(y), b.xor(b.xor(w.high(x), c[3]), keys[1]), w.low(x)]
        keys = w.sum(keys[0], w.const(0x9E3779B9)), w.sum(keys[1], w.const(0xBB67AE85))
    return c


def _threefry(b: Any, key: Any, high: Any, counters: Any) -> list[Any]:
    w = _Words(b, counters.type)
    one, two = w.halves(key)
    keys = one, two, b.xor(b.xor(one, two), w.const(PARITY))
    x, y = w.sum(w.low(counters), one), w.sum(w.high(counters), two)
    for round_ in range(5):
        for turn in TURNS[round_ % 2]:
            x = w.sum(x, y)
            turned = b.or_(b.shl(y, w.const(turn)), b.lshr(y, w.const(32 - turn)))
            y = b.xor(w.low(turned), x)
        x = w.sum(x, keys[(round_ + 1) % 3])
        y = w.sum(w.sum(y, keys[(round_ + 2) % 3]), w.const(round_ + 1))
    return [x, y]
