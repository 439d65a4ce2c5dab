"""The kernel calls of linear and cubic resize, axis by axis, with their records. Nothing here compiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .copy_plan import Move, dense, viewed
from .resize_tables import ResizeTable

F = np.float32
SIZES = {"f32": 4, "u8": 1, "s8": 1}
"""Bytes of the element types that can be resized."""

Call = tuple[Move, tuple[int, ...]]
"""A kernel call, and the shape of its dense result."""


class Ends(NamedTuple):
    """The element types of a call's input and output, and the zero point of its output."""

    source: str
    target: str
    zero: int

    @property
    def params(self) -> dict[str, Any]:
        return {"source": self.source, "target": self.target}


def resized(
    shape: Sequence[int],
    tables: Mapping[int, ResizeTable],
    extrapolation: float = 0.0,
    element: str = "f32",
    zero: int = 0,
) -> list[Call]:
    """The calls that resize a dense tensor along the axes that have a table, in order.

    All but the last write f32 to scratch, which the caller provides. No tables: no calls. `element`: "f32", or "u8"
    or "s8" with their zero point; the extrapolation value is a stored number too.
    """
    calls: list[Call] = []
    at, left = tuple(shape), dict(tables)
    while left:
        pair = _pair(at, left)
        axis = min(left, key=lambda a: _order(at, a, left[a])) if pair is None else pair
        table, other = left.pop(axis), None if pair is None else left.pop(pair + 1)
        ends = Ends("f32" if calls else element, "f32" if left else element, 0 if left else zero)
        if other is None:
            calls += _passes(at, axis, table, extrapolation, ends)
        else:
            calls.append(_bilinear(at, axis, table, other, ends))
        at = calls[-1][1]
    return calls


def _order(shape: Sequence[int], axis: int, table: ResizeTable) -> tuple[float, int]:
    """Sort key: axes that shrink most go first; among equals the one with short runs, while they are few."""
    growth = len(table.index) / max(shape[axis], 1)
    run = prod(shape[axis + 1 :])
    return growth, run if growth >= 1 else -run


def _pair(shape: Sequence[int], tables: Mapping[int, ResizeTable]) -> int | None:
    """The first of the last two axes, when one bilinear call beats two passes: for many channels."""
    first = min(tables)
    if sorted(tables) != [first, first + 1]:
        return None
    both = tables[first], tables[first + 1]
    if any(table.index.shape[1] != 2 or table.outside.any() for table in both):
        return None
    grows = prod(len(table.index) for table in both) > shape[first] * shape[first + 1]
    return first if prod(shape[first + 2 :]) >= (32 if grows else 16) else None


def _passes(shape: Sequence[int], axis: int, table: ResizeTable, extrapolation: float, ends: Ends) -> list[Call]:
    """One pass; between two transposes for the innermost axis of many lines, which has no runs."""
    lines, n, count = prod(shape[:axis]), shape[axis], len(table.index)
    if prod(shape[axis + 1 :]) > 1 or lines < 32 or min(n, count) < 16:
        return [_pass(shape, axis, table, extrapolation, ends)]
    there = viewed(np.transpose, (lines, n), SIZES[ends.source])
    back = viewed(np.transpose, (count, lines), SIZES[ends.target])
    out = (*shape[:axis], count, *shape[axis + 1 :])
    return [(there, (n, lines)), _pass((n, lines), 0, table, extrapolation, ends), (back, out)]


def _pass(shape: Sequence[int], axis: int, table: ResizeTable, extrapolation: float, ends: Ends) -> Call:
    count, taps = table.index.shape
    out = (*shape[:axis], count, *shape[axis + 1 :])
    src, dst = dense(shape, SIZES[ends.source]), dense(out, SIZES[ends.target])
    run = prod(shape[axis + 1 :])
    move = Move("resize", ends.params, {
        "offset": table.index * src[axis], "weight": table.weight,
        "bias": np.where(table.outside, F(extrapolation), F(0)) - F(ends.zero), "taps": taps,
        "outer": prod(shape[:axis]), "outer_s": shape[axis] * src[axis], "outer_d": out[axis] * dst[axis],
        "n": count, "d": dst[axis], "run": run, "zero": ends.zero,
    })  # fmt: skip
    return move, out


def _bilinear(shape: Sequence[int], axis: int, y: ResizeTable, x: ResizeTable, ends: Ends) -> Call:
    out = (*shape[:axis], len(y.index), len(x.index), *shape[axis + 2 :])
    src, dst = dense(shape, SIZES[ends.source]), dense(out, SIZES[ends.target])
    move = Move("bilinear", ends.params, {
        "offset_y": y.index * src[axis], "weight_y": y.weight,
        "offset_x": x.index * src[axis + 1], "weight_x": x.weight,
        "outer": prod(shape[:axis]), "outer_s": shape[axis] * src[axis], "outer_d": out[axis] * dst[axis],
        "height": out[axis], "dy": dst[axis], "width": out[axis + 1], "dx": dst[axis + 1],
        "run": prod(shape[axis + 2 :]), "zero": ends.zero,
    })  # fmt: skip
    return move, out
