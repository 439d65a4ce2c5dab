"""What is known while one file is read: its operator codes, its resources, what rules keep.

Variable tensors, and the resources that operators know by name, live on from run to run. Both have a key, a text.
Inside a graph their present values are passed on like any others; the main graph keeps them as its states, and a
sub-graph takes them as inputs and gives them back as outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ...errors import ModelError
from ...ir import TensorType, Value
from ...limits import current
from ..core import reader
from .options import options_of
from .tensors import type_of
from .wire import Table


class Code(NamedTuple):
    """The kind of an operator: the name of a builtin one, or the code of a custom one."""

    name: str
    custom: bool
    version: int


class Wanted(NamedTuple):
    """What an interpreter wants of a graph.

    `shapes` of inputs, by tensor, in place of those that the file declares; what it declares of all that is computed
    from them then only tells element types. `shared`: whether variables that other signatures use stay states where
    they are only read. `names`: gets the name of each value that a tensor became.
    """

    shapes: Mapping[int, tuple[int | None, ...]] = {}
    shared: bool = False
    names: dict[int, str] | None = None


class Reader(reader.Reader):
    """One file on its way to a graph.

    `handles`: which resource a value is a handle of. `initial`: what resources hold before the first run, `types`:
    their types, as far as known. `active`: the sub-graphs that are being converted, the outermost first. `facts`: what
    rules keep from one operator to the next, by names of their own. `upright`: whether no scale is below 0.
    """

    def __init__(self, model: Table, wanted: Wanted) -> None:
        super().__init__(model.wire.source)
        self.model = model
        self.subgraphs = model.subgraphs
        self.buffers = model.buffers
        self.codes: dict[int, Code] = {}
        self.handles: dict[Value | None, str] = {}
        self.initial: dict[str, Value] = {}
        self.types: dict[str, TensorType] = {}
        self.uses: dict[int, tuple[list[str], list[int]]] = {}
        self.active = [0]
        self.facts: dict[str, Any] = {}
        self.upright = True
        self.wanted = wanted

    def check(self, index: int, caller: str) -> None:
        """ModelError when there is no sub-graph of that index."""
        if not 0 <= index < len(self.subgraphs):
            raise ModelError(f"{caller}: expected a sub-graph from 0 to {len(self.subgraphs) - 1}, found {index}")

    def code(self, index: int, where: str) -> Code:
        """The kind of operators with `opcode_index` `index`."""
        if index not in self.codes:
            count = len(self.model.operator_codes)
            if index >= count:
                raise ModelError(
                    f"{where}: expected an operator code from 0 to {count - 1}, found {index}; "
                    "the file was not written correctly"
                )
            self.codes[index] = _code(self.model.operator_codes[index])
        return self.codes[index]


def _code(table: Table) -> Code:
    """The first files had one byte for codes. Circle's own operators are below 0, the newer of the others above 127."""
    old = table.deprecated_builtin_code
    number = old if old < 0 else (new if (new := table.number("builtin_code")) < 0 else max(old, new))
    name = table.wire.enums["BuiltinOperator"][1].get(number, f"operator code {number}")
    return Code(table.custom_code, True, table.version) if name == "CUSTOM" else Code(name, False, table.version)


# resources

BIGGEST = 1 << 31
"""Most bytes of a variable."""


RANDOM = ("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL")
"""Operators that go on drawing where they ended in the last run."""


def tensor_key(subgraph: int, tensor: int) -> str:
    """The key of a variable tensor."""
    return f"variable tensor {subgraph}.{tensor}"


def variable_key(options: Any) -> str:
    """The key of the variable that VAR_HANDLE's options name."""
    return f"variable {options.container}/{options.shared_name}"


def random_key(operator: str) -> str:
    """The key of how far an operator that draws random numbers got, by its `Call.name`."""
    return f"numbers drawn by {operator}"


def touched(reader: Reader, indices: tuple[int, ...], caller: str) -> list[str]:
    """Keys of what sub-graphs, and those they call, may read or write, in order. Handles they are given excepted."""
    keys: dict[str, None] = {}
    seen: set[int] = set()
    waiting = list(indices)
    while waiting:
        index = waiting.pop()
        if index in seen:
            continue
        seen.add(index)
        reader.check(index, caller)
        if index not in reader.uses:
            reader.uses[index] = _uses(reader, index)
        own, callees = reader.uses[index]
        keys.update(dict.fromkeys(own))
        waiting += callees
    return list(keys)


def _uses(reader: Reader, index: int) -> tuple[list[str], list[int]]:
    """The keys that a sub-graph itself uses, and the sub-graphs that it calls."""
    table = reader.subgraphs[index]
    where = f"{reader.source}: sub-graph {index}"
    keys: dict[str, None] = {}
    callees: list[int] = []
    for place, tensor in enumerate(table.tensors):
        current().count(8, where)
        if tensor.is_variable:
            key = tensor_key(index, place)
            reader.types.setdefault(key, type_of(tensor, f"{where}: tensor {place}"))
            keys[key] = None
    for place, operator in enumerate(table.operators):
        current().count(8, where)
        code = reader.code(operator.opcode_index, where)
        if code.custom or code.name == "CALL_ONCE":  # what the latter runs comes before all runs
            continue
        options = options_of(operator, code.name, where)
        if code.name == "VAR_HANDLE":
            keys[variable_key(options)] = None
        if code.name in RANDOM and (options.seed or options.seed2):
            key = random_key(f"{code.name}:{index}.{place}")
            reader.types[key] = TensorType(np.dtype(np.int64), ())
            reader.initial[key] = Value(key, reader.types[key], np.array(0, np.int64))
            keys[key] = None
        for field in options._table.fields:
            if field == "subgraph" or field.endswith("subgraph_index"):
                callees.append(getattr(options, field))
            elif field.endswith("subgraph_indices"):
                callees += getattr(options, field)
    return list(keys), callees
