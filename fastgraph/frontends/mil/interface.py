"""A function of a program to a Graph, with the inputs, outputs and states that the description gives it."""

from __future__ import annotations

import numpy as np

from ...errors import ModelError, UnsupportedError
from ...ir import Graph, Interface, Node, State, TensorType, Value
from .convert import run
from .description import Feature, describe, metadata
from .reader import Reader
from .scope import Scope
from .types import MilType, mil_type
from .wire import Message, wrong


def to_graph(reader: Reader) -> Graph:
    """The graph of the function. One UnsupportedError names all that is not supported."""
    found = describe(reader.model, reader.name, reader.where)
    block = _block(reader)
    scope = Scope(reader, reader.where)
    reader.take(*block.outputs)
    graph = Graph(reader.name, source=reader.source, nodes=scope.nodes)
    graph.interface = Interface(about=found.about)
    graph.interface.metadata = metadata(reader.model)
    _inputs(scope, graph, found.inputs)
    first = dict(scope.current)
    run(scope, block)
    values = dict(zip(block.outputs, scope.results(block), strict=True))
    ways = "register what computes them (fastgraph.register_custom_op), or run it with Core ML"
    reader.refuse(reader.where, f"convert the model without them, {ways}")
    missing = [name for name in found.outputs if name not in values]
    if missing:
        there = ", ".join(values) or "none"
        raise wrong(f"{reader.where}: its description gives output {missing[0]!r}, the program gives {there}")
    names = [*found.outputs, *(name for name in values if name not in found.outputs)]
    made = {value for node in scope.nodes for value in node.outputs}
    graph.outputs = [_output(scope, graph, made, name, values[name], found.outputs.get(name)) for name in names]
    graph.states = [
        State(value, scope.current[key], np.broadcast_to(np.zeros((), value.type.dtype), value.type.dims))
        for key, value in first.items()
    ]
    return graph


def _block(reader: Reader) -> Message:
    blocks = reader.function.block_specializations
    if reader.opset not in blocks:
        raise ModelError(
            f"{reader.where}: expected a block for its operator set {reader.opset!r}, "
            f"found {', '.join(sorted(blocks)) or 'none'}"
        )
    if blocks[reader.opset].inputs:
        raise ModelError(f"{reader.where}: expected a block without inputs of its own, found some")
    return blocks[reader.opset]


def _inputs(scope: Scope, graph: Graph, features: dict[str, Feature]) -> None:
    for declared in scope.reader.function.inputs:
        name, where = declared.name, f"{scope.reader.where}: input {declared.name!r}"
        kind = mil_type(declared.type, where)
        if kind.kind == "state":
            _state(scope, name, kind, where)
        elif kind.kind == "tensor":
            graph.inputs.append(_input(scope, graph, name, kind, features.get(name), where))
        else:
            raise UnsupportedError(f"{where}: inputs that are no tensors but {kind}")
    unknown = [name for name in features if name not in scope.values]
    if unknown:
        there = ", ".join(scope.values) or "none"
        raise wrong(f"{scope.reader.where}: its description gives input {unknown[0]!r}, the program takes {there}")


def _input(scope: Scope, graph: Graph, name: str, kind: MilType, feature: Feature | None, where: str) -> Value:
    """The input as callers feed it; the program reads it in the type that it is computed in."""
    feature = None if feature is None else feature.within(kind, where)
    outside = (feature or Feature(name)).type(kind, where)
    value = Value(name, outside)
    if feature is not None:
        shown = graph.interface
        shown.ports[name] = feature.port(outside)
        said = [feature.text(), shown.about.get(f"input {name}", "")]
        if any(said):
            shown.about[f"input {name}"] = "; ".join(filter(None, said))
        if feature.shape is not None and not outside.concrete:
            graph.usual[name] = feature.shape
    scope.reader.take(name)
    inside = _converted(scope, value, kind.held.dtype, scope.reader.unique(name))
    scope.reader.declared[inside] = kind
    scope.define(name, inside, where)
    return value


def _state(scope: Scope, name: str, kind: MilType, where: str) -> None:
    """A state's handle, and the value that it has before a run. It is kept as it is computed, in float32."""
    if not kind.held.concrete:
        raise ModelError(f"{where}: expected a state of known shape, found {kind}")
    handle = Value(name, TensorType(None))
    scope.reader.declared[handle] = kind
    scope.reader.handles[handle] = name
    scope.reader.states[name] = kind.held
    scope.define(name, handle, where)
    scope.current[name] = Value(scope.reader.unique(name), kind.held)


def _output(scope: Scope, graph: Graph, made: set[Value], name: str, value: Value, feature: Feature | None) -> Value:
    """The value under the name of an output, in the type that callers get. `made`: those that may be renamed."""
    reader = scope.reader
    said = reader.declared[value]
    if value in reader.shown:
        value, function = reader.shown[value]
        graph.interface.shows[name] = function
        wanted = value.type.dtype
    elif said.kind != "tensor":
        raise UnsupportedError(f"{reader.where}: output {name!r} is no tensor but {said}")
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


def _converted(scope: Scope, value: Value, dtype: np.dtype | None, name: str) -> Value:
    """The value in another element type, by a cast of its own."""
    if value.type.dtype == dtype or dtype is None:
        return value
    made = Value(name, TensorType(dtype, value.type.shape))
    scope.nodes.append(Node("cast", [value], [made], {"to": dtype}, f"{name}:in"))
    return made
