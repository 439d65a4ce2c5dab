"""One operator on its way into the graph: what the program says of it, and the means to write canonical nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir import Graph, Value
from ..core import call
from .scope import Scope
from .types import MilType
from .wire import Message

_NONE: Any = object()


class Call(call.Call):
    """An operator of a program.

    `op`: its type ("conv"). `opset`: of the function ("CoreML5", "CoreML6", ...; `version` is its number, 5 for
    iOS15 to 8 for iOS18). `name`: for nodes and messages. `inputs`: the values bound to each parameter; parameters
    that are written as attributes (constexpr_* before iOS18) are among them. `outputs`: a fresh Value each of the type
    that the program declares, None where an extent is open. `declared`: the same types as MIL says them. `blocks`: how
    many blocks it has.

    What the program holds in FLOAT16, BFLOAT16 or FLOAT8 is float32 here, text is arrays of str objects; `element`
    tells what the program says.
    """

    def __init__(
        self, scope: Scope, op: str, name: str, where: str, inputs: dict[str, list[Value]], outputs: list[Value],
        declared: list[MilType], blocks: Sequence[Message], convert: Convert,
    ) -> None:  # fmt: skip
        super().__init__(op, name, where, scope.nodes, scope.reader.unique)
        self.scope = scope
        self.opset = scope.reader.opset
        self.inputs = inputs
        self.outputs = outputs
        self.declared = declared
        self._blocks = blocks
        self._convert = convert

    # what the program says

    @property
    def version(self) -> int:
        """The operator set's number: 5 (iOS15), 6 (iOS16), 7 (iOS17), 8 (iOS18), 9 (iOS26)."""
        digits = "".join(filter(str.isdigit, self.opset))
        return int(digits) if digits else 5

    @property
    def blocks(self) -> int:
        """How many nested blocks the operator has."""
        return len(self._blocks)

    def value(self, key: str) -> Value | None:
        """What parameter `key` is bound to; None when it is absent. ModelError when it is several values."""
        found = self.inputs.get(key, [])
        if len(found) > 1:
            self.fail(f"expected one value for {key!r}, found {len(found)}")
        return found[0] if found else None

    def x(self, key: str = "x") -> Value:
        """What parameter `key` is bound to. ModelError when it is absent."""
        value = self.value(key)
        if value is None:
            self.fail(f"expected its parameter {key!r}, found {', '.join(self.inputs) or 'none'}")
        return value

    def values(self, key: str = "values") -> list[Value]:
        """All values that a variadic parameter is bound to; none when it is absent."""
        return self.inputs.get(key, [])

    def known(self, key: str, default: Any = _NONE) -> Any:
        """What parameter `key` is, known now: a scalar as bool, int, float or str, else an array (read only).

        `default` when it is absent; without one that is a ModelError, as is a value that only a run can tell.
        """
        value = self.value(key)
        if value is None:
            if default is _NONE:
                self.x(key)
            return default
        data = value.data
        if data is None:
            self.fail(f"expected its parameter {key!r} to be constant, found {value}, which is computed")
        return data.item() if data.ndim == 0 else data

    def ints(self, key: str, default: Any = _NONE) -> Any:
        """A constant vector (or scalar) of integers or bools as a tuple of ints; `default` as it is."""
        found = self.known(key, default)
        if found is default:
            return default
        array = np.asarray(found)
        if array.dtype.kind not in "iub" or array.ndim > 1:
            self.fail(f"expected its parameter {key!r} to be a vector of integers, found {array.dtype}{array.shape}")
        return tuple(int(i) for i in array.reshape(-1))

    def text(self, key: str, *choices: str, default: str | None = None) -> str:
        """A constant string, one of `choices` when there are any, in lower case. ModelError for others."""
        found = self.known(key, _NONE if default is None else default)
        if not isinstance(found, str) or (choices and found.lower() not in choices):
            self.fail(f"expected its parameter {key!r} as {' or '.join(map(repr, choices)) or 'text'}, found {found!r}")
        return found.lower()

    def element(self, value: Value) -> str:
        """The element type that the program declares of a value: "FLOAT16", ... A value of our own: as it is held."""
        said = self.scope.reader.declared.get(value)
        if said is not None:
            return (said.items[0] if said.kind == "state" else said).element
        return "" if value.type.dtype is None else _NAMES.get(value.type.dtype, "")

    def mil_type(self, value: Value) -> MilType | None:
        """The type that the program declares of a value (lists, tuples, dictionaries); None for one of our own."""
        return self.scope.reader.declared.get(value)

    # writing nodes

    def int64(self, value: Value) -> Value:
        """The value as int64, which canonical operators take for shapes, axes and indices."""
        return self.cast(value, np.int64)

    def show(self, index: int, value: Value, function: Callable[[np.ndarray], Any]) -> None:
        """Let output `index` be what `function` makes of the array of `value`, for callers of the model only.

        This is how labels and dictionaries leave a model: {"cat": 0.9, ...} from a vector of probabilities. No operator
        can read such an output.
        """
        self.scope.reader.shown[self.outputs[index]] = value, function

    # states

    def state(self, key: str) -> str:
        """The name of the state that parameter `key` is bound to. ModelError when it is bound to none."""
        value = self.x(key)
        if value not in self.scope.reader.handles:
            self.fail(f"expected its parameter {key!r} to be a state, found {value}")
        return self.scope.reader.handles[value]

    def present(self, state: str) -> Value:
        """What the state of that name holds now."""
        return self.scope.present(state)

    def assign(self, state: str, value: Value) -> None:
        """`value` is what the state of that name holds from here on. ModelError unless it has the state's type."""
        self.scope.assign(state, value, self.where)

    # blocks

    def touched(self, *indices: int) -> list[str]:
        """Names of the states that nested blocks `indices` read or write, at any depth."""
        return self.scope.touched([self._block(i) for i in indices], self.where)

    def block(self, index: int, args: Sequence[Value] | None = None, states: Sequence[str] = ()) -> Graph:
        """Nested block `index`, converted. It reads values of the scopes around it directly (captures).

        With `args` they stand for the block's inputs, and the graph has none of its own (branches of an `if`); without,
        the graph's inputs are the block's. For each name of `states` (see `touched`) the graph has an output more, the
        state's value after, and, without `args`, an input more, its value before.
        """
        return self._convert(self, self._block(index), index, args, states)

    def _block(self, index: int) -> Any:
        if not 0 <= index < len(self._blocks):
            self.fail(f"expected a block {index}, found {len(self._blocks)} blocks")
        return self._blocks[index]


_NAMES = {np.dtype(held): name for name, held in (
    ("BOOL", "bool"), ("STRING", "object"), ("FLOAT32", "f4"), ("FLOAT64", "f8"), ("FLOAT16", "f2"),
    ("INT8", "i1"), ("INT16", "i2"), ("INT32", "i4"), ("INT64", "i8"),
    ("UINT8", "u1"), ("UINT16", "u2"), ("UINT32", "u4"), ("UINT64", "u8"),
)}  # fmt: skip


Convert = Callable[[Call, Message, int, "Sequence[Value] | None", Sequence[str]], Graph]
"""What makes a graph of a nested block, as `Call.block` says: operator, block, its number, arguments, states."""
