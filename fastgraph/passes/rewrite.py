"""How a pass rewrites: one forward sweep that lets a rule look at each node and say what stands there instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ..freedoms import free
from ..ir import Graph, Node, Quantization, TensorType, Value, read_by, subgraphs
from ..limits import current
from ..ops.evaluate import computes_reals
from ..ops.registry import OPS, Op


class Sweep:
    """State of one sweep: the nodes written so far, who made a value, how many nodes read each value.

    A rule gets `(sweep, node)` and returns False to keep the node, or True after it wrote its own nodes with `add`
    and said with `replace` what stands for the node's outputs. `turned`: the transposes of constants that were made.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.maker: dict[Value, Node] = {}
        self.position: dict[Node, int] = {}
        self.reads: Counter[Value] = Counter(v for node in graph.nodes for v in set(read_by(node)))
        self.reads.update(graph.results())
        self.outputs = set(graph.results())
        self.turned: dict[tuple[Value, tuple[int, ...]], Value] = {}
        self._instead: dict[Value, Value] = {}
        self._dropped: set[Node] = set()

    def current(self, value: Value) -> Value:
        """What stands for `value` now."""
        while value in self._instead:
            value = self._instead[value]
        return value

    def add(self, op: str, inputs: list[Value | None], type: TensorType, like: Node, **attrs: Any) -> Value:
        """Write a node with one new output and give that output."""
        node = Node(op, inputs, [Value(f"{like.out.name}.{op}", type)], attrs, like.name)
        self.write(node)
        return node.out

    def write(self, node: Node) -> None:
        """Write a new node."""
        self.keep(node)
        self.reads.update(set(read_by(node)))

    def keep(self, node: Node) -> None:
        """Write a node of the graph as it is."""
        self.position[node] = len(self.nodes)
        self.nodes.append(node)
        for value in node.outputs:
            self.maker[value] = node

    def replace(self, old: Value, new: Value) -> None:
        """From here on `new` stands for `old`."""
        assert new.type.quant == old.type.quant, f"{new!r} {new.type} can't stand for {old!r} {old.type}"
        self._instead[old] = new
        self.reads[new] += self.reads[old]

    def made_by(self, value: Value, op: str) -> bool:
        """Whether a node of this operator makes the value."""
        node = self.maker.get(value)
        return node is not None and node.op == op

    def sole_maker(self, value: Value | None, own: int = 1) -> Node | None:
        """The node that made `value` if nobody but the node at hand reads it, else None.

        `own`: how often the node at hand is among the readers; 0 for a value that it gets from a node it has dropped.
        """
        if value is None or self.reads[value] != own or value in self.outputs:
            return None
        return self.maker.get(value)

    def drop(self, node: Node) -> None:
        """Take back a node written before, because the node at hand has taken it in."""
        self._dropped.add(node)
        self.forget(node)

    def forget(self, node: Node) -> None:
        """The node no longer reads its inputs."""
        self.reads.subtract(set(read_by(node)))

    def written(self) -> list[Node]:
        """The nodes that stand, in order."""
        return [node for node in self.nodes if node not in self._dropped]


Rule = Callable[[Sweep, Node], bool]


def also_quantized(rule: Rule) -> Rule:
    """Say of a rule that it holds for quantized operands and results; others see only nodes that have none."""
    rule.also_quantized = True  # type: ignore[attr-defined]
    return rule


def sees(*which: str | Callable[[Op], bool]) -> Callable[[Rule], Rule]:
    """Say which nodes a rule is for: of operators called so, or of which so much is true. Others see all nodes."""

    def note(rule: Rule) -> Rule:
        rule.sees = which  # type: ignore[attr-defined]
        return rule

    return note


def _sees(rule: Rule, op: str) -> bool:
    which = getattr(rule, "sees", None)
    return which is None or any(each == op if isinstance(each, str) else each(OPS[op]) for each in which)


def sweep(graph: Graph, *rules: Rule) -> None:
    """Run the rules over the graph once, in order; the first that applies to a node wins. Dead nodes are pruned."""
    rules = tuple(rule for rule in rules if free(rule.__name__))
    by_op = {op: [rule for rule in rules if _sees(rule, op)] for op in {node.op for node in graph.nodes}}
    if not any(by_op.values()):
        graph.prune()
        return
    state = Sweep(graph)
    for node in graph.nodes:
        if state._instead:
            node.inputs = [None if v is None else state.current(v) for v in node.inputs]
        found = by_op[node.op]
        if found and computes_reals(node):
            found = [rule for rule in found if hasattr(rule, "also_quantized")]
        if any(rule(state, node) for rule in found):
            state.forget(node)
        else:
            state.keep(node)
    graph.nodes = state.written()
    graph.outputs = [state.current(v) for v in graph.outputs]
    for kept in graph.states:
        kept.output = state.current(kept.output)
    if state._instead:
        now = {value: state.current(value) for value in state._instead}
        for inner in (inner for node in graph.nodes for inner in subgraphs(node)):
            inner.replace(now)
    graph.prune()


def constant(like: Value, data: Any, suffix: str = "folded", quant: Quantization | None = None) -> Value:
    """A constant named after the value it comes from."""
    array = np.asarray(data)
    if array.base is None:
        current().hold(array.nbytes, like.name)
    return Value.constant(f"{like.name}.{suffix}", array, quant)
