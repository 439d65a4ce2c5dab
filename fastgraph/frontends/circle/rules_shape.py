"""Shapes and places: reshape, squeeze, fill, one-hot, bands, distinct elements. Semantics: TFLite's kernels."""

from __future__ import annotations

from collections.abc import Callable

from ...ir import FLOAT32, INT64, TensorType, Value
from ..core.common import axis_in, band
from .call import Call
from .common import stored

FORMULAS: dict[str, Callable[..., Value | None]] = {
    "band": band,
    "rank": lambda c, x: c("size", c("shape", x)),
    "squeeze": lambda c, x, axes: c("squeeze", x, *([c.vector(*axes)] if axes else [])),
    "where": lambda c, x: c.transpose(c("non_zero", stored(c, x)), 1, 0),  # a row of indices for each element != 0
}


def reshape(c: Call, x: Value, shape: Value | None) -> Value:
    """The new shape is input 1, or an option. Old files write a scalar as [0]."""
    target = _new_shape(c) if shape is None else shape
    allow_zero = target.data is None or bool((target.data == 0).any())
    return c("reshape", x, target, allowzero=int(allow_zero))


def _new_shape(c: Call) -> Value:
    numbers, declared = list(getattr(c.options, "new_shape", ())), c.outputs[0].type.shape
    if not numbers and declared:
        if sum(d is None for d in declared) > 1:
            c.fail("expected a new shape, as an input or an option; found none")
        numbers = [-1 if d is None else int(d) for d in declared]
    return c.vector(*([] if numbers == [0] else numbers))


def transpose(c: Call, x: Value, perm: list[int]) -> Value:
    rank = len(perm)
    if sorted(axis_in(c, p, rank) for p in perm) != list(range(rank)):
        c.fail(f"expected a permutation of {rank} axes, found {perm}")
    return c("transpose", x, perm=tuple(p % rank for p in perm))


def fill(c: Call, shape: Value, value: Value) -> None:
    one = value if value.type.shape == () else c("reshape", value, c.vector())
    c.settle(["moved"], "expand", [one, shape], c.outputs)


def one_hot(c: Call, indices: Value, depth: Value, on: Value, off: Value, axis: int) -> Value:
    """An index that is none, negative ones too, gives off only."""
    values = c.join([c.shape(off, 1), c.shape(on, 1)], 0)
    return c("one_hot", indices, depth, values, axis=axis, wrap=0)


def unique(c: Call, x: Value) -> None:
    """Distinct elements in order of first appearance, and for each element the place of its like."""
    outs = [c.outputs[0], c.fresh(TensorType(INT64)), c.outputs[1]]
    c.settle(["any", "any", "declared"], "unique", [x], outs, axis=None, sorted=0)


def non_max_suppression(c: Call, *inputs: Value) -> None:
    outs = [c.outputs[0], c.fresh(TensorType(FLOAT32)), c.outputs[1]]
    c.settle(["declared", "any", "declared"], "box_suppression", [*inputs], outs)
