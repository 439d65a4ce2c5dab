"""Operators between quantised values and reals. The arithmetic is in `ir/reals.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Node, TensorType
from ..ir.reals import spread, to_real, to_stored
from .common import FLOAT32, Types, fail
from .registry import define

__all__ = ["STORED", "real_type", "spread", "to_real", "to_stored"]

STORED = frozenset({"reinterpret", "table"})
"""Operators that look at the stored numbers of quantised operands; all others compute on reals."""


def real_type(type_: TensorType) -> TensorType:
    """The type of the reals that a quantised value stands for."""
    return TensorType(FLOAT32, type_.shape)


def _declared(node: Node, types: Types) -> list[TensorType]:
    dtype = node.out.type.dtype
    if dtype is None or dtype.kind not in "iuf":
        fail(node, f"the result must be of an integer or float type, found {node.out.type}")
    return [TensorType(dtype, types[0].shape)]


def _requantize(node: Node, inputs: list[Any]) -> list[Any]:
    dtype = node.out.type.dtype
    assert dtype is not None
    with np.errstate(over="ignore"):
        return [inputs[0] if node.out.type.quant is not None else inputs[0].astype(dtype)]


def _infer_reinterpret(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(types[0].dtype, types[0].shape)]


define("requantize", _declared, _requantize, inputs=(1, 1))
define("reinterpret", _infer_reinterpret, lambda node, inputs: [inputs[0]], inputs=(1, 1))
