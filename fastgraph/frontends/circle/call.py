"""One operator on its way into the graph: what the file says of it, and the means to write canonical nodes.

How most operators are written is said in `signature_table`. A rule of `rules_*.py` is a function that takes a `Call`,
the operands and attributes that stand there, and gives what the operator makes, or writes nodes of `c.outputs`:

    def squared_difference(c: Call, x: Value, y: Value) -> Value:
        difference = x - y
        return difference * difference
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np

from ...ir import INT64, Graph, Node, Quantization, TensorType, Value
from ...ir.types import UNKNOWN
from ...ops import OPS
from ..core import call
from .reader import Reader, tensor_key, touched
from .scope import Scope
from .wire import Table

Rule = Callable[["Call"], None]
"""A user's rule of a custom operator."""

Convert = Callable[[Reader, int, Sequence[Value | None], Sequence[str], str], Graph]
"""The function that converts a sub-graph, as `Call.subgraph` says: its number, arguments, resources, caller."""

ITSELF = Quantization((1.0,), (0,))
"""Integers that stand for themselves."""

ACTIVATED = ("fused", "wraps", "clamped", "activated")
"""Results after which the fused activation comes."""


@cache
def _kinds(results: tuple[str, ...], count: int) -> list[str]:
    """The kinds of so many outputs, as a signature has them."""
    kinds = [kind.rstrip("?*+") for kind in results] or ["any"]
    return kinds + kinds[-1:] * (count - len(kinds))


def _whole(type: TensorType) -> bool:
    return type.quant is None and type.dtype is not None and type.dtype.kind in "iu"


