"""recurrent: all time steps of a layer, given the products of its inputs with their weights.

A step depends on the one before it, so threads split directions and rows of the batch only. Rows are computed in tiles
that depend on the batch only, and so do the bits of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import fields
from ..gemm.pack_int8 import HEAD_LINES
from ..isa.tiers import Tier
from ..lang import F32, I32, I64, Value, along, clear, div_rem, larger, pieces, share, smaller, tier, traced
from .activation import WORDS
from .byte_sums import make_byte_sums, round_to_bytes
from .cell import make_cell, reset_gates
from .rows import CELLS, GATES, INFO, PEEPHOLES, PLACES, STATES, UNROLL, WALK, WORD
from .sums import GROUP, heights, make_sums, result_room, round_to_bf16

GROUPED = 512 << 10
"""Bytes of a direction's weights up to which cells of a row are computed in groups; more are better read meanwhile."""

INFO_BYTES = 8 * len(INFO)
PROJECTED, Y, ALIVE, SCALE = (8 * INFO.at(name) for name in ("projected", "y", "alive", "scale"))


def make(tier: Tier, cell: str, element: str) -> Callable[..., None]:
    """The kernel of a cell that multiplies f32 or bf16; its record is `rows.WALK`."""
    height = min(heights(tier, gates)[0] for gates in CELLS[cell])
    (begin, end), product = _ends(cell), _product(tier, cell, element, 0, height)
    second = _product(tier, cell, element, 1, height) if len(CELLS[cell]) > 1 else None

    def walk(args: int, thread: int, threads: int) -> None:
        r = fields(args, WALK)
        wide = (r.row_bytes - INFO_BYTES) // STATES
        tiles = pieces(r.batch, height)
        unit, stop = share(r.directions * tiles, thread, threads)
        while unit < stop:
            d, tile = div_rem(unit, tiles)
            count = smaller(tiles - tile, stop - unit)
            first, until = tile * height, smaller((tile + count) * height, r.batch)
            rows = r.scratch + d * r.batch * r.row_bytes
            if r.start == 0:
                for row in range(first, until):
                    begin(r, rows + row * r.row_bytes, d, row)
            now = r.start & 1
            for s in range(r.steps):
                for row in range(first, until):
                    _step(r, rows + row * r.row_bytes + STATES * wide, d, row, s)
                product(r, d, (rows, first, until), (now, wide))
                if second is not None:
                    second(r, d, (rows, first, until), (now, wide))
                now = 1 - now
            for row in range(first, until):
                end(r, rows + row * r.row_bytes, d, row, now * wide, 2 * wide)
            unit += count

    return walk


def _product(tier: Tier, cell: str, element: str, number: int, height: int) -> Callable[..., None]:
    """product(r, d, some, state): a step of some rows of direction d, or its first or second product for cells that
    have two. some: (address of the direction's rows in scratch, the first of these, the one behind the last); a row has
    STATES states of `wide` bytes each; state: (1 where the step reads the second of them, wide).
    """
    gates, all_gates, lanes = CELLS[cell][number], GATES[cell], tier.lanes
    first_gate, activation_bytes, peephole_bytes = sum(CELLS[cell][:number]), 8 * WORDS * PLACES, 4 * PEEPHOLES * lanes
    of_bytes = cell == "lstm_bytes"
    head, per_line = (HEAD_LINES[False] * gates, 4) if of_bytes else (gates, WORD[element])
    projected = 2 if cell == "gru_after" else gates
    sums = make_byte_sums(tier, gates) if of_bytes else make_sums(tier, gates, projected, element)
    factor_of, resets = _factor_of(cell, element, number), cell == "gru" and number == 0
    finish = reset_gates if resets else make_cell(tier, cell, gates)
    tall, group = height >= 4, GROUP if tier.registers < 32 else 1
    line = 4 * lanes

    def product(r: Any, d: int, some: tuple[int, int, int], state: tuple[int, int]) -> None:
        (rows, first, until), (now, wide), to = some, state, result_room(gates)
        blocks = pieces(r.hidden, lanes)
        lines = pieces(r.hidden, per_line * UNROLL) * UNROLL
        step = (head + lines * gates) * line
        factor = factor_of(r, some, state)
        panel = (r.second if number == 1 else r.weights) + d * blocks * step
        column = first_gate * line
        peephole_step = 0
        if r.peepholes != 0:
            peephole_step = peephole_bytes
        peepholes = r.peepholes + d * blocks * peephole_step
        table = r.activations + d * activation_bytes
        most, block = group if until - first == 1 and blocks * step <= GROUPED else 1, 0
        while block < blocks:
            beside = smaller(most, blocks - block)
            row = first
            while row < until:
                count = smaller(until - row, height)
                if tall and count == 3:
                    count = 2
                place = rows + row * r.row_bytes
                states, each = (place + factor, place + STATES * wide, r.row_bytes), count * gates * line
                for i in range(beside):
                    sums(count, states, column + i * all_gates * line, panel + i * step, lines, to + i * each)
                for i in range(beside):
                    unit, form = (block + i) * lanes, (table, peepholes + i * peephole_step)
                    for n in range(count):
                        finish(r, (place + n * r.row_bytes, now), to + i * each + n * gates * line, unit, form)
                row += count
            block += beside
            panel += beside * step
            column += beside * all_gates * line
            peepholes += beside * peephole_step

    return product


