"""What rules ask of the operands and results of a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir import Node, Quantization, Value

BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
WHOLE = Quantization((1.0,), (0,))
"""Of bytes that stand for themselves."""
SUMMED = 1 << 8
"""How many products of bytes f32 sums without rounding."""
PLAIN: dict[str, Any] = {"saturate": 1, "round_mode": "up", "format": ""}
"""Attributes of a cast between element types that NumPy has."""


def known(*values: Value | None, dtypes: Sequence[Any] | None = None) -> bool:
    """Whether values (but for absent ones) are concrete and hold something, of one of these element types."""
    there = [v.type for v in values if v is not None]
    kinds = None if dtypes is None else [np.dtype(d) for d in dtypes]
    return all(t.concrete and t.size and t.quant is None and (kinds is None or t.dtype in kinds) for t in there)


def operand(node: Node, i: int) -> Value | None:
    return node.inputs[i] if len(node.inputs) > i else None


def number(node: Node, i: int) -> Any:
    """The one number that an operand holds, where that is constant; else None."""
    found = node.const(i)
    return None if found is None else found.reshape(-1)[0].item()


def decided(node: Node, *which: int) -> bool:
    """Whether these operands are constant or absent."""
    return all(not node.has(i) or node.const(i) is not None for i in which)


def real(dtype: np.dtype | None) -> bool:
    return dtype in (np.dtype(np.float32), np.dtype(np.float64))
