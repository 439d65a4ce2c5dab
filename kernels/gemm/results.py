"""How tiles of f32 (and i32) sums become results: what EPILOGUE says is done in registers, or by walking a chain.

Whole vectors are stored, on tiers with masks those of the columns that count. What is not ready then goes to a buffer
first, and is done once for all heights of tiles: sums of which a chain is made, and columns that end within a vector on
tiers without masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from llvmlite import ir

from ..isa.functions import at_least
from ..isa.loops import lesser, repeat, room
from ..isa.vector import F32, I1, I8, I64, Vector
from ..lang.both import both
from ..pointwise.epilogue import addend_at, bounds, formed, is_walked, walk_from
from ..pointwise.rows import FORMS, NO_EPILOGUE


@dataclass(frozen=True)
class Place:
    """Where a tile's results go: `rows` rows of `ldc` bytes at `c`, the first `columns` of each stored.

    panel: a pointer to the tile's panel; record: its slots, as the kernel has read them; image, row, column: where the
    epilogue reads.
    """

    rows: Any
    c: Any
    ldc: Any
    columns: Any
    panel: Any
    record: Any
    image: Any
    row: Any
    column: Any


@dataclass(frozen=True)
class Sink:
    """Where a tile of nv vectors a row stores, to `c` in rows of `ldc` bytes: the result itself or a buffer.

    slots: the record's, or None where it has no EPILOGUE; bounds: its `low` and `high` as vectors; way: the place in
    _WAYS of what is done with sums; masks: of the vectors of a row; cut: whether columns must be counted afterwards.
    """

    nv: int
    c: Any
    ldc: Any
    slots: Any
    bounds: Sequence[Any]
    way: Any
    masks: Sequence[Any]
    cut: Any


@both
def open_sink(v: Vector, place: Place, nv: int, rows: int, epilogue: bool) -> Sink:
    """For tiles of at most `rows` rows; epilogue: whether they end as the record's EPILOGUE says."""
    b, width = v.b, nv * v.lanes
    slots = place.record if epilogue else None
    aside = cut = I1(0) if v.lanes == 16 else b.icmp_signed("<", place.columns, I64(width))
    way, limits = I64(0), list[Any]()
    if slots:
        limits = bounds(v, slots)
        aside = b.or_(cut, is_walked(b, slots))
        given = {name: b.icmp_signed("!=", getattr(slots, name), I64(NO_EPILOGUE[name])) for name in _GIVEN}
        way = b.select(given["high"], I64(2), b.zext(given["low"], I64))
        way = b.select(given["addend"], I64(_WAYS.index(_added)), way)
        way = b.select(given["form"], b.add(slots.form, I64(_WAYS.index(_added))), way)
        way = b.select(b.or_(is_walked(b, slots), b.and_(cut, given["addend"])), I64(0), way)
    # Not aligned: two registers would be lost to that.
    kept = b.ptrtoint(room(b, ir.ArrayType(F32, rows * width)), I64)
    c, ldc = b.select(aside, kept, place.c), b.select(aside, I64(4 * width), place.ldc)
    masks = [_kept(v, mask) for mask in _masks(v, nv, place.columns)] if v.lanes == 16 else [None] * nv
    return Sink(nv, c, ldc, slots, limits, way, masks, cut)


@both
def store_rows(v: Vector, place: Place, sink: Sink, found: Sequence[tuple[Any, int, Sequence[Any]]], done: Any) -> None:
    """Store the results of tiles: found are (block that ends with them, rows, results); then go to `done`.

    For each way there is code for each row, from the last row on: tiles of fewer rows begin further down.
    """
    b, nv, tallest = v.b, sink.nv, max(rows for _, rows, _ in found)
    ways = _WAYS if sink.slots else _WAYS[:1]
    blocks = [[b.append_basic_block(f"row{r}") for r in range(tallest)] for _ in ways]
    for block, rows, _ in found:
        b.position_at_end(block)
        jump = b.switch(sink.way, blocks[0][rows - 1])
        for i in range(1, len(ways)):
            jump.add_case(I64(i), blocks[i][rows - 1])
    for end, chain in zip(ways, blocks, strict=True):
        above: list[tuple[Any, Sequence[Any]]] = []
        for r in reversed(range(tallest)):
            b.position_at_end(chain[r])
            phis = [b.phi(v.type) for _ in range((r + 1) * nv)]
            for source, results in above + [(block, results) for block, rows, results in found if rows == r + 1]:
                for phi, value in zip(phis, results, strict=True):
                    phi.add_incoming(value, source)
            to = b.gep(b.inttoptr(sink.c, I8.as_pointer()), [b.mul(sink.ldc, I64(r))])
            _store(v, to, end(v, place, sink, I64(r), phis[r * nv :]), sink.masks)
            b.branch(chain[r - 1] if r else done)
            above = [(chain[r], phis[: r * nv])]
    b.position_at_end(done)


