"""A program to a Graph: one of its functions, with the inputs, outputs and states that the description gives it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import ModelError, UnsupportedError
from ...ir import Graph, Interface, Node, State, TensorType, Value
from ..core.unique import unique
from .description import Feature, describe, pick
from .package import Package
from .scope import Scope
from .tensors import Constants
from .types import MilType, mil_type
from .wire import Message


class Reader:
    """One function on its way to a graph.

    `declared`: the types that the program gives values. `handles`: the state that a value stands for. `states`: their
    types. `shown`: outputs that are made of a value when they leave the model.
    """

    def __init__(self, model: Message, package: Package, function: str | None) -> None:
        self.model = model
        self.source = package.source
        self.constants = Constants(package)
        self.name = pick(model, function, self.source)
        self.function = model.mlProgram.functions[self.name]
        self.opset = self.function.opset
        self.where = f"{self.source}: function {self.name!r}"
        self.declared: dict[Value, MilType] = {}
        self.handles: dict[Value, str] = {}
        self.states: dict[str, TensorType] = {}
        self.shown: dict[Value, tuple[Value, Callable[[np.ndarray], Any]]] = {}
        self.unsupported: Counter[str] = Counter()
        self._names: dict[str, int] = {}
        self._interface = Interface()
        self._usual: dict[str, tuple[int, ...]] = {}

    def graph(self) -> Graph:
        """The graph of the function. One UnsupportedError names all that is not supported."""
        found = describe(self.model, self.name, self.where)
        self._interface.about = found.about
        block = self._block()
        scope = Scope(self, self.where)
        self._names.update(dict.fromkeys(block.outputs, 1))
        inputs = self._inputs(scope, found.inputs)
        first = dict(scope.current)
        scope.run(block)
        values = dict(zip(block.outputs, scope.results(block), strict=True))
        if self.unsupported:
            raise UnsupportedError(self._refusal())
        order = [name for name in found.outputs if name in values]
        missing = [name for name in found.outputs if name not in values]
        if missing:
            raise ModelError(f"{self.where}: its description gives output {missing[0]!r}, the program gives "
                             f"{', '.join(values) or 'none'}; the model was not written correctly")  # fmt: skip
        names = [*order, *(name for name in values if name not in found.outputs)]
        made = {value for node in scope.nodes for value in node.outputs}
        outputs = [self._output(scope, made, name, values[name], found.outputs.get(name)) for name in names]
        states = [State(value, scope.current[key], _zeros(value)) for key, value in first.items()]
        return Graph(self.name, inputs, outputs, scope.nodes, self.source, states, self._usual, self._interface)

    def _block(self) -> Message:
        blocks = self.function.block_specializations
        if self.opset not in blocks:
            raise ModelError(f"{self.where}: expected a block for its operator set {self.opset!r}, "
                             f"found {', '.join(sorted(blocks)) or 'none'}")  # fmt: skip
        if blocks[self.opset].inputs:
            raise ModelError(f"{self.where}: expected a block without inputs of its own, found some")
        return blocks[self.opset]

    def _refusal(self) -> str:
        items = [f"{what} ({n} times)" if n > 1 else what for what, n in sorted(self.unsupported.items())]
        return (f"{self.where}: not supported: {'; '.join(items)}; convert the model without them, "
                "or run it with Core ML")  # fmt: skip

    def unique(self, name: str) -> str:
        """`name`, with a number behind it when a value has it already."""
        return unique(self._names, name)

    # inputs and outputs

    def _inputs(self, scope: Scope, features: dict[str, Feature]) -> list[Value]:
        found = []
        for declared in self.function.inputs:
            name, where = declared.name, f"{self.where}: input {declared.name!r}"
            kind = mil_type(declared.type, where)
            if kind.kind == "state":
                self._state(scope, name, kind, where)
            elif kind.kind == "tensor":
                found.append(self._input(scope, name, kind, features.get(name), where))
            else:
                raise UnsupportedError(f"{where}: inputs that are no tensors but {kind}")
        unknown = [name for name in features if name not in scope.values]
        if unknown:
            raise ModelError(f"{self.where}: its description gives input {unknown[0]!r}, the program takes "
                             f"{', '.join(scope.values) or 'none'}; the model was not written correctly")  # fmt: skip
        return found

    def _input(self, scope: Scope, name: str, kind: MilType, feature: Feature | None, where: str) -> Value:
        """The input as callers feed it; the program reads it in the type that it is computed in."""
        feature = None if feature is None else feature.within(kind, where)
        outside = (feature or Feature(name)).type(kind, where)
        value = Value(name, outside)
        if feature is not None:
            self._interface.ports[name] = feature.port(outside)
            said = [feature.text(), self._interface.about.get(f"input {name}", "")]
            if any(said):
                self._interface.about[f"input {name}"] = "; ".join(filter(None, said))
            if feature.shape is not None and not outside.concrete:
                self._usual[name] = feature.shape
        self._names[name] = 1
        inside = self._converted(scope, value, kind.held.dtype, self.unique(name))
        self.declared[inside] = kind
        scope.define(name, inside, where)
        return value

    def _state(self, scope: Scope, name: str, kind: MilType, where: str) -> None:
        """A state's handle, and the value that it has before a run. It is kept as it is computed, in float32."""
        if not kind.held.concrete:
            raise ModelError(f"{where}: expected a state of known shape, found {kind}")
        handle = Value(name, TensorType(None))
        self.declared[handle] = kind
        self.handles[handle] = name
        self.states[name] = kind.held
        scope.define(name, handle, where)
        scope.current[name] = Value(self.unique(name), kind.held)

    def _output(
        self, scope: Scope, made: set[Value], name: str, value: Value, feature: Feature | None
    ) -> Value:
        """The value under the name of an output, in the type that callers get. `made`: those that may be renamed."""
        said = self.declared[value]
        if value in self.shown:
            value, function = self.shown[value]
            self._interface.shows[name] = function
            wanted = value.type.dtype
        elif said.kind != "tensor":
            raise UnsupportedError(f"{self.where}: output {name!r} is no tensor but {said}")
        else:
            wanted = feature.dtype if feature is not None and feature.dtype is not None else said.api
        if value.type.dtype == wanted and value.type.quant is None and value in made:
            made.remove(value)
            value.name = name
            return value
        found = Value(name, TensorType(wanted, value.type.shape))
        op, attrs = ("identity", {}) if value.type.dtype == wanted else ("cast", {"to": wanted})
        if value.type.quant is not None:
            op, attrs = "requantize", {}
        scope.nodes.append(Node(op, [value], [found], attrs, f"{name}:out"))
        return found

    def _converted(self, scope: Scope, value: Value, dtype: np.dtype | None, name: str) -> Value:
        """The value in another element type, by a cast of its own."""
        if value.type.dtype == dtype or dtype is None:
            return value
        made = Value(name, TensorType(dtype, value.type.shape))
        scope.nodes.append(Node("cast", [value], [made], {"to": dtype}, f"{name}:in"))
        return made


def _zeros(value: Value) -> np.ndarray:
    return np.broadcast_to(np.zeros((), value.type.dtype), value.type.dims)
