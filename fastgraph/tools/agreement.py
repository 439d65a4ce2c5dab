"""Whether the results of two engines agree: what rounding explains, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir import Graph
from ..runtime.model import TensorSpec

TOLERANCE = 1e-3
"""Largest accepted |difference| of outputs, over the largest |output|: float32 sums in other orders, and no more."""
HYBRID_TOLERANCE = 0.05
"""The same for floats that come from 8-bit numbers: engines round differently, and fuse some roundings away."""
QUANTIZED_TOLERANCE = 0.05
"""Largest accepted difference of quantized outputs over the range of their type: roundings of many layers."""
BFLOAT16_TOLERANCE = 0.05
"""The same where products are of operands with 8 bits, in both engines, or in one of them."""
ROUNDS = frozenset({"quantize_linear", "dynamic_quantize_linear"})
"""ONNX's operators that round; in other formats types have a quantization."""


def compared(
    found: Sequence[np.ndarray], expected: Sequence[np.ndarray], specs: Sequence[TensorSpec], most: float = TOLERANCE
) -> dict[str, Any]:
    """`difference` of the plain outputs; of quantized ones, if there are any, `unequal`, the share of the stored
    numbers that differ, and `steps`, the largest gap between two. `agrees`: whether it is what rounding explains, with
    `most` as the largest difference.
    """
    pairs = list(zip(found, expected, specs, strict=True))
    plain = [(a, b) for a, b, spec in pairs if spec.quantization is None]
    gap = difference([a for a, _ in plain], [b for _, b in plain])
    row: dict[str, Any] = {"difference": gap, "agrees": gap <= most}
    stored = [(a, b) for a, b, spec in pairs if spec.quantization is not None]
    if any(a.shape != b.shape or a.dtype != b.dtype for a, b in stored):
        return row | {"unequal": 1.0, "steps": float("inf"), "agrees": False}
    if stored:
        gaps = [np.abs(a.astype(np.int64) - b).ravel() for a, b in stored]
        steps = [int(each.max(initial=0)) for each in gaps]
        ranges = [256**a.dtype.itemsize - 1 for a, _ in stored]
        row |= {"unequal": float((np.concatenate(gaps) != 0).mean()), "steps": max(steps)}
        row["agrees"] &= all(step <= QUANTIZED_TOLERANCE * limit for step, limit in zip(steps, ranges, strict=True))
    return row


def difference(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Largest |found - expected| over the largest |expected|, of the worst output; inf where NaNs differ."""
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        if a.shape != b.shape:
            return float("inf")
        if a.dtype.kind not in "fiubc" or a.size == 0:
            continue
        known = b[np.isfinite(b)]
        gap, scale = gaps(a, b).max(), gaps(known, np.zeros_like(known)).max(initial=0)
        if gap:
            worst = max(worst, float(gap / scale) if np.isfinite(gap) and scale else float("inf"))
    return worst


def gaps(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """|found - expected| of each element: 0 where both are equal or both NaN, inf where only one is NaN."""
    wide = np.result_type(found, expected, np.float64)
    x, y = found.astype(wide), expected.astype(wide)
    with np.errstate(all="ignore"):
        apart = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, np.abs(x - y))
    return np.where(np.isnan(apart), np.inf, apart)


def tolerance(graph: Graph) -> float:
    """The largest difference that rounding explains between two engines' floats."""
    if graph.precision == "bfloat16":
        return BFLOAT16_TOLERANCE
    return HYBRID_TOLERANCE if is_hybrid(graph) else TOLERANCE


def is_hybrid(graph: Graph) -> bool:
    """Whether the graph computes floats from numbers that were rounded to, or are stored in, few bits."""
    if all(v.type.quant is not None for v in graph.outputs):
        return False
    return any(
        node.op in ROUNDS
        or node.op == "block_dense"
        or any(v.type.quant for v in node.outputs)
        or any(v is not None and v.data is not None and v.type.quant for v in node.inputs)
        for node in graph.nodes
    )
