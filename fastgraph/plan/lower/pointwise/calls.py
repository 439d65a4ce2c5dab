"""Calls of the elementwise kernels, for tensors of any element type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....ir import Node, Value
from ....kernels.pointwise.chain import Chain
from ....kernels.pointwise.elementwise_shape import Loops, broadcast, loops, strides_of
from ...program import Ref
from ..elements import Operand, dtype_of
from ..moves import emit_copy
from ..registry import Emit, Slot, last
from ..walk import SIZES, Out, Read, table, walker

LONG_ROW = 2048
"""The length of rows from which on merging rows gains nothing."""


def _data(value: Operand) -> np.ndarray | None:
    """The array of a constant; None for other values."""
    return value if isinstance(value, np.ndarray) else value.data


def _dims(value: Operand) -> tuple[int, ...]:
    return value.shape if isinstance(value, np.ndarray) else value.type.dims


# -- over all elements


def _loops(e: Emit | None, node: Node, tensors: Sequence[Operand]) -> Loops | None:
    """The kernel's loops, None when it has too few. Without `e`, as if all operands were strided."""
    out = node.out

    def strides(value: Operand) -> tuple[int, ...]:
        if isinstance(value, np.ndarray):
            return strides_of(value.shape)
        return strides_of(value.type.dims, e.stride(value) if e is not None else last(value) + 1)

    return loops(out.type.dims, strides(out), [broadcast(_dims(v), strides(v), out.type.dims) for v in tensors])


def fits(node: Node, *more: Operand) -> bool:
    """Whether the kernel has enough loops for the node's broadcast, even if all operands are strided. more: operands
    beside the node's."""
    return _loops(None, node, [*node.operands, *more]) is not None


def loops_of(e: Emit, node: Node, tensors: Sequence[Operand]) -> tuple[Loops, list[Ref]]:
    """The loops over tensors, for which the kernel must have enough, and the tensors' addresses."""
    found = _loops(e, node, tensors)
    assert found is not None
    return found, [e.address(v) if isinstance(v, Value) else e.constant(v) for v in tensors]


def joined_loops(e: Emit, node: Node, tensors: Sequence[Operand], longest: int = LONG_ROW) -> tuple[Loops, list[Ref]]:
    """As `loops_of`, with rows merged where they are no whole number of blocks and shorter than `longest`. An operand
    that is the same for all rows is repeated first."""
    found, addresses = loops_of(e, node, tensors)
    rows, cols = found.dims[-2:]
    many, steps = together(rows, cols, 4 * e.tier.lanes), row_steps(found)
    if many == 1 or steps is None or cols >= longest:
        return found, addresses
    for i, step in enumerate(steps):
        constant = _data(tensors[i])
        if step == 0 and constant is not None:
            addresses[i] = e.packed(_repeated, constant, many)
        elif step == 0:
            size = dtype_of(tensors[i]).itemsize
            made = e.scratch(many * cols * size)
            emit_copy(e, (many, cols), size, (addresses[i], (0, size)), (made, (cols * size, size)))
            addresses[i] = made
    return joined_rows(rows, cols, many, steps), addresses


def _repeated(data: np.ndarray, many: int) -> np.ndarray:
    return np.tile(data.reshape(-1), many)


def row_steps(found: Loops) -> list[int] | None:
    """Each input's step from row to row: its rows' length or 0 (the same for all); None for other loops."""
    *outer, rows, cols = found.dims
    steps = [x[-2] for x in found.xs]
    dense = all(x[-1] == 1 and x[-2] in (cols, 0) for x in found.xs)
    return steps if dense and rows > 1 and found.y[-2] == cols and all(d == 1 for d in outer) else None


def joined_rows(rows: int, cols: int, many: int, steps: Sequence[int]) -> Loops:
    """The loops with `many` rows merged into one; `steps` are those of single rows."""
    xs = tuple((0, 0, 0, many * step, 1) for step in steps)
    return Loops((1, 1, 1, rows // many, many * cols), (0, 0, 0, many * cols, 1), xs)


def together(rows: int, cols: int, block: int) -> int:
    """How many rows to merge: a divisor of their number that gives whole blocks, else the largest that makes no long
    rows."""
    if cols % block == 0 or cols >= LONG_ROW or rows * cols < 2 * LONG_ROW:
        return 1
    fit = [k for k in range(2, LONG_ROW // cols + 1) if rows % k == 0]
    return next((k for k in fit if k * cols % block == 0 and k * cols >= 512), max(fit, default=1))


def call_of_one(e: Emit, node: Node, kernel: str, params: Mapping[str, Any], **more: Slot) -> None:
    """Call an elementwise kernel of one input, whose record has `more` slots."""
    found, (x,) = joined_loops(e, node, [node.x])
    e.kernel(kernel, params, {**found.args(e.address(node.out)), **found.operand(x), **more})


Source = tuple[str, Ref]
"""Element type and address of a tensor."""


def call_walk(
    e: Emit,
    chain: Chain,
    loops: Loops,
    y: Ref,
    xs: Sequence[Source],
    out: Out = Out(),  # noqa: B008
) -> None:
    """Call the kernel for a chain over operands with these loops; the result goes to y, as `out` says."""
    reads = [_read(source, strides) for source, strides in zip(xs, loops.xs, strict=True)]
    args: dict[str, Slot] = {"item": SIZES[out.element], "walk": walker(e), "table": table(e, chain, reads, out)}
    e.kernel("elementwise", {}, {**loops.args(y), **args})


def _read(source: Source, strides: Sequence[int]) -> Read:
    name, address = source
    d0, d1, d2, row, column = (SIZES[name] * step for step in strides)
    return Read(address, d0, d1, d2, row, column, name)
