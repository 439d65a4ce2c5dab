"""The grid of an affine transformation, at which an image is sampled. Semantics: ONNX AffineGrid."""

from __future__ import annotations

import math

import numpy as np

from ..ir import Node, TensorType
from ..ops import check
from ..ops.inference import Types, ints
from ..ops.registry import attr, define, fail
from ..rules.operands import real
from ..rules.rule import rule
from ..rules.sweep import Sweep


@check.takes("theta f 3, size iu 1")
def _infer(node: Node, types: Types) -> list[TensorType]:
    theta, size = types[0], node.const(1)
    if size is None:
        return [TensorType(theta.dtype, None)]
    shape = ints(size)
    if len(shape) not in (4, 5) or min(shape) < 1:
        fail(node, f"size must have 4 or 5 positive numbers, found {shape}")
    check.shape(node, theta, "theta", shape[0], len(shape) - 2, len(shape) - 1)
    return [TensorType(theta.dtype, (shape[0], *shape[2:], len(shape) - 2))]


define("affine_grid", _infer, attrs={"align_corners": 0}, shaped_by=(1,))


@rule("common", "affine_grid")
def affine_grid(g: Sweep, node: Node) -> bool:
    """Given ``y = affine_grid(theta, size)``; result ``transpose(theta @ coordinates)``, in y's shape."""
    size = node.const(1)
    if size is None or not node.out.type.concrete or not real(node.x.type.dtype) or not node.x.type.size:
        return False
    n, rank, _ = node.x.type.dims
    places = _places(size.ravel().tolist(), bool(attr(node, "align_corners"))).T.astype(node.x.type.dtype)
    y = g.shape(node.x, n * rank, rank + 1) @ np.ascontiguousarray(places)
    return g.becomes(g.transpose(g.shape(y, n, rank, places.shape[1]), 0, 2, 1))


def _places(size: list[int], corners: bool) -> np.ndarray:
    """[P, rank + 1]: homogeneous coordinates of the pixels of an output of that size, from -1 to 1, the last axis
    first."""
    spatial = size[2:]

    def axis(count: int) -> np.ndarray:
        if corners:
            return np.linspace(-1, 1, count) if count > 1 else np.zeros(1)
        return (np.arange(count) * 2 + 1) / count - 1

    places = np.meshgrid(*map(axis, spatial), indexing="ij")
    return np.stack([*(p.ravel() for p in reversed(places)), np.ones(math.prod(spatial))], -1)
