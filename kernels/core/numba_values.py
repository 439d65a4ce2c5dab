"""Values of `lang` in kernel code: their types in numba, and how traced functions get and return them.

numba knows nothing of operators on values, nor of traced functions: to find the type of a result, the operator or
function is run on example values in a scratch module.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from llvmlite import ir as llvm
from numba.core import datamodel, types
from numba.core.errors import TypingError

from ..lang import BIT, I64, Type, Value, tier
from ..lang.values import writing


class Slots(types.Type):
    """The type of a record that was read: int64s by name. In lowering it is the named tuple of LLVM values."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(f"Slots{names}")


class Held(types.Type):
    """The type of a value that is no int64 and no condition: a vector, a mask, a real number, a pointer."""

    def __init__(self, kind: Type) -> None:
        self.kind = kind
        super().__init__(str(kind))


@datamodel.register_default(Held)
class _HeldModel(datamodel.models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Held) -> None:
        super().__init__(manager, kind, kind.kind.llvm)


class Known(types.Type):
    """The type of an object that is known when the kernel is written: a type of values, registers."""

    def __init__(self, it: Any) -> None:
        self.it = it
        super().__init__(f"{it}@{id(getattr(it, '__self__', it))}")  # a method is another object each time


def type_of(found: Any) -> Any:
    """numba's type of a traced function's result."""
    if found is None:
        return types.none
    if isinstance(found, Value):
        return types.int64 if found.type is I64 else types.boolean if found.type is BIT else Held(found.type)
    if isinstance(found, bool | int):
        return types.int64
    if hasattr(found, "_fields"):
        return Slots(found._fields)
    if isinstance(found, tuple | list):
        return types.Tuple(tuple(map(type_of, found)))
    return Known(found)


def value_of(x: Any, kind: Any, builder: Any) -> Any:
    """A traced function's argument for an LLVM value of one of numba's types."""
    match kind:
        case types.IntegerLiteral() | types.BooleanLiteral():
            return kind.literal_value
        case types.Integer():
            return Value(x, I64)
        case types.Boolean():
            return Value(x, BIT)
        case types.Float() if hasattr(x, "constant"):
            return float(x.constant)
        case Held():
            return Value(x, kind.kind)
        case Slots():
            return type(x)(*(Value(each, I64) for each in x))
        case Known():
            return kind.it
        case types.BaseTuple():
            parts = (builder.extract_value(x, i) for i in range(len(kind)))
            return tuple(value_of(part, each, builder) for part, each in zip(parts, kind.types, strict=True))
    raise TypingError(f"{kind} is nothing that a traced function takes")


_given: dict[Any, Any] = {}


def forget() -> None:
    """Clear the cache: functions belong to the current kernel."""
    _given.clear()


def given(function: Any, kinds: Sequence[Any]) -> Any:
    """The type of the result of a traced function or an operator for these argument types."""
    if getattr(function, "__annotations__", {}).get("return", ...) in (None, "None"):
        return types.none
    key = function, *kinds, tier()
    if key not in _given:
        scratch = llvm.Function(llvm.Module(), llvm.FunctionType(llvm.VoidType(), []), "scratch")
        builder = llvm.IRBuilder(scratch.append_basic_block())
        with writing(builder, tier()):
            _given[key] = type_of(function(*(_example(kind, builder) for kind in kinds)))
    return _given[key]


def _example(kind: Any, builder: Any) -> Any:
    """A value of a type, to run with."""
    match kind:
        case types.Float():
            return 1.0
        case Slots():
            named: Any = namedtuple("Slots", kind.names)  # type: ignore[misc]
            return named(*[I64.undefined()] * len(kind.names))
        case types.BaseTuple():
            return tuple(_example(each, builder) for each in kind.types)
        case Held():
            return kind.kind.undefined()
    undefined = (BIT if isinstance(kind, types.Boolean) else I64).undefined().x
    return value_of(undefined, kind, builder)


def of_values(kinds: Sequence[Any]) -> bool:
    return any(isinstance(kind, Held | Known) for kind in kinds)
