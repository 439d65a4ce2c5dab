"""A checked file to a Graph: what its sub-graphs share, and the names of the main one's inputs and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...errors import ModelError, UnsupportedError
from ...ir import Graph, Node, TensorType, Value
from ...limits import current
from ..core.unique import unique
from .names import interface, signature
from .resources import states, touched
from .scope import Scope
from .wire import Table

DEPTH_LIMIT = 64
"""How deep sub-graphs may call one another."""


class Code(NamedTuple):
    """What operators of a kind are: the name of a builtin one, or the code of a custom one."""

    name: str
    custom: bool
    version: int


class Reader:
    """One file on its way to a graph.

    `handles`: which resource a value is a handle of. `initial`: what resources hold before the first run, `types`:
    their types, as far as known. `facts`: what rules keep from one operator to the next, by names of their own.
    """

    def __init__(self, model: Table) -> None:
        self.model = model
        self.source = model.wire.source
        self.subgraphs = model.subgraphs
        self.buffers = model.buffers
        self.codes: dict[int, Code] = {}
        self.handles: dict[Value | None, str] = {}
        self.initial: dict[str, Value] = {}
        self.types: dict[str, TensorType] = {}
        self.uses: dict[int, tuple[list[str], list[int]]] = {}
        self.facts: dict[str, Any] = {}
        self.unsupported: Counter[str] = Counter()
        self._active = [0]
        self._names: dict[str, int] = {}

    def graph(self) -> Graph:
        """The graph of sub-graph 0. One UnsupportedError names all that is not supported."""
        if not len(self.subgraphs):
            raise ModelError(f"{self.source}: expected a model with at least one sub-graph, found none")
        for entry in self.model.metadata:
            if entry.name == "COMPRESSION_METADATA":
                self.unsupported["constants compressed for TensorFlow Lite Micro"] += 1
        try:
            scope = Scope(self, 0)
            graph = self._main(scope)
        except UnsupportedError as error:
            self.unsupported[str(error)] += 1
        if self.unsupported:
            items = [f"{what} ({n} times)" if n > 1 else what for what, n in sorted(self.unsupported.items())]
            raise UnsupportedError(
                f"{self.source}: not supported: {'; '.join(items)}; convert the model without them, register rules for "
                "custom operators by fastgraph.register_custom_op, or run it with LiteRT"
            )
        return graph

    def _main(self, scope: Scope) -> Graph:
        ins, outs = scope.table.inputs, scope.table.outputs
        told = signature(self.model, 0)
        entries: list[list[tuple[int, str]]] = [[], []]
        if told is not None:
            entries = [[(m.tensor_index, m.name) for m in maps] for maps in (told.inputs, told.outputs)]
        named = [scope.tensor(index)[0].name for index in ins]
        for value, name in zip(scope.inputs, interface(ins, named, entries[0]), strict=True):
            value.name = name
        wanted = interface(outs, [scope.tensor(index)[0].name for index in outs], entries[1])
        self._names.update(dict.fromkeys((*wanted, *(v.name for v in scope.inputs)), 1))
        scope.names = dict(zip(outs[::-1], wanted[::-1], strict=True))
        scope.run()
        outputs = [self._output(scope, value, name) for value, name in zip(scope.outputs(), wanted, strict=True)]
        kept = [] if self.unsupported else states(scope)
        shapes = {v.name: tuple(scope.table.tensors[i].shape) for i, v in zip(ins, scope.inputs, strict=True)}
        usual = {name: shape for name, shape in shapes.items() if shape and min(shape) >= 0}
        return Graph(scope.name, scope.inputs, outputs, scope.nodes, self.source, kept, usual)

    def _output(self, scope: Scope, value: Value, name: str) -> Value:
        """The value under the name of an output: what else has a name already is copied."""
        if value.name == name:
            return value
        renamed = Value(name, value.type)
        scope.nodes.append(Node("identity", [value], [renamed], {}, f"{name}:name"))
        return renamed

    def subgraph(self, index: int, args: Sequence[Value | None], resources: Sequence[str], caller: str) -> Graph:
        """Sub-graph `index`, as `Call.subgraph` says."""
        self.check(index, caller)
        if index in self._active:
            raise ModelError(f"{caller}: sub-graph {index} calls itself; the format does not allow recursion")
        if len(self._active) > DEPTH_LIMIT:
            raise ModelError(f"{caller}: sub-graphs call one another more than {DEPTH_LIMIT} deep")
        current().count(32, caller)
        self._active.append(index)
        try:
            scope = Scope(self, index, args, caller)
            before = [scope.present(key) for key in resources]
            scope.run()
            outputs = [*scope.outputs(), *(scope.current[key] for key in resources)]
        finally:
            self._active.pop()
        missed = set(scope.first) - set(resources)
        if missed:
            raise UnsupportedError(f"{caller.rpartition('operator ')[2]} of a sub-graph that uses {sorted(missed)[0]}")
        return Graph(scope.name, [*scope.inputs, *before], outputs, scope.nodes, self.source)

    def touched(self, indices: Sequence[int], args: Sequence[Value | None], caller: str) -> list[str]:
        """Keys as `Call.touched` says."""
        keys = touched(self, tuple(indices), caller)
        given = [self.handles[value] for value in args if value in self.handles]
        return list(dict.fromkeys(keys + [key for key in given if key.startswith("variable ")]))

    def check(self, index: int, caller: str) -> None:
        """ModelError when there is no sub-graph of that index."""
        if not 0 <= index < len(self.subgraphs):
            raise ModelError(f"{caller}: expected a sub-graph from 0 to {len(self.subgraphs) - 1}, found {index}")

    def code(self, index: int, where: str) -> Code:
        """What operators with `opcode_index` `index` are."""
        if index not in self.codes:
            count = len(self.model.operator_codes)
            if index >= count:
                raise ModelError(f"{where}: expected an operator code from 0 to {count - 1}, found {index}; "
                                 "the file was not written correctly")  # fmt: skip
            self.codes[index] = _code(self.model.operator_codes[index])
        return self.codes[index]

    def unique(self, name: str) -> str:
        """`name`, with a number behind it when a value has it already."""
        return unique(self._names, name)


def _code(table: Table) -> Code:
    """The first files had one byte for codes. Circle's own operators are below 0, the newer of the others above 127."""
    old = table.deprecated_builtin_code
    number = old if old < 0 else (new if (new := table.number("builtin_code")) < 0 else max(old, new))
    name = table.wire.enums["BuiltinOperator"][1].get(number, f"operator code {number}")
    return Code(table.custom_code, True, table.version) if name == "CUSTOM" else Code(name, False, table.version)
