"""How tiles of f32 (and i32) sums are stored: EPILOGUE is applied in registers, or by walking a chain.

Whole vectors are stored, masked to the columns that exist on tiers with masks. Other results go to a buffer first, and
are finished once for tiles of all heights: sums that a chain is applied to, and columns that end within a vector on
tiers without masks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from ..isa.functions import at_least
from ..lang import Value, along, choose, either, number, over, repeat, room, smaller, tier, traced, when
from ..lang.blocks import Block, goto, switch
from ..lang.hints import kept
from ..lang.types import BF16, BIT, F32, I8, I64, Type
from ..pointwise import epilogue as e
from ..pointwise.epilogue import Area, Lines, is_walked
from ..pointwise.rows import ALL_FORMS, FORMS, NO_EPILOGUE
from .by_height import by_height


class Target(NamedTuple):
    """The destination of a tile: rows of `ldc` bytes at address c, of which `columns` columns are stored; image, row
    and column: where the epilogue reads.
    """

    c: Value
    ldc: Value
    columns: Value
    image: Value
    row: Value
    column: Value


@traced
def target(c: Any, ldc: Any, columns: Any, image: Any, row: Any, column: Any) -> Target:
    """A Target, in kernel code."""
    return Target(*map(number, (c, ldc, columns, image, row, column)))


@dataclass(frozen=True)
class Destination:
    """A tile's results: `rows` rows of `ldc` bytes at `c`, the first `columns` of each stored.

    panel: a pointer to the tile's panel; record: the record as read; image, row, column: where the epilogue reads.
    """

    rows: Any
    c: Value
    ldc: Value
    columns: Any
    panel: Any
    record: Any
    image: Value
    row: Value
    column: Value

    @classmethod
    def of(cls, rows: Any, panel: Value, record: Any, to: Target) -> Destination:
        """The destination of a tile of so many rows; panel: an address."""
        return cls(rows=rows, panel=I8.at(panel), record=record, **to._asdict())


@dataclass(frozen=True)
class Sink:
    """Where tiles of nv vectors a row store: to `c` in rows of `ldc` bytes, the result itself or a buffer.

    slots: the record, or None without EPILOGUE; bounds: its `low` and `high` as vectors; ending: an index of ENDINGS;
    masks: of the vectors of a row; cut: whether columns are cut when the buffer is copied; narrow: whether results are
    rounded to bf16, which those in a buffer are not.
    """

    nv: int
    c: Value
    ldc: Value
    slots: Any
    bounds: Sequence[Value]
    ending: Value
    masks: Sequence[Value | None]
    cut: Value
    narrow: bool = False


def store_tiles(
    dest: Destination, nv: int, most: int, body: Callable[[int], Any], epilogue: bool = True, narrow: bool = False
) -> None:
    """Compute and store a tile of 1 to `most` rows of nv vectors: body(rows) gives the results, or stores them itself.
    epilogue, narrow: as of `open_sink`.
    """
    sink = open_sink(dest, nv, most, epilogue, narrow)
    found, done = by_height(dest.rows, range(most, 0, -1), body)
    if found:
        store_rows(dest, sink, found, done)
        finish_tile(dest, sink)


def open_sink(dest: Destination, nv: int, rows: int, epilogue: bool, narrow: bool = False) -> Sink:
    """The sink of tiles of at most `rows` rows; epilogue: whether the record's EPILOGUE is applied; narrow: of Sink,
    on tiers with masks.
    """
    width = nv * tier().lanes
    slots = dest.record if epilogue else None
    buffered = cut = BIT(0) if tier().masks else dest.columns < width
    ending, limits = I64(0), list[Value]()
    if slots:
        limits = e.bounds(slots)
        buffered = cut | _is_late(slots)
        ending = _ending_of(slots, cut, narrow)
    # Not aligned: two registers would be lost to that.
    buffer = room(F32, rows * width).address
    c, ldc = choose(buffered, buffer, dest.c), choose(buffered, 4 * width, dest.ldc)
    masks = [kept(mask) for mask in _masks(nv, dest.columns)] if tier().masks else [None] * nv
    return Sink(nv, c, ldc, slots, limits, ending, masks, cut, narrow)


def _ending_of(slots: Any, cut: Value, narrow: bool) -> Value:
    """The index of ENDINGS for the record; 0, or that of _buffered, where the epilogue is applied later."""
    given = {name: getattr(slots, name) != NO_EPILOGUE[name] for name in ("low", "high", "addend", "form")}
    ending = I64(2) if _both_bounds() else choose(given["high"], 2, given["low"].to(I64))
    ending = choose(given["addend"], ENDINGS.index(_added), ending)
    if hasattr(slots, "addend_item"):
        ending = choose(given["addend"] & (slots.addend_item == 2), ENDINGS.index(_added_bf16), ending)
    ending = choose(given["form"], slots.form + ENDINGS.index(_added), ending)
    return choose(_is_late(slots) | (cut & given["addend"]), ENDINGS.index(_buffered) if narrow else 0, ending)


def _both_bounds() -> bool:
    """Whether all sums are held by both bounds. On AVX2 that is faster than one or none: where rows of A are less than
    two lines, a tile of 12 sums takes 0.87 to 0.95 of the time on Zen 3, and the same where they are longer.
    """
    return tier().fma and not tier().masks


def _is_late(slots: Any) -> Value:
    """Whether sums are buffered for their ending: a chain, or one of LONG_FORMS."""
    walked = is_walked(slots)
    return walked | (slots.form >= len(FORMS)) if hasattr(slots, "addend_item") else walked


def store_rows(dest: Destination, sink: Sink, found: Sequence[tuple[Any, int, Sequence[Value]]], done: Any) -> None:
    """Store the results of tiles, each (block that ends with them, rows, results); then go to `done`.

    Each ending has code for each row, from the last row down; a tile of fewer rows jumps in further down.
    """
    nv = sink.nv
    endings = _endings(sink)
    kinds = [_f32()] * (nv * max(rows for _, rows, _ in found))
    tallest = len(kinds) // nv
    chains = [[Block(f"row{r}", kinds[: (r + 1) * nv]) for r in range(tallest)] for _ in endings]
    for block, rows, results in found:
        block.write()
        others = {i: chain[rows - 1] for i, chain in enumerate(chains) if i}
        switch(sink.ending, others, chains[0][rows - 1], results)
    for end, chain in zip(endings, chains, strict=True):
        for r in reversed(range(tallest)):
            sums = chain[r].write()
            to = I8.at(sink.c) + sink.ldc * r
            _store(to, end(dest, sink, I64(r), sums[r * nv :]), sink.masks, sink.narrow and end is not _buffered)
            if r:
                goto(chain[r - 1], sums[: r * nv])
            else:
                goto(done)
    done.write()


def _endings(sink: Sink) -> Sequence[Any]:
    """The endings that a kernel has code for."""
    if not sink.slots:
        return ENDINGS[:1]
    return ENDINGS if hasattr(sink.slots, "addend_item") else ENDINGS[: ENDINGS.index(_added_bf16)]


def finish_tile(dest: Destination, sink: Sink) -> None:
    """Finish buffered results of a tile; dest.rows is an int64."""
    columns = smaller(dest.columns, sink.nv * tier().lanes)
    if not tier().masks:
        due = sink.cut & ~is_walked(sink.slots) if sink.slots else sink.cut
        with when(due, likely=False):
            _store_part(dest, replace(sink, masks=_masks(sink.nv, dest.columns)))
    if sink.slots:
        area = Area(dest.image, dest.row, dest.column, dest.rows, columns)
        if hasattr(sink.slots, "addend_item"):
            with when(sink.slots.form >= len(FORMS), likely=False):
                for form in range(len(FORMS), ALL_FORMS):
                    with when(sink.slots.form == form):
                        _store_late(dest, sink, form)
        if not sink.narrow:
            e.walk_from(sink.slots, area, Lines(sink.c, sink.ldc), Lines(dest.c, dest.ldc))
            return
        with when(is_walked(sink.slots), likely=False):
            e.walk(sink.slots, area, Lines(sink.c, sink.ldc), Lines(sink.c, sink.ldc))
            _store_late(dest, sink)


def _store_late(dest: Destination, sink: Sink, form: int | None = None) -> None:
    """Store the buffer, perhaps through a form, approximated to the precision of sums of bf16 products."""
    f32 = _f32()
    for r in over(dest.rows):
        found: Sums = [f32[sink.c + (r * sink.ldc + n * f32.size)] for n in range(sink.nv)]
        if form is not None:
            found = [e.formed(form, x, sink.bounds[0], sink.bounds[0], approximate=True) for x in found]
        _store(I8.at(dest.c) + r * dest.ldc, found, sink.masks, sink.narrow)


def _store_part(dest: Destination, sink: Sink) -> None:
    """Copy the rows of the buffer to the result, under masks."""
    f32 = _f32()

    def row(added: bool, r: Value, _: list[Value]) -> list[Value]:
        source = F32.at(sink.c + r * sink.ldc)
        sums: Sums = [f32[source + n * f32.lanes] for n in range(sink.nv)]
        to = I8.at(dest.c) + r * dest.ldc
        _store(to, _added(dest, sink, r, sums) if added else sums, sink.masks)
        return []

    added = sink.slots.addend != 0 if sink.slots else BIT(0)
    with either(added, likely=False) as (waiting, ready):
        with waiting:
            if sink.slots:
                repeat(dest.rows, [], partial(row, True), once=True)
        with ready:
            repeat(dest.rows, [], partial(row, False), once=True)


Sums = Sequence[Value]


def _unchanged(dest: Destination, sink: Sink, r: Value, sums: Sums) -> Sums:
    return sums


def _bounded_below(dest: Destination, sink: Sink, r: Value, sums: Sums) -> Sums:
    return [at_least(x, sink.bounds[0]) for x in sums]


def _formed(dest: Destination, sink: Sink, r: Value, sums: Sums, form: int = 0) -> Sums:
    return [e.formed(form, x, *sink.bounds) for x in sums]


def _added(dest: Destination, sink: Sink, r: Value, sums: Sums) -> Sums:
    f32, start = _f32(), e.addend_at(sink.slots, dest.image, dest.row + r, dest.column)
    addends = [f32[start + n * f32.lanes, mask] for n, mask in enumerate(sink.masks)]
    return _formed(dest, sink, r, [x + y for x, y in zip(sums, addends, strict=True)])


def _added_bf16(dest: Destination, sink: Sink, r: Value, sums: Sums) -> Sums:
    """As `_added`, of addends in bf16."""
    start = sink.slots.addend + 2 * e.index_of(sink.slots, dest.image, dest.row + r, dest.column)
    kind = BF16.like(_f32())
    addends = [kind[start + n * kind.size, mask].to(F32) for n, mask in enumerate(sink.masks)]
    return _formed(dest, sink, r, [x + y for x, y in zip(sums, addends, strict=True)])


def _buffered(dest: Destination, sink: Sink, r: Value, sums: Sums) -> Sums:
    """Sums for the buffer, which stays f32 where results are bf16."""
    return sums


ENDINGS: list[Any] = [_unchanged, _bounded_below, _formed, _added]
"""How a row's sums become the vectors that are stored; then one for each of FORMS. Infinite bounds change nothing."""
ENDINGS += [partial(_formed, form=form) for form in range(1, len(FORMS))]
ENDINGS += [_added_bf16, _buffered]  # of kernels whose record has addend_item


