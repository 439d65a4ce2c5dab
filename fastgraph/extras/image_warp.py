"""An image moved by a flow. Semantics: tflite/kernels/perception/dense_image_warp.cc (TensorFlow Addons' operator)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Node, TensorType
from ..ops.common import FLOAT, Types, fail, fits, need_kind, need_rank
from ..ops.registry import define


def _infer(node: Node, types: Types) -> list[TensorType]:
    image, flow = types
    need_rank(node, image, 4, 4, "the image")
    need_rank(node, flow, 4, 4, "the flow")
    need_kind(node, image, FLOAT, "the image")
    need_kind(node, flow, FLOAT, "the flow")
    if image.shape is not None and flow.shape is not None:
        fits(node, flow, "the flow", *image.shape[:3], 2)
        if any(isinstance(d, int) and d < 2 for d in image.shape[1:3]):
            fail(node, f"the image must be at least 2 x 2, found {list(image.shape)}")
    return [TensorType(image.dtype, image.shape)]


def _warp(node: Node, inputs: list[Any]) -> list[Any]:
    """At each place (y, x), the image at (y, x) - flow, between its four neighbors; edges go on as they are."""
    image, flow = inputs
    batch, height, width, _ = image.shape
    places = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij"), -1) - flow
    low = np.clip(np.floor(places), 0, np.array([height - 2, width - 2])).astype(np.int64)
    share = np.clip(places - low, 0, 1)
    y, x = low[..., 0], low[..., 1]
    b = np.arange(batch)[:, None, None]
    down, right = share[..., :1], share[..., 1:]
    upper, lower = (image[b, y + i, x] * (1 - right) + image[b, y + i, x + 1] * right for i in range(2))
    return [(upper * (1 - down) + lower * down).astype(image.dtype)]


define("dense_image_warp", _infer, _warp, inputs=(2, 2))
