"""The edges of a graph: initializers, inputs, outputs."""

from __future__ import annotations

from ...errors import ModelError
from ...ir import Interface, Node, Port, Value
from .attributes import format_of, kind_of_type, type_of
from .elements import ELEMENTS
from .reader import Reader
from .scope import Scope
from .split import Held
from .tensors import densify, to_array
from .wire import Message


def define_initializers(reader: Reader, scope: Scope, proto: Message, top: bool, held: Held | None) -> None:
    """Define the constants of a graph. Those that an inner graph has among its inputs are left to who calls it."""
    formal = {v.name for v in proto.input}
    for i, tensor in enumerate(proto.initializer):
        if top or tensor.name not in formal:
            where = f"{reader.source}: initializer {tensor.name!r}"
            array = to_array(tensor, reader.path, where, (held or {}).get(i))
            value = Value.constant(tensor.name, array)
            scope.define(value, where)
            reader.ranks[value] = array.ndim
            if name := ELEMENTS[tensor.data_type].format:
                reader.formats[value] = name
    for sparse in proto.sparse_initializer:
        where = f"{reader.source}: sparse initializer {sparse.values.name!r}"
        array = densify(sparse, reader.path, where)
        value = Value.constant(sparse.values.name, array)
        reader.ranks[value] = array.ndim
        scope.define(value, where)


def define_inputs(reader: Reader, scope: Scope, proto: Message, top: bool) -> list[Value]:
    """Define the inputs of a graph; those that initializers of the model's graph give are constants."""
    found: dict[Value, None] = {}
    for info in proto.input:
        known = scope.values.get(info.name)
        if top and known is not None and known.data is not None and known not in found:
            continue  # an initializer that IR version 3 wants among the inputs
        where = f"{scope.where}: input {info.name!r}"
        value = Value(info.name, type_of(info.type, where))
        if top:
            kind = info.type.WhichOneof("value")
            if kind is None or hasattr(getattr(info.type, kind), "shape") and value.type.dtype is None:
                what = "type" if kind is None else "element type"
                raise ModelError(f"{where}: it has no {what}; the file was not written correctly")
            if value.type.shape is not None:
                reader.ranks[value] = len(value.type.shape)
        if name := format_of(info.type):
            reader.formats[value] = name
        scope.define(value, where)
        found[value] = None
    return list(found)


def named_output(scope: Scope, info: Message) -> Value:
    """The value under the name of an output."""
    try:
        value = scope.find(info.name)
    except KeyError:
        value = None
    where = f"{scope.where}: output {info.name!r}"
    if value is None:
        raise ModelError(f"{where}: no node, input or initializer gives it; the file was not written correctly")
    declared = type_of(info.type, where)
    if value.name != info.name or info.name not in scope.values:
        renamed = Value(info.name, declared if value.data is None else value.type, value.data)
        if value.data is None:
            scope.nodes.append(Node("identity", [value], [renamed], {}, f"{info.name}:name"))
        return renamed
    if value.type.dtype is None:
        value.type = declared
    return value


def interface_of(scope: Scope, proto: Message, inputs: list[Value]) -> Interface:
    """The kinds of inputs and outputs that are no tensors, or of element types that NumPy lacks."""
    found = Interface()
    given = {v.name for v in inputs}
    for info in proto.input:
        kind = kind_of_type(info.type, f"{scope.where}: input {info.name!r}") if info.name in given else None
        if kind is not None and (kind.element or kind.form != "tensor"):
            found.ports[info.name] = Port(kind=kind)
    for info in proto.output:
        kind = kind_of_type(info.type, f"{scope.where}: output {info.name!r}")
        if kind is not None and kind.tensor.element:
            found.elements[info.name] = kind.tensor.element
    return found
