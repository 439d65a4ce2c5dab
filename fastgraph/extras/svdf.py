"""SVDF: filters over time that remember their last outputs. Semantics: tflite/kernels/svdf.cc."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import FLOAT32, Node, TensorType
from ..ir.quantization import to_real, to_stored
from ..ops import check
from ..ops.inference import Types
from ..ops.registry import REQUIRED, attr, define, fail
from ..ops.work import squares
from ..rules.rule import rule
from ..rules.sweep import Sweep


@check.takes("x f 2, state f 2, feature_weights f 2, time_weights f 2, bias? f")
def _infer_svdf(node: Node, types: Types) -> list[TensorType]:
    x, state, feature, time, _ = types
    filters, rank = (feature.shape[0] if feature.shape else None), attr(node, "rank")
    if rank < 1 or (isinstance(filters, int) and filters % rank):
        fail(node, f"rank {rank} does not divide {filters} filters")
    units = filters // rank if isinstance(filters, int) else None
    memory = time.shape[1] if time.shape else None
    columns = filters * memory if isinstance(filters, int) and isinstance(memory, int) else None
    check.shape(node, feature, "the feature weights", filters, x.shape[1] if x.shape else None)
    check.shape(node, time, "the time weights", filters, memory)
    check.shape(node, types[4], "the bias", units)
    check.shape(node, state, "the state", x.shape[0] if x.shape else None, columns)
    return [TensorType(x.dtype, (x.shape[0] if x.shape else None, units)), TensorType(state.dtype, state.shape)]


def _svdf(node: Node, inputs: list[Any]) -> list[Any]:
    """(y [B, units], state): each filter remembers its last outputs and weighs them; a unit sums `rank` filters. What a
    quantized state remembers is rounded before it is weighed.
    """
    x, state, feature, time, bias = inputs
    filters, memory = time.shape
    kind, newest = node.outputs[1].type, x @ feature.T
    if kind.quant is not None and kind.dtype is not None:
        newest = to_real(to_stored(newest, kind.dtype, kind.quant), kind.quant)
    kept = np.concatenate([state.reshape(-1, filters, memory)[:, :, 1:], newest[:, :, None]], axis=2)
    y = (kept * time).sum(axis=2).reshape(len(x), -1, attr(node, "rank")).sum(axis=2)
    return [(y if bias is None else y + bias).astype(x.dtype), kept.reshape(state.shape).astype(state.dtype)]


define("svdf", _infer_svdf, _svdf, attrs={"rank": REQUIRED}, work=squares)


@rule("common", "svdf", quantized=True)
def svdf(g: Sweep, node: Node) -> bool:
    """The memory moves up by a step, whose last entry is ``x * feature``; result the sum over a unit's filters and its
    steps of ``memory * time``."""
    memory, feature, time, bias = (node.input(i) for i in range(1, 5))
    values = [v.type for v in (*node.inputs, *node.outputs) if v is not None]
    if not all(t.concrete and t.size and (t.quant or t.dtype == FLOAT32) for t in values):
        return False
    if memory is None or feature is None or time is None or len(node.outputs) != 2:
        return False
    (batch, units), (filters, length) = node.out.type.dims, time.type.dims
    kept = g("dense", node.x, feature, None, type=memory.type.with_shape((batch, filters)))
    kept = g.shape(kept, batch * filters, 1)
    if length > 1:
        lines, at = g.shape(memory, batch * filters, length), [g.vector(n) for n in (1, length, 1)]
        older = g("slice", lines, *at, type=memory.type.with_shape((batch * filters, length - 1)))
        kept = g("concat", older, kept, type=lines.type, axis=1)
    reals = TensorType(FLOAT32, (batch, filters, length))
    weighed = g("mul", g.shape(kept, batch, filters, length), time, type=reals)
    y = g.sum(g.shape(weighed, batch, units, filters // units * length), [2])
    y = g("add", y, np.zeros(1, np.float32) if bias is None else bias, type=node.out.type)
    return g.becomes(y, g.shape(kept, *node.outputs[1].type.dims))
