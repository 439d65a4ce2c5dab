"""Integers that describe shapes: what nodes compute of them is followed as numbers and extents."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ...errors import ModelError
from ...ir import MOST_LENGTH, Node, Value
from ...ops.evaluate import run_node
from ...ops.reduce import reduced_axes
from ...ops.registry import OPS, Layout, attr
from .lengths import dim_by_length, for_lengths, lines, of_lengths, varies
from .state import Bounds
from .values import Dim, Extent, Unbounded, Varied, refuse

Rule = Callable[[Bounds, Extent, Dim], Dim]

MOVES = frozenset(
    "gather slice strided_slice concat squeeze unsqueeze reshape identity expand transpose flatten".split()
)
KINDS = ("int64", "int32", "float32", "float64", "bool")
"""Element types that hold extents, which are below MOST_LENGTH, without rounding, and what is said of them."""


def counted(g: Bounds, node: Node) -> np.ndarray | None:
    """A node's result as numbers and extents; None where it isn't made of these."""
    if node.op in ("shape", "size"):
        dims = g.take(node.x).dims
        if node.op == "size":
            return np.array(times(g, dims), object)
        return np.array([None, *dims[slice(attr(node, "start"), attr(node, "end"))]], object)[1:]
    if len(node.outputs) != 1 or not any(v in g.numbers for v in node.inputs if v is not None):
        return None
    if node.out.type.dtype is None or node.out.type.dtype.name not in KINDS:
        return None
    try:
        values: list[Any] = [None if v is None else g.varied_of(v) for v in node.inputs]
        numbers = [n for v in values if v is not None for n in v.flat]
        followed = node.op in MOVES or node.op in BINARY or node.op in FOLDED or OPS[node.op].layout is Layout.EACH
        if followed and not any(isinstance(n, Extent | Varied) for n in numbers):
            return _by_reference(node, values)
        if node.op in MOVES:
            return _moved(node, values)
        if varies(*numbers):
            return of_lengths(g, node, values)
        refuse(any(isinstance(n, Varied) for n in numbers))
        if node.op == "cast" and node.out.type.dtype.kind != "b":
            return _stored(values[0], node.out.type.dtype)
        if node.op == "where":
            return _each(_chosen, *values)
        if node.op in BINARY or node.op in FOLDED:
            return _stored(_computed(g, node, values), node.out.type.dtype)
    except (Unbounded, ModelError):
        pass
    return None


def _by_reference(node: Node, values: list[Any]) -> np.ndarray:
    """The result of a node whose operands are numbers only: that of its reference."""
    pairs = zip(node.inputs, values, strict=True)
    data = [None if v is None or x is None else x.astype(v.type.dtype) for v, x in pairs]
    found = run_node(node.with_([None if x is None else Value.constant("", x) for x in data]), data)[0]
    return np.array([None, *(n.item() for n in found.flat)], object)[1:].reshape(found.shape)


def _stored(numbers: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Numbers rounded or wrapped to an element type; extents stay."""
    refuse(not all(isinstance(n, Extent | Varied) or -(1 << 63) <= n < 1 << 63 for n in numbers.flat))
    with np.errstate(invalid="ignore"):
        return _each(lambda n: n if isinstance(n, Extent | Varied) else np.array(n).astype(dtype).item(), numbers)


def _moved(node: Node, values: list[Any]) -> np.ndarray:
    """The result of a node that only moves numbers: its reference moves their positions."""
    data = values if node.op == "concat" else values[:1]
    pool = np.array([None, *(n for v in data for n in v.flat)], object)[1:]
    ends = np.cumsum([0, *(v.size for v in data)])
    places: list[Any] = [np.arange(a, b).reshape(v.shape) for a, b, v in zip(ends, ends[1:], data, strict=False)]
    others = [_plain(v) for v in values[len(data) :]]
    inputs: list[Value | None] = [None if v is None else Value.constant("", v) for v in [*places, *others]]
    found = run_node(node.with_(inputs), [v and v.data for v in inputs])[0]
    return np.asarray(pool[found], object).reshape(found.shape)


