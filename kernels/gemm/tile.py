"""The micro-kernel of dot and convolution: rows x vectors of sums, in registers from bias to store.

It has a body for each height of a tile, and jumps to the one that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from llvmlite import ir

from ..isa.loops import repeat, rolled, room
from ..isa.tiers import Tier
from ..isa.vector import F32, I8, I32, I64, Vector, emits
from .heights import crossing
from .results import Place, open_sink, settle, store_rows


@dataclass(frozen=True)
class Arithmetic:
    """How a tile sums products of words of 4 bytes (an f32, or four u8) with packed weights.

    A panel is `head` bytes, then for each word `vectors` vectors of weights; a row of the tile has `sums`
    vectors of sums. `item` and `out_item` are the bytes of an element of A and of C.

    start(v, panel): the sums that a row begins with. load(v, line): the weights of a word.
    multiply(v, word, weights, sums): a row's new sums; `word` points to A's word.
    finish(v, place, sums): f32 results, or i32 as such, row by row as the sums come; or stores others itself. epilogue:
    whether they end as the record's EPILOGUE says.
    """

    head: int
    vectors: int
    sums: int
    item: int
    out_item: int
    start: Callable[[Vector, Any], list[Any]]
    load: Callable[[Vector, Any], list[Any]]
    multiply: Callable[[Vector, Any, list[Any], list[Any]], list[Any]]
    finish: Callable[[Vector, Place, list[Any]], list[Any] | None]
    epilogue: bool = False


def make_tile(tier: Tier, nv: int, most: int, arithmetic: Arithmetic, segmented: bool = False) -> Any:
    """An intrinsic that computes `height` output rows, 1 to `most`, of one weight panel of nv vectors.

    Call it as tile(record, height, a=..., ...), the record as read. Row r of A starts at byte address a + offsets * r,
    or where it is `segmented` at a + offsets[r] (of int64, the first 0), which is offsets[1] * r in tiles of more rows
    than may be `crossing`. It has `words` words, in `runs` of `length` words that start table[s] bytes further where it
    is `segmented`. The panel is packed as the arithmetic says; the line `ahead` bytes further is prefetched. Results
    go to rows of `ldc` bytes at `c`, only `columns` of them. image, row and column are where the epilogue reads.
    """
    line_bytes = arithmetic.vectors * tier.lanes * 4

    @emits
    def tile(
        b: Any, record: Any, height: Any, a: Any, offsets: Any, table: Any, length: Any, runs: Any, words: Any,
        panel: Any, ahead: Any, c: Any, ldc: Any, columns: Any, image: Any, row: Any, column: Any,
    ) -> None:  # fmt: skip
        v = Vector(b, tier)
        first, starts = b.inttoptr(panel, I8.as_pointer()), b.inttoptr(table, I64.as_pointer())

        def emit(rows: int) -> list[Any] | None:
            places = b.inttoptr(offsets, I64.as_pointer())
            if not segmented:
                steps = _even_steps(b, offsets, rows)
            elif rows > crossing(most, nv):
                steps = _even_steps(b, b.load(b.gep(places, [I64(1)])), rows)
            else:
                steps = [(0, b.load(b.gep(places, [I64(r)]))) for r in range(1, rows)]
            step = partial(_step, v, arithmetic, line_bytes, steps, ahead)
            state = [b.gep(first, [I64(arithmetic.head)]), *arithmetic.start(v, first) * rows]
            short = rows == 1 or (tier.registers == 16 and nv > 1 and len(state) <= 11)
            if segmented and nv == 1:
                _, *sums = _run_by_run(b, a, (starts, length), runs, line_bytes, state, step, short)
            else:
                walk = (starts, length) if segmented else None
                _, *sums = _words(b, a, walk, b.mul(words, I64(line_bytes)), state, step, short)
            return arithmetic.finish(v, replace(place, rows=rows), sums)

        place = Place(height, c, ldc, columns, first, record, image, row, column)
        sink = open_sink(v, place, nv, most, arithmetic.epilogue)
        found, done = [], b.append_basic_block("done")
        jump = b.switch(height, done)
        for rows in range(most, 0, -1):
            body = b.append_basic_block(f"rows{rows}")
            jump.add_case(I64(rows), body)
            b.position_at_end(body)
            results = emit(rows)
            if results is None:
                b.branch(done)
            else:
                found.append((b.block, rows, results))
        b.position_at_end(done)
        if found:
            store_rows(v, place, sink, found, done)
            settle(v, place, sink)

    return tile


def make_offsets(most: int) -> Any:
    """An intrinsic offsets(step): the address of a tile's offsets for up to `most` rows, `step` bytes apart."""

    @emits
    def offsets(b: Any, step: Any) -> Any:
        start = b.bitcast(room(b, ir.ArrayType(I64, most)), I64.as_pointer())
        for r in range(most):
            b.store(b.mul(step, I64(r)), b.gep(start, [I64(r)]))
        return b.ptrtoint(start, I64)

    return offsets


