"""The graph: values and the nodes that make them, in an order in which they can run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .types import UNKNOWN, Quantization, TensorType


@dataclass(eq=False)
class Value:
    """One tensor of a graph. `data` holds the array of a constant and is None for everything else."""

    name: str
    type: TensorType = UNKNOWN
    data: np.ndarray | None = None

    @staticmethod
    def constant(name: str, data: Any, quant: Quantization | None = None) -> Value:
        array = np.asarray(data)
        return Value(name, TensorType(array.dtype, array.shape, quant), array)

    def __repr__(self) -> str:
        return f"%{self.name}"


@dataclass(eq=False)
class Node:
    """One operator. An absent optional input is None. Attributes may hold a `Graph` (control flow)."""

    op: str
    inputs: list[Value | None]
    outputs: list[Value]
    attrs: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    @property
    def x(self) -> Value:
        """The first input."""
        value = self.inputs[0]
        assert value is not None
        return value

    @property
    def out(self) -> Value:
        """The first output."""
        return self.outputs[0]

    def const(self, index: int) -> np.ndarray | None:
        """The array of input `index` when it is present and constant, else None."""
        value = self.inputs[index] if index < len(self.inputs) else None
        return None if value is None else value.data

    def has(self, index: int) -> bool:
        """Whether input `index` is present."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def __str__(self) -> str:
        from .text import node_text

        return node_text(self)


@dataclass(eq=False)
class State:
    """What a graph keeps from run to run: it reads `input`, whose next value is `output`; `initial` is the first."""

    input: Value
    output: Value
    initial: np.ndarray


@dataclass(frozen=True)
class Port:
    """What an input takes beyond arrays of its own type.

    `adapt` makes such an array of what was fed, `check` says whether a shape is among those the model allows: both
    raise InputError. `default` is what an input holds that nothing is fed to. `layout`: "RGB", "BGR" or another of
    Core ML's colour spaces when the input is an image, of pixels 0 to 255.
    """

    adapt: Callable[[Any], Any] | None = None
    check: Callable[[tuple[int, ...]], None] | None = None
    default: np.ndarray | None = None
    layout: str = ""


@dataclass
class Interface:
    """What a file says of its model beyond the graph.

    `ports` by input name; `shows`, by output name: what callers get instead of the array that the graph makes;
    `about`: what there is to read, by title.
    """

    ports: dict[str, Port] = field(default_factory=dict)
    shows: dict[str, Callable[[np.ndarray], Any]] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class Graph:
    """Inputs, outputs and nodes in topological order. `source` names the file it came from, for messages.

    `usual` gives, by input name, the shape that the file names for an input whose shape it leaves open.
    What `states` read and give is among neither `inputs` nor `outputs`; `unfold_states` makes it more of both.
    """

    name: str = ""
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    source: str = ""
    states: list[State] = field(default_factory=list)
    usual: dict[str, tuple[int, ...]] = field(default_factory=dict)
    interface: Interface = field(default_factory=Interface)

    def __str__(self) -> str:
        from .text import graph_text

        return graph_text(self)

    def uses(self) -> dict[Value, list[Node]]:
        """For every value, the nodes that read it (once per node). Graph outputs are not uses."""
        found: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(v for v in read_by(node)):
                found.setdefault(value, []).append(node)
        return found

    def producers(self) -> dict[Value, Node]:
        """For every value that a node makes, that node."""
        return {value: node for node in self.nodes for value in node.outputs}

    def constants(self) -> list[Value]:
        """Constants that nodes read or the graph gives, in order of first use."""
        reads = [v for node in self.nodes for v in node.inputs if v is not None]
        return list(dict.fromkeys(v for v in [*reads, *self.results()] if v.data is not None))

    def results(self) -> list[Value]:
        """The outputs, and what the states become."""
        return [*self.outputs, *(state.output for state in self.states)]

    def unfold_states(self) -> None:
        """Let the states' values be further inputs and outputs, after the others, and keep no states."""
        self.inputs = [*self.inputs, *(state.input for state in self.states)]
        self.outputs, self.states = self.results(), []

    def replace(self, instead: Mapping[Value, Value]) -> None:
        """Let every reader of a key, and the graph's outputs, read what stands instead; once, not again and again."""
        for node in self.nodes:
            node.inputs = [None if v is None else instead.get(v, v) for v in node.inputs]
            for inner in subgraphs(node):
                inner.replace(instead)
        self.outputs = [instead.get(v, v) for v in self.outputs]
        for state in self.states:
            state.output = instead.get(state.output, state.output)

    def prune(self) -> int:
        """Drop nodes whose outputs nobody reads; the number dropped."""
        live: set[Value] = set(self.results())
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if live.intersection(node.outputs):
                live.update(read_by(node))
                kept.append(node)
        dropped = len(self.nodes) - len(kept)
        self.nodes = kept[::-1]
        return dropped


def subgraphs(node: Node) -> Iterator[Graph]:
    """The graphs that a control-flow node holds in its attributes, alone or in a list of graphs."""
    for attr in node.attrs.values():
        if type(attr) is Graph:
            yield attr
        elif isinstance(attr, list | tuple) and attr and type(attr[0]) is Graph:
            yield from attr


def captured(graph: Graph) -> list[Value]:
    """Values of the outer scope that a sub-graph reads (constants excepted), in order of first use."""
    own: set[Value] = {*graph.inputs, *(state.input for state in graph.states)}
    own.update(v for node in graph.nodes for v in node.outputs)
    reads = [v for node in graph.nodes for v in read_by(node)] + graph.results()
    return list(dict.fromkeys(v for v in reads if v not in own and v.data is None))


def read_by(node: Node) -> list[Value]:
    """What a node reads: its inputs, and what its sub-graphs read from around it."""
    reads = [v for v in node.inputs if v is not None]
    for inner in subgraphs(node):
        reads += captured(inner)
    return reads


def copy(graph: Graph) -> Graph:
    """A deep copy that shares the constants' arrays. Values of outer scopes stay what they are."""
    return _copy(graph, {})


def _copy(graph: Graph, seen: dict[Value, Value]) -> Graph:
    def twin(value: Value, own: bool = False) -> Value:
        if value not in seen:
            if not own and value.data is None:
                return value
            seen[value] = Value(value.name, value.type, value.data)
        return seen[value]

    def attr(item: Any) -> Any:
        if isinstance(item, Graph):
            return _copy(item, seen)
        if isinstance(item, list | tuple) and any(isinstance(x, Graph) for x in item):
            return type(item)(attr(x) for x in item)
        return item

    inputs = [twin(v, own=True) for v in graph.inputs]
    first = [twin(state.input, own=True) for state in graph.states]
    nodes = []
    for node in graph.nodes:
        reads = [None if v is None else twin(v) for v in node.inputs]
        attrs = {key: attr(item) for key, item in node.attrs.items()}
        nodes.append(Node(node.op, reads, [twin(v, own=True) for v in node.outputs], attrs, node.name))
    states = [State(v, twin(s.output), s.initial) for v, s in zip(first, graph.states, strict=True)]
    outputs = [twin(v) for v in graph.outputs]
    return Graph(graph.name, inputs, outputs, nodes, graph.source, states, dict(graph.usual), graph.interface)
