"""Floats rounded to the numbers that a quantized type can represent. Semantics: tflite/kernels/{fake_quant,
numeric_verify}.cc."""

from __future__ import annotations

import numpy as np

from ..ir import Node, TensorType
from .inference import Types, same_type
from .registry import REQUIRED, attr, define, fail


def nudged(node: Node) -> tuple[np.float32, np.float32, np.float32]:
    """(least, greatest, step) of the representable numbers, shifted so that 0 is one of them."""
    low, high, bits = np.float32(attr(node, "min")), np.float32(attr(node, "max")), attr(node, "num_bits")
    first, last = np.float32(1 if attr(node, "narrow_range") else 0), np.float32((1 << bits) - 1)
    step = (high - low) / (last - first)
    zero = np.clip(np.floor(first - low / step + np.float32(0.5)), first, last)
    return (first - zero) * step, (last - zero) * step, step


def _infer(node: Node, types: Types) -> list[TensorType]:
    if not 2 <= attr(node, "num_bits") <= 16 or not attr(node, "min") < attr(node, "max"):
        found = f"{attr(node, 'num_bits')}, {attr(node, 'min')} and {attr(node, 'max')}"
        fail(node, f"num_bits must be from 2 to 16 and min below max, found {found}")
    return same_type(node, types)


define(
    "fake_quant",
    _infer,
    inputs=(1, 1),
    attrs={"min": REQUIRED, "max": REQUIRED, "num_bits": 8, "narrow_range": 0},
)
