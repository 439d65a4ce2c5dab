"""Max pooling undone, channels first: elements go where pooling found them. Semantics: ONNX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir import Node, TensorType
from ..kernels.move.gather_scatter_plan import Component, scattered
from ..ops import check
from ..ops.inference import Types, ints, product
from ..ops.registry import REQUIRED, attr, define, fail
from ..ops.window import window_attrs
from ..ops.work import squares
from ..plan.lower.move.places import Indexing, Loops, fitting, index_slots, indices_of, loops_of
from ..plan.lower.moves import emit_copy, emit_move, movable
from ..plan.lower.registry import Emit, lowers
from ..rules.rule import rule
from ..rules.sweep import Sweep


def unpooled(node: Node, shape: Any) -> list[int | None]:
    """The extents before pooling, from those after it."""
    kernel = attr(node, "kernel_shape")
    rank = len(kernel)
    check.operand(node, TensorType(None, tuple(shape)), f"x {rank + 2}")
    a = window_attrs(node, rank, kernel)
    out: list[int | None] = []
    for i, n in enumerate(shape[2:]):
        padding = a["pads"][i] + a["pads"][rank + i]
        out.append((n - 1) * a["strides"][i] + kernel[i] - padding if isinstance(n, int) else None)
    return [*shape[:2], *out]


@check.takes("x f, indices iu, output_shape? iu 1")
def _infer_max_unpool(node: Node, types: Types) -> list[TensorType]:
    x, indices, _ = types
    target = node.const(2)
    if x.shape is None:
        return [TensorType(x.dtype, None if target is None else tuple(ints(target)))]
    check.shape(node, indices, "indices", *x.shape)
    shape = tuple(unpooled(node, x.shape))
    check.inside(node, "indices", node.const(1), 0, product(shape))
    check.shape(node, types[2], "output_shape", len(x.shape))
    if types[2] is None:
        return [TensorType(x.dtype, shape)]
    if target is None:
        return [TensorType(x.dtype, (None,) * len(x.shape))]
    whole_shape = tuple(ints(target))
    for a, b in zip(shape, whole_shape, strict=True):
        if isinstance(a, int) and a > b:
            fail(node, f"output_shape {list(whole_shape)} is smaller than what was pooled, {list(shape)}")
    check.shape(node, TensorType(None, shape[:2]), "batch and channels", *whole_shape[:2])
    return [TensorType(x.dtype, whole_shape)]


def _max_unpool(node: Node, inputs: list[Any]) -> list[Any]:
    """Zeros with x at the flat indices that max_pool gave; a given shape may exceed what was pooled."""
    x, indices, target = inputs
    shape: Any = unpooled(node, x.shape)
    y = np.zeros(math.prod(shape), x.dtype)
    y[indices.reshape(-1)] = x.reshape(-1)
    y = y.reshape(shape)
    if target is None or ints(target) == shape:
        return [y]
    whole = np.zeros(ints(target), x.dtype)
    whole[tuple(slice(0, n) for n in shape)] = y
    return [whole]


define(
    "max_unpool", _infer_max_unpool, _max_unpool,
    attrs={"kernel_shape": REQUIRED, "pads": None, "strides": None}, work=squares, shaped_by=(2,),
)  # fmt: skip


@rule("rare", "max_unpool")
def max_unpool(g: Sweep, node: Node) -> bool:
    """Unpool into a larger shape: into the pooled shape, with zeros behind."""
    target, out = node.const(2), node.out.type
    if target is None or not node.x.type.concrete or not out.concrete:
        return False
    y = g("max_unpool", *node.inputs[:2], None, **node.attrs)
    after = [m - n for m, n in zip(out.dims, y.type.dims, strict=True)]
    if any(after):
        y = g("pad", y, g.vector(*[0] * len(after), *after), mode="constant")
    return g.becomes(y)


def _scatters(node: Node) -> Indexing | None:
    """The places in x as it was before pooling are flat; a given shape must be that."""
    if not movable(node) or not all(v is None or v.type.concrete for v in node.inputs) or not node.x.type.size:
        return None
    indices = node.y
    if list(node.out.type.dims) != unpooled(node, node.x.type.dims):
        return None
    loops: Loops = [(node.x.type.size, 0, 0, None, False)]
    return fitting(node, node.x, indices, Indexing(loops, [0], wraps=False))


@lowers("max_unpool", match=_scatters)
def scattered_back(e: Emit, node: Node, plan: Indexing) -> None:
    """Zeros, then the elements at their places."""
    indices, out, item = node.y, node.out.type, node.x.type.itemsize
    zero = e.constant(np.zeros(1, out.element)), [0]
    emit_copy(e, (out.size,), item, zero, (e.address(node.out), [item]))
    loops = loops_of(plan, [item], [indices.type.itemsize], ())
    move = scattered(loops, [Component(out.size, item, 0)], indices_of(plan, indices, ()), item)
    emit_move(e, move, e.address(node.x), e.address(node.out), **index_slots(indices, plan))
