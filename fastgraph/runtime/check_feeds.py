"""Checks of the feeds, shapes and booleans that callers give a model, whose messages name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..ir import Graph, Value
from .feeds import allowed, array_of, dims_of, extents_advice
from .keys import Key, Keys


def boolean(name: str, given: Any) -> bool:
    """An argument that is True or False, Python's or NumPy's. InputError for anything else."""
    if not isinstance(given, bool | np.bool_):
        raise InputError(f"{name}={given!r}: expected True or False")
    return bool(given)


def fixed_shape(value: Value) -> tuple[int, ...] | None:
    """The fixed shape of an input, None if the caller can choose it; () for an input without a shape."""
    if value.type.dtype is None:
        return ()
    return value.type.dims if value.type.concrete else None


def input_types(graph: Graph) -> str:
    """The names and types of all inputs, for messages."""
    return ", ".join(f"{v.name}: {_type_text(graph, v)}" for v in graph.inputs) or "none"


def example(graph: Graph) -> str:
    """An example of a dict of feeds, for messages."""
    return "{" + ", ".join(f"{v.name!r}: ..." for v in graph.inputs) + "}"


def checked_feeds(graph: Graph, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """The feeds in the inputs' order, as the graph holds them. InputError where they don't fit."""
    if not isinstance(feeds, Mapping):
        raise InputError(
            f"run takes a dict of inputs by name ({input_types(graph)}), {type(feeds).__name__} was given: "
            f"model.run({example(graph)}), or by position model({', '.join(v.name for v in graph.inputs)})"
        )
    ports = graph.interface.ports
    optional = {name: port.default for name, port in ports.items() if port.default is not None}
    feeds = optional | dict(feeds)
    missing = [v.name for v in graph.inputs if v.name not in feeds]
    if missing or len(feeds) > len(graph.inputs):
        unknown = [name for name in feeds if all(v.name != name for v in graph.inputs)]
        raise InputError(
            "".join(f"no input is called {name!r}; " for name in unknown)
            + "".join(f"input {name!r} was not fed; " for name in missing)
            + f"the inputs are {input_types(graph)}"
        )
    arrays: dict[str, Any] = {}
    for value in graph.inputs:
        name, port = value.name, ports.get(value.name)
        if port is not None and port.kind is not None:
            kind = port.kind if value.type.dtype is None else port.kind._replace(type=value.type)
            from .kinds import taken  # most models have no such inputs

            arrays[name] = taken(name, kind, feeds[name])
            continue
        adapt = None if port is None else port.adapt
        array = array_of(value, feeds[name] if adapt is None else adapt(feeds[name]))
        allowed(graph, value, array.shape)
        arrays[name] = array
    return arrays


def wanted(graph: Graph, keys: Keys, what: str, shapes: Mapping[str, Sequence[int]]) -> Key:
    """The key for these input shapes, the others as they are. `what`: the method that was called, for messages.
    InputError when they don't fit.
    """
    if not isinstance(shapes, Mapping):
        raise InputError(f"{what} takes shapes by input name in a dict, {type(shapes).__name__} was given")
    for name in shapes:
        if all(v.name != name for v in graph.inputs):
            raise InputError(f"{what}: no input is called {name!r}, the inputs are {input_types(graph)}")
    found: list[tuple[int, ...]] = []
    arrays: dict[str, np.ndarray] = {}
    for value in graph.inputs:
        fixed = fixed_shape(value)
        if value.name in shapes and value.type.dtype is None:
            raise InputError(f"{what}: input {value.name!r} is a {_type_text(graph, value)}, which has no shape")
        if value.name not in shapes and fixed is None:
            raise InputError(f"{what}: no shape for input {value.name!r}, which the model declares {value.type}")
        given = shapes.get(value.name, fixed)
        if value.name in keys.decide and isinstance(given, np.ndarray):
            arrays[value.name] = array_of(value, given)
            given = given.shape
        shape = dims_of(value.name, given)
        if value.type.dtype is not None:
            allowed(graph, value, shape, extents_advice)
        found.append(shape)
    names = keys.names(tuple(found)) if arrays else ()
    missing = [name for name in names if name not in arrays]
    if missing:
        raise InputError(f"{what}: no value for {', '.join(missing)}, which decides shapes, too: give an array")
    return Key(tuple(found), tuple((name, arrays[name].tobytes()) for name in names))


def _type_text(graph: Graph, value: Value) -> str:
    """The type of an input, for messages."""
    port = graph.interface.ports.get(value.name)
    return str(value.type if port is None or port.kind is None else port.kind)
