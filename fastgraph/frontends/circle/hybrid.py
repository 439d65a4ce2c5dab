"""Float activations times quantized weights: TFLite rounds the activations to 8 bits first, by the range they have."""

from __future__ import annotations

from ...ir import TensorType, Value
from ..core.common import FLOAT32
from .call import Call


def hybrid(c: Call, x: Value, w: Value, symmetric: bool, last: bool = False) -> Value:
    """The x that an operator multiplies: rounded within each batch, or (`last`) each row.

    `symmetric`: to -127 .. 127 steps, else to 256 from the least to the greatest. Operands that are both floats or
    both quantized stay as they are. Semantics: LiteRT's kernels, whose results these steps give
    but for the last bits (its XNNPACK delegate rounds otherwise).
    """
    if x.type.quant is not None or w.type.quant is None:
        return x
    if _circle(c) and w.type.quant.axis is not None:
        return x
    per = "row" if last else "batch"
    grid = "symmetric" if symmetric else "asymmetric"
    return c.add("dynamic_round", [x], type=TensorType(FLOAT32, x.type.shape), per=per, grid=grid)


def _circle(c: Call) -> bool:
    """Whether the file is Circle: its runtimes round activations only for weights with one scale."""
    return bytes(c.scope.reader.model.wire.data[4:8]) == b"CIR0"
