"""An image moved by a flow. Semantics: tflite/kernels/perception/dense_image_warp.cc (TensorFlow Addons' operator)."""

from __future__ import annotations

import numpy as np

from ..ir import Node, TensorType
from ..ops import check
from ..ops.inference import Types
from ..ops.registry import define, fail
from ..rules.operands import known
from ..rules.rule import rule
from ..rules.sweep import Sweep


@check.takes("image f 4, flow f 4")
def _infer(node: Node, types: Types) -> list[TensorType]:
    image, flow = types
    if image.shape is not None and flow.shape is not None:
        check.shape(node, flow, "the flow", *image.shape[:3], 2)
        if any(isinstance(d, int) and d < 2 for d in image.shape[1:3]):
            fail(node, f"the image must be at least 2 x 2, found {list(image.shape)}")
    return [TensorType(image.dtype, image.shape)]


define("dense_image_warp", _infer)


@rule("rare", "dense_image_warp")
def warp(g: Sweep, node: Node) -> bool:
    """At each place (y, x), the image at (y, x) - flow, between its four neighbors; edges go on as they are."""
    image, flow = node.x, node.input(1)
    if flow is None or not known(image, flow):
        return False
    height, width = image.type.dims[1:3]
    places = np.stack(np.meshgrid(np.arange(width), np.arange(height)), -1).astype(flow.type.dtype)
    where = places - g.pick(flow, np.array([1, 0]), 3)
    return g.becomes(g.transpose(g("resample", g.transpose(image, 0, 3, 1, 2), where, padding="border"), 0, 2, 3, 1))
