"""Chooses the kernel of a copy or transpose, and fills its record. Plain Python and NumPy; nothing here compiles.

Strides and offsets are bytes and may be negative; a stride of 0 repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from ..core.record import Record
from .rows import LOOP, NARROW, OUTER, WORDS

LINE = 64
"""Bytes of a cache line."""
FAR = 1 << 19
"""Matrices of more bytes than this come from beyond the second-level cache."""
COLLIDING = 1 << 12
"""Bytes between lines that fall into one set of the first-level cache."""
Args = dict[str, "int | np.ndarray"]
Shape = Sequence[int]
Strides = Sequence[int]
Steps = Sequence[int] | None
"""Strides; None: those of a dense array."""


class Move(NamedTuple):
    """One kernel call: `args` is the record without its pointers (`dst`, `src` ...), which the caller adds.

    An array in `args` stands for the address of a constant. The caller adds `src_offset` bytes to the source's address
    and `dst_offset` to the destination's.
    """

    kernel: str
    params: dict[str, Any]
    args: Args
    src_offset: int = 0
    dst_offset: int = 0


class Dim(NamedTuple):
    """A loop: `n` iterations, with strides `s` in the source and `d` in the destination."""

    n: int
    s: int
    d: int


def dense(shape: Shape, itemsize: int) -> tuple[int, ...]:
    """The byte strides of a C-contiguous array."""
    return tuple(itemsize * prod(shape[i + 1 :]) for i in range(len(shape)))


def collapse(shape: Shape, src_strides: Strides, dst_strides: Strides) -> list[Dim]:
    """The fewest loops over the same pairs of elements, widest destination stride first."""
    dims = [Dim(n, s, d) for n, s, d in zip(shape, src_strides, dst_strides, strict=True) if n != 1]
    dims.sort(key=lambda dim: (-abs(dim.d), -abs(dim.s)))
    merged: list[Dim] = []
    for dim in dims:
        if merged and merged[-1].s == dim.n * dim.s and merged[-1].d == dim.n * dim.d:
            dim = Dim(merged.pop().n * dim.n, dim.s, dim.d)
        merged.append(dim)
    return merged


def copied(
    shape: Shape, src_strides: Strides, dst_strides: Strides, itemsize: int, src_offset: int = 0, dst_offset: int = 0
) -> Move:
    """Copy dst[i, j, ...] = src[i, j, ...] for all indices of `shape`, as a copy or a transpose.

    Source and destination must not overlap. ValueError when more than OUTER + 2 loops remain after merging.
    """
    words = 1 if itemsize in WORDS else itemsize // gcd(itemsize, 8)
    itemsize //= words
    dims = collapse((*shape, words), (*src_strides, itemsize), (*dst_strides, itemsize))
    if dims and dims[-1].s == dims[-1].d == itemsize and dims[-1].n * itemsize in (2, 4, 8):
        itemsize *= dims.pop().n
    return _transpose(dims, itemsize, src_offset, dst_offset) or _copy(dims, itemsize, src_offset, dst_offset)


def _copy(dims: list[Dim], itemsize: int, src_offset: int, dst_offset: int) -> Move:
    dims = dims or [Dim(1, itemsize, itemsize)]
    last = dims[-1]
    if last.d == itemsize and last.s == itemsize:
        mode, itemsize, last = "run", 1, Dim(last.n * itemsize, 1, 1)
    elif last.d == itemsize and last.s == 0:
        mode = "fill"
    else:
        mode = "step"
    outer = dims[:-1] or [Dim(1, 0, 0)]
    rows = outer[-1] if last.n * itemsize * outer[-1].n >= 512 else max(outer, key=lambda dim: dim.n)
    args: Args = {"itemsize": itemsize, "count": last.n, "step_s": last.s, "step_d": last.d}
    args |= {"rows": rows.n, "row_s": rows.s, "row_d": rows.d}
    args |= outer_args(LOOP, [dim._asdict() for dim in outer if dim is not rows])
    return Move("copy", {"mode": mode}, args, src_offset, dst_offset)


def _transpose(dims: list[Dim], itemsize: int, src_offset: int, dst_offset: int) -> Move | None:
    """These loops as a transpose, or None when that does not pay."""
    if len(dims) < 2 or dims[-1].d != itemsize or dims[-1].s == itemsize:
        return None
    cols = dims[-1]
    found = [dim for dim in dims[:-1] if dim.s == itemsize]
    if not found or cols.s < 0 or found[0].d <= 0:
        return None
    rows = found[0]
    few = 0
    if 2 <= cols.n <= NARROW and rows.d == cols.n * itemsize and rows.n >= 16:
        few = cols.n
    elif 2 <= rows.n <= NARROW and cols.s == rows.n * itemsize and cols.n >= 16:
        few = -rows.n
    elif min(rows.n, cols.n) < 4:
        return None
    high, wide = (4096, 4096) if few else _block(rows, cols, itemsize)
    args: Args = {"rows": rows.n, "row_d": rows.d, "cols": cols.n, "col_s": cols.s}
    args |= {"few": few, "high": high, "wide": wide}
    args |= outer_args(LOOP, [dim._asdict() for dim in dims[:-1] if dim is not rows])
    return Move("transpose", {"itemsize": itemsize, "narrow": (few > 0) - (few < 0)}, args, src_offset, dst_offset)


def _block(rows: Dim, cols: Dim, itemsize: int) -> tuple[int, int]:
    """Rows and columns of dst that are done together, a tile's at least. From far memory a few long lines of src come
    fastest, each to its end, unless lines of dst that fall into one set of the first-level cache are more than that
    holds. Those of a block of near memory stay in the first-level cache until they are read to their end. Where all
    lines of src fall into one set of it, it holds those of a tile.
    """
    if cols.s % COLLIDING == 0:
        return 512, 1
    far = max(rows.n * itemsize, cols.s) * cols.n > FAR and (rows.n > cols.n or rows.d % COLLIDING != 0)
    return (512, 2 * LINE // itemsize) if far else (64, 128)


def outer_args(loop: Record, loops: Sequence[Mapping[str, int | np.ndarray]]) -> Args:
    """The slots of a record's outer loops; `loops`: the fields of each, outermost first. ValueError for too many."""
    if len(loops) > OUTER:
        raise ValueError(f"a move with {len(loops)} outer loops that don't merge; a record has room for {OUTER}")
    every = [*reversed(loops), *[dict.fromkeys(loop, 0)] * (OUTER - len(loops))]
    return {"rank": len(loops), **{f"{name}{k}": value for k, one in enumerate(every) for name, value in one.items()}}


