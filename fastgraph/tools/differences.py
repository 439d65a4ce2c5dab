"""The error of a result against its reference, and how large it may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir import Node
from ..kernels.isa.tiers import Tier, multiplies_f16
from ..ops.evaluate import run_node
from ..ops.registry import OPS, Quant
from ..plan.lower.build import KEEP
from .agreement import gaps

RELATIVE = 1e-5
"""Of floats the largest error over the largest sum of magnitudes: f32 sums in other orders, functions to a few ulps,
Winograd's transforms."""
ROUNDED = {"float16": 2.0**-14, "bfloat16": 2.0**-7}
"""By precision, the same of sums whose operands, and results, are rounded."""
HALVES = 2.0**-10
"""That of float16 on a CPU that multiplies it in tiles; others keep more bits."""
ROUNDS = frozenset({"dynamic_round", "dynamic_conv", "dynamic_dense"})
"""Operators that round f32 activations to bytes by their range: either neighbor is right for a number between two."""

STATEFUL = frozenset({"rnn", "gru", "lstm", "lstm_sequence"})
"""Operators whose state is multiplied, and so rounded where the precision says so, at each step."""
STEPS = 8
"""Roundings that may add up in a state that is rounded at each step."""


def rounding(precision: str, tier: Tier) -> float:
    """The largest error of sums that the precision lets be of rounded operands, over the largest sum of magnitudes."""
    halves = precision == "float16" and multiplies_f16(tier)
    return HALVES if halves else ROUNDED.get(precision, 0.0)


def magnitude(node: Node, given: Sequence[Any]) -> float:
    """The largest sum of magnitudes of the terms of a float result, 0 where the result itself tells it."""
    floats = [a for a in given if isinstance(a, np.ndarray) and a.dtype.kind == "f" and a.size]
    if node.out.type.dtype is None or node.out.type.dtype.kind != "f" or not floats:
        return 0.0
    op = OPS[node.op]
    if op.sums and all(v is None or v.type.quant is None for v in node.inputs):
        own = len(given) if op.extras_at is None else op.extras_at
        attrs = {k: v for k, v in node.attrs.items() if k != "chain"}
        plain = node.with_(node.inputs[:own], node.outputs[:1], attrs=attrs)
        absolute = [np.abs(a) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in given[:own]]
        return largest(run_node(plain, absolute)[0])
    added = {node.op, *(step[0] for step in node.attrs.get("chain", ()))} & {"add", "sub", "sum"}
    return max(map(largest, floats)) if added else 0.0


def flip(node: Node, given: Sequence[Any], made: Any, rounded: float = 0.0) -> float:
    """How much a result may differ because its kernel rounds an activation to the other neighbor, a float bias to a
    whole number of units of the sums, or a state or bodies as `rounded` of ROUNDED says; 0 where nothing is rounded.

    A state that is rounded at each step carries such differences on to the next steps.
    """
    if node.attrs.get("dynamic"):
        scales = [max(v.type.quant.scale) for v in node.inputs if v is not None and v.type.quant is not None]
        return STEPS * largest(made) * max(scales, default=1.0)
    if node.op not in ROUNDS:
        state = STEPS * rounded * largest(made) if node.op in STATEFUL or node.graphs else 0.0
        types = (node.attrs.get(name) for name in ("state_type", "cell_type"))
        return state + half_unit(node) + sum(2 * t.quant.scale[0] for t in types if t is not None)
    if len(node.outputs) > 1:
        return 1.0  # whole numbers of steps
    w = node.input(1)
    weight = 1.0 if w is None or w.type.quant is None else 128 * max(w.type.quant.scale)
    return 2 * largest(given[0]) / 127 * weight


def half_unit(node: Node) -> float:
    """Half a unit of a quantized layer's sums, where its bias is in floats; 0 elsewhere."""
    at = OPS[node.op].bias
    x, w, bias = node.x, node.input(1), None
    if at is not None and len(node.inputs) > at:
        bias = node.inputs[at]
    if bias is None or bias.type.quant is not None or w is None or w.type.quant is None or x.type.quant is None:
        return 0.0
    return max(x.type.quant.scale) * max(w.type.quant.scale) / 2


def largest(array: np.ndarray) -> float:
    return float(np.abs(array[np.isfinite(array)]).max(initial=0))


def difference(found: np.ndarray, right: np.ndarray, node: Node, magnitude: float, flip: float) -> tuple[float, float]:
    """The error of a result and what is allowed, in the units of `StepCheck`."""
    if found.shape != right.shape or found.dtype != right.dtype:
        return float("inf"), 0.0
    if found.dtype.kind in "fc":
        scale = max(magnitude, largest(right))
        return relative(found, right, scale), RELATIVE + (flip / scale if scale else 0.0)
    if found.dtype.kind not in "iub":
        return float(np.sum(found != right)), 0.0
    gap = np.where(found > right, found, right).astype(object) if found.dtype.itemsize == 8 else None
    if gap is None:
        error = float(np.abs(found.astype(np.int64) - right.astype(np.int64)).max(initial=0))
    else:
        error = float(np.max(gap - np.where(found > right, right, found).astype(object), initial=0))
    types = [v.type.quant for v in (*node.inputs, *node.outputs) if v is not None]
    exact = node.op == KEEP or OPS[node.op].moves or OPS[node.op].quant is Quant.STORED
    rounded = any(types) and (not exact or len({str(q) for q in types if q is not None}) > 1)
    return error, 1.0 if rounded or node.op.endswith("quantize_linear") or node.op.startswith("qlinear") else 0.0


def relative(found: np.ndarray, right: np.ndarray, scale: float) -> float:
    worst = float(gaps(found, right).max(initial=0))
    if worst < 2.0**-120:  # kernels take denormals as 0
        return 0.0
    return worst / scale if np.isfinite(worst) and scale else float("inf")
