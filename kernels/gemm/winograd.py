"""winograd: convolution of stride 1 with fewer products (Winograd's minimal filtering F(m x m, 3 x 3) and F(m, 3)).

A tile of m x m outputs comes from (m + 2)^2 inputs: both and the weights are transformed (pack_winograd.py), so that
the sums over channels are one dot for each of the (m + 2)^2 places: 16 instead of 36 products for four outputs. Those
of `tall` tiles, m outputs of a column, are m + 2. Larger kernels, and those with several slices, are sums of blocks of
3 x 3 or 3 taps: so many times the channels. A NaN or infinity among a tile's inputs may reach all of its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from llvmlite import ir

from ..core.record import reader
from ..isa.loops import lesser, loop, repeat, room, smaller, variable
from ..isa.tiers import Tier
from ..isa.vector import F32, I64, Vector, emits
from ..pointwise.epilogue import addend_at, is_walked, simple, walk_from
from .band import deal, make_band
from .pack_winograd import Matrix, transforms
from .pick_dot import F32 as COSTS
from .results import target
from .rows import WINOGRAD
from .tile import even_rows, f32_arithmetic, make_tile

Grid = list[list[Any]]


def make_winograd(tier: Tier, m: int, tall: bool, nv: int) -> Callable[..., None]:
    """The kernel for m x m outputs a tile (2 or 4), or m x 1, and panels of nv vectors."""
    fields, fill_rows = reader(WINOGRAD), make_band(tier, 4, every=True)
    tile = make_tile(tier, nv, COSTS.most_rows(tier, nv), f32_arithmetic(tier, nv, epilogue=False))
    scatter, gather, walk = _scatter(tier, m, tall), _gather(tier, m, tall, nv), _walk(tier, m, nv)
    width = nv * tier.lanes
    line = tier.lanes * 4
    beside, places = (1, m + 2) if tall else (m, (m + 2) * (m + 2))

    def winograd(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        scratch = r.scratch + thread * r.scratch_bytes
        v, s = scratch + r.v_start, scratch + r.s_start
        down = (r.out_h + m - 1) // m
        bands = (down + r.band - 1) // r.band
        panels = (r.n + width - 1) // width
        step = (r.k + 1) * width * 4
        last = panels * step + (nv - 1) * line
        slices = r.images * r.out_d
        p0, p1, first, end = deal(r, panels, (slices + r.slices - 1) // r.slices * bands, thread, threads)
        for unit in range(first, end):
            above = unit // bands
            t0 = (unit - above * bands) * r.band
            count = r.band if t0 + r.band < down else down - t0
            slice0 = above * r.slices
            slice1 = smaller(slice0 + r.slices, slices)
            to = v
            for at in range(slice0, slice1):
                image = at // r.out_d
                fill_rows(
                    r, scratch, source=r.x + image * r.x_image, z=(at - image * r.out_d) * r.stride_z - r.pad_z,
                    y=t0 * m - r.pad_y, rows=count * m + 3 * r.parts_y - 1,
                )  # fmt: skip
                for i in range(count):
                    for j in range(r.across):
                        scatter(r, source=scratch + i * m * r.band_y + j * beside * r.pixel, to=to)
                        to += r.v_row
            tiles = (slice1 - slice0) * count * r.across
            for p in range(p0, p1):
                for e in range(places):
                    ahead = panels * step
                    t = 0
                    while t < tiles:
                        height = smaller(r.height, tiles - t)
                        rows = even_rows(v + e * r.v_plane + t * r.v_row, r.v_row, r.k)
                        panel = r.w + (e * panels + p) * step
                        into = target(s + e * r.s_plane + t * width * 4, width * 4, width, image=0, row=0, column=0)
                        tile(r, height, rows, panel, ahead, into)
                        ahead = ahead + line if 0 < ahead < last else 0
                        t += height
                sums, bias = s, r.w + places * panels * step + p * width * 4
                for at in range(slice0, slice1):
                    image = at // r.out_d
                    plane = (at - image * r.out_d) * r.y_z
                    for i in range(count):
                        for j in range(r.across):
                            gather(
                                r, sums=sums, bias=bias, kept=scratch + r.o_start, image=image, plane=plane,
                                oy=(t0 + i) * m, ox=j * beside, column=p * width,
                            )  # fmt: skip
                            sums += width * 4
                        walk(r, kept=scratch + r.o_start, image=image, plane=plane, oy=(t0 + i) * m, column=p * width)

    return winograd


def _linear(v: Vector, row: Sequence[float], values: Sequence[Any]) -> Any:
    """The sum of row[i] * values[i]; not all of the row may be 0."""
    total: Any = None
    for factor, value in sorted(zip(row, values, strict=True), key=lambda term: term[0] != 1):
        if factor and total is None:
            total = value if factor == 1 else v.b.fmul(v.const(factor), value)
        elif factor:
            total = _add_product(v, factor, value, total)
    return total


def _add_product(v: Vector, factor: float, value: Any, total: Any) -> Any:
    if factor in (1, -1):
        return (v.b.fadd if factor == 1 else v.b.fsub)(total, value)
    return v.fma(v.const(factor), value, total)


def _halves(row: Sequence[float], mirrored: Sequence[float]) -> tuple[list[float], list[float]]:
    """What two rows for opposite points have in common, and what differs by its sign."""
    pairs = list(zip(row, mirrored, strict=True))
    return [a if a == b else 0.0 for a, b in pairs], [a if a == -b else 0.0 for a, b in pairs]


def _transform_input(v: Vector, matrix: Matrix, x: Sequence[Any]) -> list[Any]:
    """matrix x x; the rows for opposite points share their halves."""
    first, *middle, last = matrix
    out = [_linear(v, first, x)]
    for row, mirrored in zip(middle[::2], middle[1::2], strict=True):
        same, opposite = _halves(row, mirrored)
        point = next(factor for factor in reversed(opposite) if factor)
        even, odd = _linear(v, same, x), _linear(v, [factor / point for factor in opposite], x)
        out += [_add_product(v, point, odd, even), _add_product(v, -point, odd, even)]
    return [*out, _linear(v, last, x)]


def _transform_output(v: Vector, matrix: Matrix, x: Sequence[Any]) -> list[Any]:
    """matrix x x; the values at opposite points come in as their sum or their difference."""
    columns = list(zip(*matrix, strict=True))
    shared: list[Sequence[float]] = [columns[0]]
    values = [x[0]]
    for i in range(1, len(x) - 1, 2):
        shared += _halves(columns[i], columns[i + 1])
        values += [v.b.fadd(x[i], x[i + 1]), v.b.fsub(x[i], x[i + 1])]
    rows = zip(*shared, columns[-1], strict=True)
    return [_linear(v, row, [*values, x[-1]]) for row in rows]


def _both_ways(transform: Callable[[Sequence[Any]], list[Any]], grid: Grid) -> Grid:
    """The transform of all columns, then of all rows of more than one."""
    columns = [transform(column) for column in zip(*grid, strict=True)]
    return [transform(row) if len(row) > 1 else list(row) for row in zip(*columns, strict=True)]


def _scatter(tier: Tier, m: int, tall: bool) -> Any:
    """An intrinsic that brings one tile's transformed input to its places, block after block of taps."""
    down, across = m + 2, 1 if tall else m + 2

    @emits
    def scatter(b: Any, r: Any, source: Any, to: Any) -> None:
        v = Vector(b, tier)
        transform = partial(_transform_input, v, transforms(m).input)

        def vector(_: Any, state: list[Any]) -> list[Any]:
            target, start = state
            rows = [b.add(start, b.mul(r.band_y, I64(i))) for i in range(down)]
            grid = [[v.load(v.pointer(b.add(row, b.mul(r.pixel, I64(j))))) for j in range(across)] for row in rows]
            for i, line in enumerate(_both_ways(transform, grid)):
                for j, value in enumerate(line):
                    v.store(value, v.pointer(b.add(target, b.mul(r.v_plane, I64(i * across + j)))))
            return [b.add(address, I64(tier.lanes * 4)) for address in state]

        vectors = b.sdiv(b.add(r.channels, I64(tier.lanes - 1)), I64(tier.lanes))
        with b.if_else(b.icmp_signed("==", r.k, r.channels)) as (one, several):
            with one:
                repeat(b, vectors, [to, source], vector)
            with several:
                target = variable(b, to)
                with loop(b, 0, r.k_d, 1) as z, loop(b, 0, r.parts_y, 1) as y, loop(b, 0, r.parts_x, 1) as x:
                    ahead = b.add(b.mul(y, r.band_y), b.mul(x, r.pixel))
                    at = b.add(b.add(source, b.mul(z, r.band_z)), b.mul(ahead, I64(3)))
                    repeat(b, vectors, [b.load(target), at], vector)
                    b.store(b.add(b.load(target), b.mul(r.channels, I64(4))), target)

    return scatter


