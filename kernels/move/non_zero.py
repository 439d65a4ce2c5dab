"""The indices of elements that are not 0."""

from __future__ import annotations

from ..core.record import fields
from ..isa.byte_ops import by_size, fill_run
from ..lang import I64, Value, choose, div_rem, divide, every_tier, register, share, traced, word
from .rows import NON_ZERO


@every_tier
def non_zero(args, thread, threads):
    """The kernel, for one thread: each result's position depends on the number of those before it. Words of zeros are
    skipped.
    """
    r = fields(args, NON_ZERO)
    begin, end = share(1, thread, threads)
    for _ in range(begin, end):
        together, count, i = divide(8, r.size), 0, 0
        while i < r.n:
            if i + together <= r.n and I64[r.x + r.size * i] == 0:
                i += together
            else:
                if _counts(r.x + r.size * i, r.size, r.real) != 0:
                    place, axis = i, r.rank - 1
                    while axis > 0:
                        rest, along = div_rem(place, I64[r.dims + 8 * axis])
                        I64[r.places + 8 * (axis * r.n + count)] = along
                        place = rest
                        axis -= 1
                    I64[r.places + 8 * count] = place
                    count += 1
                i += 1
        I64[r.count] = count
        for axis in range(r.rank):
            fill_run(r.places + 8 * (axis * r.n + count), 0, 8 * (r.n - count))


@traced
def _counts(at: Value, size: Value, real: Value) -> Value:
    """1 where an element is not 0."""
    found = register(0)

    def element(nbytes: int) -> None:
        bits = word(nbytes)[at]
        bits = choose(real != 0, bits << 1, bits)
        found.value = (bits != 0).to(I64)

    by_size(size, element)
    return found.value
