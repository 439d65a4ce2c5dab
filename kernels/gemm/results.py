"""How tiles of f32 (and i32) sums become results: what EPILOGUE says is done in registers, or by walking a chain.

Whole vectors are stored, on tiers with masks those of the columns that count. What is not ready then goes to a buffer
first, and is done once for all heights of tiles: sums of which a chain is made, and columns that end within a vector on
tiers without masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.record import loaded
from ..isa.loops import lesser, repeat
from ..isa.vector import F32, I1, I8, I64, Vector
from ..pointwise.epilogue import addend_at, buffer, is_walked, simple, walk_from
from ..pointwise.rows import EPILOGUE, NO_EPILOGUE


@dataclass(frozen=True)
class Place:
    """Where a tile's results go: `rows` rows of `ldc` bytes at `c`, the first `columns` of each stored.

    panel: a pointer to the tile's panel; args: the record; image, row, column: where the epilogue reads.
    """

    rows: Any
    c: Any
    ldc: Any
    columns: Any
    panel: Any
    args: Any
    image: Any
    row: Any
    column: Any


@dataclass(frozen=True)
class Sink:
    """Where a tile of nv vectors a row stores, to `c` in rows of `ldc` bytes: the result itself or a buffer.

    slots: those of EPILOGUE, if any; here: as what the tile itself does with them. masks: of the vectors of a row; cut:
    whether columns must be counted afterwards.
    """

    nv: int
    c: Any
    ldc: Any
    slots: Any
    here: Any
    masks: Sequence[Any]
    cut: Any


def open_sink(v: Vector, place: Place, nv: int, rows: int, epilogue: int | None) -> Sink:
    """For tiles of at most `rows` rows; epilogue: the slot of the record that EPILOGUE begins with."""
    b, width = v.b, nv * v.lanes
    slots = here = None if epilogue is None else loaded(b, place.args, EPILOGUE, epilogue)
    cut = I1(0) if v.lanes == 16 else b.icmp_signed("<", place.columns, I64(width))
    aside = cut
    if slots:
        own = ("low", "high", "addend")
        here = slots._replace(**{name: b.select(cut, I64(NO_EPILOGUE[name]), getattr(slots, name)) for name in own})
        aside = b.or_(cut, is_walked(b, slots))
    room = buffer(b, 4 * rows * width)
    c, ldc = b.select(aside, room, place.c), b.select(aside, I64(4 * width), place.ldc)
    return Sink(nv, c, ldc, slots, here, _masks(v, nv, place.columns) if v.lanes == 16 else [None] * nv, cut)


def store_rows(v: Vector, place: Place, sink: Sink, found: Sequence[tuple[Any, int, Sequence[Any]]], done: Any) -> None:
    """Store the results of tiles: found are (block that ends with them, rows, results), descending; then go to `done`.

    A tile's last row comes first, then what stores all tiles that have as many rows as are left.
    """
    b, nv = v.b, sink.nv
    above: tuple[Any, Sequence[Any]] | None = None
    bodies = {rows: (block, results) for block, rows, results in found}
    for r in reversed(range(max(bodies))):
        sources = [source for source in (above, bodies.get(r + 1)) if source]
        block = b.append_basic_block(f"row{r}")
        phis = []
        b.position_at_end(block)
        for i in range((r + 1) * nv):
            phi = b.phi(v.type)
            for source, results in sources:
                phi.add_incoming(results[i], source)
            phis.append(phi)
        for source, _ in sources:
            b.position_at_end(source)
            b.branch(block)
        b.position_at_end(block)
        to = b.gep(b.inttoptr(sink.c, I8.as_pointer()), [b.mul(sink.ldc, I64(r))])
        _put(v, place, sink.here, I64(r), to, phis[r * nv :], sink.masks)
        above = b.block, phis[: r * nv]
    b.branch(done)
    b.position_at_end(done)


def settle(v: Vector, place: Place, sink: Sink) -> None:
    """What is to be done behind all tiles; place.rows is an int64."""
    b, width = v.b, sink.nv * v.lanes
    columns = lesser(b, place.columns, I64(width))
    if v.lanes != 16:
        due = b.and_(sink.cut, b.not_(is_walked(b, sink.slots))) if sink.slots else sink.cut
        with b.if_then(due, likely=False):
            masks = _masks(v, sink.nv, place.columns)

            def row(r: Any, _: list[Any]) -> list[Any]:
                source = v.pointer(b.add(sink.c, b.mul(r, sink.ldc)))
                sums = [v.load(v.at(source, n * v.lanes)) for n in range(sink.nv)]
                to = b.gep(b.inttoptr(place.c, I8.as_pointer()), [b.mul(r, place.ldc)])
                _put(v, place, sink.slots, r, to, sums, masks)
                return []

            repeat(b, place.rows, [], row)
    if sink.slots:
        walk_from(
            b, sink.slots, place.image, place.row, place.column, place.rows, columns, sink.c, sink.ldc, place.c,
            place.ldc,
        )  # fmt: skip


def _put(v: Vector, place: Place, slots: Any, r: Any, to: Any, sums: Sequence[Any], masks: Sequence[Any]) -> None:
    """Store row r of a tile at byte pointer `to`."""
    row = v.b.add(place.row, r)

    def addend(n: int) -> Any:
        column = v.b.add(place.column, I64(n * v.lanes))
        return v.load(addend_at(v, slots, place.image, row, column), masks[n])

    results = simple(v, slots, sums, addend) if slots else sums
    for n, (result, mask) in enumerate(zip(results, masks, strict=True)):
        v.store(result, v.b.bitcast(v.b.gep(to, [I64(n * v.lanes * 4)]), F32.as_pointer()), mask)


def _masks(v: Vector, nv: int, columns: Any) -> list[Any]:
    return [v.mask(v.b.sub(columns, I64(n * v.lanes))) for n in range(nv)]
