"""Calls of the kernels that walk tensors of any element type as the elementwise kernel does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ir import Node, Value
from ...kernels.pointwise.elementwise_shape import Loops, broadcast, loops, strides_of
from ..program import Ref
from .move.emit import emit_copy
from .registry import Arg, Emit, last

ELEMENTS = {
    np.dtype(np.float32): "f32", np.dtype(np.int32): "i32", np.dtype(np.int16): "i16", np.dtype(np.uint16): "u16",
    np.dtype(np.int8): "s8", np.dtype(np.uint8): "u8", np.dtype(np.bool_): "bool",
}  # fmt: skip
"""What kernels call element types."""

Operand = Value | np.ndarray
"""A tensor that a kernel reads: where a value lies, or constants that the lowering makes."""

LONG_ROW = 2048
"""Elements of a row from which on joining rows gains nothing."""


def element(value: Operand) -> str:
    """What kernels call the element type of a tensor; KeyError when they have none."""
    dtype = value.dtype if isinstance(value, np.ndarray) else value.type.dtype
    assert dtype is not None
    return ELEMENTS[dtype]


def _dims(value: Operand) -> tuple[int, ...]:
    return value.shape if isinstance(value, np.ndarray) else value.type.dims


def loops_of(e: Emit | None, node: Node, tensors: Sequence[Operand]) -> Loops | None:
    """The kernel's loops, None when it has not enough; without `e`, for operands whose rows all lie apart."""
    out = node.out

    def strides(value: Operand) -> tuple[int, ...]:
        if isinstance(value, np.ndarray):
            return strides_of(value.shape)
        return strides_of(value.type.dims, e.stride(value) if e is not None else last(value) + 1)

    return loops(out.type.dims, strides(out), [broadcast(_dims(v), strides(v), out.type.dims) for v in tensors])


def walk(
    e: Emit, node: Node, kernel: str, params: Mapping[str, Any], tensors: Sequence[Operand], more: Sequence[Arg] = ()
) -> None:
    """Call a kernel with the record of the elementwise one, and `more` after it.

    `kinds` among the parameters get those of the tensors in front: "vector:u8" and the like.
    """
    plan = loops_of(e, node, tensors)
    assert plan is not None
    addresses = [e.address(v) if isinstance(v, Value) else e.constant(v) for v in tensors]
    plan, addresses = _joined(e, plan, addresses, tensors)
    elements = [element(v) for v in tensors] if "kinds" in params else None
    walk_over(e, kernel, params, plan, e.address(node.out), addresses, elements, more)


def walk_over(
    e: Emit, kernel: str, params: Mapping[str, Any], plan: Loops, y: Ref, xs: Sequence[Ref],
    elements: Sequence[str] | None, more: Sequence[Arg],
) -> None:  # fmt: skip
    """As `walk`, for loops and addresses that are known; `elements` are those of the inputs when there are `kinds`."""
    if elements is not None:
        spread = (f"{kind}:{name}" for kind, name in zip(plan.kinds, elements, strict=True))
        params = {**params, "kinds": (*spread, *params["kinds"])}
    places = {-1: y, **{-2 - i: address for i, address in enumerate(xs)}}
    record: list[Arg] = list(plan.record(-1, [-2 - i for i in range(len(xs))]))
    e.call(kernel, params, [*(places.get(x, x) if isinstance(x, int) else x for x in record), *more])


def _joined(e: Emit, plan: Loops, addresses: list[Ref], tensors: Sequence[Operand]) -> tuple[Loops, list[Ref]]:
    """Several rows as one, for rows that are no whole number of blocks: what is the same for all is repeated before."""
    rows, cols = plan.dims[-2:]
    many, walks = together(rows, cols, 4 * e.tier.lanes), row_steps(plan)
    if many == 1 or walks is None:
        return plan, addresses
    addresses = list(addresses)
    for i, step in enumerate(walks):
        if step == 0:
            size = _itemsize(tensors[i])
            made = e.scratch(many * cols * size)
            emit_copy(e, (many, cols), size, (addresses[i], (0, size)), (made, (cols * size, size)))
            addresses[i] = made
    return joined_rows(rows, cols, many, walks), addresses


def row_steps(plan: Loops) -> list[int] | None:
    """Of each input: from row to row, its rows' length or 0 (the same for all); None for loops of another kind."""
    *outer, rows, cols = plan.dims
    steps = [x[-2] for x in plan.xs]
    dense = all(x[-1] == 1 and x[-2] in (cols, 0) for x in plan.xs)
    return steps if dense and rows > 1 and plan.y[-2] == cols and all(d == 1 for d in outer) else None


def joined_rows(rows: int, cols: int, many: int, steps: Sequence[int]) -> Loops:
    """The loops over `many` rows at a time; `steps` are those of single rows."""
    xs = tuple((0, 0, 0, many * step, 1) for step in steps)
    return Loops((1, 1, 1, rows // many, many * cols), (0, 0, 0, many * cols, 1), xs)


def together(rows: int, cols: int, block: int) -> int:
    """How many rows to join: a divisor of them with whole blocks, else the largest that makes no long rows."""
    if cols % block == 0 or cols >= LONG_ROW or rows * cols < 2 * LONG_ROW:
        return 1
    fit = [k for k in range(2, LONG_ROW // cols + 1) if rows % k == 0]
    return next((k for k in fit if k * cols % block == 0 and k * cols >= 512), max(fit, default=1))


def _itemsize(value: Operand) -> int:
    dtype = value.dtype if isinstance(value, np.ndarray) else value.type.dtype
    assert dtype is not None
    return dtype.itemsize
