"""Maxima and averages of bytes over sliding windows, channels last; a mean over space has one window, the whole map."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..isa.integer import to_bytes
from ..isa.interleave import unpack
from ..isa.stores import store_some
from ..isa.tiers import Tier
from ..lang import F32, F64, I32, I64, U8, U16, Type, Value, cases, choose, over, register, registers, smaller, when
from .pool import columns_counted, pooled, rows_counted
from .pool_any import pooled_any
from .rows import POOL_INT8
from .window import Place, Range, nest, rows_inside, slots, steps_inside, vectors_of

_LARGE = 2.0**127
TILED = 2
"""The stride in columns of windows whose maxima are computed in tiles."""
UNROLLED = (2, 3, 5)
"""Square windows whose sums are unrolled."""
RUN = 256
"""Bytes whose sum fits into 16 bits."""


def make_pool(tier: Tier, op: str) -> Callable:
    """y[n, i, j, c] = clamp of the largest, or of rint((sum - count * zero_x) * f32(ratio / count)) + zero_y, of the
    x[n, i*stride_y + p*dilation_y - pad_y, j*stride_x + q*dilation_x - pad_x, c] inside of the image, whose depth is 1.

    op: "max" or "sum"; count: 1 of a sum, of an average the elements, or the places of the padded image where its slots
    say so.
    """
    kind = U8.vector(4 * tier.lanes)
    return nest(POOL_INT8, _maxima(tier, kind) if op == "max" else partial(_averages, kind))


def _maxima(tier: Tier, kind: Type) -> Callable[[Place], None]:
    """A row of maxima. Those of the most common windows come in tiles."""
    tiles = {size: pooled(tier, POOL_INT8, kind, "max", size, TILED) for size in (2, 3)}
    others = pooled_any(POOL_INT8, kind, "max")

    def row_of_outputs(place: Place) -> None:
        r = slots(place.args, POOL_INT8)
        bodies = {size: partial(row, place) for size, row in tiles.items()}
        tiled = (r.stride_x == TILED) & (r.dilation_x == 1)
        cases(choose(tiled, r.k_w, 0), bodies, partial(others, place))

    return row_of_outputs


def _averages(kind: Type, place: Place) -> None:
    """A row of sums or averages."""
    r = slots(place.args, POOL_INT8)
    begin, rows = rows_inside(r, place, U8.size)
    y = r.y + (place.image * r.out_h + place.row) * r.out_w * r.ldy
    for column in over(*place.columns):
        left = column * r.stride_x - r.pad_x
        columns = steps_inside(r.w, left, r.dilation_x, r.k_w)
        elements = (rows[1] - rows[0]) * (columns[1] - columns[0])
        count = register(choose(r.average != 0, elements, 1))
        with when(r.include_pad != 0):
            count.value = rows_counted(r, place, (I64(0), I64(1)), rows) * columns_counted(r, left)
        rounded = _rounder(r, kind, elements, count.value)
        for channel in vectors_of(r, place, kind):
            sums = _sums(r, kind, U8.at(begin + left * r.ldx + channel), rows, columns)
            store_some(rounded(sums), y + column * r.ldy + channel, r.c)


def _rounder(r: Any, kind: Type, elements: Value, count: Value) -> Callable[[list[Value]], Value]:
    """A function that turns the sums of `elements` bytes, of which `count` are averaged, into bytes."""
    i32 = I32.vector(kind.lanes // 4)
    # An infinite factor would make NaN of a sum of 0.
    factor = F32.like(i32)(smaller(r.ratio.bits(F64) / count.to(F64), _LARGE).to(F32))
    shift, rounded = i32((elements * r.zero_x).to(I32)), to_bytes(r.zero_point, r.low, r.high)
    return lambda sums: rounded([(total - shift).to(F32) * factor for total in sums])


def _sums(r: Any, kind: Type, x: Value, rows: Range, columns: Range) -> list[Value]:
    """The sums of a vector of bytes over the rows and columns of a window that exist, in the order of `unpack`; x: the
    pointer to the first of all.
    """
    none, u16, i32 = kind(0), U16.vector(kind.lanes // 2), I32.vector(kind.lanes // 4)
    sums, part = registers([i32(0)] * 4), registers([u16(0)] * 2)
    down, right = r.w * r.ldx * r.dilation_y, r.ldx * r.dilation_x

    def add(place: Value) -> None:
        for k in range(2):
            part[k] = part[k] + unpack(kind[place], none, bool(k)).bits(U16)

    def flush() -> None:
        """Add the 16-bit sums, of at most RUN bytes each, to the 32-bit ones."""
        for k in range(4):
            sums[k] = sums[k] + unpack(part[k // 2], u16(0), bool(k % 2)).bits(I32)
        part.set([u16(0)] * 2)

    def unrolled(size: int) -> None:
        first = x + (down * rows[0] + right * columns[0])
        for p in range(size):
            for q in range(size):
                add(first + (down * p + right * q))
        flush()

    def any_size() -> None:
        for p in over(*rows):
            line = x + down * p
            for start in over(*columns, RUN):
                for q in over(start, smaller(start + RUN, columns[1])):
                    add(line + right * q)
                flush()

    high, wide = (end - begin for begin, end in (rows, columns))
    cases(choose(high == wide, high, 0), {size: partial(unrolled, size) for size in UNROLLED}, any_size)
    return sums.values()
