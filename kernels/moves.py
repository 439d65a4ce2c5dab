"""Plan data movement: which kernel does it, with which record. Plain Python and NumPy; nothing here compiles.

Strides and offsets are bytes and may be negative; a stride of 0 repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

OUTER = 6
"""Outer dimensions that a record has room for."""

OUTSIDE = -(1 << 60)
"""In an offset table: this place lies outside of the source and takes the fill value."""


@dataclass(frozen=True)
class Move:
    """One kernel call: `args` is the record without its pointers (`dst`, `src` ...), which the caller adds.

    An array in `args` stands for the address of a constant with its content. The caller adds `src_offset` bytes to
    the source's address and `dst_offset` to the destination's.
    """

    kernel: str
    params: dict[str, Any]
    args: dict[str, int | np.ndarray]
    src_offset: int = 0
    dst_offset: int = 0


@dataclass(frozen=True)
class Dim:
    """A loop: `n` places, `s` bytes apart in the source and `d` in the destination."""

    n: int
    s: int
    d: int


def dense(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The byte strides of a C-contiguous array."""
    return tuple(itemsize * prod(shape[i + 1 :]) for i in range(len(shape)))


def collapse(shape: Sequence[int], src_strides: Sequence[int], dst_strides: Sequence[int]) -> list[Dim]:
    """The fewest loops that visit the same pairs of places, widest destination stride first; none for one element."""
    dims = [Dim(n, s, d) for n, s, d in zip(shape, src_strides, dst_strides, strict=True) if n != 1]
    dims.sort(key=lambda dim: (-abs(dim.d), -abs(dim.s)))
    merged: list[Dim] = []
    for dim in dims:
        if merged and merged[-1].s == dim.n * dim.s and merged[-1].d == dim.n * dim.d:
            dim = Dim(merged.pop().n * dim.n, dim.s, dim.d)
        merged.append(dim)
    return merged


