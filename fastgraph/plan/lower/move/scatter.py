"""Scatters at indices that are known at run time only; one_hot."""

from __future__ import annotations

import numpy as np

from ....ir import Node, Value
from ....kernels.move.copy_plan import dense
from ....kernels.move.gather_scatter_plan import Component, Indices, Loop, scattered
from ....kernels.move.rows import LEFT_OUT, MOVED, NUMBERS, REPORTED
from ....ops.registry import attr
from ...program import ERROR
from ..moves import emit_copy, emit_move, emit_old, movable
from ..pointwise.along import axis as along
from ..pointwise.along import call_along, element, signed
from ..registry import Emit, Slot, lowers
from .places import Indexing, Loops, Walk, components_of, fitting, index_slots, indices_of, loops_of, slices


def _kind(node: Node) -> str | None:
    """The kernels' name of a reduction's element type."""
    dtype = node.x.type.element
    name = f"{dtype.kind}{8 * dtype.itemsize}"
    return name if name in NUMBERS else None


def _scatters(node: Node, plan: Indexing) -> Indexing | None:
    """Whether kernels have the reduction."""
    x, indices, updates = node.operands[:3]
    reduction = node.attrs.get("reduction", "none")
    if not updates.type.size or updates.type.quant != x.type.quant:
        return None
    if reduction != "none" and (_kind(node) is None or x.type.quant is not None):
        return None
    if reduction not in ("none", "add", "mul", "min", "max") and not (reduction == "div" and x.type.dtype.kind == "f"):  # type: ignore[union-attr]
        return None
    return fitting(node, x, indices, plan)


def _all_concrete(node: Node) -> bool:
    return movable(node) and all(v is not None and v.type.concrete for v in node.inputs)


def _scatter_elements(node: Node) -> Indexing | None:
    if not _all_concrete(node) or not node.x.type.dims:
        return None
    axis, indices = attr(node, "axis") % len(node.x.type.dims), node.y
    loops = [(n, a, a, None if a == axis else a, a != axis) for a, n in enumerate(indices.type.dims)]
    return _scatters(node, Indexing(loops, [axis]))


def _scatter_nd(node: Node) -> Indexing | None:
    if not _all_concrete(node):
        return None
    x, indices = node.x, node.y
    lead, depth = len(indices.type.dims) - 1, indices.type.dims[-1]
    loops: list[Walk] = [(n, a, a, None, False) for a, n in enumerate(indices.type.dims[:-1])]
    loops += [(n, lead + a, None, depth + a, True) for a, n in enumerate(x.type.dims[depth:])]
    return _scatters(node, Indexing(loops, range(depth), lead))


def _scatter_slices(node: Node) -> Indexing | None:
    if not _all_concrete(node):
        return None
    x, _, updates = node.operands
    offset, collapsed = attr(node, "offset_dims"), attr(node, "collapsed_dims")
    sizes, kept = [1] * len(x.type.dims), [a for a in range(len(x.type.dims)) if a not in collapsed]
    for a, b in zip(offset, kept, strict=True):
        sizes[b] = updates.type.dims[a]
    if any(size > n for size, n in zip(sizes, x.type.dims, strict=True)):
        return None
    plan = slices(node, sizes, len(updates.type.dims), LEFT_OUT)
    if plan is None:
        return None
    turned = [(n, b, i, a, apart) for n, a, i, b, apart in plan.loops]
    return _scatters(node, plan._replace(loops=turned))


@lowers("scatter_elements", match=_scatter_elements, strided_in=True, in_place=True)
@lowers("scatter_nd", match=_scatter_nd, strided_in=True, in_place=True)
@lowers("scatter_slices", match=_scatter_slices, strided_in=True, in_place=True)
def scatter(e: Emit, node: Node, plan: Indexing) -> None:
    """A copy of x, and the updates written over it, or combined with it."""
    indices, updates = node.operands[1:3]
    _write_over(e, node, updates, indices, plan, node.attrs.get("reduction", "none"))


def _write_over(e: Emit, node: Node, updates: Value, indices: Value, plan: Indexing, reduction: str = "none") -> None:
    x, out = node.x, node.out
    s, i, d = e.strides(updates), e.strides(indices), dense(out.type.dims, out.type.itemsize)
    emit_old(e, node)
    kind = _kind(node)
    reduce = None if reduction == "none" or kind is None else (kind, reduction)
    loops, components = loops_of(plan, s, i, d), components_of(plan, out.type.dims, d)
    move = scattered(loops, components, indices_of(plan, indices, i), x.type.itemsize, reduce)
    emit_move(e, move, e.address(updates), e.address(out), **index_slots(indices, plan))


