"""Operators on diagonals: trilu, eye_like, matrix_diag, matrix_set_diag; checked_indices."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ....ir import Node
from ....kernels.move.copy_plan import dense
from ....kernels.move.gather_scatter_plan import Component, Indices, Loop, gathered
from ....ops.registry import attr
from ...program import ERROR
from ..moves import emit_copy, emit_move, movable
from ..registry import Emit, lowers

WORD = 8
"""The widest elements that these kernels move."""


def _trilu(node: Node) -> bool:
    k = node.input(1)
    known = k is None or (k.type.dtype == np.int64 and k.type.concrete)
    return movable(node) and known and node.x.type.itemsize <= WORD and node.x.type.size > 0 and not node.x.type.quant


@lowers("trilu", match=_trilu)
def trilu(e: Emit, node: Node, _: Any) -> None:
    k, (*outer, rows, columns) = node.input(1), node.x.type.dims
    sizes = {"matrices": prod(outer), "rows": rows, "columns": columns, "size": node.x.type.itemsize}
    ends = {"dst": node.out, "src": node.x, "k": np.zeros(1, np.int64) if k is None else k}
    e.kernel("triangle", {}, {**ends, **sizes, "upper": attr(node, "upper")})


def _plain(node: Node) -> bool:
    x, out = node.x.type, node.out.type
    plain = out.dtype is not None and out.dtype.kind in "biuf" and out.itemsize <= WORD
    return plain and x.concrete and out.concrete and out.size > 0 and x.quant is None


def _fill(e: Emit, node: Node, number: int, count: int, offset: int, strides: tuple[int, ...]) -> None:
    """Write a number to each element along strided loops of the result."""
    out = node.out.type
    dims = (count,) if strides else out.dims
    source = (e.constant(np.full(1, number, out.element)), [0] * len(dims))
    emit_copy(e, dims, out.itemsize, source, (e.address(node.out, offset), strides or dense(dims, out.itemsize)))


@lowers("eye_like", match=_plain)
def eye_like(e: Emit, node: Node, _: Any) -> None:
    """Zeros, then ones on the diagonal."""
    (rows, columns), k, item = node.out.type.dims, attr(node, "k"), node.out.type.itemsize
    _fill(e, node, 0, 0, 0, ())
    count = min(rows - max(-k, 0), columns - max(k, 0))
    if count > 0:
        _fill(e, node, 1, count, item * (max(k, 0) + columns * max(-k, 0)), (item * (columns + 1),))


@lowers("matrix_diag", match=_plain)
def matrix_diag(e: Emit, node: Node, _: Any) -> None:
    """Zeros, then the vectors."""
    *outer, n = node.x.type.dims
    item = node.x.type.itemsize
    _fill(e, node, 0, 0, 0, ())
    target = e.address(node.out), (item * n * n, item * (n + 1))
    emit_copy(e, (prod(outer), n), item, (e.address(node.x), (item * n, item)), target)


@lowers("matrix_set_diag", match=_plain)
def matrix_set_diag(e: Emit, node: Node, _: Any) -> None:
    """A copy, then the vectors."""
    (*outer, rows, columns), diagonal, out = node.x.type.dims, node.y, node.out
    item, n = node.x.type.itemsize, min(rows, columns)
    strides = dense(out.type.dims, item)
    emit_copy(e, out.type.dims, item, (e.address(node.x), strides), (e.address(out), strides))
    target = e.address(out), (item * rows * columns, item * (columns + 1))
    emit_copy(e, (prod(outer), n), item, (e.address(diagonal), (item * n, item)), target)


def _checked(node: Node) -> list[int] | None:
    """The extents that bound the indices, one for each index along the last axis."""
    indices, x = node.x.type, node.y
    whole = indices.concrete and indices.size > 0 and indices.dtype is not None and indices.dtype.kind in "iu"
    if not whole or not x.type.concrete or not x.type.size:
        return None
    if attr(node, "axis") is not None:
        return [x.type.dims[attr(node, "axis")]]
    first = attr(node, "batch_dims")
    return list(x.type.dims[first : first + indices.dims[-1]]) or None


@lowers("checked_indices", match=_checked)
def checked_indices(e: Emit, node: Node, extents: list[int]) -> None:
    """A copy, and a gather of no bytes, which reports indices out of range."""
    x = node.x.type
    item, parts = x.itemsize, len(extents)
    strides = dense(x.dims, item)
    emit_copy(e, x.dims, item, (e.address(node.x), strides), (e.address(node.out), strides))
    loops = [Loop(x.size // parts, 0, item * parts, 1)]
    components = [Component(n, 0) for n in extents]
    move = gathered(loops, components, Indices(x.element, item), 1)
    emit_move(e, move, e.address(node.x), e.scratch(x.size), index=e.address(node.x), error=ERROR)
