"""Inputs whose values decide shapes, so that plans are made for these values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from math import prod

import numpy as np

from ..freedoms import threshold
from ..ir import Graph, Node, Value, read_by
from ..ops.evaluate import pure
from ..ops.registry import OPS
from ..ops.work import is_heavy, work_of

MOST = 64
"""Most elements of an input that may decide shapes: extents, offsets, axes or factors for each axis, but no data."""


PLANNING = 500_000
"""Work (`work_of`) of references that takes as long as planning one node does."""

NATIVE, LAYER = 2, 10
"""How much more work kernels do in that time, and how much more again layers of products."""


def cheap_on_host(graph: Graph) -> bool:
    """Whether a run of a specialized graph by references takes less than planning it. Layers whose shapes are not known
    yet are taken as large.
    """
    known = [node for node in graph.nodes if is_heavy(node) or _known(node.outputs)]
    return sum(work_of(node)[0] for node in known) <= threshold("planning_work", PLANNING) * len(graph.nodes)


def native_work(graph: Graph, values: Collection[Value]) -> float:
    """The work of kernels on these values, and on what is made of them at once; 1 takes as long as planning the
    graph.
    """
    nodes = [n for n in graph.nodes if any(v in values for v in (*n.inputs, *n.outputs))]
    work = sum(work_of(node)[0] / (LAYER if is_heavy(node) else 1) for node in nodes)
    return work / max(threshold("native_work", NATIVE * PLANNING) * len(graph.nodes), 1)


def deciding(graph: Graph, typed: bool = True) -> list[Value]:
    """The inputs whose values, with the shapes, suffice to know all shapes of results (`Op.shaped_by`).

    The graph is specialized; with these values known its plan has no host tail. `typed`: whether types are inferred; if
    not, all inputs that may turn out to decide shapes. Given ``y = reshape(x, concat(n, [-1]))`` and x: f32[2,6], n:
    i64[1]; result ``[n]``.
    """
    inputs = {v for v in graph.inputs if decides_shapes(v)}
    if not inputs:
        return []
    switches = {v for v in inputs if v.type.dtype == np.bool_}
    made = {value: node for node in _nodes(graph.nodes) for value in node.outputs}
    found: dict[Value, frozenset[Value] | None] = {v: frozenset([v]) for v in inputs}
    chosen: set[Value] = set()
    for node in _nodes(graph.nodes):
        if typed and _settled(node, switches):
            continue
        for index in _shaped_by(node):
            value = node.input(index)
            if value is not None and value.data is None:
                chosen |= _source_inputs(value, made, found) or frozenset()
    return [v for v in graph.inputs if v in chosen]


def decides_shapes(value: Value) -> bool:
    """Whether an input is small enough to decide shapes; of its extents only a vector's length may be unknown."""
    kind = value.type
    if kind.dtype is None or kind.dtype.kind not in "iufb" or kind.quant is not None or kind.shape is None:
        return False
    numbers = [d for d in kind.shape if isinstance(d, int)]
    return len(kind.shape) <= 2 and prod(numbers) <= MOST and (len(kind.shape) == 1 or len(numbers) == len(kind.shape))


def _known(values: Iterable[Value]) -> bool:
    return all(v.type.concrete for v in values)


def _settled(node: Node, switches: Collection[Value]) -> bool:
    """Whether no values need be known for a node: its shapes are, or no value makes those of its body known. A switch
    has few values: where shapes within branches are not known, it says which is taken.
    """
    if node.op == "if" and node.inputs[0] in switches:
        return all(_known(each.outputs) for each in _nodes([node]))
    return _known(node.outputs) or bool(node.graphs) and not any(_known(g.outputs) for g in node.graphs)


def _nodes(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes, and those of their bodies."""
    for node in nodes:
        yield node
        for inner in node.graphs:
            yield from _nodes(inner.nodes)


def _shaped_by(node: Node) -> tuple[int, ...]:
    op = OPS.get(node.op)
    return () if op is None else op.shaped_by


def _source_inputs(
    value: Value, made: dict[Value, Node], found: dict[Value, frozenset[Value] | None]
) -> frozenset[Value] | None:
    """The inputs in `found` that a value is computed from; None when it depends on something else, too, or on what
    layers compute, which kernels are for.
    """
    waiting = [value]
    while waiting:
        each = waiting[-1]
        if each in found:
            waiting.pop()
            continue
        node = made.get(each)
        if each.data is not None or node is not None and node.op in ("shape", "size"):
            found[each] = frozenset()
        elif node is None or not pure(node) or is_heavy(node):
            found[each] = None
        else:
            reads = read_by(node)
            new = [v for v in reads if v not in found]
            if new:
                waiting += new
                continue
            parts = [found[v] for v in reads]
            found[each] = None if None in parts else frozenset().union(*parts)  # type: ignore[arg-type]
    return found[value]
