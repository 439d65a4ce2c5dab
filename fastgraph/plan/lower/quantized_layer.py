"""A quantized layer's numbers as kernels take them, of nodes that have such."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...ir import Node, Value
from .extras import extra_values
from .quantized import (
    LARGE,
    TINY,
    bounds,
    clamps_only,
    f32_bits,
    fits_int32,
    multipliers,
    per_tensor,
    real_bounds,
    stored_bias,
    zero_point,
)
from .registry import row_count


class Layer(NamedTuple):
    """A layer's numbers: s8 weights [n, k...], zero points of weights int64 [n], bias in units of the sums int64
    [n], f32 multipliers [n]; `out` and `stored`: what is stored (one of rows.STORES) and how (rows.STORED).
    """

    weights: np.ndarray
    zeros: np.ndarray
    bias: np.ndarray
    multipliers: np.ndarray
    out: str
    stored: dict[str, int]

    @property
    def rowsum(self) -> bool:
        """Whether weights have zero points, so that the kernel needs the sums of x's rows."""
        return bool(np.any(self.zeros))


def out_kind(value: Value) -> str | None:
    """Which of gemm.rows.STORES a result is; None when kernels don't store it."""
    if value.type.quant is None:
        return "words" if value.type.dtype == np.float32 and value.type.concrete else None
    return "words" if per_tensor(value, np.int32) else "bytes" if per_tensor(value, np.uint8, np.int8) else None


def stored_as(node: Node) -> dict[str, int]:
    """The slots of rows.STORED for a node's result."""
    if node.out.type.dtype == np.int32:
        return {"zero_point": 0, "low": 0, "high": 0, "form": 1}
    if out_kind(node.out) == "words":
        low, high = map(f32_bits, real_bounds(node))
        return {"zero_point": 0, "low": low, "high": high, "form": 0}
    form = 128 if node.out.type.dtype == np.int8 else 0
    low, high = bounds(node)
    return {"zero_point": zero_point(node.out) + form, "low": low + form, "high": high + form, "form": form}


def quantized_layer(node: Node, channel_axis: int = 0) -> Layer | None:
    """The numbers of a layer whose weights have their output channels along an axis; None where no kernel takes it.

    x must be u8 (s8 will do for a dense layer of one row), the weights constant s8 with scales per tensor or output
    channel, the bias constant; the chain must only clamp, and no sum may leave int32 but where it is the result.
    """
    w, bias = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 and node.op != "matmul" else None
    if w is None or w.data is None or w.type.quant is None or w.type.dtype != np.int8:
        return None
    if bias is not None and (bias.data is None or bias.type.dtype not in (np.int32, np.float32)):
        return None
    kind = out_kind(node.out)
    if kind is None or not _read_by_kernels(node) or not clamps_only(node) or extra_values(node):
        return None
    if node.x.type.size == 0 or node.out.type.size == 0:
        return None
    weights, q = np.moveaxis(w.data, channel_axis, 0), w.type.quant
    n = len(weights)
    if len(q.scale) not in (1, n) or len(q.zero_point) not in (1, n):
        return None
    if max(len(q.scale), len(q.zero_point)) > 1 and (q.axis is None or (q.axis - channel_axis) % w.data.ndim):
        return None
    if bias is not None and bias.type.quant is None and 0 in q.scale:
        return None  # no multiple of 0 is the bias
    layer = Layer(
        weights, np.broadcast_to(np.array(q.zero_point, np.int64), (n,)), stored_bias(node.x, w, bias, n),
        multipliers(node.x, w, node.out, n), kind, stored_as(node),
    )  # fmt: skip
    if node.out.type.dtype == np.int32:
        return layer if _sums_themselves(node, layer) else None
    if kind == "words" and not ((layer.multipliers >= TINY) & (layer.multipliers < LARGE)).all():
        return None
    return layer if fits_int32(weights.reshape(n, -1), layer.bias, layer.zeros) else None


def _sums_themselves(node: Node, layer: Layer) -> bool:
    """Whether the result in int32 is the layer's sums, which wrap as it does."""
    assert node.out.type.quant is not None
    return bool((layer.multipliers == 1).all()) and not (node.attrs.get("chain") or node.out.type.quant.zero_point[0])


def _read_by_kernels(node: Node) -> bool:
    row = node.op == "dense" and node.out.type.concrete and row_count(node.out) == 1
    return per_tensor(node.x, np.uint8, np.int8) if row else per_tensor(node.x, np.uint8)
