"""Attention as a recurrence, and its convolution. Semantics: ONNX LinearAttention, CausalConvWithState."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir import Node, TensorType, Value
from ..ops import check
from ..ops.attention import head_dims
from ..ops.inference import Types, same_type
from ..ops.registry import REQUIRED, attr, define, fail
from ..ops.work import squares
from ..rules.operands import known
from ..rules.rule import rule
from ..rules.sweep import Sweep
from .scans import scanned

RULES = ("linear", "gated", "delta", "gated_delta")


@check.takes("query f 3, key f 3, value f 3, past_state?, decay? f 3, beta? f 3")
def _infer_linear_attention(node: Node, types: Types) -> list[TensorType]:
    q, k, v, past, decay, beta = types
    check.one_of(node, "update_rule", attr(node, "update_rule"), RULES)
    hq, hkv = attr(node, "q_num_heads"), attr(node, "kv_num_heads")
    if hkv < 1 or hq < 1 or hq % hkv:
        fail(node, f"{hq} query heads do not share {hkv} key heads evenly")
    b, t, _ = q.shape or (None, None, None)
    _, _, _, dk = head_dims(node, k, hkv)
    _, _, _, dv = head_dims(node, v, hkv)
    check.shape(node, q, "query", b, t, hq * dk if isinstance(dk, int) else None)
    for other, what in ((k, "key"), (v, "value")):
        check.shape(node, other, what, b, t, None)
    check.shape(node, past, "past_state", b, hkv, dk, dv)
    for other, what, wanted in ((decay, "decay", "gated"), (beta, "beta", "delta")):
        if other is None and wanted in attr(node, "update_rule"):
            fail(node, f"update_rule {attr(node, 'update_rule')} needs {what}")
        check.shape(node, other, what, b, t, None)
    state = TensorType(q.dtype if past is None else past.dtype, (b, hkv, dk, dv))
    return [TensorType(q.dtype, (b, t, hq * dv if isinstance(dv, int) else None)), state]


_HEADS = {"kv_num_heads": REQUIRED, "q_num_heads": REQUIRED}
_ATTRS = {**_HEADS, "chunk_size": 64, "scale": 0.0, "update_rule": "gated_delta"}
define("linear_attention", _infer_linear_attention, attrs=_ATTRS, work=squares)


@rule("rare", "linear_attention")
def linear_attention(g: Sweep, node: Node) -> bool:
    """Given ``y, s = linear_attention(q, k, v, s0, decay, beta)``; result a scan over time, with one round for each
    token: ``s = fade * s; s = s + k x (beta * (v - k @ s)); y = q @ s``. A single token needs no scan.
    """
    values = [node.input(i) for i in range(6)]
    if not known(*values, *node.outputs):
        return False
    wide = np.dtype(np.float64 if node.x.type.dtype == np.float64 else np.float32)
    query, key, value, past, decay, beta = (None if v is None else g.cast(v, wide) for v in values)
    assert query is not None and key is not None and value is not None
    heads, update = attr(node, "kv_num_heads"), attr(node, "update_rule")
    images, times, _ = query.type.dims
    share = attr(node, "q_num_heads") // heads
    size, depth = key.type.dims[2] // heads, value.type.dims[2] // heads

    def by_time(x: Value, *inner: int) -> Value:
        """[images, times, heads * ..] as [times, images * heads, *inner]."""
        x = g.transpose(g.shape(x, images, times, heads, x.type.size // (images * times * heads)), 1, 0, 2, 3)
        return g.shape(x, times, images * heads, *inner)

    scaled = query * (attr(node, "scale") or 1 / math.sqrt(size))
    moving = {"q": by_time(scaled, share, size), "k": by_time(key, 1, size), "v": by_time(value, 1, depth)}
    if "gated" in update and decay is not None:
        moving["fade"] = by_time(g.exp(decay), decay.type.dims[2] // heads, 1)
    if "delta" in update and beta is not None:
        moving["rate"] = by_time(g.broadcast(beta, images, times, heads), 1, 1)
    first = g.number(np.zeros((images * heads, size, depth), wide)) if past is None else past
    first = g.shape(first, images * heads, size, depth)
    if times == 1:
        last, y = _token(g, first, **{name: g.shape(x, *x.type.dims[1:]) for name, x in moving.items()})
    else:

        def step(inner: Sweep, before: Value, *parts: Value) -> list[Value]:
            return [*_token(inner, before, **dict(zip(moving, parts, strict=True)))]

        last, y = scanned(g, [first], list(moving.values()), step)
    y = g.transpose(g.shape(y, times, images, heads * share, depth), 1, 0, 2, 3)
    y = g.shape(y, images, times, heads * share * depth)
    return g.becomes(*(g.cast(new, old.type.dtype) for new, old in zip((y, last), node.outputs, strict=False)))


def _token(
    g: Sweep, state: Value, q: Value, k: Value, v: Value, fade: Value | None = None, rate: Value | None = None
) -> tuple[Value, Value]:
    """(state, output) after one token."""
    if fade is not None:
        state = state * fade
    if rate is not None:
        v = rate * (v - k @ state)
    state = state + g.transpose(k, 0, 2, 1) * v
    return state, q @ state


@check.takes("x f 3, weight 3, bias?, past_state?")
def _infer_causal_conv(node: Node, types: Types) -> list[TensorType]:
    x, w, bias, past = types
    check.one_dtype(node, types)
    check.one_of(node, "activation", attr(node, "activation"), ("none", "silu", "swish"))
    b, c, _ = x.shape or (None, None, None)
    k = w.shape[2] if w.shape else None
    check.shape(node, w, "weight", c, 1, k)
    check.shape(node, bias, "bias", c)
    check.shape(node, past, "past_state", b, c, k - 1 if isinstance(k, int) else None)
    if k == 0:
        fail(node, "the kernel must not be empty")
    return [*same_type(node, types), TensorType(x.dtype, (b, c, k - 1 if isinstance(k, int) else None))]


define("causal_conv_with_state", _infer_causal_conv, attrs={"activation": "none"})


@rule("rare", "causal_conv_with_state")
def causal_conv(g: Sweep, node: Node) -> bool:
    """Given ``y, s = causal_conv_with_state(x, w, b, s0)``; result a convolution of ``concat(s0, x)``, or of a padded
    x, with a window for each channel, and the last columns of that.
    """
    x, w, bias, past = node.x, node.input(1), node.input(2), node.input(3)
    if w is None or not known(x, w, bias, node.out):
        return False
    (_, channels, times), taps = x.type.dims, w.type.dims[2]
    full = x if past is None or taps == 1 else g.join([past, x], 2)
    begin = taps - 1 if past is None else 0
    window = g.shape(g.transpose(w, 0, 2, 1), channels, taps, 1)
    attrs: dict[str, Any] = {"pads": (begin, 0), "groups": channels, "auto_pad": "NOTSET", "kernel_shape": (taps,)}
    attrs |= {"strides": (1,), "dilations": (1,)}
    y = g("conv", g.transpose(full, 0, 2, 1), window, *([] if bias is None else [bias]), **attrs)
    if attr(node, "activation") != "none":
        y = y * g.sigmoid(y)
    if begin > times:
        full = g("pad", full, g.vector(0, 0, begin - times, 0, 0, 0), mode="constant")
    columns = full.type.dims[2]
    return g.becomes(g.transpose(y, 0, 2, 1), g.cut(full, 2, columns - (taps - 1), columns))
