"""The table kernel: y = table[x], where the bits of x, as an unsigned number, are the index."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..core.record import fields
from ..isa.stores import store_first
from ..isa.tiers import Tier
from ..lang import I8, I64, Type, Value, choose, each_vector, intrinsic, over, shuffle, whole, word
from ..lang import tier as at_hand
from .elementwise import Row, over_rows
from .rows import LOOKUP

UNROLL = 4
Look = Callable[[Value], Value]
"""From a vector of indices to one of entries."""


def make(tier: Tier, index: int, value: int, vbmi: bool) -> Callable[..., None]:
    """The kernel for x and y of elements of `index` and `value` bytes. `vbmi` (bytes, 512-bit tiers): the CPU permutes
    bytes across a register, so that four registers hold the table."""
    i8 = I8.vector(4 * tier.lanes)

    def prepare(args: Value) -> Row:
        table = word(value).at(fields(args, LOOKUP).table)
        if index == value == 1 and tier.byte_shuffle:
            return partial(_vectors, i8, (_permuted if vbmi else _shuffled)(i8, table))
        return partial(_one_by_one, table)

    return over_rows(word(value), word(index), prepare)


def _one_by_one(table: Value, x: Value, y: Value, left: Value, right: Value) -> None:
    end = left + whole(right - left, UNROLL)
    for i in over(left, end, UNROLL):
        for k in range(UNROLL):
            y[i + k] = table[x[i + k].to(I64)]
    for i in over(end, right):
        y[i] = table[x[i].to(I64)]


def _vectors(i8: Type, look: Look, x: Value, y: Value, left: Value, right: Value) -> None:
    """Reads whole vectors, over the end."""

    def apply(kind: Type, i: Value, rest: Value | None = None) -> None:
        store_first(look(kind[x + i]), y + i, rest)

    each_vector(i8, left, right, apply)


def _permuted(i8: Type, table: Value) -> Look:
    """Two permutations of 128 entries each, of which the index's high bit chooses one."""
    parts = [i8[table + 64 * k] for k in range(4)]

    def look(x: Value) -> Value:
        low, high = (at_hand().isa.permute_bytes(parts[k], x, parts[k + 1]) for k in (0, 2))
        return choose(x < 0, high, low)

    return look


def _shuffled(i8: Type, table: Value) -> Look:
    """The table by sixteen shuffles of 16 bytes. A shuffle gives 0 for a negative index and otherwise reads 4 bits of
    it. Each shuffle holds the difference (xor) of adjacent parts of the table, and the index falls by 16 from one to
    the next, so that the xor of all is the entry."""
    loaded = [I8.vector(16)[table + 16 * k] for k in range(16)]
    # The two halves of the table begin anew, for indices without and with their high bit.
    steps = [x if k % 8 == 0 else x ^ loaded[k - 1] for k, x in enumerate(loaded)]
    parts = [shuffle(x, [i % 16 for i in range(i8.lanes)]) for x in steps]

    def look(x: Value) -> Value:
        found = i8(0)
        for half in (0, 8):
            index = x ^ -0x80 if half else x
            for part in parts[half : half + 8]:
                found = found ^ at_hand().isa.shuffle_bytes(part, index)
                index = intrinsic("ssub.sat", index, 16)
        return found

    return look
