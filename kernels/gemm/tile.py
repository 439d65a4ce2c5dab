"""The micro-kernel of dot and convolution: rows x vectors of sums, in registers from bias to store.

It has a body for each height of a tile, and jumps to that of the height at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from ..isa.tiers import Tier
from ..lang import F32, I8, I32, I64, Type, Value, choose, divide, fma, number, prefetch, repeat, room, shuffle, traced
from ..lang.blocks import Block, branch, goto
from ..lang.control import rolled
from ..lang.hints import kept, used
from .pack_int8 import WORD_HEAD
from .pick_dot import crossing, max_rows
from .results import Destination, Target, store_tiles

LINE = 64
"""Bytes of a cache line."""


@dataclass(frozen=True)
class Arithmetic:
    """How a tile sums products of words of 4 bytes (an f32, two bf16 or four u8) with packed weights.

    A tile has up to `rows` rows of nv vectors of C. Its panel is `head` bytes, then for each word `vectors` vectors of
    weights; a row has `sums` vectors of sums. `item` and `out_item` are the bytes of an element of A and of C; results
    in f32 are rounded to bf16 where C's have 2.

    start(panel): the sums that a row begins with. load(line): the weights of a word. multiply(word, weights, sums): a
    row's new sums; panel, line and word are pointers to bytes. finish(dest, sums): f32 results, or i32 as such, row by
    row as the sums come; or stores others itself. epilogue: whether they end as the record's EPILOGUE says.
    """

    nv: int
    rows: int
    head: int
    vectors: int
    sums: int
    item: int
    out_item: int
    start: Callable[..., list[Any]]
    load: Callable[..., list[Any]]
    multiply: Callable[..., list[Any]]
    finish: Callable[..., list[Any] | None]
    epilogue: bool = False
    multiply_rows: Callable[..., list[Any]] | None = None
    """multiply_rows(panel, words, sums): the new sums of all rows, instead of `load` and `multiply`."""
    multiply_two: Callable[..., list[Any]] | None = None
    """multiply_two(words, weights of both, sums): a row's new sums after two words. Panels have words that are summed
    again then, as `pack_int8` packs them."""


class RowAddresses(NamedTuple):
    """The rows of A that a tile multiplies. The first starts at an address, row r `offsets` * r bytes further.

    In segmented tiles it starts offsets[r] bytes further (int64, the first 0; offsets[1] * r in tiles of more than
    `crossing` rows), and a row is `runs` runs of `length` words, which start table[s] bytes further: of all runs of the
    panel those from `first` on. Their weights are behind `skipped` bytes of the panel's.
    """

    start: Value
    offsets: Value
    words: Value
    table: Value
    length: Value
    runs: Value
    skipped: Value
    first: Value


@traced
def even_rows(start: Any, step: Any, words: Any) -> RowAddresses:
    """Rows of so many words with a stride of `step` bytes."""
    return RowAddresses(*map(number, (start, step, words, 0, 0, 1, 0, 0)))


@traced
def segmented_rows(start: Any, offsets: Any, table: Any, length: Any, runs: Any, line: int) -> RowAddresses:
    """Rows of a segmented tile, of a table's runs from runs[0] up to runs[1]; offsets and table are addresses. line:
    bytes of the weights of a word.
    """
    first, end = map(number, runs)
    words = (end - first) * length
    return RowAddresses(
        *map(number, (start, offsets, words, table + 8 * first, length, end - first, first * length * line, first))
    )


class Ahead(NamedTuple):
    """What a tile prefetches: with its first word the line `panel` bytes behind the panel's first, with each further
    one the line that is `pace` bytes further; and where `rows` isn't 0, of other rows the line at that address, and
    lines that are `rows_pace` bytes further.
    """

    panel: Value
    pace: Value
    rows: Value
    rows_pace: Value


@traced
def ahead_of(panel: Any, pace: Any, rows: Any, rows_pace: Any) -> Ahead:
    """An Ahead, in kernel code."""
    return Ahead(*map(number, (panel, pace, rows, rows_pace)))


@traced
def pace_of(tiles: Any, word: int) -> Any:
    """The bytes by which prefetching moves with each word, so that so many tiles of a panel fetch all of another one.

    The lines of a panel should come in all the time that its neighbor is read: asked for at once they wait for one
    another, and the tiles that ask wait with them.
    """
    return divide(tiles + word - 1, tiles)


def make_tile(tier: Tier, arithmetic: Arithmetic, segmented: bool = False, fetch: str = "panel") -> Any:
    """tile(record, height, rows, panel, ahead, target) computes `height` output rows, 1 to the most that the
    arithmetic has, of one weight panel, and stores them.

    record: as the kernel has read it; rows: `even_rows`, or where it is `segmented` `segmented_rows`. The panel is
    packed as the arithmetic says. fetch: what of `ahead` is prefetched: "", "panel", or "rows", which is both where
    tiles are wide. Such a tile fetches the line behind each of a panel's, too, where it fetches no rows. A single row
    fetches nothing: it waits for its own panel; nor does a single vector where loads are instructions of their own,
    which it waits for.
    """
    nv, most, line = arithmetic.nv, arithmetic.rows, arithmetic.vectors * tier.lanes * 4
    twice, wide = tier.fma and tier.registers < 32, is_wide(tier, arithmetic)
    fetch = "" if twice and nv == 1 else fetch

    def steps(offsets: Value, height: int) -> Steps:
        if not segmented:
            return _even_steps(offsets, height)
        each = I64.at(offsets)
        return _even_steps(each[1], height) if height > crossing(most, nv) else [(0, each[r]) for r in range(1, height)]

    def sums(rows: RowAddresses, panel: Value, ahead: Ahead, height: int) -> list[Value]:
        line0, begun = panel + arithmetic.head, arithmetic.start(panel) * height
        fetched = streams_of(wide, line, line0, ahead, fetch == "rows") if fetch and height > 1 else []
        apart = steps(rows.offsets, height)
        step = partial(_step, arithmetic, line, apart, fetched)
        first = line0 + rows.skipped if segmented else line0
        state = [first, *(each.start for each in fetched), *begun]
        loop = _pairs if twice and not segmented else partial(_words, short=height == 1)
        if arithmetic.multiply_two:
            loop = partial(_pairs, two=partial(_two_words, arithmetic, line, apart, fetched))
        if not segmented:
            found = loop(rows.start, rows.words, line, state, step)
        elif nv == 1 or arithmetic.multiply_two:
            found = _run_by_run(rows, line, state, step, loop)
        else:
            found = _runs(rows, line, state, step)
        found = found[len(state) - len(begun) :]
        if not arithmetic.multiply_two:
            return found
        table, block = rows.table if segmented else None, panel + I64[panel + (arithmetic.head - nv * tier.lanes * 4)]
        return _again(rows, table, block, line, found, partial(_step, arithmetic, line, apart, ()))

    @traced
    def tile(record: Any, height: Value, rows: RowAddresses, panel: Value, ahead: Ahead, target: Target) -> None:
        dest, rows = Destination.of(height, panel, record, target), rows._replace(table=I64.at(rows.table))

        def body(height: int) -> list[Value] | None:
            found = sums(rows, dest.panel, ahead, height)
            return arithmetic.finish(replace(dest, rows=height), found)

        store_tiles(dest, nv, most, body, arithmetic.epilogue, narrow=arithmetic.out_item == 2)

    return tile


def is_wide(tier: Tier, arithmetic: Arithmetic) -> bool:
    """Whether tiles fetch two lines with each word: where registers are enough that loads are few."""
    return arithmetic.vectors > 1 and tier.registers >= 32


class Stream(NamedTuple):
    """Lines that are prefetched: with the first word that at a pointer, and those `more` bytes behind it; with each
    further one those `pace` bytes further. near: into the first-level cache.
    """

    start: Value
    pace: Value
    more: Sequence[Value] = ()
    near: bool = False


def streams_of(wide: bool, line: int, line0: Value, ahead: Ahead, rows: bool) -> list[Stream]:
    """Those of a tile whose panel's first line is at line0. wide: whether there are two; rows: whether one may be of
    rows, the second, or the only one.
    """
    panel, pace = line0 + ahead.panel, ahead.pace
    # Two tiles of a wide panel must fetch more than a line with each word. A single one goes through all panels in
    # order, which the CPU notices by itself: more would be in its way.
    if not rows:
        return [Stream(panel, pace, [choose(pace < line, LINE, 0)] if wide else [])]
    alone = ahead.rows == 0
    if not wide:
        start, own = panel, pace
    else:  # One line of the panel, again and again, costs nothing.
        start, own = line0 + choose(pace > LINE, ahead.panel + LINE, 0), choose(pace > LINE, pace, 0)
    other = choose(alone, start.address, ahead.rows), choose(alone, own, ahead.rows_pace)
    second = Stream(I8.at(other[0]), other[1], near=True)
    return [Stream(panel, pace), second] if wide else [second]


@traced
def offsets(most: int, step: Any) -> Value:
    """The address of a tile's offsets for up to `most` rows, `step` bytes apart."""
    start = room(I64, most)
    for r in range(most):
        start[r] = number(step) * r
    return start.address