def _factor_of(cell: str, element: str, number: int) -> Callable[..., int]:
    """factor_of(r, some, state): where in each row lies what is multiplied; it is rounded before."""
    of_bytes, resets = cell == "lstm_bytes", cell == "gru" and number == 0
    rounded, round_state = of_bytes or element == "bf16", round_to_bytes if of_bytes else round_to_bf16

    def factor_of(r: Any, some: tuple[int, int, int], states: tuple[int, int]) -> int:
        (rows, first, until), (now, wide) = some, states
        state = 3 * wide if number == 1 else now * wide
        factor = state
        if rounded:
            # What a gru resets lies last, and is rounded in place; its state before, where the next one will be.
            factor = (1 - now) * wide if resets else 3 * wide
            for row in range(first, until):
                place = rows + row * r.row_bytes
                round_state(place + state, place + factor, place + STATES * wide + SCALE, r.hidden)
        return factor

    return factor_of


def _ends(cell: str) -> tuple[Callable[..., None], Callable[..., None]]:
    """begin(r, row, d, n): load the initial states of row n of direction d. end(r, row, d, n, state, kept): store the
    final ones, from these offsets in its row of scratch.
    """
    whole = cell.startswith("lstm")

    def begin(r: Any, row: int, d: int, n: int) -> None:
        wide = (r.row_bytes - INFO_BYTES) // STATES
        clear(row, STATES * wide // 4)
        if r.first != 0:
            _copy(row, r.first + d * r.first_direction + n * r.first_row, r.hidden)
        if whole and r.first_cell != 0:
            _copy(row + 2 * wide, r.first_cell + d * r.first_cell_direction + n * r.first_cell_row, r.hidden)

    def end(r: Any, row: int, d: int, n: int, state: int, kept: int) -> None:
        if r.last != 0:
            _copy(r.last + d * r.last_direction + n * r.last_row, row + state, r.hidden)
        if whole and r.last_cell != 0:
            _copy(r.last_cell + d * r.last_cell_direction + n * r.last_cell_row, row + kept, r.hidden)

    return begin, end


def _step(r: Any, info: int, d: int, n: int, s: int) -> None:
    """Write INFO of step s of row n to `info`; backwards, a sequence begins at its own end."""
    length = r.steps
    if r.lengths != 0:
        given = whole_number(r.lengths + 4 * n)
        if given < 0 or given > r.total:
            I64[r.error] = 1
        length = larger(smaller(given - r.start, r.steps), 0)
    time = s
    if (r.reverse >> d) & 1 and s < length:
        time = length - 1 - s
    offset = time * r.projected_step + n * r.projected_row + d * r.projected_direction
    I64[info + PROJECTED] = r.projected + offset
    I64[info + Y] = r.y + time * r.y_step + d * r.y_direction + n * r.y_row
    I64[info + ALIVE] = 1 if s < length else 0


@traced
def whole_number(at: Value) -> Value:
    """The int32 at an address."""
    return I32[at].to(I64)


@traced
def _copy(to: Any, source: Any, count: Value) -> None:
    for some, i, mask in along(F32.vector(tier().lanes), 0, count, 1):
        some[F32.at(to) + i, mask] = some[F32.at(source) + i, mask]