@traced
def walk_later(record: Any, area: Any, lines: Any) -> None:
    """Where the record's chain is walked `later`: make an Area of the result, in Lines, of the sums that lie there."""
    e.walk_block(record, Area(*map(number, area)), Lines(*map(number, lines)))


def finish_row(slots: Any, sums: Value, to: Value, n: Value, addends: Value) -> None:
    """Apply the epilogue, without a chain, to n sums and store them; all are pointers to f32."""

    def store(f32: Type, i: Value, mask: Value | None) -> None:
        (result,) = e.simple(slots, [f32[sums + i, mask]], lambda _: f32[addends + i, mask])
        f32[to + i, mask] = result

    for part in along(_f32(), 0, n, 1):
        store(*part)


def _f32() -> Type:
    return F32.vector(tier().lanes)


def _store(to: Value, results: Sums, masks: Sequence[Value | None], narrow: bool = False) -> None:
    """Store a row at byte pointer `to`; narrow: rounded to bf16."""
    kind = BF16.like(_f32()) if narrow else _f32()
    for n, (result, mask) in enumerate(zip(results, masks, strict=True)):
        kind[to + n * kind.size, mask] = result.to(BF16) if narrow else result


def _masks(nv: int, columns: Value) -> list[Value]:
    f32 = _f32()
    return [f32.below(columns - n * f32.lanes) for n in range(nv)]
