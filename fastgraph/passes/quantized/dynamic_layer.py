"""Layers that round f32 activations to 8 bits by their range and multiply integers."""

from __future__ import annotations

import numpy as np

from ...ir import Node, Value
from ...rules.rule import rule
from ...rules.sweep import Sweep

DYNAMIC = {"conv": "dynamic_conv", "dense": "dynamic_dense"}
"""Layer -> its dynamic operator. Depthwise convolutions stay f32: they have too few products to pay for the rounding.
"""


@rule("dynamic_layers", "conv dense", quantized=True)
def dynamic_layer(g: Sweep, node: Node) -> bool:
    """A layer rounds its activations itself.

    Given ``y = conv(dynamic_round(x), w)``, w constant of 8 bits; result ``y = dynamic_conv(x, w)``.
    """
    if "chain" in node.attrs or node.out.type.dtype != np.float32:
        return False
    rounding = g.made_by(node.x, "dynamic_round")
    w, b = node.inputs[1], node.input(2)
    if rounding is None or w is None or not _plain(w, rounding.attrs["per"]):
        return False
    if b is not None and (b.data is None or b.type.dtype != np.float32):
        return False
    attrs = {**node.attrs, **rounding.attrs}
    if node.op == "conv":
        if not _convolves(node, attrs["per"]):
            return False
        attrs["per"] = "batch" if node.x.type.dims[0] == 1 else attrs["per"]
    return g.becomes(g(DYNAMIC[node.op], rounding.x, w, b, type=node.out.type, **attrs))


def _plain(w: Value, per: str) -> bool:
    """Whether weights are s8 constants of one scale or one for each output, whose sums fit int32; without zero points
    where each row has a range.
    """
    quant = w.type.quant
    if w.data is None or quant is None or w.type.dtype != np.int8:
        return False
    if any(quant.zero_point) and per == "row" or quant.axis not in (None, 0):
        return False
    zeros = np.array(quant.zero_point, np.int64).reshape(-1, 1)
    most = np.abs(w.data.astype(np.int64).reshape(w.data.shape[0], -1) - zeros).sum(axis=1).max(initial=0)
    return bool(most * 256 < 2**31)


def _convolves(node: Node, per: str) -> bool:
    """Whether there is a kernel for the convolution: for depthwise ones, with few products, there is none."""
    groups, x = node.attrs["groups"], node.x.type.dims
    own = groups == 1 or groups < x[-1]
    return per != "row" and own and len(x) in (3, 4) and min(node.attrs["pads"]) >= 0