def _plain(numbers: np.ndarray | None) -> np.ndarray | None:
    if numbers is None:
        return None
    refuse(any(isinstance(n, Extent | Varied) for n in numbers.flat))
    return numbers.astype(np.int64)


def _computed(g: Bounds, node: Node, values: list[Any]) -> np.ndarray:
    if node.op in BINARY:
        return reduce(lambda a, b: _each(lambda x, y: BINARY[node.op](g, x, y), a, b), values)
    (x, axes), function = (*values, None)[:2], FOLDED[node.op]
    refuse(reduced_axes(node, x.ndim, None if axes is None else _plain(axes)) != (0,) or not x.size)
    total = np.empty((), object)
    total[()] = reduce(lambda a, b: function(g, a, b), x)
    return total.reshape(1) if attr(node, "keepdims") else total


def _chosen(condition: Dim, yes: Dim, no: Dim) -> Dim:
    refuse(not isinstance(condition, bool))
    return yes if condition else no


def _each(function: Callable[..., Any], *operands: np.ndarray) -> np.ndarray:
    shape = np.broadcast_shapes(*(v.shape for v in operands))
    found = [function(*each) for each in zip(*(np.broadcast_to(v, shape).flat for v in operands), strict=True)]
    return np.array([None, *found], object)[1:].reshape(shape)


# -- arithmetic


def computed(g: Bounds, op: str, operands: tuple[Dim, Dim], most: int, low: int = 0) -> Extent:
    """The extent, from `low` to `most`, that an operator computes of two numbers or extents."""
    refuse(not 0 <= low <= most < MOST_LENGTH)
    return Extent(g(op, *(n.count if isinstance(n, Extent) else g.ints(n) for n in operands)), most, low)


def _whole(*numbers: Dim) -> bool:
    return not any(isinstance(n, float) and n != int(n) for n in numbers)


def _symmetric(plain: Callable[[Any, Any], Dim]) -> Callable[[Rule], Callable[[Bounds, Dim, Dim], Dim]]:
    """Let a function of an extent and any second operand take both in either order; `plain`: the function of two
    numbers.
    """

    def either(rule: Rule) -> Callable[[Bounds, Dim, Dim], Dim]:
        def computed(g: Bounds, a: Dim, b: Dim) -> Dim:
            if isinstance(a, Extent):
                return rule(g, a, b)
            return rule(g, b, a) if isinstance(b, Extent) else plain(a, b)

        return computed

    return either


@for_lengths(np.minimum)
@_symmetric(min)
def least(g: Bounds, a: Extent, b: Dim) -> Dim:
    """The lesser of two extents."""
    refuse(not _whole(b))
    if isinstance(b, int | float):
        if b >= a.most:
            return a
        if 0 <= b <= a.least:
            return int(b)
        found = computed(g, "min", (a, int(b)), int(b), min(a.least, int(b)))
    elif (more := fixed_difference(g, a, b)) is not None:
        return a if more <= 0 else b
    else:
        found = computed(g, "min", (a, b), min(a.most, b.most), min(a.least, b.least))
    above = {n.count for n in (a, b) if isinstance(n, Extent)}
    for count in tuple(above):
        above |= g.within.get(count, set())
    g.within[found.count] = above
    return found


@for_lengths(np.maximum)
@_symmetric(max)
def greatest(g: Bounds, a: Extent, b: Dim) -> Dim:
    """The greater of two."""
    refuse(not _whole(b))
    if isinstance(b, int | float):
        return a if b <= a.least else int(b) if b >= a.most else computed(g, "max", (a, int(b)), a.most, int(b))
    more = fixed_difference(g, a, b)
    if more is not None:
        return a if more >= 0 else b
    return computed(g, "max", (a, b), max(a.most, b.most), max(a.least, b.least))


