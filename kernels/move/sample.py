"""Images sampled at coordinates that are read at run time: f32, along up to three axes.

The taps (offset in a channel, weight) of a few points are computed first, in f64; then the sums: in vectors of channels
where these lie together, else channel by channel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..core.record import fields
from ..isa.functions import series
from ..lang import Value, along, cases, either, every_tier, over, pieces, register, room, share, tier, traced, when
from ..lang.instructions import choose, div_rem, divide, is_nan, larger, smaller
from ..lang.types import BIT, F32, F64, I32, I64, Type
from .rows import CUBIC, LINEAR, NEAREST, PADDED, POINT, REFLECTED, REGION, SAMPLE, ZEROS

TAPS = 1024
"""How many are kept, of as many points as those are; a point of three axes has up to 64."""
POINTS = TAPS // 4
"""How many that are for bilinear sampling; taps are then apart by as many."""
FAR = 2.0**52
"""A coordinate further out counts as this far."""
STEEPNESS = -0.75
"""Of the cubic curve."""


@every_tier
def sample(args, thread, threads):
    r = fields(args, SAMPLE)
    points = r.rows * r.columns
    together = divide(TAPS >> (r.mode * r.axes), r.pool * r.pool)
    blocks = pieces(points, together)
    begin, end = share(r.items * blocks, thread, threads)
    for unit in range(begin, end):
        item, block = div_rem(unit, blocks)
        asked = I64[r.images + 8 * item]
        image = larger(smaller(asked, r.image_count - 1), 0)
        if image != asked:
            I64[r.error] = 1
        first = block * together
        grid = r.grid + divide(item, r.share) * r.grid_item
        to = r.dst + item * r.dst_item + first * r.dst_point
        _block(args, grid, to, r.src + image * r.src_image, first, smaller(points - first, together))


Place = tuple[Value, Value]
"""A row and a column of points."""


@dataclass(frozen=True)
class _Taps:
    """The taps of some points, `count` for each; `point` and `each`: from point to point, and from tap to tap."""

    count: Value
    point: Value
    each: Value
    offsets: Value
    """Bytes from a channel's start."""
    weights: Value
    final: Value
    """The weights as f32."""
    start: Value
    """The initial sums of a point."""


@traced
def _block(args: Value, grid: Value, to: Value, src: Value, first: Value, count: Value) -> None:
    """Samples `count` points from `first` on; `to`: the address of their results in the first channel."""
    r = fields(args, SAMPLE)
    plane, each = (r.axes == 2) & (r.mode == LINEAR), I64(1) << r.mode * r.axes
    steps = choose(plane, 1, each), choose(plane, POINTS, 1)
    taps = _Taps(each, *steps, room(I64, TAPS), room(F64, TAPS), room(F32, TAPS), room(F32, TAPS))
    with either(plane) as (bilinear, others):
        with bilinear:
            numbers = partial(_grid_numbers, r, args, taps, grid)
            with either(r.pool == 1) as (single, several):
                with single:
                    _points(r, first, count, numbers)
                with several:
                    _samples(r, first, count, numbers)
            _bilinear(r, args, taps, count * r.pool * r.pool)
        with others:
            _points(r, first, count, partial(_point, r, args, taps, grid))
    many = (r.channels > 1) | (r.pool > 1)
    with either((r.src_channel == 4) & (r.dst_channel == 4) & many) as (last, others):
        with last:
            _sums_of_channels(r, taps, to, src, count)
        with others:
            _sums(r, taps, to, src, count)


def _points(r: Any, first: Value, count: Value, point: Callable[[Place, Value], None]) -> None:
    """point((row, column), p) for each point p < `count` from `first` on."""
    row, column = map(register, div_rem(first, r.columns))
    for p in over(count):
        point((row.value, column.value), p)
        column.value = column.value + 1
        with when(column.value == r.columns):
            row.value, column.value = row.value + 1, I64(0)


def _samples(r: Any, first: Value, count: Value, point: Callable[[Place, Value], None]) -> None:
    """As `_points`, for each of a point's samples, point by point."""

    def each(place: Place, p: Value) -> None:
        row, column = (n * r.pool for n in place)
        for down in over(r.pool):
            for across in over(r.pool):
                point((row + down, column + across), (p * r.pool + down) * r.pool + across)

    _points(r, first, count, each)


def _grid_numbers(r: Any, args: Value, taps: _Taps, grid: Value, place: Place, p: Value) -> None:
    """The two numbers of the grid that a point has, where its weights will be."""
    for k in range(2):
        taps.weights[p + k * POINTS] = _grid_number(r, _axis(args, k), grid, place)


