"""Moves with constant indices: by offset tables (nearest resize, pads that repeat), and constant pads.

As copy_plan.py: plain Python and NumPy, strides and offsets in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .copy_plan import Args, Move, Shape, Steps, Strides, copied, dense, outer_args
from .rows import PAD_LOOP, TAKE_LOOP, WORDS

OUTSIDE = -(1 << 60)
"""In an offset table: this place lies outside of the source and takes the fill value."""


Indices = Sequence[np.ndarray | None]
"""Of each axis; None: all of it."""


class _Axis(NamedTuple):
    """An axis of a `take`: indices along a source axis (-1: outside), or all of it in order when None."""

    n: int
    s: int
    d: int
    at: np.ndarray | None = None


def taken(
    shape: Shape, indices: Indices, itemsize: int, fill: int = 0, src_strides: Steps = None, dst_strides: Steps = None
) -> Move:
    """y[i, j, ...] = x[indices[0][i], indices[1][j], ...]: a gather with constants.

    One entry of `indices` per axis: None takes all of it, -1 in an array takes `fill` (an element's bits).
    Nearest resize and the pads that repeat the source are such moves.
    """
    src = src_strides or dense(shape, itemsize)
    out = [n if at is None else len(at) for n, at in zip(shape, indices, strict=True)]
    dst = dst_strides or dense(out, itemsize)
    if indices and indices[-1] is not None and src[-1] == itemsize:
        repeats = [_repeats(n, at) for n, at in zip(shape, indices, strict=True)]
        if all(repeats):
            return _spread(shape, repeats, src, dst, itemsize)
    axes: list[_Axis] = []
    for n, s, d, at in zip(out, src, dst, indices, strict=True):
        if axes and at is None and axes[-1].at is None and axes[-1].s == n * s and axes[-1].d == n * d:
            n *= axes.pop().n
        axes.append(_Axis(n, s, d, at))
    run = itemsize
    if axes and axes[-1].at is None and axes[-1].s == axes[-1].d == itemsize:
        run = axes.pop().n * itemsize
    *outer, inner = axes or [_Axis(1, run, run)]
    table, runs = _runs(inner, run), True
    if run in WORDS and 2 * len(table) > inner.n:
        table, runs = _offsets(inner), False
    args: Args = {"fill": repeated(fill, itemsize), "itemsize": 0 if runs else run}
    args |= {"rows": len(table), "table": table, "d": inner.d}
    args |= outer_args(TAKE_LOOP, [{"n": axis.n, "table": _offsets(axis), "d": axis.d} for axis in outer])
    return Move("take", {"runs": runs}, args)


def _repeats(n: int, at: np.ndarray | None) -> int:
    """k when the indices are 0..n-1 in order, each k times, else 0."""
    if at is None or n == 0:
        return int(at is None)
    k = len(at) // n
    return k if len(at) == n * k and (at == np.repeat(np.arange(n), k)).all() else 0


def _spread(shape: Shape, repeats: Sequence[int], src: Strides, dst: Strides, itemsize: int) -> Move:
    """The copy that writes each element `repeats` times."""
    axes = zip(shape, repeats, src, dst, strict=True)
    n, s, d = zip(*(loop for n, k, s, d in axes for loop in ((n, s, k * d), (k, 0, d))), strict=True)
    return copied(n, s, d, itemsize)


def _runs(axis: _Axis, run: int) -> np.ndarray:
    """The axis as runs (destination offset, source offset, bytes), adjacent ones joined."""
    if axis.n == 0:
        return np.zeros((0, 3), np.int64)
    src, dst = _offsets(axis), np.arange(axis.n, dtype=np.int64) * axis.d
    joined = (np.diff(src) == run) | ((src[1:] == OUTSIDE) & (src[:-1] == OUTSIDE))
    joined &= axis.d == run
    starts = np.flatnonzero(np.concatenate([[True], ~joined]))
    counts = np.diff(np.append(starts, axis.n))
    return np.stack([dst[starts], src[starts], counts * run], axis=1)


def _offsets(axis: _Axis) -> np.ndarray:
    at = np.arange(axis.n, dtype=np.int64) if axis.at is None else np.asarray(axis.at, np.int64)
    return np.where(at < 0, OUTSIDE, at * axis.s)


def repeated(bits: int, itemsize: int) -> int:
    """An element's bits, repeated to a signed int64. ValueError for over 8 bytes unless all zero."""
    if itemsize > 8:
        if bits:
            raise ValueError(f"the kernels fill with elements of up to 8 bytes, not of {itemsize}")
        return 0
    element = (bits & ((1 << 8 * itemsize) - 1)).to_bytes(itemsize, "little")
    return int.from_bytes(element * (8 // itemsize), "little", signed=True)


def pad_indices(n: int, before: int, after: int, mode: str) -> np.ndarray | None:
    """The indices along an axis of n that ONNX Pad reads (-1: the constant); None when it reads all in order.

    Negative `before` and `after` crop, before others repeat. `mode` is constant, reflect, symmetric, edge or wrap.
    """
    if before == after == 0:
        return None
    left, grow = np.arange(max(-before, 0), n - max(-after, 0)), (max(before, 0), max(after, 0))
    if mode == "constant":
        return np.pad(left, grow, constant_values=-1)
    return np.pad(left, grow, mode=mode)  # type: ignore[call-overload]


class _Span(NamedTuple):
    """An axis of a constant pad: of `n` indices in the destination, `inside` from `low` on exist in the source."""

    n: int
    low: int
    inside: int
    s: int
    d: int


def padded(
    shape: Shape,
    amounts: Sequence[tuple[int, int]],
    itemsize: int,
    mode: str = "constant",
    fill: int = 0,
    src_strides: Steps = None,
    dst_strides: Steps = None,
) -> Move:
    """ONNX Pad; `amounts` (before, after) of each axis, of which negative ones crop; `fill` is the constant's bits."""
    if mode != "constant" or 0 in shape:
        at = [pad_indices(n, b, a, mode) for n, (b, a) in zip(shape, amounts, strict=True)]
        return taken(shape, at, itemsize, fill, src_strides, dst_strides)
    src = src_strides or dense(shape, itemsize)
    out = [n + b + a for n, (b, a) in zip(shape, amounts, strict=True)]
    dst = dst_strides or dense(out, itemsize)
    offset = sum(s * max(-b, 0) for s, (b, _) in zip(src, amounts, strict=True))
    spans: list[_Span] = []
    for n, (b, a), s, d in zip(shape, amounts, src, dst, strict=True):
        span = _Span(n + b + a, max(b, 0), n + min(b, 0) + min(a, 0), s, d)
        if spans and span.inside == span.n == n and spans[-1].s == n * s and spans[-1].d == n * d:
            above = spans.pop()
            span = _Span(above.n * n, above.low * n, above.inside * n, s, d)
        spans.append(span)
    if not spans or spans[-1].s != itemsize or spans[-1].d != itemsize:
        spans.append(_Span(1, 0, 1, itemsize, itemsize))
    row = spans.pop()
    run = max(row.inside, 0)
    args: Args = {"fill": repeated(fill, itemsize), "left": row.low * itemsize}
    args |= {"run": run * itemsize, "right": (row.n - row.low - run) * itemsize}
    args |= outer_args(PAD_LOOP, [span._asdict() for span in spans])
    return Move("pad", {}, args, src_offset=offset)