Step = Callable[[Value, Sequence[Value]], list[Value]]
"""step(address of a word, state): the state behind it. The state begins with a pointer into the panel."""


def _words(a: Value, words: Value, line: int, state: Sequence[Value], step: Step, short: bool) -> list[Value]:
    """A loop of steps over so many words from address `a` on, at least one; the last state. line: bytes of the weights
    of a word.

    short: whether LLVM may unroll the loop.
    """
    inside, after = Block("words", [each.type for each in (a, *state)]), Block("after")
    end = state[0] + words * line
    goto(inside, [a, *state])
    word, *before = inside.write()
    following = step(word, before)
    ahead = word + 4
    again = branch(following[0] != end, inside, after, [ahead, *following])
    if not short:
        rolled(again)
    after.write()
    return following


def _pairs(
    a: Value, words: Value, line: int, state: Sequence[Value], step: Step, two: Step | None = None
) -> list[Value]:
    """As `_words`, two steps in a round, so that of the instructions less are for counting: where registers are few,
    loads are instructions of their own, too. An odd word comes first. two: both steps in one.
    """
    types = [each.type for each in (a, *state)]
    inside, alone, after = Block("pairs", types), Block("alone"), Block("after", types)
    end = state[0] + words * line
    branch((words & 1) != 0, alone, inside, [a, *state])
    alone.write()
    first = [a + 4, *step(a, state)]
    branch(first[1] != end, inside, after, first)
    word, *before = inside.write()
    following = [word + 8, *(two(word, before) if two else step(word + 4, step(word, before)))]
    rolled(branch(following[1] != end, inside, after, following))
    return after.write()[1:]


