"""Sums of products along named axes as products of matrices and sums; products of stacks of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod

import numpy as np

from ...ir import Node, Value
from ...ir.build import constant
from ...ops.matmul import terms_of
from ...ops.shape import permutation
from ...rules.operands import known, real
from ...rules.rule import rule
from ...rules.sweep import Sweep

Axes = tuple[str, ...]
FEW = 8
"""The most rows of a that are transposed where b has more: 5 x 512 by 512 x 512 takes 0.6 of the time then."""


@rule("rare", "einsum")
def einsum(g: Sweep, node: Node) -> bool:
    """Given ``y = einsum(a, b) {equation="bij,bkj->bik"}``; result ``y = matmul(a, transpose(b))``.

    Operands are multiplied one by one: axes of one operand alone are summed first; shared ones become rows, columns,
    the summed axis, or number the matrices.
    """
    values = [v for v in node.inputs if v is not None]
    if not known(*values, node.out) or values[0].type.dtype is None or values[0].type.dtype.kind not in "iuf":
        return False
    names, result = _named(node, values)
    pairs = [list(zip(axes, v.type.dims, strict=True)) for axes, v in zip(names, values, strict=True)]
    if any(axis.isdigit() and axis not in result for axes in names for axis in axes):
        return False
    if any(len(set(own)) > len({axis for axis, _ in own}) for own in pairs):
        return False  # a diagonal of what is no square
    sizes: dict[str, int] = {}
    for axis, n in chain.from_iterable(pairs):
        sizes[axis] = max(n, sizes.get(axis, 1))
    parts = [_plain(g, value, axes, sizes) for value, axes in zip(values, names, strict=True)]
    y, own = parts.pop(0)
    while True:
        wanted = {*result, *(axis for _, axes in parts for axis in axes)}
        if not parts:
            break
        other, axes = parts.pop(0)
        later = {*result, *(axis for _, rest in parts for axis in rest)}
        y, own = _summed(g, y, own, later | set(axes))
        other, axes = _summed(g, other, axes, later | set(own))
        y, own = _product(g, y, own, other, axes, later)
    y, own = _summed(g, y, own, wanted)
    kept = [axis for axis in result if axis in own]
    y = g.transpose(y, *(own.index(axis) for axis in kept))
    y = g.shape(y, *(sizes[axis] if axis in own else 1 for axis in result))
    return g.becomes(g.broadcast(y, *node.out.type.dims))


def _named(node: Node, values: Sequence[Value]) -> tuple[list[Axes], Axes]:
    """A name for each axis of each operand and of the result; those that "..." stands for are called by numbers, from
    the last."""
    terms, result = terms_of(node, len(values))

    def named(term: str, rank: int) -> Axes:
        head, _, tail = term.partition("...")
        return (*head, *(str(i) for i in reversed(range(rank - len(head) - len(tail)))), *tail)

    own = [named(term, len(v.type.dims)) for term, v in zip(terms, values, strict=True)]
    return own, named(result, len(node.out.type.dims))


def _plain(g: Sweep, x: Value, axes: Axes, sizes: dict[str, int]) -> tuple[Value, Axes]:
    """x without axes of 1, and with the diagonal of those of one name."""
    kept = [(axis, n) for axis, n in zip(axes, x.type.dims, strict=True) if n > 1]
    x, own = g.shape(x, *(n for _, n in kept)), [axis for axis, _ in kept]
    while twice := next((axis for axis in own if own.count(axis) > 1), None):
        first = own.index(twice)
        second = own.index(twice, first + 1)
        n, rest = sizes[twice], [i for i in range(len(own)) if i not in (first, second)]
        x = g.transpose(x, *rest, first, second)
        dims = [sizes[own[i]] for i in rest]
        x = g.cut(g.shape(x, *dims, n * n), len(dims), 0, n * n, n + 1)
        own = [*(own[i] for i in rest), twice]
    return x, tuple(own)


def _summed(g: Sweep, x: Value, axes: Axes, wanted: set[str]) -> tuple[Value, Axes]:
    """x summed over the axes that are in no other operand and not in the result."""
    gone = [i for i, axis in enumerate(axes) if axis not in wanted]
    return g.sum(x, gone), tuple(axis for axis in axes if axis in wanted)


def _product(g: Sweep, a: Value, a_axes: Axes, b: Value, b_axes: Axes, later: set[str]) -> tuple[Value, Axes]:
    """The product of both, summed over shared axes that no later operand and not the result has."""
    shared = [axis for axis in a_axes if axis in b_axes]
    batch, inner = [axis for axis in shared if axis in later], [axis for axis in shared if axis not in later]
    rows = [axis for axis in a_axes if axis not in shared]
    columns = [axis for axis in b_axes if axis not in shared]
    sizes = {**dict(zip(a_axes, a.type.dims, strict=True)), **dict(zip(b_axes, b.type.dims, strict=True))}

    if not inner:
        own = (*a_axes, *columns)
        b = g.transpose(b, *(b_axes.index(axis) for axis in own if axis in b_axes))
        left = g.shape(a, *a.type.dims, *(1 for _ in columns))
        return left * g.shape(b, *(sizes[axis] if axis in b_axes else 1 for axis in own)), own

    def grouped(x: Value, axes: Axes, *groups: list[str]) -> Value:
        x = g.transpose(x, *(axes.index(axis) for group in (batch, *groups) for axis in group))
        return g.shape(x, *(sizes[axis] for axis in batch), *(prod(sizes[axis] for axis in group) for group in groups))

    y = grouped(a, a_axes, rows, inner) @ grouped(b, b_axes, inner, columns)
    own = (*batch, *rows, *columns)
    return g.shape(y, *(sizes[axis] for axis in own)), own


@rule("pads", "matmul", quantized=True)
def broadcast_matmul(g: Sweep, node: Node) -> bool:
    """Given ``y = a @ b`` of stacks of matrices that broadcast to one another; result the product of equal stacks."""
    a, b = node.x, node.y
    if len(node.inputs) > 2 or not all(v.type.concrete and v.type.size for v in (a, b, node.out)):
        return False
    if not _is_broadcast(a) or not _is_broadcast(b) or len(a.type.dims) < 2 or len(b.type.dims) < 3:
        return False
    stack = node.out.type.dims[:-2]
    if a.type.dims[:-2] == b.type.dims[:-2] or (*stack, a.type.dims[-2], b.type.dims[-1]) != node.out.type.dims:
        return False
    return g.again(node, [_expanded(g, a, stack), _expanded(g, b, stack)])


def _is_broadcast(value: Value) -> bool:
    """Whether all of a value's elements stand for numbers in one way."""
    quant = value.type.quant
    return real(value.type.dtype) if quant is None else quant.axis is None


