"""Graphs as JSON: what a saved program keeps to plan for further shapes. Arrays are kept beside it, by number.

A list begins with a letter that says what it is (`_KINDS`); numbers, text, None, True and False are themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ..errors import ModelError, UnsupportedError
from ..ir import Graph, Interface, Kind, Node, Port, Quantization, State, TensorType, Value
from ..limits import Limits

Keep = Callable[[np.ndarray], int]
Find = Callable[[int], np.ndarray]


def encoded(graph: Graph, keep: Keep) -> Any:
    """The graph as JSON; `keep` gives the number of an array. UnsupportedError for what belongs to this process."""
    writer = _Writer(keep)
    made = writer.graph(graph)
    return {
        "values": [[v.name, writer.types[v.type], writer.item(v.data)] for v in writer.values],
        "types": [writer.type(t) for t in writer.types], "graph": made, "interface": writer.interface(graph.interface),
        "limits": [graph.limits.constants, graph.limits.work, graph.limits.nodes], "stored": graph.stored,
        "precision": graph.precision,
    }  # fmt: skip


def decoded(text: Any, find: Find) -> Graph:
    """The graph of what `encoded` gave; `find` gives the array of a number. ModelError when it is damaged."""
    try:
        reader = _Reader(find)
        reader.types = [_a(TensorType, reader.item(t)) for t in text["types"]]
        reader.values = [reader.value(*value) for value in text["values"]]
        graph = reader.graph(text["graph"])
        graph.interface = reader.interface(text["interface"])
        _agree(graph)
        graph.limits, graph.stored = Limits(*text["limits"]), _a(int, text["stored"])
        graph.precision = _a(str, text["precision"])
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ModelError(f"the graph of the saved program can't be read ({error}): save it again") from None
    return graph


def _agree(graph: Graph) -> None:
    """ValueError unless the interface is of the graph's inputs and outputs, and states can have their first values."""
    inputs, outputs = ({v.name for v in values} for values in (graph.inputs, graph.outputs))
    if not graph.interface.ports.keys() <= inputs or not {*graph.interface.shows, *graph.interface.elements} <= outputs:
        raise ValueError("its interface is of other inputs or outputs")
    for state in graph.states:
        if state.input.type.concrete:
            np.broadcast_to(state.initial, state.input.type.dims)


class _Writer:
    """Numbers values and types while it writes."""

    def __init__(self, keep: Keep) -> None:
        self.keep = keep
        self.values: dict[Value, int] = {}
        self.types: dict[TensorType, int] = {}

    def item(self, item: Any) -> Any:
        kind = type(item)
        if item is None or kind in (bool, int, float, str):
            return item
        if kind is Value:
            return ["v", self.value(item)]
        if kind in (list, tuple, frozenset, set):
            return [_LISTS[kind], *map(self.item, item if kind in (list, tuple) else sorted(item))]
        if kind is dict:
            return ["d", *([self.item(key), self.item(value)] for key, value in item.items())]
        if isinstance(item, np.ndarray):
            if item.dtype.kind in "OUS":
                return ["o", item.dtype.str, list(item.shape), *map(self.item, item.reshape(-1).tolist())]
            return ["a", self.keep(item)]
        if isinstance(item, np.dtype):
            return ["y", item.str]
        if isinstance(item, np.generic):
            return ["n", self.keep(np.asarray(item))]
        if kind is Graph:
            return ["g", self.graph(item)]
        if kind in _TUPLES:
            return [_TUPLES[kind], *map(self.item, item)]
        if kind is TensorType:
            return self.type(item)
        if kind is bytes:
            return ["b", item.decode("latin-1")]
        if kind is slice:
            return ["s", self.item(item.start), self.item(item.stop), self.item(item.step)]
        return self.function(item)

    def function(self, item: Any) -> Any:
        """A function of ir/ports.py with its facts."""
        from ..ir import ports

        function, given = (item.func, item.args) if isinstance(item, partial) else (item, ())
        if getattr(function, "__module__", "") != ports.__name__ or getattr(item, "keywords", None):
            raise UnsupportedError(f"{type(item).__name__} {item!r} belongs to this process: it can't be saved")
        return ["p", function.__name__, *map(self.item, given)]

    def type(self, t: TensorType) -> Any:
        return ["T", self.item(t.dtype), self.item(t.shape), self.item(t.quant)]

    def value(self, value: Value) -> int:
        self.types.setdefault(value.type, len(self.types))
        return self.values.setdefault(value, len(self.values))

    def maybe(self, value: Value | None) -> int:
        return -1 if value is None else self.value(value)

    def graph(self, graph: Graph) -> Any:
        return [
            graph.name, graph.source, [self.value(v) for v in graph.inputs], [self.value(v) for v in graph.outputs],
            [[n.op, n.name, [self.maybe(v) for v in n.inputs], [self.value(v) for v in n.outputs],
              [[key, self.item(attr)] for key, attr in n.attrs.items()]] for n in graph.nodes],
            [[self.value(s.input), self.value(s.output), self.item(s.initial)] for s in graph.states],
            self.item(graph.usual),
        ]  # fmt: skip

    def interface(self, interface: Interface) -> Any:
        made = [self.item(interface.ports), self.item(interface.shows), interface.elements, interface.about]
        return [*made, interface.metadata]


