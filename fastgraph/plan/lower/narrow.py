"""Which values a program keeps in bfloat16: those on the way from one layer that multiplies it to the next.

Elementwise work on sums of rounded numbers loses nothing by it. Values that no layer computed, such as phases, and
those that only results of the program follow from, such as coordinates, stay f32.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from ...freedoms import free
from ...ir import FLOAT32, Graph, Node, TensorType, Value, read_by
from ...ir.types import BFLOAT16
from ..storage import Storage, Views
from .registry import Emit, Narrow


def narrow(e: Emit, graph: Graph, placed: Mapping[Value, Storage] | None = None) -> None:
    """Give such values of a graph, or of a body, the type bfloat16, and find views anew. `placed`: as of Views.

    It is the largest set of values of which each is computed in bfloat16, and read in it by all its readers.
    """
    if not free("narrow"):
        return
    able = _able_nodes(e, graph)
    readers: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in {v for v in read_by(node) if v is not None}:
            readers.setdefault(value, []).append(node)
    kept = {*graph.outputs, *graph.inputs, *(placed or ())}
    made = {v: able[node] for node in graph.nodes for v in node.outputs if able[node].gives and _is_real(v)}
    found = {
        value
        for value in (made.keys() & readers.keys() & e.after_bf16) - kept
        if all(_reads(node, able[node], value, made[value].late) for node in readers[value])
    }
    found -= _lost(graph, able, found)
    for value in found:
        value.type = TensorType(BFLOAT16, value.type.shape)
    if found:
        e.views = Views(graph, e.match.abilities, placed)


def _able_nodes(e: Emit, graph: Graph) -> dict[Node, Narrow]:
    """What each node reads and gives in bfloat16, which may depend on whether its operands are among `e.after_bf16`."""
    found: dict[Node, Narrow] = {}
    for node in graph.nodes:
        found[node] = _able(e, node)
        if found[node].begins or not e.after_bf16.isdisjoint(v for v in read_by(node) if v is not None):
            e.after_bf16.update(node.outputs)
    return found


def _lost(graph: Graph, able: Mapping[Node, Narrow], found: Set[Value]) -> set[Value]:
    """Values that stay f32 because others do: where a node is `alike`, all that it moves; where it `follows`, operands
    because of results.
    """
    tied: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in _moved(node) if able[node].alike else node.outputs if able[node].follows else ():
            tied.setdefault(value, []).append(node)
    waiting = [value for value in tied if value not in found]
    lost, seen = set(waiting), set[Node]()
    while waiting:
        for node in tied.pop(waiting.pop(), ()):
            if node not in seen:  # a join of many values is looked at once
                seen.add(node)
                more = _moved(node) if able[node].alike else {v for v in node.inputs if v is not None}
                lost |= more
                waiting += more
    return lost


def _able(e: Emit, node: Node) -> Narrow:
    matched = e.match(node)
    return Narrow() if matched is None else matched[0].narrow(e, node, matched[1])


def _is_real(value: Value) -> bool:
    return value.type.dtype == FLOAT32 and value.type.quant is None


def _moved(node: Node) -> set[Value]:
    """The operands and results of a node that are all of one type."""
    return {v for v in (*(node.inputs if node.op == "concat" else node.inputs[:1]), *node.outputs) if v is not None}


def _reads(node: Node, able: Narrow, value: Value, late: bool) -> bool:
    """Whether a node takes the value in bfloat16, wherever it is an operand; late: only if it would round it anyway."""
    places = {i for i, v in enumerate(node.inputs) if v is value}
    return bool(places) and places <= (able.reads & able.rounds if late else able.reads)