def _expanded(g: Sweep, value: Value, stack: tuple[int, ...]) -> Value:
    """The matrices expanded to the extents of the stack."""
    dims = (*stack, *value.type.dims[-2:])
    if value.data is not None and value.type.dims != dims:
        return constant(value, np.ascontiguousarray(np.broadcast_to(value.data, dims)), "spread", value.type.quant)
    return g.broadcast(value, *dims)


@rule("pads", "matmul")
def transposed_matmul(g: Sweep, node: Node) -> bool:
    """Given ``y = a @ transpose(b)`` of a few rows of a; result ``y = transpose(b @ transpose(a))``: b's rows are read
    where they lie."""
    maker, a, b = g.made_by(node.y, "transpose"), node.x, node.y
    if maker is None or len(node.inputs) > 2 or not node.out.type.concrete or node.out.type.size == 0:
        return False
    *stack, m, n = node.out.type.dims
    rank = len(stack) + 2
    if m > FEW or n <= FEW or any(v.type.dims[:-2] != tuple(stack) for v in (a, b)):
        return False
    if permutation(maker)[-2] != rank - 1:  # rows of b lie apart, too
        return False
    swapped = *range(rank - 2), rank - 1, rank - 2
    return g.becomes(g.transpose(g.transpose(b, *swapped) @ g.transpose(a, *swapped), *swapped))
