"""One operator on its way into the graph: the means to write canonical nodes in its place.

Types are inferred while nodes are written: what a rule gets back has the element type and the shape that follow from
the operands, so that it can look at them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ...errors import ModelError, UnsupportedError
from ...ir import Node, Quantization, Shape, TensorType, Value
from ...ir.build import Builder
from ...limits import current
from ...ops.evaluate import infer_node


class Call(Builder):
    """An operator of a file, and the builder of the nodes that stand for it.

    `op`: what the format calls it. `name`: what its nodes are called. `where`: file, graph and operator, for messages.
    `nodes`: where its nodes go. `unique` makes a name one that no other value has.
    """

    def __init__(self, op: str, name: str, where: str, nodes: list[Node], unique: Callable[[str], str]) -> None:
        self.op = op
        self.name = self.label = name
        self.where = where
        self.nodes = nodes
        self.unique = unique

    def fail(self, message: str) -> NoReturn:
        """ModelError that names file, graph and operator."""
        raise ModelError(f"{self.where}: {message}")

    def unsupported(self, message: str) -> NoReturn:
        """UnsupportedError: the reader goes on with the next operator, and names all that are unsupported at once."""
        raise UnsupportedError(f"{self.op} {message}")

    def rank(self, value: Value, why: str = "") -> int:
        """The number of axes. UnsupportedError, which ends with `why`, when the file leaves it open."""
        if value.type.shape is None:
            self.unsupported(f"on {value}, whose number of axes the file leaves open{why}")
        return len(value.type.shape)

    # values

    def fresh(self, type: TensorType | None = None) -> Value:
        """A value for a node to make."""
        return Value(self.unique(self.name), type or TensorType(None))

    def const(self, array: Any, quant: Quantization | None = None) -> Value:
        """A constant. With `quant` the array holds stored numbers."""
        data = np.asarray(array)
        current().hold(data.nbytes, self.where)
        return Value(self.unique(self.name), TensorType(data.dtype, data.shape, quant), data)

    def cast(self, value: Value, dtype: Any) -> Value:
        """The value in another element type (at once when it is constant); itself when it has it already."""
        wanted = np.dtype(dtype)
        if value.type.dtype == wanted:
            return value
        if value.data is not None and value.type.quant is None:
            return self.const(value.data.astype(wanted))
        return self.add("cast", [value], type=TensorType(wanted), to=wanted)

    # nodes

    trusts = False

    def append(self, node: Node) -> None:
        self.nodes.append(node)

    def result(self, op: str, type: TensorType) -> Value:
        return Value(self.unique(self.name), type)

    def held(self, data: np.ndarray) -> Value:
        return self.const(data)

    def add(
        self, op: str, inputs: Sequence[Value | None], outputs: list[Value] | None = None,
        type: TensorType | None = None, **attrs: Any,
    ) -> Value:  # fmt: skip
        """Write a node; its first output. Without `outputs` that is a fresh Value.

        `type` says what can't be inferred: the quantization, the type to which something is converted.
        """
        if outputs is None:
            outputs = [self.fresh(type)]
        self.write_node(Node(op, list(inputs), outputs, attrs, self.name))
        return outputs[0]

    def write_node(self, node: Node) -> None:
        """Write a node as it is, and infer its types; one with sub-graphs keeps the types that are declared."""
        if not node.graphs:
            self.infer(node)
        self.nodes.append(node)

    def custom(
        self, op: Any, operands: Sequence[Value | None], outputs: list[Value], attributes: dict[str, Any]
    ) -> None:
        """Write a node of a user's operator (ops/custom.py). ModelError where its kernel does not fit the node."""
        from ...ops.custom import node_of

        try:
            node = node_of(op, operands, outputs, attributes, self.name, self.const)
        except ModelError as error:
            self.fail(str(error))
        self.write_node(node)

    def infer(self, node: Node) -> None:
        """Set the types of a node's outputs; they take from those declared before what stays open."""
        declared = [value.type for value in node.outputs]
        try:
            infer_node(node)
        except ModelError as error:
            self.fail(str(error).removeprefix(f"node {node.name}: "))
        for value, hint in zip(node.outputs, declared, strict=True):
            value.type = known(value.type, hint)

    def to_last(self, x: Value) -> Value:
        """[N, C, spatial...] to [N, spatial..., C]: how the graph has it. The passes cancel such pairs."""
        return self.add("transpose", [x], perm="to_last")

    def to_first(self, x: Value) -> Value:
        """[N, spatial..., C] to [N, C, spatial...]."""
        return self.add("transpose", [x], perm="to_first")


def known(inferred: TensorType, hint: TensorType) -> TensorType:
    """An inferred type, with the hint's number of axes where that is open, and the element type likewise."""
    shape = inferred.shape
    if shape is None and hint.shape is not None:
        shape = (None,) * len(hint.shape)
    return TensorType(hint.dtype if inferred.dtype is None else inferred.dtype, shape, inferred.quant)


def agree(a: Shape | None, b: Shape | None) -> bool:
    """Whether two shapes may be the same."""
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(
        m == n for m, n in zip(a, b, strict=True) if isinstance(m, int) and isinstance(n, int)
    )
