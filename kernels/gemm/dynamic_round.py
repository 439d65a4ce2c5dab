"""Rounds f32 to bytes by their range: the kernel `extremes` finds the least and the greatest numbers, `dynamic_round`
rounds.

Threads split both: `extremes` by parts of an image, which `dynamic_round` combines.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import add
from typing import Any

from ..core.record import fields
from ..isa.byte_ops import fill_run
from ..isa.integer import has_inverse, in_order, round_to_int, to_bytes, whole_quotient
from ..isa.stores import store_first
from ..isa.tiers import Tier
from ..lang import Registers, Value, along, every_tier, fold, registers, share, slices, tier, traced, whole
from ..lang.control import either, over, when
from ..lang.instructions import choose, divide, fma, larger, smaller
from ..lang.types import F32, I8, I32, I64, Type
from .rows import EXTREMES, GRIDS, RANGE_BYTES, ROUND

TINY = 1e-30
UNROLL = 4


def _seen(f32: Type) -> Registers:
    """Registers for the least and the greatest number so far, from 0.0 on; the third is NaN once a number isn't finite,
    as comparisons lose NaNs.
    """
    return registers([f32(0)] * 3)


def _see(seen: Registers, least: Value, greatest: Value) -> None:
    seen[0] = smaller(least, seen[0])
    seen[1] = larger(greatest, seen[1])
    seen[2] = fma(least, 0, seen[2])


@every_tier
def make_extremes(args: int, thread: int, threads: int) -> None:
    """The kernel that finds the extremes of parts; its record is `rows.EXTREMES`."""
    r = fields(args, EXTREMES)
    first, end = share(r.images * r.parts, thread, threads)
    for unit in range(first, end):
        image = divide(unit, r.parts)
        part = unit - image * r.parts
        left, right = slices(r.count, part, r.parts)
        _find(r.x + 4 * (image * r.count + left), right - left, r.extremes + 8 * unit)


@traced
def _find(x: Value, count: Value, to: Value) -> None:
    """Store the extremes of `count` numbers."""
    f32 = F32.vector(tier().lanes)
    block = f32.times(UNROLL)
    wide, narrow = _seen(block), _seen(f32)
    for some, i, mask in along(f32, 0, count, UNROLL):
        value = some[F32.at(x) + i, mask]
        _see(wide if some is block else narrow, value, value)

    def total(k: int, combine: Callable[[Value, Value], Value]) -> Value:
        return fold(combine, combine(fold(combine, wide[k], f32.lanes), narrow[k]))[0]

    odd = total(2, add)
    for k, combine in enumerate((smaller, larger)):
        F32.at(to)[k] = total(k, combine) + odd


def make_round(tier: Tier, out: str) -> Callable[..., None]:
    """The kernel that rounds to the numbers of a range; its record is `rows.ROUND`.

    out: "u8" for stored bytes, 128 more than LiteRT's, or "f32" for numbers as the record says.
    """
    convert, size = (_to_bytes, 1) if out == "u8" else (_to_reals, 4)

    def run(args: int, thread: int, threads: int) -> None:
        r = fields(args, ROUND)
        lines, line = r.top + r.rows + r.bottom, r.left + r.run + r.right
        first, end = share(r.images * lines, thread, threads)
        made, blank = -1, 0
        for unit in range(first, end):
            image = divide(unit, lines)
            own = image * r.per_image
            row, at, to = unit - image * lines - r.top, r.ranges + own * RANGE_BYTES, r.y + unit * line * size
            if image != made:
                # Threads that share an image all write the same.
                _make_range(r.extremes + 8 * own * r.parts, r.parts, at, r.grid)
                made, blank = image, _repeated(I64[at])
            if row < 0 or row >= r.rows:
                fill_run(to, blank, line)
            else:
                fill_run(to, blank, r.left)
                convert(r.x + 4 * (image * r.rows + row) * r.run, to + r.left * size, r.run, at, r.grid, r.whole)
                fill_run(to + (r.left + r.run) * size, blank, r.right)

    return run


@traced
def _repeated(first: Any) -> Any:
    """The byte for 0.0 of a range, repeated eight times."""
    return (-(first >> 32) & 255) * 0x0101010101010101


@traced
def _make_range(extremes: Value, parts: Value, to: Value, grid: Value) -> None:
    """Write the range of an image from the extremes of its parts."""
    f32 = F32.vector(tier().lanes)
    start, seen = F32.at(extremes), _seen(f32)
    for i in over(parts):
        least, greatest = (f32(start[(i << 1) + j]) for j in (0, 1))
        _see(seen, least, greatest)
    bottom, top, odd = seen.values()
    scale, factor, zero = _range(grid, bottom, top)
    values = scale + odd, (-128 - zero).bits(F32), factor, zero.to(F32)
    for k, value in enumerate(values):
        F32.at(to)[k] = value[0]


def _range(grid: Value, bottom: Value, top: Value) -> list[Value]:
    """(scale, steps per unit, s8 for 0.0) of a grid, from the extremes of an image."""
    reach = larger(larger(-bottom, top), TINY)
    symmetric = reach / 127, 127 / reach, I32.like(top.type)(0)
    step = (top - bottom) / 255
    scale = larger(step, TINY)
    zero = round_to_int(-128 - bottom / scale)
    asymmetric = scale, 1 / scale, zero
    scale = choose(step == 0, 1, step)
    onnx = scale, scale, round_to_int(-bottom / scale) - 128
    is_symmetric, is_onnx = (grid == GRIDS.index(name) for name in ("symmetric", "onnx"))
    slots = zip(symmetric, asymmetric, onnx, strict=True)
    return [choose(is_symmetric, x, choose(is_onnx, z, y)) for x, y, z in slots]


Number = Callable[[Value], Value]
"""From f32 to the numbers (i32) of a range."""


def _rounders(f32: Type, at: Value, grid: Value, body: Callable[[Number], None]) -> None:
    """body(number) for either kind of grid, for the range at an address."""
    start = F32.at(at)
    factor, zero = f32(start[2]), f32(start[3])
    with either(grid == GRIDS.index("onnx")) as (divides, multiplies):
        with divides:
            scale, shift = f32(start[0]), zero.to(I32)
            with either(has_inverse(start[0])) as (usual, extreme):
                with usual:
                    inverse = f32(F32(1.0) / start[0])
                    body(lambda x: round_to_int(whole_quotient(x, scale, inverse)) + shift)
                with extreme:
                    body(lambda x: round_to_int(x / scale) + shift)
        with multiplies:
            body(lambda x: round_to_int(x * factor + zero))


@traced
def _to_bytes(x: Value, y: Value, count: Value, at: Value, grid: Value, _: Value) -> None:
    """Round `count` f32 to bytes."""
    f32 = F32.vector(tier().lanes)
    _rounders(f32, at, grid, partial(_bytes, f32, F32.at(x), I8.at(y), count))


def _bytes(f32: Type, source: Value, target: Value, count: Value, number: Number) -> None:
    width = UNROLL * f32.lanes
    rounded = to_bytes(I64(128), whole=lambda *values: number(values[-1]))

    def packed(i: Any, rest: Value | None = None) -> Value:
        values = []
        for n in range(UNROLL):
            mask = None if rest is None else f32.below(rest - n * f32.lanes)
            values.append(f32[source + (i + n * f32.lanes), mask])
        return in_order(rounded(values))

    def put(i: Value) -> None:
        stored = packed(i)
        stored.type[target + i] = stored

    end = whole(count, width)
    for i in over(0, end, width):
        put(i)
    rest = count - end
    with when(rest > 0), either(end > 0, likely=True) as (again, few):
        with again:
            put(count - width)
        with few:
            store_first(packed(0, rest), target, rest)


@traced
def _to_reals(x: Value, y: Value, count: Value, at: Value, grid: Value, whole: Value) -> None:
    """Round `count` f32 to the reals of bytes, or to whole numbers of steps."""
    f32 = F32.vector(tier().lanes)
    step, zero = (f32(F32.at(at)[i]) for i in (0, 3))
    scale = choose(whole != 0, 1, step)

    def body(number: Number) -> None:
        for some, i, mask in along(f32, 0, count, 1):
            steps = number(some[F32.at(x) + i, mask]).to(F32)
            some[F32.at(y) + i, mask] = (smaller(larger(steps, -128), 127) - zero) * scale

    _rounders(f32, at, grid, body)
