"""One operator on its way into the graph: what the program says of it, and the means to write canonical nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from ...ops.registry import REQUIRED
from ..core import call
from .scope import Scope
from .types import MilType
from .wire import Message


class Call(call.Call):
    """An operator of a program.

    `inputs`: the values bound to each parameter; parameters that are written as attributes (constexpr_* before iOS18)
    are among them. `outputs`: a fresh Value each of the type that the program declares, None where an extent is open.
    `declared`: the same types as MIL says them. `blocks`: the nested blocks.

    What the program holds in FLOAT16, BFLOAT16 or FLOAT8 is float32 here, text is arrays of str objects.
    """

    def __init__(
        self, scope: Scope, proto: Message, where: str, inputs: dict[str, list[Value]], results: dict[Value, MilType]
    ) -> None:
        name = proto.outputs[0].name if results else scope.reader.unique(proto.type)
        super().__init__(proto.type, name, where, scope.nodes, scope.reader.unique)
        self.scope = scope
        self.inputs = inputs
        self.outputs = list(results)
        self.declared = list(results.values())
        self.blocks = proto.blocks

    @property
    def version(self) -> int:
        """The operator set's number: 5 (iOS15), 6 (iOS16), 7 (iOS17), 8 (iOS18), 9 (iOS26)."""
        digits = "".join(filter(str.isdigit, self.scope.reader.opset))
        return int(digits) if digits else 5

    def value(self, key: str) -> Value | None:
        """The value of parameter `key`; None when it is absent. ModelError when there are several."""
        found = self.inputs.get(key, [])
        if len(found) > 1:
            self.fail(f"expected one value for {key!r}, found {len(found)}")
        return found[0] if found else None

    def x(self, key: str = "x") -> Value:
        """The value of parameter `key`. ModelError when it is absent."""
        value = self.value(key)
        if value is None:
            self.fail(f"expected its parameter {key!r}, found {', '.join(self.inputs) or 'none'}")
        return value

    def values(self, key: str) -> list[Value]:
        """All values that a variadic parameter is bound to; none when it is absent."""
        return self.inputs.get(key, [])

    def known(self, key: str, default: Any = REQUIRED) -> Any:
        """The constant value of parameter `key`: a scalar as bool, int, float or str, else an array (read only).

        `default` when it is absent; without one that is a ModelError, as is a value that only a run can tell.
        """
        if default is not REQUIRED and self.value(key) is None:
            return default
        value = self.x(key)
        if value.data is None:
            self.fail(f"expected its parameter {key!r} to be constant, found {value}, which is computed")
        return value.data.item() if value.data.ndim == 0 else value.data

    def ints(self, key: str, default: Any = REQUIRED) -> Any:
        """A constant vector (or scalar) of integers or bools as a tuple of ints; `default` as it is."""
        found = self.known(key, default)
        if found is default:
            return default
        array = np.asarray(found)
        if array.dtype.kind not in "iub" or array.ndim > 1:
            self.fail(f"expected its parameter {key!r} to be a vector of integers, found {array.dtype}{array.shape}")
        return tuple(int(i) for i in array.reshape(-1))

    def text(self, key: str, *choices: str, default: Any = REQUIRED) -> str:
        """A constant string, one of `choices` when there are any, in lower case. ModelError for others."""
        found = self.known(key, default)
        if not isinstance(found, str) or (choices and found.lower() not in choices):
            self.fail(f"expected its parameter {key!r} as {' or '.join(map(repr, choices)) or 'text'}, found {found!r}")
        return found.lower()

    def int64(self, value: Value) -> Value:
        """The value as int64, which canonical operators take for shapes, axes and indices."""
        return self.cast(value, np.int64)

    def state(self, key: str) -> str:
        """The name of the state that parameter `key` is bound to. ModelError when it is bound to none."""
        value = self.x(key)
        if value not in self.scope.reader.handles:
            self.fail(f"expected its parameter {key!r} to be a state, found {value}")
        return self.scope.reader.handles[value]