def _gather(tier: Tier, m: int, tall: bool, nv: int) -> Any:
    """An intrinsic that brings one tile's outputs to y, or to where rows of them wait for their chain (`_walk`)."""
    width, side, beside = nv * tier.lanes, (m + 2, 1 if tall else m + 2), 1 if tall else m

    @emits
    def gather(
        b: Any, r: Any, sums: Any, bias: Any, kept: Any, image: Any, plane: Any, oy: Any, ox: Any, column: Any
    ) -> None:
        v = Vector(b, tier)
        transform = partial(_transform_output, v, transforms(m).output)
        buffer = b.bitcast(room(b, ir.ArrayType(v.type, m * beside * nv)), F32.as_pointer())
        biases = v.pointer(bias)

        def vector(n: Any, _: list[Any]) -> list[Any]:
            start = b.add(sums, b.mul(n, I64(tier.lanes * 4)))
            rows = [b.add(start, b.mul(r.s_plane, I64(i * side[1]))) for i in range(side[0])]
            grid = [[v.load(v.pointer(b.add(row, b.mul(r.s_plane, I64(j))))) for j in range(side[1])] for row in rows]
            element = b.mul(n, I64(tier.lanes))
            place, offset = v.at(buffer, element), v.load(v.at(biases, element))
            for i, line in enumerate(_both_ways(transform, grid)):
                for j, value in enumerate(line):
                    v.store(b.fadd(value, offset), v.at(place, (i * beside + j) * width))
            return []

        repeat(b, I64(nv), [], vector)
        above = b.add(b.mul(image, b.mul(r.out_d, r.outputs)), plane)
        columns = b.sub(r.n, column)
        masks = [v.mask(b.sub(columns, I64(n * tier.lanes))) for n in range(nv)]
        walked = is_walked(b, r)
        step = b.select(walked, I64(width * 4), b.shl(r.ldy, I64(2)))

        def store(masks: Sequence[Any]) -> None:
            def line(row: Any, _: list[Any]) -> list[Any]:
                y = b.add(oy, row)
                pixel = b.add(b.mul(y, r.y_y), ox)
                there = b.add(r.y, b.shl(b.add(b.mul(b.add(above, pixel), r.ldy), column), I64(2)))
                wait = b.add(kept, b.mul(b.add(b.mul(row, r.out_w), ox), I64(width * 4)))
                to, pixel = b.select(walked, wait, there), b.add(plane, pixel)
                exist = b.sub(r.outputs, b.add(b.mul(y, r.out_w), ox))
                count = lesser(b, lesser(b, exist, b.sub(r.out_w, ox)), I64(beside))
                with loop(b, 0, count, 1) as x:
                    place = v.at(buffer, b.mul(b.add(b.mul(row, I64(beside)), x), I64(width)))
                    values = [v.load(v.at(place, n * tier.lanes)) for n in range(nv)]
                    addend = addend_at(v, r, image, b.add(pixel, x), column)
                    found = simple(v, r, values, lambda n: v.load(v.at(addend, n * tier.lanes), masks[n]))
                    target = v.pointer(b.add(to, b.mul(step, x)))
                    for n, value in enumerate(found):
                        v.store(value, v.at(target, n * tier.lanes), masks[n])
                return []

            repeat(b, I64(m), [], line)

        if tier.lanes == 16:
            store(masks)
        else:
            with b.if_else(b.icmp_signed(">=", columns, I64(width))) as (whole, part):
                with whole:
                    store([None] * nv)
                with part:
                    store(masks)

    return gather


