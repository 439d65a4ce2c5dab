"""Where elements are that are not 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import reader
from ..isa.byte_ops import by_size, get, put, read, run_filler, word
from ..isa.loops import div_rem, divide, thread_range, variable
from ..isa.tiers import Tier
from ..isa.vector import I64, emits
from .rows import NON_ZERO


def non_zero(tier: Tier) -> Callable:
    """The kernel, of one thread: each place hangs on how many come before it. Words of zeros are passed over."""
    fields, fill = reader(NON_ZERO), run_filler(tier)

    def kernel(args, thread, threads):
        r = fields(args)
        begin, end = thread_range(1, thread, threads)
        for _ in range(begin, end):
            together, count, i = divide(8, r.size), 0, 0
            while i < r.n:
                if i + together <= r.n and get(r.x + r.size * i) == 0:
                    i += together
                else:
                    if _counts(r.x + r.size * i, r.size, r.real) != 0:
                        place, axis = i, r.rank - 1
                        while axis > 0:
                            rest, along = div_rem(place, get(r.dims + 8 * axis))
                            put(r.places + 8 * (axis * r.n + count), along)
                            place = rest
                            axis -= 1
                        put(r.places + 8 * count, place)
                        count += 1
                    i += 1
            put(r.count, count)
            for axis in range(r.rank):
                fill(r.places + 8 * (axis * r.n + count), 0, 8 * (r.n - count))

    return kernel


@emits
def _counts(b: Any, at: Any, size: Any, real: Any) -> Any:
    """1 where an element is not 0."""
    slot = variable(b, I64(0))

    def element(nbytes: int) -> None:
        kind = word(nbytes)
        bits = read(b, at, kind)
        bits = b.select(b.icmp_signed("!=", real, I64(0)), b.shl(bits, kind(1)), bits)
        b.store(b.zext(b.icmp_unsigned("!=", bits, kind(0)), I64), slot)

    by_size(b, size, element)
    return b.load(slot)