# -- operators as moves

View = Callable[[np.ndarray], np.ndarray]
"""An array as NumPy sees its elements in another way, without moving one: a slice, a transpose, a broadcast."""


def seen(
    view: View, shape: Shape, itemsize: int, src_strides: Steps = None
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape, byte strides and byte offset of a view of x, whose strides default to dense ones."""
    one = np.zeros(1, f"V{itemsize}")
    x = np.lib.stride_tricks.as_strided(one, shape, src_strides or dense(shape, itemsize))
    y = view(x)
    return y.shape, y.strides, y.__array_interface__["data"][0] - x.__array_interface__["data"][0]


def viewed(view: View, shape: Shape, itemsize: int, src_strides: Steps = None, dst_strides: Steps = None) -> Move:
    """y = view(x). Strides default to dense ones; `dst_strides` are the result's."""
    out, strides, offset = seen(view, shape, itemsize, src_strides)
    return copied(out, strides, dst_strides or dense(out, itemsize), itemsize, offset)


def tiled(shape: Shape, repeats: Sequence[int], itemsize: int) -> Move:
    """numpy.tile(x, repeats) with one repeat per axis, dense."""
    src, out = dense(shape, itemsize), dense([n * r for n, r in zip(shape, repeats, strict=True)], itemsize)
    dims = [(d, n) for pair in zip(repeats, shape, strict=True) for d, n in enumerate(pair)]
    src_strides = [src[i // 2] if kind else 0 for i, (kind, _) in enumerate(dims)]
    dst_strides = [out[i // 2] * (1 if kind else shape[i // 2]) for i, (kind, _) in enumerate(dims)]
    return copied([n for _, n in dims], src_strides, dst_strides, itemsize)
