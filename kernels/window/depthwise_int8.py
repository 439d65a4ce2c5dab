"""Depthwise convolution of bytes, channels last, for a square kernel of one size and stride.

The bytes of four input rows (two, as 16-bit numbers, where four can't be multiplied exactly at once) are interleaved,
so that one instruction sums a column of the kernel for a vector of channels. A group of rows serves all the output rows
that need it, and an interleaved column all the outputs of a row that do: along a row they are handed on from step to
step. Padding is the zero point of x. Channels that don't fill the last vector are computed in one that begins earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from llvmlite import ir

from ..core.record import reader
from ..gemm.requantize import byte_rounder
from ..isa.integer import bytes_type
from ..isa.interleave import dot, interleave, load_pieces, store_pieces, store_some
from ..isa.lanes import PARTS
from ..isa.loops import divide, larger, lesser, loop, smaller, thread_range, variable
from ..isa.tiers import Tier
from ..isa.vector import I8, I64, Vector, emits
from .pick_depthwise_int8 import Scheme, scheme_of, steps_of
from .rows import DEPTHWISE_INT8
from .window import slots

Column = tuple[int, int]
"""(input column, index into a scheme's sources)."""
Columns = dict[Column, list[Any]]
"""What is interleaved there: PARTS vectors."""


def emit_outputs(
    v: Vector, r: Any, scheme: Scheme, count: int, columns: Columns, packed: Any, put: Callable[[int, int, Any], None],
) -> None:  # fmt: skip
    """Emit `count` outputs in each row of the scheme; put(row, output, bytes) stores a vector of them, the last row
    first. r: slots with those of rows.STORED.
    """
    b, size, rounded = v.b, 4 * v.lanes, byte_rounder(v, r)

    def constants(index: int, part: int, kind: Any) -> Any:
        at = b.add(packed, I64((index * PARTS + part) * size))
        return b.load(b.inttoptr(at, kind.as_pointer()), align=1)

    bias = [constants(0, part, v.itype) for part in range(PARTS)]
    sums = {(i, t): list(bias) for i in reversed(range(scheme.rows)) for t in range(count)}
    for index, (i, s, q) in enumerate(scheme.terms):
        for part in range(PARTS):
            w = constants(2 + index, part, v.itype)
            for t in range(count):
                x = columns[t * scheme.stride + q, s][part]
                sums[i, t][part] = dot(v, sums[i, t][part], x, w, scheme.group == 2)
    factors = [constants(1, part, v.type) for part in range(PARTS)]
    for (i, t), totals in sums.items():
        put(i, t, rounded([b.fmul(b.sitofp(s, v.type), f) for s, f in zip(totals, factors, strict=True)]))


def interleaved(
    v: Vector, scheme: Scheme, wanted: Sequence[Column], load: Callable[[int, int], Any], end: int
) -> Columns:
    """Columns of what load(index into the scheme's lines, input column) gives; nothing is used from column `end` on."""
    loaded: dict[tuple[int, int], Any] = {}
    none = ir.Constant(bytes_type(v), [0] * 4 * v.lanes)

    def once(place: tuple[int, int]) -> Any:
        if place not in loaded:
            loaded[place] = load(*place)
        return loaded[place]

    found = {}
    for j, s in wanted:
        source = scheme.sources[s]
        places = [(line, j) for line in source]
        if len(source) == 1:
            places = [(source[0], j + k) for k in range(scheme.group) if j + k < end]
        rows = [once(place) for place in places]
        parts = interleave(v, [*rows, *[none] * (scheme.group - len(rows))])
        found[j, s] = [v.b.bitcast(part, v.itype) for part in parts]
    return found


def make_depthwise(tier: Tier, size: int, stride: int, wide: bool, pieces: int) -> Callable:
    """Vectors of `4 * lanes` channels of a pixel. With several `pieces`, a vector has all channels of as many pixels,
    which lie as many parts of a row apart. wide: weights of 16 bits.
    """
    scheme = scheme_of(tier, size, stride, wide)
    width, constants = 4 * tier.lanes, (2 + len(scheme.terms)) * PARTS * 4 * tier.lanes
    fields, rows = reader(DEPTHWISE_INT8), scheme.rows
    counts, keeps = steps_of(tier, scheme)

    @emits
    def row_of_outputs(b: Any, args: Any, image: Any, row: Any, block: Any) -> None:
        v = Vector(b, tier)
        r = slots(b, args, DEPTHWISE_INT8)
        packed = b.add(r.packed, b.mul(block, I64(constants)))
        channel, each = b.mul(block, I64(width)), b.udiv(b.add(r.ow, I64(pieces - 1)), I64(pieces))
        channel = lesser(b, channel, b.select(b.icmp_signed(">", r.c, I64(width)), b.sub(r.c, I64(width)), I64(0)))
        starts = [lesser(b, b.mul(each, I64(k)), b.sub(r.ow, each)) for k in range(pieces)]
        lines, exist = _lines(b, r, scheme, image, b.sub(b.mul(row, I64(stride)), r.pad_top), channel)
        targets = _targets(b, r, rows, image, row, channel)
        row_at = _Row(v, r, scheme, lines, exist, starts)
        kept = _slots(v, scheme.kept if keeps else [])

        def step(t: Any, count: int, held: Columns) -> Columns:
            """Some outputs; what they hold for the next ones."""
            wanted = [column for column in _reached(scheme, count, keeps) if column not in held]
            made = row_at.columns(t, wanted, (count - 1) * stride + size + (scheme.beyond if keeps else 0))
            there = held | _values(b, made)

            def put(i: int, k: int, value: Any) -> None:
                at = [b.add(targets[i], b.mul(b.add(b.add(start, t), I64(k)), r.ldy)) for start in starts]
                places = [v.pointer(place, I8) for place in at]
                if pieces == 1:
                    store_some(v, value, places[0], r.c)
                else:
                    store_pieces(v, value, places)

            emit_outputs(v, r, scheme, count, there, packed, put)
            return {(j, s): there[j + count * stride, s] for j, s in kept}

        def turn(first: Any, counts: Sequence[int]) -> None:
            held = _values(b, kept)
            for i, count in enumerate(counts):
                held = step(b.add(first, I64(sum(counts[:i]))), count, held)
            _assign(b, kept, held)

        if kept:
            _assign(b, kept, _values(b, row_at.columns(I64(0), list(kept), size + scheme.beyond)))
        whole = b.sub(each, b.urem(each, I64(sum(counts))))
        with loop(b, 0, whole, sum(counts)) as t:
            turn(t, counts)
        if len(counts) > 1 or counts[0] > 1:
            with loop(b, whole, each, 1) as t:
                turn(t, [1])

    def run(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        blocks = divide(r.c + (width - 1), width)
        bands = divide(r.oh + r.band - 1, r.band)
        units = r.n * bands * blocks
        if r.ow == 0:
            return
        start, stop = thread_range(units, thread, threads)
        for unit in range(start, stop):
            above = divide(unit, blocks)
            image = divide(above, bands)
            top = (above - image * bands) * r.band
            for row in range(top, smaller(top + r.band, r.oh), rows):
                row_of_outputs(args, image, larger(smaller(row, r.oh - rows), 0), unit - above * blocks)

    return run


def _reached(scheme: Scheme, count: int, keeps: bool) -> list[Column]:
    """What `count` outputs use, and what they hand on."""
    passed = {(j + count * scheme.stride, s) for j, s in scheme.kept} if keeps else set()
    return sorted({*scheme.columns(count), *passed})


def _slots(v: Vector, columns: Sequence[Column]) -> Columns:
    """Variables for columns."""
    return {column: [variable(v.b, v.iconst(0)) for _ in range(PARTS)] for column in columns}


def _values(b: Any, slots: Columns) -> Columns:
    return {column: [b.load(slot) for slot in parts] for column, parts in slots.items()}


def _assign(b: Any, slots: Columns, values: Columns) -> None:
    for column, parts in values.items():
        for slot, part in zip(slots[column], parts, strict=True):
            b.store(part, slot)


class _Row:
    """Where a row of outputs is read: `lines` of x, those that `exist`; pieces begin at the outputs `starts`.

    What doesn't exist is read at the slot `fill` of r, where all bytes are zero points of x.
    """

    def __init__(
        self, v: Vector, r: Any, scheme: Scheme, lines: Sequence[Any], exist: Sequence[Any], starts: Sequence[Any]
    ) -> None:
        self.v, self.r, self.scheme = v, r, scheme
        self.lines, self.exist, self.starts = lines, exist, starts

    def columns(self, t: Any, wanted: Sequence[Column], end: int) -> Columns:
        """Variables with the columns `wanted` of the outputs from starts + t on; end: as of `interleaved`."""
        b, r = self.v.b, self.r
        found = _slots(self.v, wanted)
        firsts = [b.sub(b.mul(b.add(start, t), I64(self.scheme.stride)), r.pad_left) for start in self.starts]
        low, high = min(wanted)[0], min(max(wanted)[0] + self.scheme.beyond, end - 1)
        inside = [b.icmp_signed(">=", b.add(first, I64(low)), I64(0)) for first in firsts]
        inside += [b.icmp_signed("<", b.add(first, I64(high)), r.w) for first in firsts]
        pieces = []
        for first in firsts:
            skip = b.mul(b.add(first, I64(low)), r.ldx)
            both = zip(self.lines, self.exist, strict=True)
            pieces.append([b.select(there, b.add(line, skip), r.fill) for line, there in both])

        def fill(checked: bool) -> None:
            def load(line: int, j: int) -> Any:
                places = [b.add(piece[line], b.mul(r.ldx, I64(j - low))) for piece in pieces]
                if checked:
                    there = [b.icmp_unsigned("<", b.add(first, I64(j)), r.w) for first in firsts]
                    places = [b.select(one, place, r.fill) for one, place in zip(there, places, strict=True)]
                return load_pieces(self.v, [self.v.pointer(place, I8) for place in places])

            _assign(b, found, interleaved(self.v, self.scheme, wanted, load, end))

        with b.if_else(reduce(b.and_, inside), likely=True) as (inner, edge):
            with inner:
                fill(False)
            with edge:
                fill(True)
        return found


def _lines(b: Any, r: Any, scheme: Scheme, image: Any, up: Any, channel: Any) -> tuple[list[Any], list[Any]]:
    """(where the lines of a scheme begin that reads from row `up` of x on, whether they are in x)."""
    rows = [b.add(up, I64(line)) for line in scheme.lines]
    at = [b.add(r.x, b.add(b.mul(b.mul(b.add(b.mul(image, r.h), row), r.w), r.ldx), channel)) for row in rows]
    return at, [b.icmp_unsigned("<", row, r.h) for row in rows]


def _targets(b: Any, r: Any, rows: int, image: Any, row: Any, channel: Any) -> list[Any]:
    """Where rows of y begin, from `row` on. What is no row of y goes to the first, which is written after it."""

    def target(at: Any) -> Any:
        return b.add(r.y, b.add(b.mul(b.mul(b.add(b.mul(image, r.oh), at), r.ow), r.ldy), channel))

    first = target(row)
    others = [b.add(row, I64(i)) for i in range(1, rows)]
    return [first, *(b.select(b.icmp_signed("<", at, r.oh), target(at), first) for at in others)]