def _words(
    b: Any, a: Any, runs: tuple[Any, Any] | None, nbytes: Any, start: Sequence[Any], step: Callable[..., Any],
    short: bool,
) -> list[Any]:  # fmt: skip
    """Emit a loop of state = step(address, *state) over the words of a row, at least one; the last state.

    runs: (table, words of a run), or None: one run; nbytes: of the panel, where the state begins with a pointer to.
    short: whether LLVM may unroll the loop.
    """
    before, inside, after = b.block, b.append_basic_block("words"), b.append_basic_block("after")
    end = b.gep(start[0], [nbytes])

    def run(table: Any) -> list[Any]:
        """The first word of a run, where its offset is, and the address behind it."""
        assert runs
        start = b.add(a, b.load(table))
        return [start, table, b.add(start, b.shl(runs[1], I64(2)))]

    state = [*(run(runs[0]) if runs else [a]), *start]
    b.branch(inside)
    b.position_at_end(inside)
    phis = [b.phi(value.type) for value in state]
    word, *walk = phis[: -len(start)]
    following = step(word, *phis[-len(start) :])
    ahead = b.add(word, I64(4))
    sources = [(before, state), (b.block, [ahead, *walk, *following])]
    more = b.icmp_unsigned("!=", following[0], end)
    if runs:
        # One loop, where another run is a turn aside: so the offsets of all rows stay in registers.
        latch, turn = b.append_basic_block("latch"), b.append_basic_block("turn")
        b.cbranch(more, latch, after)
        b.position_at_end(latch)
        b.cbranch(b.icmp_unsigned("==", ahead, walk[1]), turn, inside).set_weights([1, 64])
        b.position_at_end(turn)
        sources[1] = (latch, sources[1][1])
        sources.append((turn, [*run(b.gep(walk[0], [I64(1)])), *following]))
        b.branch(inside)
    else:
        again = b.cbranch(more, inside, after)
        if not short:
            rolled(b, again)
    for block, values in sources:
        for phi, value in zip(phis, values, strict=True):
            phi.add_incoming(value, block)
    b.position_at_end(after)
    return following


def _run_by_run(
    b: Any, a: Any, runs: tuple[Any, Any], count: Any, line: int, start: Sequence[Any], step: Callable[..., Any],
    short: bool,
) -> list[Any]:  # fmt: skip
    """As `_words`, in a loop of loops: a loop of several blocks would copy all sums that one vector a row has."""
    table, length = runs

    def run(i: Any, state: list[Any]) -> list[Any]:
        return _words(b, b.add(a, b.load(b.gep(table, [i]))), None, b.mul(length, I64(line)), state, step, short)

    return repeat(b, count, start, run)


def _even_steps(b: Any, step: Any, rows: int) -> list[tuple[int, Any]]:
    """As `_step` takes them, of rows `step` bytes apart: in instructions, a third reaches the two behind it."""
    far = b.mul(step, I64(3))
    return [(r - (r % 3 or 3), b.mul(step, I64(r % 3)) if r % 3 else far) for r in range(1, rows)]


def _step(
    v: Vector, arithmetic: Arithmetic, line_bytes: int, steps: Sequence[tuple[int, Any]], ahead: Any, a: Any,
    panel: Any, *row_sums: Any,
) -> list[Any]:  # fmt: skip
    """The word at address a: (panel, sums row by row) after it. steps: of each further row, which it is reached from,
    and by how many bytes.
    """
    b, each, sums = v.b, arithmetic.sums, list(row_sums)
    weights = arithmetic.load(v, panel)
    prefetch = v.declare("llvm.prefetch.p0", ir.VoidType(), [panel.type, I32, I32, I32])
    b.call(prefetch, [b.gep(panel, [ahead]), I32(0), I32(2), I32(1)])
    found = [b.inttoptr(a, I8.as_pointer())]
    found += (b.gep(found[near], [nbytes]) for near, nbytes in steps)
    out = []
    for r, word in enumerate(found):
        out += arithmetic.multiply(v, word, weights, sums[r * each : (r + 1) * each])
    return [b.gep(panel, [I64(line_bytes)]), *out]


def f32_arithmetic(tier: Tier, nv: int, epilogue: bool = True) -> Arithmetic:
    """Sums of f32 products; panels of nv vectors as pack.py packs them, bias first. epilogue: as of Arithmetic."""

    def line(v: Vector, start: Any) -> list[Any]:
        return [v.load(_f32(v.b, start, I64(n * v.lanes * 4))) for n in range(nv)]

    def multiply(v: Vector, word: Any, weights: list[Any], sums: list[Any]) -> list[Any]:
        x = v.broadcast(v.b.bitcast(word, F32.as_pointer()))
        return [v.fma(x, w, s) for w, s in zip(weights, sums, strict=True)]

    def finish(v: Vector, place: Place, sums: list[Any]) -> list[Any]:
        return sums

    return Arithmetic(nv * tier.lanes * 4, nv, nv, 4, 4, line, line, multiply, finish, epilogue)


def _f32(b: Any, start: Any, offset: Any) -> Any:
    """The f32 at byte pointer start + offset."""
    return b.bitcast(b.gep(start, [offset]), F32.as_pointer())
