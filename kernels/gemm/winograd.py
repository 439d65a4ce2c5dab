"""winograd: convolution of stride 1 with fewer products (Winograd's minimal filtering F(m x m, 3 x 3) and F(m, 3)).

A tile of m x m outputs comes from (m + 2)^2 inputs: both and the weights are transformed (pack_winograd.py), so that
the sums over channels are one dot for each of the (m + 2)^2 places: 16 instead of 36 products for four outputs. Those
of `tall` tiles, m outputs of a column, are m + 2. Larger kernels, and those with several slices, are sums of blocks of
3 x 3 or 3 taps: so many times the channels. A NaN or infinity among a tile's inputs may reach all of its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..core.record import fields
from ..isa.tiers import Tier
from ..lang import F32, I64, Type, Value, either, masked, over, register, repeat, room, tier, traced, when
from ..lang.instructions import choose, fma, quotient, smaller
from ..pointwise.epilogue import Area, Lines, addend_at, is_walked, simple, walk_from
from .band import deal, fill_band
from .pack_winograd import Matrix, transforms
from .results import target
from .rows import WINOGRAD
from .tile import ahead_of, even_rows, f32_arithmetic, make_tile, pace_of

Grid = list[list[Value]]
Masks = Sequence[Value | None]
Pair = tuple[Value, Value]
Band = tuple[Any, ...]
"""Rows of tiles that are computed together: (group, first slice of all images', end, first row of tiles, how many)."""


@dataclass(frozen=True)
class Tile:
    """Outputs that are computed together: m rows of m, or of 1 if `tall`, in a panel of nv vectors of so many lanes."""

    m: int
    tall: bool
    nv: int
    lanes: int

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.nv * self.lanes

    @property
    def down(self) -> int:
        """Rows of the places, each of which has a dot: those of the inputs."""
        return self.m + 2

    @property
    def across(self) -> int:
        """Places in a row."""
        return 1 if self.tall else self.m + 2

    @property
    def places(self) -> int:
        """Places of a tile."""
        return self.down * self.across

    @property
    def beside(self) -> int:
        """Outputs in a row."""
        return 1 if self.tall else self.m


def make_winograd(tier: Tier, m: int, tall: bool, nv: int) -> Callable[..., None]:
    """The kernel for m x m outputs a tile (2 or 4), or m x 1, and panels of nv vectors.

    Band by band: inputs are transformed, and then for each panel multiplied place by place, and brought back.
    """
    shape = Tile(m, tall, nv, tier.lanes)
    multiply, width, line, places = _multiply(tier, shape), shape.width, shape.width * 4, shape.places

    def winograd(args: int, thread: int, threads: int) -> None:
        r = fields(args, WINOGRAD)
        scratch = r.scratch + thread * r.scratch_bytes
        tile_rows, panels = (r.out_h + m - 1) // m, (r.n + width - 1) // width
        set_bytes = (places * _panel_bytes(r, line) + line) * panels
        slices = r.images * r.out_d
        rounds = (slices + r.slices - 1) // r.slices
        p0, p1, first, end = deal(r, panels, r.sets * rounds * tile_rows, thread, threads)
        while first < end:
            above = first // tile_rows
            row = first - above * tile_rows
            count = smaller(r.band, smaller(tile_rows - row, end - first))
            first += count
            group = above // rounds
            slice0 = (above - group * rounds) * r.slices
            slice1 = smaller(slice0 + r.slices, slices)
            band = group, slice0, slice1, row, count
            _transform_band(r, shape, scratch, band)
            tiles = (slice1 - slice0) * count * r.across
            pace = pace_of((tiles + r.height - 1) // r.height, line)
            weights = r.w + group * set_bytes, panels
            for p in range(p0, p1):
                multiply(r, scratch, weights, p, tiles, pace)
                _store_band(r, shape, scratch, weights, p, band)

    return winograd


def _panel_bytes(r: Any, line: int) -> int:
    """Bytes of a panel of one place, in lines of so many: a head, which is not read, and k lines of weights."""
    size: int = (r.k + 1) * line
    return size


def _multiply(tier: Tier, shape: Tile) -> Callable[..., None]:
    """multiply(r, scratch, weights, p, tiles, pace): the sums of a band's tiles in panel p, a dot for each place.

    weights: (address of the group's, panels); pace: of `make_tile`.
    """
    tile = make_tile(tier, f32_arithmetic(tier, shape.nv, epilogue=False))
    width, places = shape.width, shape.places

    def multiply(r: Any, scratch: int, weights: tuple[int, int], p: int, tiles: int, pace: int) -> None:
        inputs, sums, line = scratch + r.v_start, scratch + r.s_start, width * 4
        (w, panels), step = weights, _panel_bytes(r, line)
        for place in range(places):
            ahead = panels * step
            t = 0
            while t < tiles:
                height = smaller(r.height, tiles - t)
                rows = even_rows(inputs + place * r.v_plane + t * r.v_row, r.v_row, r.k)
                panel = w + (place * panels + p) * step
                into = target(sums + place * r.s_plane + t * line, line, width, image=0, row=0, column=0)
                tile(r, height, rows, panel, ahead_of(ahead, pace, 0, 0), into)
                ahead = ahead + r.k * pace if 0 < ahead < panels * step + r.k * line else 0
                t += height

    return multiply


def _transform_band(r: Any, shape: Tile, scratch: Any, band: Band) -> None:
    """Bring the transformed inputs of a band to their places, tile by tile."""
    group, slice0, slice1, first, count = band
    to = scratch + r.v_start
    for at in range(slice0, slice1):
        image = at // r.out_d
        z, y = (at - image * r.out_d) * r.stride_z - r.pad_z, first * shape.m - r.pad_y
        x = r.x + image * r.x_image + group * r.x_set
        fill_band(r, 4, scratch, x, z, y, rows=count * shape.m + 3 * r.parts_y - 1)
        for i in range(count):
            for j in range(r.across):
                source = scratch + i * shape.m * r.band_y + j * shape.beside * r.pixel
                _scatter(r, shape, source=source, to=to)
                to += r.v_row


def _store_band(r: Any, shape: Tile, scratch: Any, weights: tuple[Any, Any], p: Any, band: Band) -> None:
    """Make a band's outputs in panel p of its sums, tile by tile, and those of rows of tiles that have a chain."""
    group, slice0, slice1, first, count = band
    (w, panels), width = weights, shape.width
    line, kept = width * 4, scratch + r.o_start
    sums, bias = scratch + r.s_start, w + shape.places * panels * _panel_bytes(r, line) + p * line
    part = group * r.n + p * width, r.n - p * width
    for at in range(slice0, slice1):
        image = at // r.out_d
        there = image, (at - image * r.out_d) * r.y_z
        for i in range(count):
            oy = (first + i) * shape.m
            for j in range(r.across):
                _gather(r, shape, (sums, bias), kept, there, (oy, j * shape.beside), part)
                sums += line
            _walk(r, shape, kept=kept, there=there, oy=oy, part=part)


def _linear(row: Sequence[float], values: Sequence[Value]) -> Any:
    """The sum of row[i] * values[i]; not all of the row may be 0."""
    total: Any = None
    for factor, value in sorted(zip(row, values, strict=True), key=lambda term: term[0] != 1):
        if factor and total is None:
            total = value if factor == 1 else factor * value
        elif factor:
            total = _add_product(factor, value, total)
    return total


def _add_product(factor: float, value: Value, total: Value) -> Value:
    if factor in (1, -1):
        return total + value if factor == 1 else total - value
    return fma(factor, value, total)


def _halves(row: Sequence[float], mirrored: Sequence[float]) -> tuple[list[float], list[float]]:
    """The even and the odd part of the rows for two opposite points: equal entries, and those of opposite sign."""
    pairs = list(zip(row, mirrored, strict=True))
    return [a if a == b else 0.0 for a, b in pairs], [a if a == -b else 0.0 for a, b in pairs]


def _transform_input(matrix: Matrix, x: Sequence[Value]) -> list[Value]:
    """matrix x x; the rows for opposite points share their halves."""
    first, *middle, last = matrix
    out = [_linear(first, x)]
    for row, mirrored in zip(middle[::2], middle[1::2], strict=True):
        same, opposite = _halves(row, mirrored)
        point = next(factor for factor in reversed(opposite) if factor)
        even, odd = _linear(same, x), _linear([factor / point for factor in opposite], x)
        out += [_add_product(point, odd, even), _add_product(-point, odd, even)]
    return [*out, _linear(last, x)]


def _transform_output(matrix: Matrix, x: Sequence[Value]) -> list[Value]:
    """matrix x x; the values at opposite points come in as their sum or their difference."""
    columns = list(zip(*matrix, strict=True))
    shared: list[Sequence[float]] = [columns[0]]
    values = [x[0]]
    for i in range(1, len(x) - 1, 2):
        shared += _halves(columns[i], columns[i + 1])
        values += [x[i] + x[i + 1], x[i] - x[i + 1]]
    rows = zip(*shared, columns[-1], strict=True)
    return [_linear(row, [*values, x[-1]]) for row in rows]


def _both_ways(transform: Callable[[Sequence[Value]], list[Value]], grid: Grid) -> Grid:
    """The transform of all columns, then of all rows of more than one."""
    columns = [transform(column) for column in zip(*grid, strict=True)]
    return [transform(row) if len(row) > 1 else list(row) for row in zip(*columns, strict=True)]


@traced
def _scatter(r: Any, shape: Tile, source: Value, to: Value) -> None:
    """Bring one tile's transformed input to its places, block after block of taps."""
    f32, transform = _f32(), partial(_transform_input, transforms(shape.m).input)

    def vector(_: Value, state: list[Value]) -> list[Value]:
        target, start = state
        rows = [start + r.band_y * i for i in range(shape.down)]
        grid = [[f32[row + r.pixel * j] for j in range(shape.across)] for row in rows]
        for i, line in enumerate(_both_ways(transform, grid)):
            for j, value in enumerate(line):
                f32[target + r.v_plane * (i * shape.across + j)] = value
        return [address + f32.size for address in state]

    vectors = quotient(r.channels + (f32.lanes - 1), f32.lanes)
    with either(r.k == r.channels) as (one, several):
        with one:
            repeat(vectors, [to, source], vector)
        with several:
            target = register(to)
            for z in over(r.k_d):
                for y in over(r.parts_y):
                    for x in over(r.parts_x):
                        ahead = y * r.band_y + x * r.pixel
                        repeat(vectors, [target.value, source + z * r.band_z + ahead * 3], vector)
                        target.value = target.value + r.channels * 4


def _outputs(r: Any, shape: Tile, sums: Value, bias: Value) -> Value:
    """The pointer to one tile's outputs, [m, m or 1, a panel's columns] f32."""
    f32, nv, transform = _f32(), shape.nv, partial(_transform_output, transforms(shape.m).output)
    found, biases = F32.at(room(f32, shape.m * shape.beside * nv)), F32.at(bias)

    def vector(n: Value, _: list[Value]) -> list[Value]:
        start = sums + n * f32.size
        rows = [start + r.s_plane * (i * shape.across) for i in range(shape.down)]
        grid = [[f32[row + r.s_plane * j] for j in range(shape.across)] for row in rows]
        element = n * f32.lanes
        place, offset = found + element, f32[biases + element]
        for i, line in enumerate(_both_ways(transform, grid)):
            for j, value in enumerate(line):
                f32[place + (i * shape.beside + j) * nv * f32.lanes] = value + offset
        return []

    repeat(nv, [], vector)
    return found


@traced
def _gather(r: Any, shape: Tile, made_of: Pair, kept: Value, there: Pair, first: Any, part: Pair) -> None:
    """Bring one tile's outputs to y, or to where rows of them wait for their chain (`_walk`).

    made_of: (sums, bias). there: (image, pixels before the slice). first: (row, column) of the first output. part:
    (column of y, columns from it on).
    """
    f32, nv, width = _f32(), shape.nv, shape.width
    (image, plane), (oy, ox), (column, columns) = there, first, part
    outputs = _outputs(r, shape, *made_of)
    above = image * (r.out_d * r.outputs) + plane
    walked = is_walked(r)
    step = choose(walked, width * 4, r.ldy << 2)

    def line(masks: Masks, row: Value, _: list[Value]) -> list[Value]:
        y = oy + row
        pixel = y * r.y_y + ox
        ready = r.y + (((above + pixel) * r.ldy + column) << 2)
        wait = kept + (row * r.out_w + ox) * (width * 4)
        to, pixel = choose(walked, wait, ready), plane + pixel
        exist = r.outputs - (y * r.out_w + ox)
        for x in over(smaller(smaller(exist, r.out_w - ox), shape.beside)):
            source = outputs + (row * shape.beside + x) * width
            values = _pixel(r, source, addend_at(r, image, pixel + x, column), masks)
            target = F32.at(to + step * x)
            for n, value in enumerate(values):
                f32[target + n * f32.lanes, masks[n]] = value
        return []

    masked(f32, columns, nv, lambda masks: repeat(shape.m, [], partial(line, masks)))


def _pixel(r: Any, source: Value, addends: Value, masks: Masks) -> list[Value]:
    """The vectors of a pixel: outputs from `source` on with what is added to them."""
    f32 = _f32()
    values = [f32[source + n * f32.lanes] for n in range(len(masks))]
    return simple(r, values, lambda n: f32[addends + n * f32.lanes, masks[n]])


@traced
def _walk(r: Any, shape: Tile, kept: Value, there: Pair, oy: Value, part: Pair) -> None:
    """Where there is a chain: make m rows of y from row oy on of the outputs at `kept`. there, part: as of _gather."""
    m, width = shape.m, shape.width
    (image, plane), (column, columns) = there, part
    columns = smaller(columns, width)
    before = image * (r.out_d * r.outputs) + plane
    # Rows of y that follow one another are walked as one.
    together = choose(r.y_y == r.out_w, I64(m), 1)
    for i in over(0, m, together):
        line = oy + i
        left = r.outputs - line * r.out_w
        rows = smaller(left, r.out_w * together)
        pixel = line * r.y_y
        y = r.y + (((before + pixel) * r.ldy + column) << 2)
        sums = kept + i * r.out_w * (width * 4)
        with when(left > 0):
            row = plane + pixel
            area = Area(image, row, column, rows, columns)
            walk_from(r, area, Lines(sums, width * 4), Lines(y, r.ldy << 2))


def _f32() -> Type:
    return F32.vector(tier().lanes)
