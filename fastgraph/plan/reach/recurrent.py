"""Ranges of recurrent layers with sequences of several lengths, and the size of their weights."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ...kernels.gemm.pack_int8 import HEAD_LINES
from ...kernels.recurrent.pack_recurrent import words
from ...kernels.recurrent.rows import ACTIVATIONS, CELLS, PLACES, WORD
from .call import KNOWN, Call, Reach, need, parts, reaches, read, write


def _weight_bytes(c: Call, hidden: int, product: int) -> int:
    """Bytes of a direction's weights for a product of the cell."""
    gates = CELLS[c.params["cell"]][product]
    lines = gates * (1 + words(hidden, WORD[c.params["element"]]))
    if c.params["cell"] == "lstm_bytes":
        lines = (HEAD_LINES[False] + words(hidden, 4)) * gates
    return parts(hidden, c.lanes) * lines * c.vector


KNOWN["weight_bytes"] = lambda c: partial(_weight_bytes, c)


@reaches("recurrent")
def recurrent(c: Call) -> Iterator[Reach]:
    """All activations are known ones. Lengths are read and checked; with them a reversed layer is one part."""
    r = c.record()
    known = c.table("activations", r.directions * PLACES * 3).reshape(-1, 3)[:, 0]
    need(bool(np.all((known >= 0) & (known < len(ACTIVATIONS)))), "there are other activations")
    if c.slots["lengths"] != 0:
        yield read("lengths", 4 * r.batch)
        yield write("error", 8)
        need(not r.reverse or (not r.start and r.steps == r.total), "a part of sequences that begin at their ends")