def _runs(rows: RowAddresses, line: int, state: Sequence[Value], step: Step) -> list[Value]:
    """As `_words` over the runs of a row, in one loop with a branch to the next run, so that the offsets of all rows
    stay in registers.
    """

    def run(place: Value) -> list[Value]:
        """The first word of a run, the address of its offset, and the address behind it."""
        start = rows.start + place[0]
        return [start, place, start + (rows.length << 2)]

    end = state[0] + rows.words * line
    first = [*run(rows.table), *state]
    inside = Block("words", [each.type for each in first])
    after, latch, turn = Block("after"), Block("latch"), Block("turn")
    goto(inside, first)
    word, place, behind, *before = inside.write()
    following = step(word, before)
    ahead = word + 4
    branch(following[0] != end, latch, after)
    latch.write()
    branch(ahead == behind, turn, inside, [ahead, place, behind, *following]).set_weights([1, 64])
    turn.write()
    goto(inside, [*run(place + 1), *following])
    after.write()
    return following


def _run_by_run(
    rows: RowAddresses, line: int, state: Sequence[Value], step: Step, loop: Callable[..., list[Value]]
) -> list[Value]:
    """As `_runs`, in nested loops: for one vector a row, a loop of several blocks would copy all sums. loop: that over
    the words of a run.
    """

    def run(i: Value, state: list[Value]) -> list[Value]:
        return loop(rows.start + rows.table[i], rows.length, line, state, step)

    return repeat(rows.runs, state, run)


def _again(
    rows: RowAddresses, table: Value | None, block: Value, line: int, sums: list[Value], step: Step
) -> list[Value]:
    """The sums after the words of these rows that a panel's block has again. table: that of segmented rows."""

    def word(at: Value, run: Value, offset: Value, sums: list[Value]) -> list[Value]:
        place = rows.start + offset
        if table is not None:
            place = place + table[run - rows.first]
        return step(place, [at, *sums])[1:]

    return each_again(block, (rows.first, rows.first + rows.runs), line, sums, word)


def each_again(
    block: Value, runs: tuple[Any, Any], line: int, sums: Sequence[Value], word: Callable[..., list[Value]]
) -> list[Value]:
    """The sums after the words that a block (a pointer, see pack_int8.py) has for runs from the first up to another:
    sums = word(pointer to weights, number of the run, offset in it, sums). line: bytes of the weights of a word.
    """
    start, end = (block + I32[block + (number(run) << 2)].to(I64) for run in runs)
    first = [start, *sums]
    inside, after = (Block(name, [each.type for each in first]) for name in ("again", "after"))
    branch(start != end, inside, after, first)
    at, *before = inside.write()
    found = word(at + WORD_HEAD, I32[at].to(I64), I32[at + 4].to(I64), before)
    following = at + (WORD_HEAD + line)
    rolled(branch(following != end, inside, after, [following, *found]))
    return after.write()[1:]


Steps = Sequence[tuple[int, Value]]
"""For each further row of a tile, the row that its address is computed from, and the offset in bytes."""


def _even_steps(step: Value, height: int) -> Steps:
    """The steps of `_step` for rows `step` bytes apart: every third row's address comes from the third row before, the
    two between from that one.
    """
    far = step * 3
    return [(r - (r % 3 or 3), step * (r % 3) if r % 3 else far) for r in range(1, height)]