@both
def settle(v: Vector, place: Place, sink: Sink) -> None:
    """What is to be done behind all tiles; place.rows is an int64."""
    b, width = v.b, sink.nv * v.lanes
    columns = lesser(b, place.columns, I64(width))
    if v.lanes != 16:
        due = b.and_(sink.cut, b.not_(is_walked(b, sink.slots))) if sink.slots else sink.cut
        with b.if_then(due, likely=False):
            masks = _masks(v, sink.nv, place.columns)

            def row(added: bool, r: Any, _: list[Any]) -> list[Any]:
                source = v.pointer(b.add(sink.c, b.mul(r, sink.ldc)))
                sums = [v.load(v.at(source, n * v.lanes)) for n in range(sink.nv)]
                to = b.gep(b.inttoptr(place.c, I8.as_pointer()), [b.mul(r, place.ldc)])
                _store(v, to, _added(v, place, replace(sink, masks=masks), r, sums) if added else sums, masks)
                return []

            added = b.icmp_signed("!=", sink.slots.addend, I64(0)) if sink.slots else I1(0)
            with b.if_else(added, likely=False) as (waiting, ready):
                with waiting:
                    if sink.slots:
                        repeat(b, place.rows, [], partial(row, True), once=True)
                with ready:
                    repeat(b, place.rows, [], partial(row, False), once=True)
    if sink.slots:
        walk_from(
            b, sink.slots, place.image, place.row, place.column, place.rows, columns, sink.c, sink.ldc, place.c,
            place.ldc,
        )  # fmt: skip


Sums = Sequence[Any]


def _plain(v: Vector, place: Place, sink: Sink, r: Any, sums: Sums) -> Sums:
    return sums


def _raised(v: Vector, place: Place, sink: Sink, r: Any, sums: Sums) -> Sums:
    return [at_least(v, x, sink.bounds[0]) for x in sums]


def _formed(v: Vector, place: Place, sink: Sink, r: Any, sums: Sums, form: int = 0) -> Sums:
    return [formed(v, form, x, *sink.bounds) for x in sums]


def _added(v: Vector, place: Place, sink: Sink, r: Any, sums: Sums) -> Sums:
    start = addend_at(v, sink.slots, place.image, v.b.add(place.row, r), place.column)
    addends = [v.load(v.at(start, n * v.lanes), mask) for n, mask in enumerate(sink.masks)]
    return _formed(v, place, sink, r, [v.b.fadd(x, y) for x, y in zip(sums, addends, strict=True)])


_GIVEN = ("low", "high", "addend", "form")
_WAYS: tuple[Any, ...] = (
    _plain, _raised, _formed, _added, *(partial(_formed, form=form) for form in range(1, len(FORMS)))
)  # fmt: skip
"""What is done with a row's sums: each gives what is stored. Bounds that are infinite leave all as it is."""


def _store(v: Vector, to: Any, results: Sums, masks: Sequence[Any]) -> None:
    """Store a row at byte pointer `to`."""
    for n, (result, mask) in enumerate(zip(results, masks, strict=True)):
        v.store(result, v.b.bitcast(v.b.gep(to, [I64(n * v.lanes * 4)]), F32.as_pointer()), mask)


def _kept(v: Vector, mask: Any) -> Any:
    """A mask that stays in its register: LLVM would rather compare anew for each row, where products are summed."""
    return v.b.asm(ir.FunctionType(v.mtype, [v.mtype]), "", "=k,0", [mask], False)


def _masks(v: Vector, nv: int, columns: Any) -> list[Any]:
    return [v.mask(v.b.sub(columns, I64(n * v.lanes))) for n in range(nv)]
