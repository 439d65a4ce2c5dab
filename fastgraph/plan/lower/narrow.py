"""Which values a program keeps in bfloat16: those that products on tiles make, and that only these read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...freedoms import free
from ...ir import Graph, Node, TensorType, Value, read_by
from ...ir.types import BFLOAT16
from ..layer import chain_of, extra_values
from ..storage import MOVES
from .depth_first import blocks, shared_by_threads
from .epilogue import ending
from .registry import Emit

MULTIPLIED = {"attention": {0, 1, 2}}
"""The inputs that an operator multiplies; of others the first."""


def narrow(e: Emit, graph: Graph) -> bool:
    """Give such values of a graph their type; whether there are any. Views of it are to be found anew then.

    Bands (depth_first) keep rows of f32.
    """
    if not free("narrow"):
        return False
    banded = [] if shared_by_threads(e) else list(blocks(graph, e.views, e.match))
    within = {node for block in banded for node in block.nodes()}
    layers = {node for node in graph.nodes if node not in within and _takes(e, node)}
    readers: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in {v for v in read_by(node) if v is not None}:
            readers.setdefault(value, []).append(node)
    kept = {*graph.outputs, *graph.inputs}
    found = False
    for node in graph.nodes:
        together = _views(e, node.out, readers) if node in layers else []
        for value in together if _all_read(together, layers, readers) and not kept.intersection(together) else ():
            value.type = TensorType(BFLOAT16, value.type.shape)
            found = True
    return found


def _views(e: Emit, value: Value, readers: Mapping[Value, list[Node]]) -> list[Value]:
    """The value and those that move nothing of it, as they lie within it."""
    found = [value]
    for each in found:
        for node in readers.get(each, ()):
            links = [e.views.links.get(out) for out in node.outputs]
            if node.op in MOVES and node.x is each and all(link is not None and link.parent is each for link in links):
                found += node.outputs
    return found


def _all_read(values: Sequence[Value], layers: set[Node], readers: Mapping[Value, list[Node]]) -> bool:
    """Whether any node reads these values, and all that do take them in bf16, or are views of them."""
    found = [(node, value) for value in values for node in readers.get(value, ())]
    return bool(found) and all(node.out in values or (node in layers and _reads(node, value)) for node, value in found)


def _takes(e: Emit, node: Node) -> bool:
    found = e.match(node)
    return found is not None and found[0].narrow(e, node, found[1])


def _reads(node: Node, value: Value) -> bool:
    """Whether a node takes the value in bf16: as what it multiplies, or a layer as what it adds first."""
    places: Sequence[int] = [i for i, v in enumerate(node.inputs) if v is value]
    if MULTIPLIED.get(node.op, {0}).issuperset(places):
        return True
    if node.op in MULTIPLIED:
        return False
    (chain, kinds), extras = chain_of(node), extra_values(node)
    found = ending(chain, len(kinds))
    at = found.addend if found is not None else None
    if len(places) > 1 or not isinstance(at, int) or extras[at - 1] is not value:
        return False
    return kinds[at - 1] == "full" and found is not None and found.form == "clip"