def _step(
    arithmetic: Arithmetic, line: int, steps: Steps, fetched: Sequence[Stream], a: Value, state: Sequence[Value]
) -> list[Value]:
    """One word, at address a: (panel, what each stream fetches, sums row by row) after it."""
    panel, *sums = state
    weights = [] if arithmetic.multiply_rows else arithmetic.load(panel)
    moved = [panel + line]
    for stream in fetched:
        place = sums.pop(0)
        for at in (place, *(place + more for more in stream.more)):
            prefetch(at, stream.near)
        moved.append(place + stream.pace)
    words = [I8.at(a)]
    for near, nbytes in steps:
        words.append(words[near] + nbytes)
    if arithmetic.multiply_rows:
        return [*moved, *arithmetic.multiply_rows(panel, words, sums)]
    each, out = arithmetic.sums, []
    for r, word in enumerate(words):
        out += arithmetic.multiply(word, weights, sums[r * each : (r + 1) * each])
    return [*moved, *out]


def _two_words(
    arithmetic: Arithmetic, line: int, steps: Steps, fetched: Sequence[Stream], a: Value, state: Sequence[Value]
) -> list[Value]:
    """As `_step`, of two words."""
    assert arithmetic.multiply_two
    panel, *rest = state
    places, sums = rest[: len(fetched)], rest[len(fetched) :]
    weights = [arithmetic.load(panel), arithmetic.load(panel + line)]
    moved = [panel + 2 * line]
    for stream, place in zip(fetched, places, strict=True):
        prefetch(place, stream.near)
        moved.append(place + stream.pace * 2)
    words = [I8.at(a)]
    for near, nbytes in steps:
        words.append(words[near] + nbytes)
    each, out = arithmetic.sums, []
    for r, word in enumerate(words):
        out += arithmetic.multiply_two([word, word + 4], weights, sums[r * each : (r + 1) * each])
    return [*moved, *out]


def f32_arithmetic(tier: Tier, nv: int, epilogue: bool = True, out_item: int = 4, half: bool = False) -> Arithmetic:
    """Sums of f32 products; panels of nv vectors as pack.py packs them, bias first. epilogue and out_item are those of
    Arithmetic. half: only the lower half of the last vector counts.
    """
    f32 = F32.vector(tier.lanes)
    kinds = vectors(f32, nv, half)

    def line(start: Value) -> list[Value]:
        return [kind[start + n * f32.size] for n, kind in enumerate(kinds)]

    def multiply(word: Value, weights: list[Value], sums: list[Value]) -> list[Value]:
        x = f32(F32[word])
        found = [fma(x, w, s) for x, w, s in zip(copies(x, nv, half), weights, sums, strict=True)]
        if tier.fma and tier.registers < 32 and nv == 1:
            used(x)
        return found

    def finish(_: Destination, sums: list[Value]) -> list[Value]:
        return whole(sums)

    rows, head = max_rows(tier, nv), nv * f32.size
    return Arithmetic(nv, rows, head, nv, nv, 4, out_item, line, line, multiply, finish, epilogue)


def vectors(kind: Type, nv: int, half: bool) -> list[Type]:
    """The types of a row's nv vectors of a panel, of which the last may be half."""
    return [kind] * (nv - half) + [kind.vector(kind.lanes // 2)] * half


def copies(x: Value, nv: int, half: bool) -> list[Value]:
    """A word of A in all lanes, for each of a row's nv vectors."""
    if half and nv > 1:  # LLVM would widen the half with an instruction more.
        x = kept(x)
    return [x] * (nv - half) + [shuffle(x, range(x.lanes // 2))] * half


def whole(sums: Sequence[Value]) -> list[Value]:
    """Sums as vectors that are as wide as the widest: the upper halves of those that were half are any numbers."""
    lanes = max(s.lanes for s in sums)
    return [shuffle(s, range(lanes)) if s.lanes < lanes else s for s in sums]


def bf16_arithmetic(tier: Tier, nv: int, out_item: int) -> Arithmetic:
    """Sums in f32 of products of bf16, two at a time; panels of nv vectors as pack.py packs them, f32 bias first."""
    f32, i32 = F32.vector(tier.lanes), I32.vector(tier.lanes)

    def start(panel: Value) -> list[Value]:
        return [f32[panel + n * f32.size] for n in range(nv)]

    def load(weights: Value) -> list[Value]:
        return [i32[weights + n * i32.size] for n in range(nv)]

    def multiply(word: Value, weights: list[Value], sums: list[Value]) -> list[Value]:
        x = i32(I32[word])
        return [tier.isa.dot_pairs(s, w, x) for w, s in zip(weights, sums, strict=True)]

    rows, head = max_rows(tier, nv), nv * f32.size
    return Arithmetic(nv, rows, head, nv, nv, 2, out_item, start, load, multiply, _as_they_are, epilogue=True)


def _as_they_are(dest: Destination, sums: list[Value]) -> list[Value]:
    return sums