def _walk(tier: Tier, m: int, nv: int) -> Any:
    """An intrinsic that, where there is a chain, makes m rows of y from row oy on of the outputs at `kept`."""
    width = nv * tier.lanes

    @emits
    def walk(b: Any, r: Any, kept: Any, image: Any, plane: Any, oy: Any, column: Any) -> None:
        columns = lesser(b, b.sub(r.n, column), I64(width))
        before = b.add(b.mul(image, b.mul(r.out_d, r.outputs)), plane)
        # Rows of y that follow one another are walked as one.
        together = b.select(b.icmp_signed("==", r.y_y, r.out_w), I64(m), I64(1))
        with loop(b, 0, I64(m), together) as i:
            line = b.add(oy, i)
            left = b.sub(r.outputs, b.mul(line, r.out_w))
            rows = lesser(b, left, b.mul(r.out_w, together))
            pixel = b.mul(line, r.y_y)
            y = b.add(r.y, b.shl(b.add(b.mul(b.add(before, pixel), r.ldy), column), I64(2)))
            sums = b.add(kept, b.mul(b.mul(i, r.out_w), I64(width * 4)))
            with b.if_then(b.icmp_signed(">", left, I64(0))):
                row = b.add(plane, pixel)
                walk_from(b, r, image, row, column, rows, columns, sums, I64(width * 4), y, b.shl(r.ldy, I64(2)))

    return walk
