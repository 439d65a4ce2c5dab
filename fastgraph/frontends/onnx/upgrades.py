"""What an operator set changed, as functions that bring an older call into the newer form.

An upgrade changes a call in place and does nothing when the call is of a newer operator set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...ir import Value
from .call import Call, rank_of, shape_of

Upgrade = Callable[[Call], None]


def to_inputs(before: int, dtype: Any = np.int64, **places: int) -> Upgrade:
    """Attributes that became constant inputs with operator set `before`, by name and place."""

    def upgrade(call: Call) -> None:
        for name, index in places.items():
            if call.version < before and name in call.attrs:
                call.set_input(index, call.const(call.attrs.pop(name), dtype=dtype))

    return upgrade


def defaults(before: int, **values: Any) -> Upgrade:
    """Defaults that operator sets below `before` had, where the newest has another or none."""

    def upgrade(call: Call) -> None:
        if call.version < before:
            call.attrs = {**values, **call.attrs}

    return upgrade


def drop(before: int, *names: str) -> Upgrade:
    """Attributes that operator sets below `before` had and that do not matter for inference."""

    def upgrade(call: Call) -> None:
        if call.version < before:
            for name in names:
                call.attrs.pop(name, None)

    return upgrade


def rename(before: int, **names: str) -> Upgrade:
    """Attributes that had another name below operator set `before`."""

    def upgrade(call: Call) -> None:
        for old, new in names.items():
            if call.version < before and old in call.attrs:
                call.attrs[new] = call.attrs.pop(old)

    return upgrade


def spell(before: int, name: str, words: Mapping[str, str]) -> Upgrade:
    """A string attribute whose words changed with operator set `before`."""

    def upgrade(call: Call) -> None:
        if call.version < before and name in call.attrs:
            call.attrs[name] = words.get(call.attrs[name], call.attrs[name])

    return upgrade


def now(name: str, before: int = 1 << 30) -> Upgrade:
    """The operator is called otherwise now."""

    def upgrade(call: Call) -> None:
        if call.version < before:
            call.op = name

    return upgrade


def broadcast(before: int = 7) -> Upgrade:
    """Below operator set 7, `broadcast` and `axis` aligned B with A's dimensions from `axis` on."""

    def upgrade(call: Call) -> None:
        if call.version < before:
            axis = call.attrs.pop("axis", None)
            if call.attrs.pop("broadcast", 0) and axis is not None:
                call.set_input(1, aligned(call, call.x(0), call.x(1), axis))

    return upgrade


def aligned(call: Call, a: Value, b: Value, axis: int) -> Value:
    """`b` with ones appended to its shape, so that its first dimension meets dimension `axis` of `a`."""
    ranks = call.known_rank(a), call.known_rank(b)
    if axis < 0 and ranks[0] is None:
        call.unsupported("with a negative broadcast axis and an input of unknown rank")
    if ranks[0] is not None and ranks[1] is not None:
        extra = ranks[0] - (axis + ranks[0] if axis < 0 else axis) - ranks[1]
        if extra < 0:
            call.fail(f"expected broadcast axis {axis} to fit ranks {ranks[0]} and {ranks[1]}")
        if b.data is not None:
            return call.const(b.data.reshape(b.data.shape + (1,) * extra))
        return call.add("unsqueeze", [b, call.const(range(-extra, 0))]) if extra else b
    extra_ones = call.add("sub", [call.add("sub", [rank_of(call, a), call.const([axis])]), rank_of(call, b)])
    ones = call.add("constant_of_shape", [extra_ones], value=np.ones(1, np.int64))
    return call.add("reshape", [b, call.add("concat", [shape_of(call, b), ones], axis=0)], allowzero=0)