class Call(call.Call):
    """An operator of a file.

    `op`: builtin name ("CONV_2D") or custom code. `name`: unique, for nodes and messages. `version`: of the operator.
    `inputs`: a Value each, None where the file says -1; a variable tensor stands for its present value.
    `outputs`: a Value each with the type that the file declares: element type and quantization hold, the shape is a
    hint (None where open; operators infer it). The rule makes every one of them.
    `options`: attributes are the fields of the operator's options table with the schema's defaults; enums are their
    names ("SAME", "RELU6"), tensor types NumPy dtypes, vectors tuples (empty where absent).
    `custom_options`: the bytes of a custom operator's options. `tensors`, `intermediates`: indices of the
    tensors of inputs, and of what is within. `canonical`, `results_are`: what its signature says.
    """

    def __init__(
        self, scope: Scope, place: int, operator: Table, inputs: list[Value | None], outputs: list[Value],
        convert: Convert,
    ) -> None:  # fmt: skip
        """`operator`: number `place` of the sub-graph of this scope."""
        code = scope.code(operator)
        name = f"{code.name}:{place}" if not scope.index else f"{code.name}:{scope.index}.{place}"
        super().__init__(code.name, name, scope.label(place, operator), scope.nodes, scope.reader.unique)
        self.scope = scope
        self.version = code.version
        self.inputs = inputs
        self.outputs = outputs
        self.options: Any = None
        self.custom_options = b""
        self.tensors, self.intermediates = operator.inputs, operator.intermediates
        self._convert = convert
        self.is_custom = False
        self.canonical = ""
        self.results_are: Sequence[str] = ()

    # what the file says

    def input(self, index: int) -> Value | None:
        """Input `index`; None when it is absent (-1, or the list is shorter)."""
        return self.inputs[index] if index < len(self.inputs) else None

    def x(self, index: int = 0) -> Value:
        """Input `index`; ModelError when it is absent."""
        value = self.input(index)
        if value is None:
            self.fail(
                f"expected an input {index}, found {len(self.inputs)} inputs"
                + (" and this one left out (-1)" if index < len(self.inputs) else "")
            )
        return value

    def count(self, inputs: tuple[float, float], outputs: tuple[float, float] = (1, 1)) -> None:
        """ModelError unless there are at least and at most as many inputs and outputs as told."""
        for what, given, (least, most) in (("inputs", self.inputs, inputs), ("outputs", self.outputs, outputs)):
            if not least <= len(given) <= most:
                more = "" if least == most else " or more" if most == float("inf") else f" to {most}"
                self.fail(f"expected {least}{more} {what}, found {len(given)}")

    def option(self, name: str, default: Any = None) -> Any:
        """An option by its name; of a custom operator, or a default."""
        if not self.is_custom:
            return getattr(self.options, name)
        found = self.told.get(name, default)
        if found is None:
            self.fail(f"expected {name} in its custom options, found {', '.join(sorted(self.told)) or 'nothing'}")
        return found

    @cached_property
    def told(self) -> dict[str, Any]:
        """The options of a custom operator, which may be TensorFlow's."""
        from .flex import attributes

        return attributes(self.custom_options, self.where)

    @property
    def activation(self) -> str:
        """The activation that is fused into the operator."""
        return getattr(self.options, "fused_activation_function", "NONE")

    def flexbuffer(self) -> dict[str, Any]:
        """The custom options as a map of FlexBuffers: numbers, strings, lists. ModelError when they are none."""
        from .flex import decode

        if not len(self.custom_options):
            return {}
        found = decode(self.custom_options, self.where)
        if not isinstance(found, dict):
            self.fail(f"expected a map in its custom options, found {type(found).__name__}")
        return found

    # writing nodes

    def write(self, op: str, inputs: Sequence[Value | None] | None = None, **attrs: Any) -> None:
        """Write a node that makes all of the operator's outputs (of all of its inputs, unless told), as its signature
        says that they are.
        """
        kinds = _kinds(tuple(self.results_are), len(self.outputs))
        self.settle(kinds, op, list(self.inputs if inputs is None else inputs), self.outputs, **attrs)

    def give(self, value: Value) -> None:
        """Let the operator's outputs be those of the node that makes `value`: the last one that was written."""
        if not self.nodes or self.nodes[-1].out is not value:
            self.write("identity", [value])
            return
        node, out = self.nodes[-1], self.outputs[0] if len(self.outputs) == 1 else None
        if out is not None and len(node.outputs) == 1 and value.type.quant is None and out.type.quant is None:
            kind = _kinds(tuple(self.results_are), 1)[0]
            if kind != "rounded" and self._settled(kind, node.inputs, out) is None:
                node.outputs, out.type = [out], call.known(value.type, out.type)
                return
        self.nodes.pop()
        self.write(node.op, node.inputs, **node.attrs)

    def settle(
        self, kinds: Sequence[str], op: str, inputs: list[Value | None], outs: Sequence[Value], **attrs: Any
    ) -> None:
        """Write `op`, and convert each of its results to an output of the operator; see `signature_table`."""
        x = inputs[0] if inputs else None
        if kinds[:1] == ["rounded"] and x is not None and _whole(x.type):
            inputs[0] = self.read_as(x, ITSELF)
        types = [self._settled(kind, inputs, out) for kind, out in zip(kinds, outs, strict=False)]
        made = [out if kind is None else self.fresh(kind) for kind, out in zip(types, outs, strict=True)]
        self.add(op, inputs, made, **attrs)
        for kind, value, out in zip(kinds, made, outs, strict=False):
            if value is out:
                continue
            if kind == "declared":
                self.add("cast", [value], [out], to=out.type.dtype)
            elif kind in ACTIVATED:
                self.activated(value, out)
            else:
                self.add("reinterpret", [value], [out])

    def _settled(self, kind: str, inputs: list[Value | None], out: Value) -> TensorType | None:
        """The type of a node's result before it is converted to the output; None where it is the output itself."""
        x, declared = inputs[0].type if inputs and inputs[0] is not None else None, out.type
        if kind == "declared" and declared.dtype != INT64:
            if not _whole(declared):
                self.fail(f"expected an output of whole numbers, found {declared}")
            return TensorType(INT64)
        if kind in ACTIVATED and self.activation != "NONE":
            return declared
        if kind == "stored" and declared.quant is not None:
            return TensorType(declared.dtype)
        if kind == "rounded" and x is not None and x.quant is ITSELF:
            return TensorType(declared.dtype, None, ITSELF)
        if kind == "moved" and x is not None:
            if declared.dtype != x.dtype:
                self.fail(f"expected an output of the input's type {x}, found {declared}")
            by_axis = any(q is not None and q.axis is not None for q in (x.quant, declared.quant))
            if not by_axis and declared.quant != x.quant:
                return TensorType(x.dtype, None, x.quant)
        return None

    def infer(self, node: Node) -> None:
        """Set the types of a node's outputs. Moved values keep their quantization, where the file says none."""
        if node.outputs[0].type is UNKNOWN and OPS[node.op].moves:
            operands = node.inputs if node.op == "concat" else node.inputs[:1]
            quants = {v.type.quant for v in operands if v is not None}
            quant = quants.pop() if len(quants) == 1 else None
            if quant is not None and quant.axis is None:
                for out in node.outputs:
                    out.type = TensorType(node.x.type.dtype, None, quant)
        super().infer(node)

    def read_as(self, x: Value, quant: Quantization | None) -> Value:
        """The stored numbers of x with another quantization."""
        if x.type.quant == quant:
            return x
        if x.data is not None:
            return self.const(x.data, quant)
        return self.add("reinterpret", [x], type=TensorType(x.type.dtype, x.type.shape, quant))

    def into(self, value: Value, out: Value) -> None:
        """Let the last node, which makes `value`, make `out` instead."""
        assert self.nodes[-1].out is value
        self.nodes[-1].outputs = [out]
        self.infer(self.nodes[-1])

    def activated(self, x: Value, out: Value | None = None) -> Value:
        """The fused activation of x, where there is one as `out`."""
        outs = None if out is None else [out]
        match self.activation:
            case "NONE":
                return x
            case "RELU" | "TANH":
                return self.add(self.activation.lower(), [x], outs, type=x.type)
            case "RELU6":
                return self.add("clip", [x, self.number(0, x), self.number(6, x)], outs, type=x.type)
            case "RELU_N1_TO_1":
                return self.add("clip", [x, self.number(-1, x), self.number(1, x)], outs, type=x.type)
        if x.type.quant is not None or x.type.dtype is None or x.type.dtype.kind != "f":
            self.unsupported(f"with a {self.activation} activation on {x.type}")
        # SIGN_BIT: that of -0.0 shows in its reciprocal.
        negative = (x < 0) | (self.reciprocal(x) < 0)
        return self.add("where", [negative, self.number(1, x), self.number(0, x)], outs)

    # state: variable tensors and resources

    def is_variable(self, index: int) -> bool:
        """Whether input `index` is a variable tensor."""
        return index < len(self.tensors) and self.scope.is_variable(self.tensors[index])

    def write_state(self, index: int, value: Value) -> None:
        """`value` is what variable tensor `index` of the inputs holds from here on. ModelError where it is none."""
        if not self.is_variable(index):
            self.fail(f"expected a variable tensor as input {index}, found one that does not live from run to run")
        self.scope.assign(tensor_key(self.scope.index, self.tensors[index]), value)

    def resource(self, handle: Value) -> str:
        """The key of the resource that an input is a handle of. ModelError when it is none, as far as known."""
        key = self.scope.reader.handles.get(handle)
        if key is None:
            self.fail(
                f"expected a resource handle as input {self.inputs.index(handle)}, "
                "found a value that nothing here made one"
            )
        return key

    def initialize(self, key: str, array: np.ndarray, quant: Quantization | None = None) -> None:
        """Set the value of resource `key` before the first run (CALL_ONCE)."""
        self.scope.reader.initial[key] = Value(key, TensorType(array.dtype, array.shape, quant), array)

    # sub-graphs

    def touched(self, *indices: int, args: Sequence[Value | None] = ()) -> list[str]:
        """Keys of the resources and variable tensors that sub-graphs may read or write, when called with `args`."""
        reader = self.scope.reader
        keys = touched(reader, indices, self.where)
        given = [reader.handles[value] for value in args if value in reader.handles]
        return list(dict.fromkeys(keys + [key for key in given if key.startswith("variable ")]))

    def subgraph(self, index: int, args: Sequence[Value | None] = (), resources: Sequence[str] = ()) -> Graph:
        """Sub-graph `index`, converted: a graph of its own, that reads nothing from around it but constants.

        `args` are the values that it is called with, where they are known: handles among them stay handles inside. For
        each key of `resources` the graph has an input more, its value before, and an output more, its value after.
        ModelError when the index is out of range, or the sub-graph is being converted: recursion.
        """
        return self._convert(self.scope.reader, index, args, resources, self.where)
