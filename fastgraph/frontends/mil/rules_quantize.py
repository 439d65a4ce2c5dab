"""Quantization at run time. Semantics: coremltools/converters/mil/mil/ops/defs/iOS17/quantization_ops.py."""

from __future__ import annotations

import numpy as np

from ..core.common import axis_in
from .call import Call, rule
from .common import reals


def _linear(c: Call, op: str, dtype: np.dtype) -> None:
    """Scales and zero points (0 without) are scalars, or vectors along `axis`; `dtype` is that of the integers."""
    x, scale = c.x("input"), np.asarray(reals(c, c.x("scale")), np.float32)
    zero = np.zeros(scale.shape, dtype) if c.value("zero_point") is None else reals(c, c.x("zero_point"))
    rank = c.rank(x)
    axis = axis_in(c, c.known("axis", 0), max(rank, 1)) if scale.ndim else 0
    extent = x.type.shape[axis] if scale.ndim and x.type.shape else None
    if scale.ndim > 1 or zero.shape != scale.shape or (isinstance(extent, int) and scale.shape != (extent,)):
        c.fail(f"expected one scale and zero point, or one of each for {extent} places along axis {axis}, found shapes "
               f"{list(scale.shape)} and {list(zero.shape)}")  # fmt: skip
    if zero.dtype != dtype:
        c.fail(f"expected a zero point of {dtype}, found {zero.dtype}")
    c.finish(op, [x, c.const(scale), c.const(zero)], axis=axis)


@rule("quantize")
def _quantize(c: Call) -> None:
    _linear(c, "quantize_linear", np.dtype(c.text("output_dtype", "int8", "uint8")))


@rule("dequantize")
def _dequantize(c: Call) -> None:
    dtype = c.x("input").type.dtype
    if dtype not in (np.int8, np.uint8):
        c.fail(f"expected an input of int8 or uint8, found {c.x('input').type}")
    _linear(c, "dequantize_linear", dtype)