class _Reader:
    def __init__(self, find: Find) -> None:
        self.find = find
        self.values: list[Value] = []
        self.types: list[TensorType] = []

    def item(self, item: Any) -> Any:
        return _KINDS[item[0]](self, *item[1:]) if type(item) is list else item

    def each(self, items: Any) -> Any:
        return map(self.item, items)

    def graph(self, text: Any) -> Graph:
        name, source, inputs, outputs, nodes, states, usual = text
        values = self.values
        return Graph(
            _a(str, name), [values[i] for i in inputs], [values[i] for i in outputs], [self.node(*n) for n in nodes],
            _a(str, source), [State(values[i], values[o], _a(np.ndarray, self.item(first))) for i, o, first in states],
            _a(dict, self.item(usual)),
        )  # fmt: skip

    def node(self, op: str, name: str, reads: list[int], makes: list[int], attrs: Any) -> Node:
        values, known = self.values, {_a(str, key): self.item(attr) for key, attr in attrs}
        inputs = [None if i < 0 else values[i] for i in reads]
        return Node(_a(str, op), inputs, [values[i] for i in makes], known, _a(str, name))

    def value(self, name: str, type_: int, data: Any) -> Value:
        return Value(_a(str, name), self.types[type_], _a(np.ndarray | None, self.item(data)))

    def interface(self, text: Any) -> Interface:
        ports, shows, elements, about, *later = text
        made = Interface(_a(dict, about))
        if later:  # what older versions did not write
            made.metadata = _metadata(*later)
        made.ports, made.shows, made.elements = self.item(ports), self.item(shows), _a(dict, elements)
        for port in made.ports.values():
            _a(Port, port)
        for show in made.shows.values():
            _a(Callable, show)
        return made

    def port(self, *fields: Any) -> Port:
        made = Port(*self.each(fields))
        for function in made[:2]:
            _a(Callable | None, function)
        _a(np.ndarray | None, made.default), _a(str, made.layout), _a(Kind | None, made.kind)
        return made

    def kind(self, *fields: Any) -> Kind:
        made = Kind(*self.each(fields))
        if made.form != "tensor" and made.item is None or made.form not in ("tensor", "sequence", "optional"):
            raise ValueError(made.form)
        _a(TensorType, made.type), _a(str, made.element), _a(Kind | None, made.item)
        return made

    def type(self, *fields: Any) -> TensorType:
        dtype, shape, quant = self.each(fields)
        for extent in _a(tuple | None, shape) or ():
            if not (extent is None or type(extent) is str or type(extent) is int and extent >= 0):
                raise ValueError(extent)
        return TensorType(_a(np.dtype | None, dtype), shape, _a(Quantization | None, quant))

    def quantization(self, *fields: Any) -> Quantization:
        scales, zeros, axis = self.each(fields)
        kinds = {float: _a(tuple, scales), int: (*_a(tuple, zeros), 0 if axis is None else axis)}
        if not scales or not zeros or any(type(number) is not kind for kind, each in kinds.items() for number in each):
            raise ValueError(fields)
        return Quantization(scales, zeros, axis)

    def dtype(self, text: str) -> np.dtype:
        made: np.dtype = np.dtype(_a(str, text))
        if made.kind not in "biufcOUS":
            raise ValueError(text)
        return made

    def objects(self, dtype: str, dims: list[int], *items: Any) -> np.ndarray:
        made = np.empty(len(items), self.dtype(dtype))
        made[:] = list(self.each(items))
        return made.reshape(dims)

    def function(self, name: str, *given: Any) -> Any:
        from ..ir import ports  # few interfaces have functions

        facts = list(self.each(given))
        if not all(sound(fact) for sound, fact in zip(ports.FACTS[name], facts, strict=True)):
            raise ValueError(name)
        return partial(getattr(ports, name), *facts)


def _metadata(text: Any) -> dict[str, Any]:
    """Fields of metadata. TypeError unless they are text, and numbers, text or lists by name."""
    for key, item in _a(dict, text).items():
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        for each in (_a(str, key), _a(str | dict | list, item), *inner):
            _a(str | int | dict | list, each)
    return dict(text)


def _a(kind: Any, item: Any) -> Any:
    """The item. TypeError unless it is of this kind."""
    if not isinstance(item, kind):
        raise TypeError(f"{item!r} is no {kind}")
    return item


_LISTS: Mapping[Any, str] = {list: "l", tuple: "t", frozenset: "f", set: "S"}
_TUPLES: Mapping[Any, str] = {Quantization: "q", Kind: "k", Port: "P"}

_KINDS: Mapping[str, Callable[..., Any]] = {
    "v": lambda r, number: r.values[number],
    "l": lambda r, *items: list(r.each(items)),
    "t": lambda r, *items: tuple(r.each(items)),
    "f": lambda r, *items: frozenset(r.each(items)),
    "S": lambda r, *items: set(r.each(items)),
    "d": lambda r, *pairs: {r.item(key): r.item(value) for key, value in pairs},
    "o": _Reader.objects,
    "a": lambda r, number: r.find(number),
    "y": _Reader.dtype,
    "n": lambda r, number: r.find(number)[()],
    "g": _Reader.graph,
    "q": _Reader.quantization,
    "k": _Reader.kind,
    "P": _Reader.port,
    "T": _Reader.type,
    "b": lambda r, text: text.encode("latin-1"),
    "s": lambda r, *fields: slice(*r.each(fields)),
    "p": _Reader.function,
}