def _dynamic_update(node: Node) -> Indexing | None:
    if not _all_concrete(node):
        return None
    x, update, start = node.operands
    dims = update.type.dims
    loops: Loops = [(n, a, None, a, True) for a, n in enumerate(dims)]
    outside = REPORTED if attr(node, "checked") else MOVED
    if not update.type.size or update.type.quant != x.type.quant:
        return None
    return fitting(node, x, start, Indexing(loops, range(len(dims)), 0, dims, outside, wraps=False))


def _tensor_scatter(node: Node) -> Indexing | None:
    """The plan, sample by sample from a write index on; circular mode has no kernel."""
    start, update = (node.input(i) for i in (2, 1))
    if not _all_known(node) or start is None or update is None or attr(node, "mode") != "linear":
        return None
    if not update.type.size or update.type.quant != node.x.type.quant:
        return None
    axis = attr(node, "axis") % len(node.x.type.dims)
    loops = [(n, a, 0 if a == 0 else None, a, True) for a, n in enumerate(update.type.dims)]
    return fitting(node, node.x, start, Indexing(loops, [axis], None, [update.type.dims[axis]], wraps=False))


@lowers("tensor_scatter", match=_tensor_scatter, strided_in=True, in_place=True)
@lowers("dynamic_update_slice", match=_dynamic_update, strided_in=True, in_place=True)
def update_slice(e: Emit, node: Node, plan: Indexing) -> None:
    """A copy of x, and slices written over it at the start offsets: one, or one of each sample."""
    _, update, start = node.operands
    _write_over(e, node, update, start, plan)


def _all_known(node: Node) -> bool:
    return movable(node) and all(v is None or v.type.concrete for v in node.inputs)


# -- one_hot


def _one_hot(node: Node) -> Indexing | None:
    indices, values = node.x, node.operands[2]
    if not node.out.type.concrete or not indices.type.concrete or not values.type.concrete:
        return None
    dtype = values.type.dtype
    if dtype is None or dtype.kind not in "biufc" or values.type.quant != node.out.type.quant:
        return None
    dims = indices.type.dims
    axis = attr(node, "axis") % (len(dims) + 1)
    loops = [(n, None, a, a + (a >= axis), True) for a, n in enumerate(dims)]
    return fitting(node, values, indices, Indexing(loops, [axis], None, (), LEFT_OUT, bool(attr(node, "wrap"))))


@lowers("one_hot", match=_one_hot)
def one_hot(e: Emit, node: Node, plan: Indexing) -> None:
    """Fill with the off value, then write the on value at each index in range."""
    indices, values, out = node.x, node.operands[2], node.out
    size = out.type.itemsize
    i, d = dense(indices.type.dims, indices.type.itemsize), dense(out.type.dims, size)
    off, on = e.address(values), e.address(values, size)
    emit_copy(e, out.type.dims, size, (off, [0] * len(d)), (e.address(out), d))
    loops, components = loops_of(plan, (), i, d), components_of(plan, out.type.dims, d)
    move = scattered(loops, components, indices_of(plan, indices, i), size)
    emit_move(e, move, on, e.address(out), **index_slots(indices, plan))


def _hardmax(node: Node) -> bool:
    x = node.x.type
    plain = x.dtype in (np.float32, np.uint8, np.int8) and x.quant is None
    return movable(node) and plain and x.size > 0 and len(x.dims) > 0


@lowers("hardmax", match=_hardmax)
def hardmax(e: Emit, node: Node, _: bool) -> None:
    """All zeros, then a one at the first greatest element."""
    out, item = node.out.type, node.out.type.itemsize
    at = attr(node, "axis") % len(out.dims)
    outer, n, inner = along(out.dims, at, at + 1)
    best = e.scratch(8 * outer * inner)
    found: dict[str, Slot] = {"y": best, "signed": signed(node.x), "least": 0, "last": 0}
    call_along(e, node, "arg_extreme", {"element": element(node.x)}, (outer, n, inner), **found)
    zero, one = (e.constant(np.full(1, number, out.element)) for number in (0, 1))
    emit_copy(e, (out.size,), item, (zero, [0]), (e.address(node.out), [item]))
    loops = [Loop(outer, 0, 8 * inner, item * n * inner), Loop(inner, 0, 8, item)]
    move = scattered(loops, [Component(n, item * inner)], Indices(np.dtype(np.int64)), item)
    emit_move(e, move, one, e.address(node.out), index=best, error=ERROR)
