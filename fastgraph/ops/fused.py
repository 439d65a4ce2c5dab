"""Operators that only passes make: a layer with a constant matrix, a chain of elementwise steps, a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Node, TensorType
from .chain import evaluate_chain
from .inference import Types
from .matmul import dense_shape
from .registry import LAYER, REQUIRED, Layout, Quant, attr, define
from .work import products


def _infer_dense(node: Node, types: Types) -> list[TensorType]:
    x, w, b = types[:3]
    return [x.with_shape(dense_shape(node, x, w, b))]


def _dense(node: Node, arrays: list[Any]) -> list[Any]:
    x, w, b = (arrays + [None])[:3]
    y = x @ w.T
    return [y if b is None else y + b]


def _infer_fused(node: Node, types: Types) -> list[TensorType]:
    shapes = [t.dims for t in types if t is not None]
    return [TensorType(np.dtype(np.float32), np.broadcast_shapes(*shapes))]


def _fused(node: Node, arrays: list[Any]) -> list[Any]:
    return [evaluate_chain(node.attrs["chain"], arrays)]


def _infer_table(node: Node, types: Types) -> list[TensorType]:
    x, dtype = types[0], node.out.type.dtype
    return [TensorType(attr(node, "values").dtype if dtype is None else dtype, x.shape)]


def _table(node: Node, arrays: list[Any]) -> list[Any]:
    """values[x], where the bits of x as an unsigned number are the index: 256 values for bytes, 65536 for int16."""
    x = arrays[0]
    return [attr(node, "values")[x.view(f"u{x.dtype.itemsize}")]]


define("table", _infer_table, _table, inputs=(1, 1), attrs={"values": REQUIRED}, layout=Layout.EACH, quant=Quant.STORED)
define("dense", _infer_dense, _dense, inputs=(2, 3), **LAYER, quant=Quant.INTEGERS, sums=True, work=products(0, 1))
define("fused", _infer_fused, _fused, extras_at=0, layout=Layout.EACH)
