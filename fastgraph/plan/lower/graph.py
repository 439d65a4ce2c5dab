"""The steps of a whole graph: of the model, or of a body within it."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Graph, Node, Value, read_by
from ...kernels.isa.tiers import NUMPY
from ..storage import has_memory
from .band_steps import emit_block
from .depth_first import blocks
from .emit import Emit
from .moves import emit_copy


def emit_graph(e: Emit, graph: Graph) -> None:
    """Write the steps of all nodes, in order, and give all values their places."""
    within = {node: block for block in blocks(graph, e.views, e.match, e.threads) for node in block.nodes()}
    for node in graph.nodes:
        e.node = node
        found = e.match(node)
        if node in within:
            if node is within[node].nodes()[-1]:
                emit_block(e, within[node])
        elif found is None:
            e.host()
        else:
            lowering, plan = found
            lowering.emit(e, node, plan)
    for value in (*graph.inputs, *graph.outputs, *(v for node in graph.nodes for v in (*read_by(node), *node.outputs))):
        if value.data is None and has_memory(value):
            e.storage(value)


def emit_copies(e: Emit, moved: Mapping[Value, Value], op: str) -> None:
    """Copy values to the keys, as if all at once: a value whose memory another copy overwrites is saved first. The
    steps' nodes are of operator `op`."""
    pairs = [(source, target) for target, source in moved.items() if _memory(e, source) != _memory(e, target)]
    targets = {e.storage(target).root for _, target in pairs}
    lost = [s for s in dict.fromkeys(source for source, _ in pairs) if s.data is None and e.storage(s).root in targets]
    aside = {source: Value(f"{source.name}.kept", source.type) for source in lost}
    for source, target in [*aside.items(), *((aside.get(source, source), target) for source, target in pairs)]:
        e.node = Node(op, [source], [target])
        if e.tier is NUMPY:
            for value in (source, target):
                if value.data is None:
                    e.storage(value)
            e.host()
            continue
        emit_copy(e, source.type.dims, source.type.itemsize, e.strided(source), e.strided(target))


def _memory(e: Emit, value: Value) -> object:
    """The identity of a value's memory: its storage, or the constant itself."""
    return value if value.data is not None else e.storage(value)
