"""Rounding f32 to bytes by the range they have: first the least and the greatest numbers, then the rounding.

Threads share both: `extremes` finds those of parts of an image, `dynamic_round` combines the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..core.record import reader
from ..isa.byte_ops import run_filler
from ..isa.integer import in_order, round_to_int, to_bytes
from ..isa.interleave import store_bytes, store_first
from ..isa.loops import divide, each, fold, loop, thread_range, thread_slices, variable, whole
from ..isa.tiers import Tier
from ..isa.vector import I8, I32, I64, Vector, arg, emits
from .rows import EXTREMES, GRIDS, RANGE_BYTES, ROUND

TINY = 1e-30
UNROLL = 4


def least(v: Vector, x: Any, y: Any) -> Any:
    """The lesser, or y where one is NaN."""
    return v.b.select(v.b.fcmp_ordered("<", x, y), x, y)


def greatest(v: Vector, x: Any, y: Any) -> Any:
    """The greater, or y where one is NaN."""
    return v.b.select(v.b.fcmp_ordered(">", x, y), x, y)


def make_extremes(tier: Tier) -> Callable[..., None]:
    """The kernel that finds the extremes of parts; its record is `rows.EXTREMES`."""
    fields = reader(EXTREMES)

    @emits
    def find(b: Any, x: Any, count: Any, to: Any) -> None:
        v = Vector(b, tier)
        block = Vector(b, tier, UNROLL * v.lanes)
        start = v.pointer(x)
        # The third becomes NaN when a number isn't finite: NaNs are lost in comparisons.
        wide, narrow = ([variable(b, w.const(0)) for _ in range(3)] for w in (block, v))

        def take(w: Vector, i: Any, mask: Any) -> None:
            low, high, odd = wide if w.lanes == block.lanes else narrow
            value = w.load(w.at(start, i), mask)
            b.store(least(w, value, b.load(low)), low)
            b.store(greatest(w, value, b.load(high)), high)
            b.store(w.fma(value, w.const(0), b.load(odd)), odd)

        each(v, I64(0), count, take, UNROLL)

        def total(i: int, combine: Callable[[Vector, Any, Any], Any]) -> Any:
            both = combine(v, fold(block, b.load(wide[i]), combine, v.lanes), b.load(narrow[i]))
            return b.extract_element(fold(v, both, combine), I32(0))

        odd = total(2, lambda w, p, q: w.b.fadd(p, q))
        for i, combine in enumerate((least, greatest)):
            b.store(b.fadd(total(i, combine), odd), v.at(v.pointer(to), i))

    def run(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        first, end = thread_range(r.images * r.parts, thread, threads)
        for unit in range(first, end):
            image = divide(unit, r.parts)
            part = unit - image * r.parts
            left, right = thread_slices(r.count, part, r.parts)
            find(r.x + 4 * (image * r.count + left), right - left, r.extremes + 8 * unit)

    return run


def make_round(tier: Tier, out: str) -> Callable[..., None]:
    """The kernel that rounds to the numbers of a range; its record is `rows.ROUND`.

    out: "u8" for the numbers' bytes, 128 more than LiteRT's, or "f32" for what the record says of them.
    """
    fields = reader(ROUND)
    prepare, fill = _range_maker(tier), run_filler(tier)
    convert, size = (_to_bytes(tier), 1) if out == "u8" else (_to_reals(tier), 4)

    def run(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        lines, line = r.top + r.rows + r.bottom, r.left + r.run + r.right
        first, end = thread_range(r.images * lines, thread, threads)
        made, blank = -1, 0
        for unit in range(first, end):
            image = divide(unit, lines)
            own = image * r.per_image
            row, at, to = unit - image * lines - r.top, r.ranges + own * RANGE_BYTES, r.y + unit * line * size
            if image != made:
                # Threads that share an image all write the same.
                prepare(r.extremes + 8 * own * r.parts, r.parts, at, r.grid)
                made, blank = image, (-(arg(at, 0) >> 32) & 255) * 0x0101010101010101
            if row < 0 or row >= r.rows:
                fill(to, blank, line)
            else:
                fill(to, blank, r.left)
                convert(r.x + 4 * (image * r.rows + row) * r.run, to + r.left * size, r.run, at, r.grid, r.whole)
                fill(to + (r.left + r.run) * size, blank, r.right)

    return run


def _range_maker(tier: Tier) -> Any:
    """An intrinsic that writes the range of an image whose parts have these extremes."""

    @emits
    def prepare(b: Any, extremes: Any, parts: Any, to: Any, grid: Any) -> None:
        v = Vector(b, tier)
        start = v.pointer(extremes)
        low, high, odd = (variable(b, v.const(0)) for _ in range(3))
        with loop(b, 0, parts, 1) as i:
            x, y = (v.broadcast(v.at(start, b.add(b.shl(i, I64(1)), I64(j)))) for j in (0, 1))
            b.store(least(v, x, b.load(low)), low)
            b.store(greatest(v, y, b.load(high)), high)
            b.store(v.fma(x, v.const(0), b.load(odd)), odd)
        bottom, top = b.load(low), b.load(high)
        scale, factor, zero = _range(v, grid, bottom, top)
        minus = b.bitcast(b.sub(v.iconst(-128), zero), v.type)
        values = b.fadd(scale, b.load(odd)), minus, factor, b.sitofp(zero, v.type)
        for i, value in enumerate(values):
            b.store(b.extract_element(value, I32(0)), v.at(v.pointer(to), i))

    return prepare


def _range(v: Vector, grid: Any, bottom: Any, top: Any) -> Iterable[Any]:
    """(scale, steps per unit, s8 for 0.0) of a grid, for the extremes of an image."""
    b = v.b
    reach = greatest(v, greatest(v, b.fneg(bottom), top), v.const(TINY))
    symmetric = b.fdiv(reach, v.const(127)), b.fdiv(v.const(127), reach), v.iconst(0)
    step = b.fdiv(b.fsub(top, bottom), v.const(255))
    scale = greatest(v, step, v.const(TINY))
    zero = round_to_int(v, b.fsub(v.const(-128), b.fdiv(bottom, scale)))
    asymmetric = scale, b.fdiv(v.const(1), scale), zero
    scale = b.select(b.fcmp_ordered("==", step, v.const(0)), v.const(1), step)
    onnx = scale, scale, b.sub(round_to_int(v, b.fdiv(b.fneg(bottom), scale)), v.iconst(128))
    is_symmetric, is_onnx = (_is(b, grid, name) for name in ("symmetric", "onnx"))
    for x, y, z in zip(symmetric, asymmetric, onnx, strict=True):
        yield b.select(is_symmetric, x, b.select(is_onnx, z, y))


def _is(b: Any, grid: Any, name: str) -> Any:
    return b.icmp_signed("==", grid, I64(GRIDS.index(name)))


def _rounders(v: Vector, at: Any, grid: Any, body: Callable[[Callable[[Any], Any]], None]) -> None:
    """Emit body(number) for either kind of grid; number(x): the numbers (i32) of f32 by the range at an address."""
    b, start = v.b, v.pointer(at)
    factor, zero = v.broadcast(v.at(start, 2)), v.broadcast(v.at(start, 3))
    with b.if_else(_is(b, grid, "onnx")) as (divides, multiplies):
        with divides:
            scale, shift = v.broadcast(start), b.fptosi(zero, v.itype)
            body(lambda x: b.add(round_to_int(v, b.fdiv(x, scale)), shift))
        with multiplies:
            body(lambda x: round_to_int(v, b.fadd(b.fmul(x, factor), zero)))


def _to_bytes(tier: Tier) -> Any:
    """An intrinsic that rounds `count` f32 to bytes."""

    @emits
    def convert(b: Any, x: Any, y: Any, count: Any, at: Any, grid: Any, _: Any) -> None:
        v = Vector(b, tier)
        _rounders(v, at, grid, lambda number: _bytes(v, x, y, count, number))

    return convert


def _bytes(v: Vector, x: Any, y: Any, count: Any, number: Callable[[Any], Any]) -> None:
    """Emit the bytes of `count` numbers."""
    b = v.b
    source, target = v.pointer(x), b.inttoptr(y, I8.as_pointer())
    width = UNROLL * v.lanes
    rounded = to_bytes(v, I64(128), whole=lambda _, x: number(x))

    def packed(i: Any, rest: Any = None) -> Any:
        values = []
        for n in range(UNROLL):
            mask = None if rest is None else v.mask(b.sub(rest, I64(n * v.lanes)))
            values.append(v.load(v.at(source, b.add(i, I64(n * v.lanes))), mask))
        return in_order(v, rounded(values))

    end = whole(b, count, width)
    with loop(b, 0, end, width) as i:
        store_bytes(v, packed(i), b.gep(target, [i]))
    rest = b.sub(count, end)
    with b.if_then(b.icmp_signed(">", rest, I64(0))):
        with b.if_else(b.icmp_signed(">", end, I64(0)), likely=True) as (again, few):
            with again:
                last = b.sub(count, I64(width))
                store_bytes(v, packed(last), b.gep(target, [last]))
            with few:
                store_first(v, packed(I64(0), rest), target, rest)


def _to_reals(tier: Tier) -> Any:
    """An intrinsic that rounds `count` f32 to those that bytes can stand for, or to whole numbers of steps."""

    @emits
    def convert(b: Any, x: Any, y: Any, count: Any, at: Any, grid: Any, whole: Any) -> None:
        v = Vector(b, tier)
        source, target = v.pointer(x), v.pointer(y)
        step, zero = (v.broadcast(v.at(v.pointer(at), i)) for i in (0, 3))
        scale = b.select(b.icmp_signed("!=", whole, I64(0)), v.const(1), step)

        def body(number: Callable[[Any], Any]) -> None:
            def element(w: Vector, i: Any, mask: Any) -> None:
                value = w.load(w.at(source, i), mask)
                whole = b.sitofp(number(value), w.type)
                held = least(w, greatest(w, whole, w.const(-128)), w.const(127))
                w.store(b.fmul(b.fsub(held, zero), scale), w.at(target, i), mask)

            each(v, I64(0), count, element, unroll=1)

        _rounders(v, at, grid, body)

    return convert
