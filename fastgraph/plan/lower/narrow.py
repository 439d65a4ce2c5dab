"""Which values a program keeps in bfloat16: those that only layers on tiles make, and only these read."""

from __future__ import annotations

from collections.abc import Sequence

from ...freedoms import free
from ...ir import Graph, Node, TensorType, Value, read_by
from ...ir.types import BFLOAT16
from ..layer import chain_of, extra_values
from .depth_first import blocks, shared_by_threads
from .epilogue import ending
from .registry import Emit


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
    found = [node.out for node in layers if node.out not in kept]
    found = [v for v in found if v in readers and all(n in layers and _reads(n, v) for n in readers[v])]
    for value in found:
        value.type = TensorType(BFLOAT16, value.type.shape)
    return bool(found)


def _takes(e: Emit, node: Node) -> bool:
    found = e.match(node)
    return found is not None and found[0].narrow(e, node, found[1])


def _reads(node: Node, value: Value) -> bool:
    """Whether a layer takes the value in bf16: as what it multiplies, or as what it adds first."""
    places: Sequence[int] = [i for i, v in enumerate(node.inputs) if v is value]
    if places == [0]:
        return True
    (chain, kinds), extras = chain_of(node), extra_values(node)
    found = ending(chain, len(kinds))
    at = found.addend if found is not None else None
    if len(places) > 1 or not isinstance(at, int) or extras[at - 1] is not value:
        return False
    return kinds[at - 1] == "full" and found is not None and found.form == "clip"
