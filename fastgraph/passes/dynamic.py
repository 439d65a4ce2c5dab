"""Cut off the part of a graph that can't be planned: nodes whose shapes depend on data, and their readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ..ir import Graph, Node, Value, captured, read_by
from ..ops.registry import OPS
from ..ops.work import is_heavy
from .deciding import decides_shapes

if TYPE_CHECKING:
    from .bounds.values import Bounded


def is_dynamic(graph: Graph) -> bool:
    """Whether a specialized graph has values whose shapes depend on data."""
    return not all(v.type.concrete for node in graph.nodes for v in node.outputs)


def cut_dynamic(graph: Graph, bounded: Mapping[Value, Bounded] | None = None) -> Graph | None:
    """Leave the concrete nodes in `graph`; returns the others as a graph whose inputs are the values that it reads, or
    None.

    `graph` then gives the original outputs that it computes, and these inputs. Inputs that are no tensors belong to the
    rest alone. `bounded` values are given by their replacements.
    """
    bounded = bounded or {}
    graph.inputs, loose = (
        [v for v in graph.inputs if not _is_container(v)],
        {v for v in graph.inputs if _is_container(v)},
    )
    known: set[Value] = set(graph.inputs)
    left: list[Node] = []
    rest: list[Node] = []
    for node in graph.nodes:
        if _ready(node, known):
            left.append(node)
            known.update(node.outputs)
        else:
            rest.append(node)
    if not rest and loose.isdisjoint(graph.outputs):
        graph.outputs = _given(graph.outputs, bounded)
        return None
    known |= bounded.keys()
    tail = Graph(f"{graph.name}.dynamic", [], list(graph.outputs), rest, graph.source)
    tail.inputs = [v for v in captured(tail) if v in known or v in loose]
    tail.limits, tail.precision = graph.limits, graph.precision
    _name_apart([*graph.inputs, *graph.outputs, *tail.inputs, *(v for node in rest for v in node.outputs)])
    graph.nodes = left
    graph.outputs = _given([v for v in (*graph.outputs, *tail.inputs) if v in known], bounded)
    return tail


def _name_apart(values: Iterable[Value]) -> None:
    """Give values names of their own, by which parts of a tail are fed; the first of a name keeps it."""
    named: dict[str, Value] = {}
    for value in values:
        name, i = value.name, 0
        while named.setdefault(value.name, value) is not value:
            i += 1
            value.name = f"{name}.{i}"


def layers_of(graph: Graph) -> int:
    """How many layers of products there are."""
    return sum(map(is_heavy, graph.nodes))


def split_dynamic(tail: Graph) -> tuple[Graph, Graph] | None:
    """A tail that `cut_dynamic` gave in two: the nodes whose results only their references give a shape, and the rest,
    which can be planned when these results are there. None where the rest has no layer of products, for which a plan
    would pay.

    Given ``i = non_zero(mask); y = gather_nd(x, i); z = matmul(y, w)``; result ``i`` and ``y, z``.
    """
    known = set(tail.inputs)
    first = [node for node in tail.nodes if _needs_data(node, known)]
    made = {v for node in first for v in node.outputs}
    rest = [node for node in tail.nodes if not made.issuperset(node.outputs)]
    if not any(map(is_heavy, rest)):
        return None
    after = Graph(tail.name, [], [v for v in tail.outputs if v not in made and v not in known], rest, tail.source)
    after.inputs = [v for v in captured(after) if v in made or v in known]
    before = Graph(tail.name, [], [v for v in (*after.inputs, *tail.outputs) if v in made], first, tail.source)
    before.inputs = captured(before)
    before.outputs = list(dict.fromkeys(before.outputs))
    for part in (before, after):
        part.limits, part.precision = tail.limits, tail.precision
    return before, after


def _needs_data(node: Node, known: set[Value]) -> bool:
    """Whether a node's operands have known shapes but its results do not, and the values of small operands would not
    make them known.
    """
    reads = [v for v in read_by(node) if v.data is None]
    if not all(v in known and (v.type.concrete or _is_container(v)) for v in reads):
        return False
    shaped_by = [v for v in (node.inputs[i] for i in OPS[node.op].shaped_by if i < len(node.inputs)) if v in reads]
    return not shaped_by or not all(map(decides_shapes, shaped_by))


def _given(values: list[Value], bounded: Mapping[Value, Bounded]) -> list[Value]:
    """The values without duplicates; bounded ones as their replacements."""
    found: list[Value] = []
    for value in values:
        stands = bounded.get(value)
        found += [value] if stands is None else [stands.value, *(n.count for n in stands.extents.values())]
    return list(dict.fromkeys(found))


def _is_container(value: Value) -> bool:
    """Whether a value is a sequence or an optional."""
    return value.type.dtype is None


def _ready(node: Node, known: set[Value]) -> bool:
    """Whether a node's operands are computed natively and its results are concrete."""
    native = all(value.data is not None or value in known for value in read_by(node))
    return native and all(value.type.concrete for value in node.outputs)