def move(
    shape: Sequence[int],
    src_strides: Sequence[int],
    dst_strides: Sequence[int],
    itemsize: int,
    src_offset: int = 0,
    dst_offset: int = 0,
) -> Move:
    """Copy dst[i, j, ...] = src[i, j, ...] for all indices of `shape`, as a copy or a transpose.

    The two may not overlap. ValueError when more than OUTER + 2 loops remain after merging.
    """
    dims = collapse(shape, src_strides, dst_strides)
    if itemsize not in (1, 2, 4, 8):
        word = next(size for size in (8, 4, 2, 1) if itemsize % size == 0)
        dims, itemsize = _merge_last([*dims, Dim(itemsize // word, word, word)]), word
    if dims and dims[-1].s == dims[-1].d == itemsize and dims[-1].n * itemsize in (2, 4, 8):
        itemsize *= dims.pop().n
    return _transpose(dims, itemsize, src_offset, dst_offset) or _copy(dims, itemsize, src_offset, dst_offset)


def _merge_last(dims: list[Dim]) -> list[Dim]:
    return collapse([d.n for d in dims], [d.s for d in dims], [d.d for d in dims])


def _copy(dims: list[Dim], itemsize: int, src_offset: int, dst_offset: int) -> Move:
    dims = dims or [Dim(1, itemsize, itemsize)]
    last = dims[-1]
    if last.d == itemsize and last.s == itemsize:
        mode, itemsize, last = "run", 1, Dim(last.n * itemsize, 1, 1)
    elif last.d == itemsize and last.s == 0:
        mode = "fill"
    else:
        mode = "step"
    rows = dims[-2] if len(dims) > 1 else Dim(1, 0, 0)
    args = {"count": last.n, "s0": last.s, "d0": last.d, "rows": rows.n, "s1": rows.s, "d1": rows.d}
    args |= _outer(dims[:-2])
    return Move("copy", {"mode": mode, "itemsize": itemsize}, args, src_offset, dst_offset)


def _transpose(dims: list[Dim], itemsize: int, src_offset: int, dst_offset: int) -> Move | None:
    """The transpose that makes these loops, or None when they don't hold one that pays."""
    if len(dims) < 2 or dims[-1].d != itemsize or dims[-1].s == itemsize:
        return None
    cols = dims[-1]
    found = [dim for dim in dims[:-1] if dim.s == itemsize]
    if not found or cols.s <= 0 or found[0].d <= 0:
        return None
    rows = found[0]
    narrow = 0
    if 2 <= cols.n <= 8 and rows.d == cols.n * itemsize and rows.n >= 16:
        narrow = cols.n
    elif 2 <= rows.n <= 8 and cols.s == rows.n * itemsize and cols.n >= 16:
        narrow = -rows.n
    elif min(rows.n, cols.n) < 4:
        return None
    high, wide = (4096, 4096) if narrow else (64, 512)
    args = {"rows": rows.n, "d1": rows.d, "cols": cols.n, "s1": cols.s, "high": high, "wide": wide}
    args |= _outer([dim for dim in dims[:-1] if dim is not rows])
    return Move("transpose", {"itemsize": itemsize, "narrow": narrow}, args, src_offset, dst_offset)


def _outer(dims: Sequence[Dim]) -> dict[str, int]:
    """The record's slots for the outer loops, innermost first."""
    if len(dims) > OUTER:
        raise ValueError(f"a move with {len(dims) + 2} loops that don't merge; the kernels have {OUTER + 2}")
    slots = {"rank": len(dims)}
    padded = [*reversed(dims), *[Dim(1, 0, 0)] * (OUTER - len(dims))]
    for k, dim in enumerate(padded):
        slots |= {f"n{k}_": dim.n, f"s{k}_": dim.s, f"d{k}_": dim.d}
    return slots


def outer_slots(*fields: str) -> tuple[str, ...]:
    """The names of the slots that hold the outer loops: rank, then `fields` for each of OUTER loops."""
    return ("rank", *(f"{name}{k}_" for k in range(OUTER) for name in fields))


# -- operators as moves


def transposed(
    shape: Sequence[int], perm: Sequence[int], itemsize: int,
    src_strides: Sequence[int] | None = None, dst_strides: Sequence[int] | None = None,
) -> Move:
    """numpy.transpose(x, perm) for x of `shape`; strides default to dense ones (dst_strides: of the result)."""
    src = src_strides or dense(shape, itemsize)
    out = [shape[p] for p in perm]
    return move(out, [src[p] for p in perm], dst_strides or dense(out, itemsize), itemsize)


def sliced(
    shape: Sequence[int], starts: Sequence[int], steps: Sequence[int], out: Sequence[int], itemsize: int,
    src_strides: Sequence[int] | None = None, dst_strides: Sequence[int] | None = None,
) -> Move:
    """y[i, ...] = x[starts + i * steps, ...] for i below `out`; starts are in range, one entry per axis."""
    src = src_strides or dense(shape, itemsize)
    offset = sum(start * stride for start, stride in zip(starts, src, strict=True)) if prod(out) else 0
    strides = [step * stride for step, stride in zip(steps, src, strict=True)]
    return move(out, strides, dst_strides or dense(out, itemsize), itemsize, src_offset=offset)


def expanded(
    shape: Sequence[int], out: Sequence[int], itemsize: int,
    src_strides: Sequence[int] | None = None, dst_strides: Sequence[int] | None = None,
) -> Move:
    """numpy.broadcast_to(x, out)."""
    src = src_strides or dense(shape, itemsize)
    strides = [0] * (len(out) - len(shape)) + [0 if n == 1 else s for n, s in zip(shape, src, strict=True)]
    return move(out, strides, dst_strides or dense(out, itemsize), itemsize)


def tiled(shape: Sequence[int], repeats: Sequence[int], itemsize: int) -> Move:
    """numpy.tile(x, repeats) with one repeat per axis, dense."""
    src, out = dense(shape, itemsize), dense([n * r for n, r in zip(shape, repeats, strict=True)], itemsize)
    dims = [(d, n) for pair in zip(repeats, shape, strict=True) for d, n in enumerate(pair)]
    src_strides = [src[i // 2] if kind else 0 for i, (kind, _) in enumerate(dims)]
    dst_strides = [out[i // 2] * (1 if kind else shape[i // 2]) for i, (kind, _) in enumerate(dims)]
    return move([n for _, n in dims], src_strides, dst_strides, itemsize)


# -- tables of places


@dataclass
class _Axis:
    """An axis of a `take`: places along a source axis (-1: outside), or all of it in order when None."""

    n: int
    s: int
    d: int
    at: np.ndarray | None = field(default=None)


def taken(
    shape: Sequence[int], places: Sequence[np.ndarray | None], itemsize: int, fill: int = 0,
    src_strides: Sequence[int] | None = None, dst_strides: Sequence[int] | None = None,
) -> Move:
    """y[i, j, ...] = x[places[0][i], places[1][j], ...]: nearest resize, reflect, edge and wrap pads, constant gathers.

    One entry of `places` per axis: None takes all of the axis, -1 in an array takes the `fill` element (its bits).
    """
    src = src_strides or dense(shape, itemsize)
    out = [n if at is None else len(at) for n, at in zip(shape, places, strict=True)]
    dst = dst_strides or dense(out, itemsize)
    axes: list[_Axis] = []
    for n, s, d, at in zip(out, src, dst, places, strict=True):
        if axes and at is None and axes[-1].at is None and axes[-1].s == n * s and axes[-1].d == n * d:
            n *= axes.pop().n
        axes.append(_Axis(n, s, d, at))
    run, size = itemsize, itemsize
    if axes and axes[-1].at is None and axes[-1].s == axes[-1].d == itemsize:
        run, size = axes.pop().n * itemsize, 0
    if run in (1, 2, 4, 8):
        size = run
    rows, *outer = list(reversed(axes)) or [_Axis(1, 0, 0)]
    if len(outer) > OUTER:
        raise ValueError(f"a take with {len(outer) + 2} loops; the kernel has {OUTER + 2}")
    args: dict[str, int | np.ndarray] = {"fill": repeated(fill, itemsize), "run": run}
    args |= {"rows": rows.n, "t": _offsets(rows), "d": rows.d, "rank": len(outer)}
    for k in range(OUTER):
        axis = outer[k] if k < len(outer) else None
        args |= {f"n{k}_": axis.n if axis else 1, f"t{k}_": _offsets(axis) if axis else 0, f"d{k}_": axis.d if axis else 0}
    return Move("take", {"itemsize": size}, args)


def _offsets(axis: _Axis) -> np.ndarray:
    at = np.arange(axis.n, dtype=np.int64) if axis.at is None else np.asarray(axis.at, np.int64)
    return np.where(at < 0, OUTSIDE, at * axis.s)


def repeated(bits: int, itemsize: int) -> int:
    """An element's bits, repeated to fill a signed int64 (itemsize 1, 2, 4 or 8)."""
    element = (bits & ((1 << 8 * itemsize) - 1)).to_bytes(itemsize, "little")
    return int.from_bytes(element * (8 // itemsize), "little", signed=True)


def pad_places(n: int, before: int, after: int, mode: str) -> np.ndarray | None:
    """The places along an axis of n that ONNX Pad reads (-1: the constant); None when it reads all in order.

    Negative `before` and `after` crop. `mode` is constant, reflect, edge or wrap.
    """
    if before == after == 0:
        return None
    grow = (max(before, 0), max(after, 0))
    if mode == "constant":
        at = np.pad(np.arange(n), grow, constant_values=-1)
    else:
        at = np.pad(np.arange(n), grow, mode=mode)  # type: ignore[call-overload]
    return at[max(-before, 0) : len(at) - max(-after, 0)]


def padded(
    shape: Sequence[int], before: Sequence[int], after: Sequence[int], itemsize: int, mode: str = "constant", fill: int = 0,
    src_strides: Sequence[int] | None = None, dst_strides: Sequence[int] | None = None,
) -> Move:
    """ONNX Pad; `fill` is the constant's bits, one entry of before and after per axis (negative ones crop)."""
    if mode != "constant" or 0 in shape:
        at = [pad_places(n, b, a, mode) for n, b, a in zip(shape, before, after, strict=True)]
        return taken(shape, at, itemsize, fill, src_strides, dst_strides)
    src = src_strides or dense(shape, itemsize)
    out = [n + b + a for n, b, a in zip(shape, before, after, strict=True)]
    dst = dst_strides or dense(out, itemsize)
    offset = sum(s * max(-b, 0) for s, b in zip(src, before, strict=True))
    axes: list[tuple[int, int, int, int, int]] = []
    for n, b, a, s, d in zip(shape, before, after, src, dst, strict=True):
        inside = n + min(b, 0) + min(a, 0)
        low, whole = max(b, 0), n + b + a
        if axes and inside == whole and axes[-1][3] == n * s and axes[-1][4] == n * d and n == whole:
            above = axes.pop()
            low, inside, whole = above[0] * n, above[1] * n, above[2] * n
        axes.append((low, inside, whole, s, d))
    if not axes or axes[-1][3] != itemsize or axes[-1][4] != itemsize:
        axes.append((0, 1, 1, itemsize, itemsize))
    low, inside, whole, _, _ = axes.pop()
    inside = max(inside, 0)
    args: dict[str, int | np.ndarray] = {"fill": repeated(fill, itemsize), "left": low * itemsize, "run": inside * itemsize}
    args |= {"right": (whole - low - inside) * itemsize, "rank": len(axes)}
    if len(axes) > OUTER:
        raise ValueError(f"a pad with {len(axes) + 1} loops; the kernel has {OUTER + 1}")
    for k in range(OUTER):
        low, inside, whole, s, d = axes[-1 - k] if k < len(axes) else (0, 1, 1, 0, 0)
        args |= {f"n{k}_": whole, f"low{k}_": low, f"in{k}_": inside, f"s{k}_": s, f"d{k}_": d}
    return Move("pad", {}, args, src_offset=offset)


def gathered(
    shape: Sequence[int], axis: int, count: int, itemsize: int, index_size: int,
    src_strides: Sequence[int] | None = None, dst_strides: Sequence[int] | None = None,
) -> Move:
    """y[o, i, ...] = x[o, index[i], ...] with `count` indices of index_size (4 or 8) bytes read at run time.

    The axes before and those after `axis` must each be dense among themselves; `dst_strides` are of the result with
    `count` in the place of the axis. The caller adds the pointers `dst`, `src`, `index` and `error`.
    """
    out = [*shape[:axis], count, *shape[axis + 1 :]]
    src, dst = src_strides or dense(shape, itemsize), dst_strides or dense(out, itemsize)
    run = prod(shape[axis + 1 :]) * itemsize
    outer = collapse(shape[:axis], src[:axis], dst[:axis])
    inner = collapse(shape[axis + 1 :], src[axis + 1 :], dst[axis + 1 :])
    if len(outer) > 1 or len(inner) > 1 or any(dim.s != itemsize or dim.d != itemsize for dim in inner):
        raise ValueError("gather: the axes before and after the gathered one must be dense")
    first = outer[0] if outer else Dim(prod(shape[:axis]), 0, 0)
    args: dict[str, int | np.ndarray] = {"count": count, "axis": shape[axis], "run": run, "s": src[axis], "d": dst[axis]}
    args |= {"outer": first.n, "outer_s": first.s, "outer_d": first.d}
    return Move("gather", {"itemsize": run if run in (1, 2, 4, 8) else 0, "index_size": index_size}, args)