@for_lengths(np.add)
@_symmetric(operator.add)
def total(g: Bounds, a: Extent, b: Dim) -> Dim:
    """The sum; Unbounded where it may be below 0."""
    if isinstance(b, Extent):
        return computed(g, "add", (a, b), a.most + b.most, a.least + b.least)
    refuse(not _whole(b))
    base, by = g.sums.get(a.count, (a, 0))
    by += int(b)
    if by == 0:
        return base
    found = computed(g, "add", (base, by), base.most + by, base.least + by)
    g.sums[found.count] = base, by
    return found


@for_lengths(np.subtract)
def difference(g: Bounds, a: Dim, b: Dim) -> Dim:
    """a - b; Unbounded where it may be below 0 in some runs only."""
    if not isinstance(b, Extent):
        return total(g, a, -b)
    if not isinstance(a, Extent):
        raise Unbounded
    found = fixed_difference(g, a, b)
    if found is None:
        raise Unbounded
    return found


def fixed_difference(g: Bounds, a: Extent, b: Extent) -> int | None:
    """a - b, where it is the same in every run; else None."""
    (base, more), (other, less) = (g.sums.get(n.count, (n, 0)) for n in (a, b))
    return more - less if base == other else None


@for_lengths(np.multiply, signed=True)
@_symmetric(operator.mul)
def product(g: Bounds, a: Extent, b: Dim) -> Dim:
    """The product of two; Unbounded where both depend on data."""
    if isinstance(b, Extent) or b < 0 or not _whole(b):
        raise Unbounded
    if b < 2:
        return a if b == 1 else 0
    base, by = g.multiples.get(a.count, (a, 1))
    found = computed(g, "mul", (base, by * int(b)), a.most * int(b), a.least * int(b))
    g.multiples[found.count] = base, by * int(b)
    return found


def quotient(g: Bounds, a: Dim, b: Dim) -> Dim:
    """a / b; Unbounded where there may be a remainder."""
    if varies(a, b):
        x, y = lines(g, a, b)
        refuse(not y.all() or (x % y).any())
        return dim_by_length(g, x // y)
    if isinstance(b, Extent) or not _whole(a, b) or b < 1:
        raise Unbounded
    if not isinstance(a, Extent):
        refuse(a < 0 or a % b)
        return a // int(b)
    base, by = g.multiples.get(a.count, (a, 1))
    refuse(by % b)
    return product(g, base, by // int(b))


@for_lengths(np.floor_divide)
def parts(g: Bounds, a: Dim, b: int) -> Dim:
    """The number of whole b in a."""
    if not isinstance(a, Extent):
        return a // b
    return a if b == 1 else computed(g, "div", (a, b), a.most // b, a.least // b)


def times(g: Bounds, dims: Any) -> Dim:
    """The product of many."""
    y: Dim = 1
    for n in sorted(dims, key=lambda n: isinstance(n, Extent)):
        y = product(g, y, n)
    return y


def equal(g: Bounds, a: Dim, b: Dim) -> Dim:
    """Whether two numbers or extents are equal; Unbounded where that differs from run to run."""
    if isinstance(a, Extent) and isinstance(b, Extent):
        more = fixed_difference(g, a, b)
        refuse(more is None)
        return more == 0
    for extent, number in ((a, b), (b, a)):
        refuse(isinstance(extent, Extent) and not isinstance(number, Extent) and extent.least <= number <= extent.most)
    return a == b


BINARY: dict[str, Callable[[Bounds, Dim, Dim], Dim]] = {
    "min": least, "max": greatest, "add": total, "sub": difference, "mul": product, "div": quotient, "equal": equal,
}  # fmt: skip
FOLDED = {"reduce_min": least, "reduce_max": greatest, "reduce_sum": total, "reduce_prod": product}
