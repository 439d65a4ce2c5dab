"""Nodes in an order in which they can run."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from ...errors import ModelError
from .wire import Message


def graphs_of(node: Message) -> Iterable[Message]:
    """The graphs in a node's attributes."""
    for attr in node.attribute:
        if attr.HasField("g"):
            yield attr.g
        yield from attr.graphs


def reads_of(node: Message) -> list[str]:
    """Names that a node reads: its inputs, and what its sub-graphs take from around them."""
    reads = [name for name in node.input if name]
    for graph in graphs_of(node):
        reads += free_names(graph)
    return reads


def free_names(graph: Message) -> list[str]:
    """Names that a graph reads and doesn't define."""
    own = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    own.update(t.values.name for t in graph.sparse_initializer)
    own.update(name for node in graph.node for name in node.output)
    reads = [name for node in graph.node for name in reads_of(node)] + [v.name for v in graph.output]
    return [name for name in dict.fromkeys(reads) if name not in own]


def in_order(nodes: list[Message], where: str) -> list[tuple[int, Message]]:
    """(position in the file, node): as in the file where that can run, else sorted with the least change.

    ModelError for a cycle, with the names on it.
    """
    maker = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    needs = [{maker[name] for name in reads_of(node) if name in maker} for node in nodes]
    if all(max(need, default=-1) < i for i, need in enumerate(needs)):
        return list(enumerate(nodes))
    from graphlib import CycleError, TopologicalSorter

    sorter, ready, order = TopologicalSorter(dict(enumerate(needs))), list[int](), list[int]()
    try:
        sorter.prepare()
    except CycleError as error:
        raise ModelError(
            f"{where}: its nodes form a cycle: {_named(nodes, error.args[1])}; no order can run them"
        ) from None
    while sorter.is_active():
        for i in sorter.get_ready():
            heapq.heappush(ready, i)
        order.append(heapq.heappop(ready))
        sorter.done(order[-1])
    return [(i, nodes[i]) for i in order]


def _named(nodes: list[Message], cycle: list[int]) -> str:
    """The nodes on a cycle, which ends where it begins: from the first of the file on."""
    first = cycle.index(min(cycle))
    labels = [f"{nodes[i].name or nodes[i].op_type + '#' + str(i)!r}" for i in (*cycle[first:-1], *cycle[: first + 1])]
    return " -> ".join(labels if len(labels) <= 12 else [*labels[:6], "...", *labels[-5:]])
