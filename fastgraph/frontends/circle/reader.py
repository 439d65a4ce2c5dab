"""What is known while one file is read: its operator codes, its resources, what rules keep."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...errors import ModelError
from ...ir import TensorType, Value
from ..core import reader
from .wire import Table


class Code(NamedTuple):
    """What operators of a kind are: the name of a builtin one, or the code of a custom one."""

    name: str
    custom: bool
    version: int


class Reader(reader.Reader):
    """One file on its way to a graph.

    `handles`: which resource a value is a handle of. `initial`: what resources hold before the first run, `types`:
    their types, as far as known. `active`: the sub-graphs that are being converted, the outermost first. `facts`: what
    rules keep from one operator to the next, by names of their own. `upright`: whether no scale is below 0.
    """

    def __init__(self, model: Table) -> None:
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


def _code(table: Table) -> Code:
    """The first files had one byte for codes. Circle's own operators are below 0, the newer of the others above 127."""
    old = table.deprecated_builtin_code
    number = old if old < 0 else (new if (new := table.number("builtin_code")) < 0 else max(old, new))
    name = table.wire.enums["BuiltinOperator"][1].get(number, f"operator code {number}")
    return Code(table.custom_code, True, table.version) if name == "CUSTOM" else Code(name, False, table.version)
