"""Operators of ai.onnx.preview, attention and steps of optimizers, written as what they are composed of. Semantics: the
onnx package's definitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir import Graph, Value
from .call import Call
from .contrib import contrib

_TRAINING = "ai.onnx.preview.training"


@contrib(
    "ai.onnx.preview.FlexAttention: Q K V -> Y | prob_mod:graph? scale:float? score_mod:graph? softmax_precision:dtype?"
)
def flex_attention(c: Call, q: Value, k: Value, v: Value, **attrs: Any) -> Value:
    """Query heads that share a head of keys are rows of one product."""
    scale, score_mod, prob_mod = attrs["scale"], attrs["score_mod"], attrs["prob_mod"]
    batch, heads, queries, keys = c.extent(q, 0), c.extent(q, 1), c.extent(q, 2), c.extent(k, 2)
    rows = c.reshape(q, batch, c.extent(k, 1), -1, c.extent(q, 3))
    if scale is None:
        size = c.cast(c.extent(q, 3), np.float32)
        unit = c("cast_like", c.reciprocal(c.sqrt(size)), q)
    else:
        unit = c("cast_like", c.const(scale, dtype=np.float32), q)
    scores = c.reshape(rows @ c.transpose(k, 0, 1, 3, 2) * unit, batch, heads, queries, keys)
    mods = [mod for mod in (score_mod, prob_mod) if mod is not None]
    precision = attrs["softmax_precision"] or (mods and mods[0].inputs and mods[0].inputs[0].type.dtype) or None
    scores = scores if precision is None else c.cast(scores, precision)
    shares = _applied(c, prob_mod, c("softmax", _applied(c, score_mod, scores)))
    shares = c.reshape(shares, batch, c.extent(k, 1), -1, keys)
    y = c.reshape(shares @ c("cast_like", v, shares), batch, heads, queries, c.extent(v, 3))
    name = c.format_of(q)
    return c.in_format(c("cast_like", y, q, format=name), name)


def _applied(c: Call, mod: Graph | None, x: Value) -> Value:
    """The result of a sub-graph of one input and one output for a value; its nodes are written in the call's place."""
    if mod is None:
        return x
    if len(mod.inputs) != 1 or len(mod.outputs) != 1:
        c.fail(
            f"expected score_mod and prob_mod of one input and one output, found {len(mod.inputs)} "
            f"and {len(mod.outputs)}"
        )
    mod.replace({mod.inputs[0]: x})
    for node in mod.nodes:
        for value in node.outputs:
            value.name = c.unique(c.name)
            c.made.append(value)
        c.write_node(node)
    return mod.outputs[0]


@contrib(f"{_TRAINING}.Adagrad: R T inputs* -> outputs* | decay_factor=0.0 epsilon=1e-06 norm_coefficient=0.0")
def adagrad(
    c: Call, r: Value, t: Value, *inputs: Value, decay_factor: float, epsilon: float, norm_coefficient: float
) -> list[Value]:
    made = []
    for x, g, h in _groups(c, inputs, 3):
        rate = r / (c("cast_like", t, x) * decay_factor + 1.0)
        g = norm_coefficient * x + g
        h = h + g * g
        made.append((x - rate * g / (c.sqrt(h) + epsilon), h))
    return _ordered(made)


@contrib(
    f"{_TRAINING}.Adam: R T inputs* -> outputs* | alpha=0.9 beta=0.999 epsilon=1e-06 norm_coefficient=0.0"
    " norm_coefficient_post=0.0"
)
def adam(c: Call, r: Value, t: Value, *inputs: Value, **attrs: float) -> list[Value]:
    alpha, beta, made = attrs["alpha"], attrs["beta"], []
    for x, g, v, h in _groups(c, inputs, 4):
        one, step = c.number(1.0, x), c("cast_like", t, x)
        g = attrs["norm_coefficient"] * x + g
        v = alpha * v + (one - alpha) * g
        h = beta * h + (one - beta) * (g * g)
        late = r * (c.sqrt(one - c.number(beta, x) ** step) / (one - c.number(alpha, x) ** step))
        x = x - c.choose(step > 0.0, late, r) * v / (c.sqrt(h) + attrs["epsilon"])
        made.append(((one - attrs["norm_coefficient_post"]) * x, v, h))
    return _ordered(made)


@contrib(f"{_TRAINING}.Momentum: R T inputs* -> outputs* | alpha:float! beta:float! mode:str! norm_coefficient:float!")
def momentum(c: Call, r: Value, t: Value, *inputs: Value, mode: str, **attrs: float) -> list[Value]:
    alpha, made = attrs["alpha"], []
    if mode not in ("standard", "nesterov"):
        c.fail(f"expected mode as 'standard' or 'nesterov', found {mode!r}")
    for x, g, v in _groups(c, inputs, 3):
        g = attrs["norm_coefficient"] * x + g
        v = alpha * v + c.choose(c("cast_like", t, x) > 0.0, c.number(attrs["beta"], x), 1.0) * g
        made.append((x - r * (v if mode == "standard" else g + alpha * v), v))
    return _ordered(made)


def _groups(c: Call, inputs: Sequence[Value], parts: int) -> list[Sequence[Value]]:
    """Each tensor that is optimized, with what belongs to it."""
    count, odd = divmod(len(inputs), parts)
    if odd or len(c.outputs) > count * (parts - 1):
        c.fail(
            f"expected R, T and {parts} inputs for each tensor, and {parts - 1} outputs, "
            f"found {len(c.inputs)} and {len(c.outputs)}"
        )
    return [inputs[i::count] for i in range(count)]


def _ordered(made: Sequence[Sequence[Value]]) -> list[Value]:
    """The results' first parts, then the second ones."""
    return [value for part in zip(*made, strict=True) for value in part]
