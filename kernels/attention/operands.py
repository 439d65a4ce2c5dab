"""Addresses and strides, in bytes, of a block of queries: its operands, and its parts of a thread's scratch."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..lang import Value, pieces, tier, traced
from .rows import STATE


class Scratch(NamedTuple):
    """A thread's scratch: packed keys and values, rows of scores, rows of sums of values, and STATE with its lines
    `base`, `total` and `factor`. score_row, sum_row: strides of these rows; parts: the vector behind the first row of
    scores; line: bytes of a line of STATE.
    """

    keys: Value
    values: Value
    scores: Value
    score_row: Value
    parts: Value
    sums: Value
    sum_row: Value
    state: Value
    line: Value
    base: Value
    total: Value
    factor: Value


@traced
def scratch_of(r: Any, thread: Any, width: int) -> Scratch:
    """The scratch of a thread. width: columns of a panel of values; rows of sums are padded to whole panels."""
    keys, lanes = r.scratch + thread * r.scratch_bytes, tier().lanes
    values, scores, sums, state = (keys + offset for offset in (r.values_at, r.scores_at, r.sums_at, r.state_at))
    score_row, sum_row = (r.keys + lanes) * 4, pieces(r.e, width) * width * 4
    line = pieces(r.rows, lanes) * lanes * 4
    base, total, factor = (state + STATE.at(name) * line for name in ("base", "total", "factor"))
    return Scratch(
        keys, values, scores, score_row, scores + r.keys * 4, sums, sum_row, state, line, base, total, factor
    )


class QueryRow(NamedTuple):
    """Addresses of a query, of its result and of its row of the mask."""

    q: Value
    y: Value
    mask: Value


@traced
def query_row(r: Any, image: Any, head: Any, row: Any) -> QueryRow:
    """The addresses for query `row` of a head."""
    q = r.q + image * r.q_image + head * r.q_head + row * r.q_row
    y = r.y + image * r.y_image + head * r.y_head + row * r.y_row
    mask = r.mask + image * r.mask_image + head * r.mask_head + row * r.mask_row
    return QueryRow(q, y, mask)


def head_of_keys(r: Any, image: Any, group: Any) -> tuple[Any, Any]:
    """The addresses of the keys and of the values that a group of heads shares."""
    return r.k + image * r.k_image + group * r.k_head, r.v + image * r.v_image + group * r.v_head
