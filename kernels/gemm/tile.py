"""The micro-kernel of dot and convolution: rows x vectors of sums, in registers from bias to store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from llvmlite import ir

from ..core.record import loaded
from ..isa.loops import repeat, room
from ..isa.tiers import Tier
from ..isa.vector import F32, I8, I32, I64, Vector, emits
from ..pointwise.chain import EXTRA, Chain, emit_chain, is_long

Shape = tuple[int, int]
"""Of a tile: groups of rows, rows in a group."""


@dataclass(frozen=True)
class Place:
    """Where a tile's results go: `rows` rows of `ldc` bytes at `c`, `columns` (None: all) of each stored.

    panel: a pointer to the tile's panel; args: the record; image, row, column: where extras are read.
    """

    rows: int
    c: Any
    ldc: Any
    columns: Any
    panel: Any
    args: Any
    image: Any
    row: Any
    column: Any


@dataclass(frozen=True)
class Arithmetic:
    """How a tile sums products of words of 4 bytes (an f32, or four u8) with packed weights.

    A panel is `head` bytes, then for each word `vectors` vectors of weights; a row of the tile has `sums`
    vectors of sums. `item` and `out_item` are the bytes of an element of A and of C.

    start(v, panel): the sums that a row begins with. load(v, line): the weights of a word.
    multiply(v, word, weights, sums): a row's new sums; `word` points to A's word.
    finish(v, place, sums): stores the results; sums come row by row.
    """

    head: int
    vectors: int
    sums: int
    item: int
    out_item: int
    start: Callable[[Vector, Any], list[Any]]
    load: Callable[[Vector, Any], list[Any]]
    multiply: Callable[[Vector, Any, list[Any], list[Any]], list[Any]]
    finish: Callable[[Vector, Place, list[Any]], None]


def make_tile(tier: Tier, whole: Shape, rest: Shape, segmented: bool, ragged: bool, arithmetic: Arithmetic) -> Any:
    """An intrinsic that computes groups * rows output rows of one weight panel.

    Call it as tile(args, short, a=..., ...). `args` is the record. The tile has the shape `rest` where `short` isn't 0,
    else `whole`. Row r of group g of A starts at byte address a + g * gs + r * rs; each of its `segments` runs of
    `length` words starts table[s] bytes further (without `segmented`: one run at 0). The panel is packed as the
    arithmetic says; the line `ahead` bytes further is prefetched. The results go to rows of `ldc` bytes at `c`; with
    `ragged` only `columns` of them. image, row and column are where extras are read.
    """
    line_bytes = arithmetic.vectors * tier.lanes * 4

    @emits
    def tile(
        b: Any, args: Any, short: Any, a: Any, rs: Any, gs: Any, table: Any, segments: Any, length: Any, panel: Any,
        ahead: Any, c: Any, ldc: Any, columns: Any, image: Any, row: Any, column: Any,
    ) -> None:  # fmt: skip
        v = Vector(b, tier)
        limit = columns if ragged else None

        def emit(groups: int, rows: int) -> None:
            mr = groups * rows
            offsets = [b.add(b.mul(gs, I64(g)), b.mul(rs, I64(r))) for g in range(groups) for r in range(rows)]
            step = partial(_step, v, arithmetic, line_bytes, offsets, ahead)

            def segment(s: Any, state: list[Any]) -> list[Any]:
                start = b.inttoptr(a, I8.as_pointer())
                if segmented:
                    start = b.gep(start, [b.load(b.gep(b.inttoptr(table, I64.as_pointer()), [s]))])
                return repeat(b, length, [start, *state], step)[1:]

            first = b.inttoptr(panel, I8.as_pointer())
            state = [b.gep(first, [I64(arithmetic.head)]), *arithmetic.start(v, first) * mr]
            sums = (repeat(b, segments, state, segment) if segmented else segment(None, state))[1:]
            arithmetic.finish(v, Place(mr, c, ldc, limit, first, args, image, row, column), sums)

        if not rest[0]:
            emit(*whole)
            return
        with b.if_else(b.icmp_signed("!=", short, I64(0))) as (then, otherwise):
            with then:
                emit(*rest)
            with otherwise:
                emit(*whole)

    return tile


def _step(
    v: Vector,
    arithmetic: Arithmetic,
    line_bytes: int,
    offsets: Sequence[Any],
    ahead: Any,
    _: Any,
    state: list[Any],
) -> list[Any]:
    """One word: state is (A, panel, sums row by row)."""
    b, each = v.b, arithmetic.sums
    a, panel, *sums = state
    weights = arithmetic.load(v, panel)
    prefetch = v.declare("llvm.prefetch.p0", ir.VoidType(), [panel.type, I32, I32, I32])
    b.call(prefetch, [b.gep(panel, [ahead]), I32(0), I32(2), I32(1)])
    out = []
    for r, offset in enumerate(offsets):
        out += arithmetic.multiply(v, b.gep(a, [offset]), weights, sums[r * each : (r + 1) * each])
    return [b.gep(a, [I64(4)]), b.gep(panel, [I64(line_bytes)]), *out]


def f32_arithmetic(
    tier: Tier, nv: int, chain: Chain = (), extras: Sequence[str] = (), first_extra: int = 0
) -> Arithmetic:
    """Sums of f32 products, then `chain`; panels of nv vectors as pack.py packs them, bias first.

    The extras' slots begin at args[first_extra]; they are read at (image, row, column).
    """

    def line(v: Vector, start: Any) -> list[Any]:
        return [v.load(_f32(v.b, start, I64(n * v.lanes * 4))) for n in range(nv)]

    def multiply(v: Vector, word: Any, weights: list[Any], sums: list[Any]) -> list[Any]:
        x = v.broadcast(v.b.bitcast(word, F32.as_pointer()))
        return [v.fma(x, w, s) for w, s in zip(weights, sums, strict=True)]

    def finish(v: Vector, place: Place, sums: list[Any]) -> None:
        store_f32(v, place, nv, sums, chain, f32_operands(v, place, extras, first_extra))

    return Arithmetic(nv * tier.lanes * 4, nv, nv, 4, 4, line, line, multiply, finish)


def f32_operands(v: Vector, place: Place, extras: Sequence[str], first_extra: int) -> Callable[[Any, int], list[Any]]:
    """operands(row, n): the extras beside vector n of a row of the tile; their slots begin at args[first_extra]."""

    def operands(r: Any, n: int) -> list[Any]:
        row, column = v.b.add(place.row, r), v.b.add(place.column, I64(n * v.lanes))
        mask = _masks(v, n + 1, place.columns)[n]
        return load_extras(v, extras, place.args, first_extra, place.image, row, column, mask)

    return operands


def store_f32(
    v: Vector,
    place: Place,
    nv: int,
    sums: list[Any],
    chain: Chain = (),
    extras: Callable[[Any, int], list[Any]] = lambda r, n: [],
) -> None:
    """Store chain(sums, extras), nv f32 vectors a row; extras(row, n) are loaded beside vector n."""
    b, mr, ldc, columns = v.b, place.rows, place.ldc, place.columns
    address = b.inttoptr(place.c, I8.as_pointer())

    def put(r: Any, values: Sequence[Any], masks: Sequence[Any]) -> None:
        start = b.gep(address, [b.mul(ldc, r)])
        for n, value in enumerate(values):
            result = emit_chain(v, chain, [value, *extras(r, n)])
            v.store(result, _f32(b, start, I64(n * v.lanes * 4)), masks[n])

    def unrolled(masks: Sequence[Any]) -> None:
        for r in range(mr):
            put(I64(r), sums[r * nv : (r + 1) * nv], masks)

    def rolled() -> None:
        size = ir.ArrayType(v.type, mr * nv)
        buffer = b.bitcast(room(b, size), F32.as_pointer())
        for i, value in enumerate(sums):
            v.store(value, v.at(buffer, i * v.lanes))

        def body(r: Any, state: list[Any]) -> list[Any]:
            start = b.mul(r, I64(nv * v.lanes))
            put(r, [v.load(v.at(v.at(buffer, start), n * v.lanes)) for n in range(nv)], _masks(v, nv, columns))
            return []

        repeat(b, I64(mr), [], body)

    if is_long(chain):
        rolled()
    elif columns is None or v.lanes == 16:
        unrolled(_masks(v, nv, columns))
    else:
        with b.if_else(b.icmp_signed(">=", columns, I64(nv * v.lanes))) as (whole, partial):
            with whole:
                unrolled([None] * nv)
            with partial:
                rolled()


def _masks(v: Vector, nv: int, columns: Any) -> list[Any]:
    if columns is None:
        return [None] * nv
    return [v.mask(v.b.sub(columns, I64(n * v.lanes))) for n in range(nv)]


def load_extras(
    v: Vector, extras: Sequence[str], args: Any, first: int, image: Any, row: Any, column: Any, mask: Any
) -> list[Any]:
    """The vectors of a chain's operands at (image, row, column); their slots begin at args[first].

    extras: "full" has rows, "channel" and "image" are the same for all rows, "scalar" is one f32.
    """
    b = v.b

    def one(kind: str, extra: Any) -> Any:
        start = v.pointer(extra.address)
        if kind == "scalar":
            return v.broadcast(start)
        index = b.add(b.mul(image, extra.per_image), column)
        if kind == "full":
            index = b.add(index, b.mul(row, extra.per_row))
        return v.load(v.at(start, index), mask)

    return [one(kind, loaded(b, args, EXTRA, first + i * len(EXTRA))) for i, kind in enumerate(extras)]


def _f32(b: Any, start: Any, offset: Any) -> Any:
    """The f32 at byte pointer start + offset."""
    return b.bitcast(b.gep(start, [offset]), F32.as_pointer())
