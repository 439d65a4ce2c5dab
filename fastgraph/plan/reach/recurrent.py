"""What recurrent layers reach: steps over time, and packing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...kernels.gemm.pack_int8 import HEAD_LINES, vectors_per_word
from ...kernels.recurrent.pack_recurrent import words
from ...kernels.recurrent.rows import ACTIVATIONS, CELLS, GATES, INFO, PEEPHOLES, PLACES, STATES, UNROLL
from .call import Call, Loop, Reach, need, parts, reaches, read, work, write


@reaches("recurrent")
def recurrent(c: Call) -> Iterator[Reach]:
    r = c.record("start steps directions batch", "hidden")
    used = int(bool(r.directions * r.batch))
    count = parts(r.hidden, c.lanes)
    row = STATES * count * c.vector + 8 * len(INFO)
    need(r.row_bytes == row, f"row_bytes is {r.row_bytes}, expected {row}")
    rows: tuple[Loop, ...] = (r.directions, r.projected_direction), (r.batch, r.projected_row)
    steps = (r.steps, r.projected_step)
    yield read("projected", count * GATES[c.params["cell"]] * c.vector, steps, *rows)
    for slot, gates in zip(("weights", "second"), CELLS[c.params["cell"]], strict=False):
        lines = gates * (1 + parts(r.hidden, UNROLL) * UNROLL)
        if c.params["cell"] == "lstm_bytes":
            lines = HEAD_LINES[False] * gates + words(r.hidden) * vectors_per_word(c.tier, gates, False)
        yield read(slot, used * r.directions * count * lines * c.vector)
    yield from _states(c)
    if c.slots["lengths"] != 0:
        yield read("lengths", 4 * r.batch * used)
        yield write("error", 8 * used)
        need(not r.reverse or (not r.start and r.steps == r.total), "a part of sequences that begin at their ends")
    if c.slots["peepholes"] != 0:
        yield read("peepholes", r.directions * count * PEEPHOLES * c.vector)
    known = c.table("activations", used * r.directions * PLACES * 3).reshape(-1, 3)[:, 0]
    need(bool(np.all((known >= 0) & (known < len(ACTIVATIONS)))), "there are other activations")
    yield read("activations", 24 * PLACES * r.directions * used)
    yield work("scratch", row, (r.directions * r.batch, row))
    yield write("y", 4 * r.hidden, (r.steps, r.y_step), (r.directions, r.y_direction), (r.batch, r.y_row))


def _states(c: Call) -> Iterator[Reach]:
    """Initial and last states, where the record has them."""
    r = c.record()
    for name in ("first", "last"):
        for slot in (name, f"{name}_cell") if c.params["cell"].startswith("lstm") else (name,):
            if c.slots[slot] != 0:
                loops = (r.directions, getattr(r, f"{slot}_direction")), (r.batch, getattr(r, f"{slot}_row"))
                yield (read if name == "first" else write)(slot, 4 * r.hidden, *loops)


@reaches("pack_gates")
def pack_gates(c: Call) -> Iterator[Reach]:
    r = c.record("directions k lines summed", "gates hidden")
    need(r.k <= r.lines, f"k is {r.k}, more than {r.lines} lines")
    rows = (r.directions, r.weights_direction), (r.gates * r.hidden, r.weights_row)
    if r.k:
        yield read("weights", 4 * r.k, *rows)
    if c.slots["bias"] != 0:
        yield read("bias", 4 * r.gates * r.hidden, (r.directions, r.bias_direction))
        if r.summed:
            yield read("more", 4 * min(r.summed, r.gates) * r.hidden, (r.directions, r.bias_direction))
    yield write("packed", r.directions * parts(r.hidden, c.lanes) * (1 + r.lines) * r.gates * c.vector)
