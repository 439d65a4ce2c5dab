"""Normalizations of rows."""

from __future__ import annotations

from math import prod

import numpy as np

from ....ir import Node, Value
from ....ops.registry import attr
from ...quantized import f32_bits
from ..registry import Emit, is_f32, last, lowers


def _match(node: Node) -> int | None:
    """Elements of a row: one of x, or of all its axes from `axis` on."""
    if not is_f32(node) or not node.x.type.size or len(node.outputs) > 1:
        return None
    dims = node.x.type.dims
    row = dims[attr(node, "axis") % len(dims) :]
    return prod(row) if all(v is None or _spread(v, row) for v in node.inputs[1:]) else None


def _spread(value: Value, row: tuple[int, ...]) -> bool:
    """Whether a value has a number for each element of a row."""
    dims = value.type.dims
    ahead = len(dims) - len(row)
    return ahead >= 0 and dims[ahead:] == row and set(dims[:ahead]) <= {1}


@lowers("layer_normalization", "rms_normalization", match=_match, strided_in=True, strided_out=True)
def norm(e: Emit, node: Node, n: int) -> None:
    x, scale, bias = node.x, node.inputs[1], node.inputs[2] if node.has(2) else None
    assert scale is not None
    whole = n == last(x)
    strides = {"y_row": 4 * (e.stride(node.out) if whole else n), "x_row": 4 * (e.stride(x) if whole else n)}
    numbers = {"inverse": f32_bits(float(np.float32(1 / n))), "epsilon": f32_bits(attr(node, "epsilon"))}
    how = {**strides, **numbers, "rows": x.type.size // n, "n": n, "centered": node.op == "layer_normalization"}
    e.kernel("norm", {}, {"y": node.out, "x": x, "scale": scale, "bias": bias, **how})
