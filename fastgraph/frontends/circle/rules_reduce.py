"""Reductions over axes. Semantics: TFLite's kernels."""

from __future__ import annotations

from ...ir import Value
from ..core.common import BOOL, axis_in
from .call import Call


def reduction(c: Call, x: Value, axes: Value, keepdims: int) -> Value:
    """TFLite lets an axis be named more than once; a scalar has axis 0 and -1, of one element."""
    shape = x.type.shape
    if axes.data is not None and shape is not None:
        named = dict.fromkeys(axis_in(c, int(a), max(len(shape), 1)) for a in axes.data)
        axes = c.vector(*(named if shape else ()))
    return c(c.canonical, x, axes, keepdims=keepdims, noop_with_empty_axes=1)


def of_bools(c: Call, x: Value, axes: Value, keepdims: int) -> Value:
    """Some files carry bools as floats."""
    return c.cast(reduction(c, c.cast(x, BOOL), axes, keepdims), c.outputs[0].type.dtype)
