"""The graph: values, and nodes in topological order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..limits import Limits
from ..named import NamedTuple
from .quantization import Quantization
from .types import UNKNOWN, Kind, TensorType


class Value:
    """One tensor of a graph. `data` holds the array of a constant and is None for everything else."""

    __slots__ = ("__weakref__", "data", "name", "type")

    def __init__(self, name: str, type: TensorType = UNKNOWN, data: np.ndarray | None = None) -> None:
        self.name, self.type, self.data = name, type, data

    if TYPE_CHECKING:  # build.py gives them: they write nodes

        def __add__(self, y: Any) -> Value: ...
        def __radd__(self, y: Any) -> Value: ...
        def __sub__(self, y: Any) -> Value: ...
        def __rsub__(self, y: Any) -> Value: ...
        def __mul__(self, y: Any) -> Value: ...
        def __rmul__(self, y: Any) -> Value: ...
        def __truediv__(self, y: Any) -> Value: ...
        def __rtruediv__(self, y: Any) -> Value: ...
        def __pow__(self, y: Any) -> Value: ...
        def __mod__(self, y: Any) -> Value: ...
        def __matmul__(self, y: Any) -> Value: ...
        def __and__(self, y: Any) -> Value: ...
        def __or__(self, y: Any) -> Value: ...
        def __lt__(self, y: Any) -> Value: ...
        def __le__(self, y: Any) -> Value: ...
        def __gt__(self, y: Any) -> Value: ...
        def __ge__(self, y: Any) -> Value: ...
        def __neg__(self) -> Value: ...
        def __abs__(self) -> Value: ...
        def __invert__(self) -> Value: ...

    @staticmethod
    def constant(name: str, data: Any, quant: Quantization | None = None) -> Value:
        array = np.asarray(data)
        return Value(name, TensorType(array.dtype, array.shape, quant), array)

    @property
    def array(self) -> np.ndarray:
        """The array of a constant; AssertionError otherwise."""
        assert self.data is not None, f"{self} is no constant"
        return self.data

    def text(self) -> str:
        """An operand in text: its name, or the content of a small constant."""
        if self.data is None:
            return repr(self)
        if self.data.size <= 8:
            quant = "" if self.type.quant is None else f" {{{self.type.quant}}}"
            space = "" if self.data.ndim else " "
            return f"const {self.data.dtype}{space}{self.data.tolist()}{quant}"
        return f"const {self.type}"

    def __repr__(self) -> str:
        return f"%{self.name}"


class Node:
    """One operator. An absent optional input is None.

    `graphs`: the graphs in the attributes of a control-flow node, alone or in lists, as they were when the node was
    made.
    """

    __slots__ = ("__weakref__", "attrs", "graphs", "inputs", "name", "op", "outputs")

    def __init__(
        self,
        op: str,
        inputs: list[Value | None],
        outputs: list[Value],
        attrs: dict[str, Any] | None = None,
        name: str = "",
    ) -> None:
        self.op, self.inputs, self.outputs = op, inputs, outputs
        self.attrs = {} if attrs is None else attrs
        self.name = name
        self.graphs: tuple[Graph, ...] = ()
        for attr in self.attrs.values():
            kind = type(attr)  # asked of every node that is made: quicker than isinstance
            if kind is Graph:
                self.graphs += (attr,)
            elif (kind is tuple or kind is list) and attr and type(attr[0]) is Graph:
                self.graphs += tuple(attr)

    @property
    def x(self) -> Value:
        """The first input."""
        return self.operand(0)

    @property
    def y(self) -> Value:
        """The second input."""
        return self.operand(1)

    @property
    def operands(self) -> list[Value]:
        """The inputs that are present."""
        return [value for value in self.inputs if value is not None]

    @property
    def out(self) -> Value:
        """The first output."""
        return self.outputs[0]

    def with_(
        self,
        inputs: list[Value | None] | None = None,
        outputs: list[Value] | None = None,
        op: str | None = None,
        attrs: dict[str, Any] | None = None,
    ) -> Node:
        """A node of the same name, which differs in what is given."""
        return Node(
            self.op if op is None else op,
            self.inputs if inputs is None else inputs,
            self.outputs if outputs is None else outputs,
            self.attrs if attrs is None else attrs,
            self.name,
        )

    def input(self, index: int) -> Value | None:
        """Input `index`; None when it is absent."""
        return self.inputs[index] if index < len(self.inputs) else None

    def operand(self, index: int) -> Value:
        """Input `index`, which is present."""
        value = self.inputs[index]
        assert value is not None, f"{self.op} has no input {index}"
        return value

    def const(self, index: int) -> np.ndarray | None:
        """The array of input `index` when it is present and constant, else None."""
        value = self.input(index)
        return None if value is None else value.data

    def has(self, index: int) -> bool:
        """Whether input `index` is present."""
        return self.input(index) is not None

    def text(self, indent: str = "") -> str:
        """Results with types as far as known, operator, operands, attributes; `indent` stands before the lines of
        sub-graphs.
        """
        results = ", ".join(repr(v) if v.type == UNKNOWN else f"{v!r}: {v.type}" for v in self.outputs)
        operands = ", ".join("_" if v is None else v.text() for v in self.inputs)
        attrs = ", ".join(f"{key}={_attr(item, indent)}" for key, item in sorted(self.attrs.items()))
        return f"{results} = {self.op}({operands})" + (f" {{{attrs}}}" if attrs else "")

    def __str__(self) -> str:
        return self.text()


class State:
    """A value that is kept from run to run: nodes read `input`, whose next value is `output`; `initial` is the
    first.
    """

    def __init__(self, input: Value, output: Value, initial: np.ndarray) -> None:
        self.input, self.output, self.initial = input, output, initial


class Port(NamedTuple):
    """How an input accepts more than arrays of its type.

    `adapt` converts a feed to such an array, `check` tests whether a shape is among those the model allows: both raise
    InputError. `default` is used when nothing is fed. `layout`: "RGB", "BGR" or another of Core ML's color spaces when
    the input is an image, of pixels 0 to 255. `kind`: the input's kind, where its TensorType can't say it.
    """

    adapt: Callable[[Any], Any] | None = None
    check: Callable[[tuple[int, ...]], None] | None = None
    default: np.ndarray | None = None
    layout: str = ""
    kind: Kind | None = None


class Interface:
    """What a file says of its model beyond the graph.

    `ports` by input name; by output name `shows`, functions from the graph's array to what callers get, and `elements`,
    element types that NumPy lacks; `about`: descriptions by title; `metadata`: fields of what `Model.metadata` gives.
    """

    def __init__(self, about: dict[str, str] | None = None) -> None:
        self.ports: dict[str, Port] = {}
        self.shows: dict[str, Callable[[np.ndarray], Any]] = {}
        self.elements: dict[str, str] = {}
        self.about = about or {}
        self.metadata: dict[str, Any] = {}


class Graph:
    """Inputs, outputs and nodes in topological order. `source` names the file it came from, for messages.

    `usual`: by input name, the shape that the file proposes for an input with an open shape. `limits`: what a plan of
    it may cost; `precision`: what float32 may be computed in, of tiers.PRECISIONS; `lanes`: f32 of a vector of the tier
    that it is planned for, if that is known; `stored`: bytes of the files that it was read from; `beside`: sizes and
    times of those beside `source`, by path. `growing`: inputs of a plan that are fed in each run, and of which a result
    is written behind what was fed. Inputs and outputs of `states` are not among `inputs` and `outputs`;
    `unfold_states` adds them.
    """

    def __init__(
        self,
        name: str = "",
        inputs: list[Value] | None = None,
        outputs: list[Value] | None = None,
        nodes: list[Node] | None = None,
        source: str = "",
        states: list[State] | None = None,
        usual: dict[str, tuple[int, ...]] | None = None,
    ) -> None:
        self.name, self.source, self.stored = name, source, 0
        self.inputs = [] if inputs is None else inputs
        self.outputs = [] if outputs is None else outputs
        self.nodes = [] if nodes is None else nodes
        self.states = [] if states is None else states
        self.usual = {} if usual is None else usual
        self.interface, self.limits, self.precision = Interface(), Limits(), "float32"
        self.lanes = 16
        self.beside: Mapping[str, tuple[int, int]] = {}
        self.growing: set[Value] = set()

    def text(self, indent: str = "") -> str:
        """Signature, nodes in order, result: what golden tests compare."""
        inputs = ", ".join(f"{v!r}: {v.type}" for v in self.inputs)
        lines = [f"graph {self.name}({inputs}) {{"]
        lines += [f"  {node.text(indent + '  ')}" for node in self.nodes]
        lines += [f"  state {s.input!r}: {s.input.type} = {s.output.text()}" for s in self.states]
        lines.append("  return " + ", ".join(v.text() for v in self.outputs))
        return "\n".join([*(f"{indent}{line}" if i else line for i, line in enumerate(lines)), indent + "}"])

    def __str__(self) -> str:
        return self.text()

    def uses(self) -> dict[Value, list[Node]]:
        """The nodes that read each value (once per node). Graph outputs are not uses."""
        found: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(v for v in read_by(node)):
                found.setdefault(value, []).append(node)
        return found

    def producers(self) -> dict[Value, Node]:
        return {value: node for node in self.nodes for value in node.outputs}

    def constants(self) -> list[Value]:
        """Constants that nodes read or that are outputs, in order of first use."""
        reads = [v for node in self.nodes for v in node.inputs if v is not None]
        return list(dict.fromkeys(v for v in [*reads, *self.results()] if v.data is not None))

    def results(self) -> list[Value]:
        """The outputs, and the next values of states."""
        return [*self.outputs, *(state.output for state in self.states)]

    def unfold_states(self) -> None:
        """Append the states' inputs and outputs to the graph's own, and drop the states."""
        self.inputs = [*self.inputs, *(state.input for state in self.states)]
        self.outputs, self.states = self.results(), []

    def replace(self, instead: Mapping[Value, Value]) -> None:
        """Replace the keys by their values in all operands and outputs; once, not transitively."""
        for node in self.nodes:
            node.inputs = [None if v is None else instead.get(v, v) for v in node.inputs]
            for inner in node.graphs:
                inner.replace(instead)
        self.outputs = [instead.get(v, v) for v in self.outputs]
        for state in self.states:
            state.output = instead.get(state.output, state.output)

    def prune(self) -> int:
        """Drop nodes whose outputs are not used; the number dropped."""
        live: set[Value | None] = set(self.results())
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if not live.isdisjoint(node.outputs):
                live.update(read_by(node) if node.graphs else node.inputs)
                kept.append(node)
        dropped = len(self.nodes) - len(kept)
        self.nodes = kept[::-1]
        return dropped


def captured(graph: Graph) -> list[Value]:
    """Values of the outer scope that a sub-graph reads (constants excepted), in order of first use."""
    own: set[Value] = {*graph.inputs, *(state.input for state in graph.states)}
    own.update(v for node in graph.nodes for v in node.outputs)
    reads = [v for node in graph.nodes for v in read_by(node)] + graph.results()
    return list(dict.fromkeys(v for v in reads if v not in own and v.data is None))


def read_by(node: Node) -> list[Value]:
    """The values that a node reads: its inputs, and those that its sub-graphs capture."""
    reads = [v for v in node.inputs if v is not None]
    for inner in node.graphs:
        reads += captured(inner)
    return reads


def _attr(item: Any, indent: str) -> str:
    if isinstance(item, Graph):
        return item.text(indent)
    if isinstance(item, np.ndarray) and item.size > 8:
        return f"array {item.dtype}{list(item.shape)}"
    return repr(item.tolist() if isinstance(item, np.ndarray) else item)
