"""Operators that only passes make: a layer with a constant matrix, and a chain of elementwise steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Node, TensorType
from .registry import define


def _infer_dense(node: Node, types: list[TensorType | None]) -> list[TensorType]:
    x, w = types[0], types[1]
    assert x is not None and w is not None
    return [x.with_shape(None if x.shape is None else (*x.shape[:-1], w.dims[0]))]


def _dense(node: Node, arrays: list[Any]) -> list[Any]:
    x, w, b = (arrays + [None])[:3]
    y = x @ w.T
    return [y if b is None else y + b]


def _infer_fused(node: Node, types: list[TensorType | None]) -> list[TensorType]:
    shapes = [t.dims for t in types if t is not None]
    return [TensorType(np.dtype(np.float32), np.broadcast_shapes(*shapes))]


def _fused(node: Node, arrays: list[Any]) -> list[Any]:
    from ..kernels.chain import eval_chain

    return [eval_chain(node.attrs["chain"], arrays)]


define("dense", _infer_dense, _dense, inputs=(2, 3))
define("fused", _infer_fused, _fused)
