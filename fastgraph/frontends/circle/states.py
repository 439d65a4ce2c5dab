"""The main graph's states: resources and variable tensors that it writes, and what they hold before the first run."""

from __future__ import annotations

import numpy as np

from ...errors import ModelError
from ...ir import State, TensorType, Value
from .resources import BIGGEST
from .scope import Scope


def states(scope: Scope) -> list[State]:
    """The main graph's states. What it only reads becomes a constant."""
    found = []
    for key, value in scope.first.items():
        value.type, initial = _initial(scope, key, value)
        after = scope.current[key]
        if after is value:
            value.data = initial
        else:
            found.append(State(value, after, initial))
    return found


def _initial(scope: Scope, key: str, value: Value) -> tuple[TensorType, np.ndarray]:
    """A variable's type and what it holds before the first run.

    A variable tensor begins with zeros; an int8 one, as LiteRT has it, with its zero point.
    """
    reader = scope.reader
    given = reader.initial.get(key)
    if given is not None and given.data is not None:
        return given.type, given.data
    type = value.type if value.type.dtype is not None else reader.types.get(key, value.type)
    if not key.startswith("variable tensor "):
        raise ModelError(f"{scope.where}: {key!r} is read before anything gave it a value; "
                         "the model wants an initialization by CALL_ONCE")  # fmt: skip
    if not type.concrete or type.nbytes > BIGGEST:
        raise ModelError(f"{scope.where}: expected a shape and element type of {key!r}, and at most {BIGGEST} bytes, "
                         f"found {type}")  # fmt: skip
    start = type.quant.zero_point[0] if type.quant is not None and type.dtype == np.int8 else 0
    start = max(-128, min(127, start))
    return type, np.broadcast_to(np.array(start, type.dtype), type.dims)
