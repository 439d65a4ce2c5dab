"""What rules share: axes, types, numbers per channel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir import Value
from ...ir.quantization import to_real
from ..core.common import axis_in, ints
from .call import Call, Rule, rule


def one_to_one(table: dict[str, str], *keys: str) -> None:
    """Register rules of operators that have a canonical twin, whose inputs are the parameters `keys`."""

    def twin(op: str) -> Rule:
        return lambda c: c.finish(op, [c.x(key) for key in keys])

    for name, op in table.items():
        rule(name)(twin(op))


def alike(c: Call, *values: Value) -> list[Value]:
    """The values in one element type: f32 where any has a floating point type, else the widest of theirs."""
    found = {v.type.dtype for v in values if v.type.dtype is not None and v.type.quant is None}
    if len(found) < 2:
        return list(values)
    floats = [d for d in found if d.kind == "f"]
    dtype = np.result_type(*(floats or found))
    return [v if v.type.quant is not None else c.cast(v, dtype) for v in values]


def axes_in(c: Call, axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Possibly negative axes as numbers from 0, in their order. ModelError for one that is missing or named twice."""
    found = tuple(axis_in(c, axis, rank) for axis in axes)
    if len(set(found)) != len(found):
        c.fail(f"expected distinct axes, found {tuple(axes)}")
    return found


def per_channel(c: Call, key: str, x: Value) -> Value | None:
    """Parameter `key`, one number for each channel (axis 1) of x, shaped so that it broadcasts; None when absent."""
    value = c.value(key)
    if value is None:
        return None
    if c.rank(value) != 1:
        c.fail(f"expected its parameter {key!r} to be a vector, found {value.type}")
    after = c.rank(x) - 2
    if after < 0:
        c.fail(f"expected an input with channels as axis 1, found {x.type}")
    if value.data is not None:
        return c.cast(c.const(value.data.reshape(-1, *[1] * after)), x.type.dtype)
    return c.cast(c.add("reshape", [value, ints(c, [-1, *[1] * after])]), x.type.dtype)


def reals(c: Call, value: Value) -> np.ndarray:
    """What a constant stands for: its array, of a quantized one as float32. ModelError when a run computes it."""
    if value.data is None:
        c.fail(f"expected a constant, found {value}, which is computed")
    if value.type.quant is None:
        return value.data
    return to_real(value.data, value.type.quant).astype(np.float32)