def _bilinear(r: Any, args: Value, taps: _Taps, count: Value) -> None:
    """As `_point`, for vectors of points, with two axes of two taps each (bilinear)."""
    f64 = F64.vector(max(tier().lanes // 2, 1))
    f32, i64 = F32.like(f64), I64.like(f64)
    for p in over(I64(0), count, f64.lanes):
        inside, along_axes = BIT(1), []
        for k in range(2):
            axis = _axis(args, k)
            x = _pixel(r, axis, f64[taps.weights + p + k * POINTS])
            inside = inside & _is_within(r, axis, x)
            along_axes.append(_linear(r, axis, x))
        out, total = (r.outside >= PADDED) & ~inside, f64(0)
        for j, (offset, weight) in enumerate(along_axes[0]):
            for t, (more, factor) in enumerate(along_axes[1]):
                place, product = p + (2 * j + t) * POINTS, choose(out, 0.0, weight * factor)
                i64[taps.offsets + place], f32[taps.final + place] = offset + more, product.to(F32)
                total = total + product
        f32[taps.start + p] = _start(r, out, total)


def _point(r: Any, args: Value, taps: _Taps, grid: Value, place: Place, p: Value) -> None:
    """The taps of one point: all combinations of those along each axis."""
    base = p * taps.count
    taps.offsets[base] = 0
    taps.weights[base] = 1
    known, inside = register(1), register(BIT(1))
    offsets, weights = room(I64, 4), room(F64, 4)
    for k in over(r.axes):
        axis = _axis(args, k)
        x = _pixel(r, axis, _grid_number(r, axis, grid, place))
        inside.value = inside.value & _is_within(r, axis, x)
        _axis_taps(r, axis, x, offsets, weights)
        n, each = known.value, I64(1) << r.mode
        # From the last on, as each becomes several.
        for back in over(n):
            j = n - 1 - back
            at = base + j
            offset, weight = taps.offsets[at], taps.weights[at]
            for t in over(each):
                other = base + (j * each + t)
                taps.offsets[other] = offset + offsets[t]
                taps.weights[other] = weight * weights[t]
        known.value = n * each
    _finish(r, taps, base, p, inside.value)


def _finish(r: Any, taps: _Taps, base: Value, p: Value, inside: Value) -> None:
    """The initial value of a point's sums, and its weights as f32."""
    out = (r.outside >= PADDED) & ~inside
    total = register(F64(0))
    for t in over(taps.count):
        at = base + t
        weight = choose(out, 0.0, taps.weights[at])
        taps.final[at] = weight.to(F32)
        total.value = total.value + weight
    taps.start[p] = _start(r, out, total.value)


def _start(r: Any, out: Value, total: Value) -> Value:
    """What sums begin with: of a point that is `out`, or whose weights have this sum."""
    pad = r.pad.to(I32).bits(F32)
    rest = ((1.0 - total) * pad.to(F64)).to(F32)
    # A pad that is no number counts as 0.
    some = (r.outside == ZEROS) & ((pad < 0.0) | (pad > 0.0))
    return choose(out, pad, choose(some, rest, 0.0))  # type: ignore[no-any-return]


def _axis(args: Value, k: Any) -> Any:
    return fields(args + 8 * (SAMPLE.at("at0") + k * len(POINT)), POINT)


def _last(axis: Any) -> Value:
    return (axis.size - 1).to(F64)


def _is_within(r: Any, axis: Any, x: Value) -> Value:
    """Whether a coordinate is not outside."""
    far = choose(r.outside == REGION, F64(1), F64(0))
    return (x >= 0.0 - far) & (x <= _last(axis) + far)


def _grid_number(r: Any, axis: Any, grid: Value, place: Place) -> Value:
    """The grid's coordinate of a point along one axis."""
    row, column = place
    at = grid + (axis.at + (row * axis.row + column * axis.column))
    found = register(F64(0))

    def take(number: Type) -> None:
        found.value = number[at].to(F64)

    cases(r.grid_size, {number.size: partial(take, number) for number in (F32, F64)})
    return found.value


def _pixel(r: Any, axis: Any, number: Value) -> Value:
    """A number of the grid as a coordinate in pixels, clamped to FAR: so the weights of its taps have a sum of 1."""
    numbers = axis.before, axis.scale, axis.after, axis.factor, axis.low, axis.high
    before, scale, after, factor, low, high = (slot.bits(F64) for slot in numbers)
    x = ((number + before) * scale + after) * factor
    x = choose(x > FAR, F64(FAR), choose(x < -FAR, F64(-FAR), x))
    return _mirrored(r.fold != 0, x, low, high)


def _axis_taps(r: Any, axis: Any, x: Value, offsets: Value, weights: Value) -> None:
    """The taps along one axis of the point at x: offsets in bytes, and weights."""
    near = _floor_within(x)

    def keep(*taps: tuple[Value, Any]) -> None:
        for t, (offset, weight) in enumerate(taps):
            offsets[t] = offset
            weights[t] = weight

    def nearest() -> None:
        rest = x - near
        odd = near.to(I64) & 1 != 0
        keep(_tap(r, axis, choose((rest > 0.5) | ((rest == 0.5) & odd), near + 1.0, near), F64(1)))

    def cubic() -> None:
        places = [near + float(step) for step in (-1, 0, 1, 2)]
        keep(*(_tap(r, axis, place, _cubic(_absolute(place - x))) for place in places))

    cases(r.mode, {NEAREST: nearest, LINEAR: lambda: keep(*_linear(r, axis, x)), CUBIC: cubic})


def _linear(r: Any, axis: Any, x: Value) -> list[tuple[Value, Value]]:
    """The two taps of linear sampling along one axis of the point at x."""
    near = _floor_within(x)
    return [_tap(r, axis, place, 1.0 - _absolute(place - x)) for place in (near + 0.0, near + 1.0)]


def _tap(r: Any, axis: Any, place: Value, weight: Value) -> tuple[Value, Value]:
    """A tap's offset in bytes, and its weight."""
    low, high, last = axis.low.bits(F64), axis.high.bits(F64), _last(axis)
    off = (place < 0.0) | (place > last)
    weight = choose((r.outside == ZEROS) & off, F64(0), weight)
    place = smaller(larger(_mirrored(r.outside == REFLECTED, place, low, high), 0.0), last)
    return place.to(I64) * axis.stride, weight


def _cubic(t: Value) -> Value:
    """The cubic weight at a distance t >= 0."""
    a = STEEPNESS
    close, far = series(t, (1, 0, -(a + 3), a + 2)), series(t, (-4 * a, 8 * a, -5 * a, a))
    return choose(~(t > 1.0), close, choose(t < 2.0, far, 0.0))


def _absolute(x: Value) -> Value:
    return choose(x < 0.0, 0.0 - x, x)


def _floor(x: Value) -> Value:
    """The floor of x, clamped to FAR; 0 for a NaN."""
    x = choose(x > -FAR, x, choose(is_nan(x), 0.0, x.type(-FAR)))
    return _floor_within(smaller(x, FAR))


def _floor_within(x: Value) -> Value:
    """The floor of x, which is not beyond FAR; 0 for a NaN."""
    x = choose(is_nan(x), 0.0, x)
    y = x.to(I64).to(F64)
    return choose(y > x, y - 1.0, y)


def _mirrored(wanted: Value, x: Value, low: Value, high: Value) -> Value:
    """x reflected into low..high, where that is wanted."""
    folded = register(x)
    with when(wanted):
        span = high - low
        twice = span + span
        t = x - low
        t = t - _floor(t / twice) * twice
        t = choose(t > span, twice - t, t)
        folded.value = choose(span > 0.0, low + t, low)
    return folded.value


def _sums(r: Any, taps: _Taps, to: Value, src: Value, count: Value) -> None:
    """The sums of `count` points over their taps, channel by channel."""

    def channels(number: int | None) -> None:
        for c in over(r.channels):
            at, out = src + c * r.src_channel, to + c * r.dst_channel
            for p in over(count):
                base = p * taps.point
                total = register(taps.start[p])
                for t in over(taps.count) if number is None else map(I64, range(number)):
                    tap = base + t * taps.each
                    x = F32[at + taps.offsets[tap]]
                    total.value = total.value + x * taps.final[tap]
                F32[out + p * r.dst_point] = total.value

    _by_count(taps, channels)


def _sums_of_channels(r: Any, taps: _Taps, to: Value, src: Value, count: Value) -> None:
    """As `_sums`, where the channels of a pixel lie together; means, where a point has several samples of four taps."""

    def points(number: int | None, samples: Value | None = None) -> None:
        for p in over(count):
            first, out = p if samples is None else p * samples, to + p * r.dst_point
            for f32, c, mask in along(F32.vector(tier().lanes), 0, r.channels):
                total = register(f32(taps.start[first]))
                for sample in [p] if samples is None else over(first, first + samples):
                    base = sample * taps.point
                    for t in over(taps.count) if number is None else map(I64, range(number)):
                        tap = base + t * taps.each
                        x = f32[F32.at(src + taps.offsets[tap]) + c, mask]
                        total.value = total.value + x * f32(taps.final[tap])
                mean = total.value if samples is None else total.value * f32(1.0 / samples.to(F32))
                f32[F32.at(out) + c, mask] = mean

    with either(r.pool == 1) as (single, several):
        with single:
            _by_count(taps, points)
        with several:
            points(4, r.pool * r.pool)


def _by_count(taps: _Taps, body: Callable[[int | None], None]) -> None:
    """body(taps of a point): linear ones in two axes, nearest ones, or None for all others."""
    with either((taps.count != 1) & (taps.count != 4)) as (any_count, few):
        with any_count:
            body(None)
        with few:
            cases(taps.count, {1: partial(body, 1), 4: partial(body, 4)})
