"""Attention as a recurrence. Semantics: ONNX LinearAttention, CausalConvWithState."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir import Node, TensorType
from .activation import sigmoid
from .attention import head_dims, heads
from .common import (
    FLOAT,
    Types,
    fail,
    fits,
    need_kind,
    need_rank,
    one_dtype,
    one_of,
    same_type,
)
from .registry import REQUIRED, attr, define
from .work import squares

RULES = ("linear", "gated", "delta", "gated_delta")


def _infer_linear_attention(node: Node, types: Types) -> list[TensorType]:
    q, k, v, past, decay, beta = types
    for t, what in ((q, "query"), (k, "key"), (v, "value"), (decay, "decay"), (beta, "beta")):
        need_kind(node, t, FLOAT, what)
        if t is not None:
            need_rank(node, t, 3, 3, what)
    one_of(node, "update_rule", attr(node, "update_rule"), RULES)
    hq, hkv = attr(node, "q_num_heads"), attr(node, "kv_num_heads")
    if hkv < 1 or hq < 1 or hq % hkv:
        fail(node, f"{hq} query heads do not share {hkv} key heads evenly")
    b, t, _ = q.shape or (None, None, None)
    _, _, _, dk = head_dims(node, k, hkv)
    _, _, _, dv = head_dims(node, v, hkv)
    fits(node, q, "query", b, t, hq * dk if isinstance(dk, int) else None)
    for other, what in ((k, "key"), (v, "value")):
        fits(node, other, what, b, t, None)
    fits(node, past, "past_state", b, hkv, dk, dv)
    for other, what, wanted in ((decay, "decay", "gated"), (beta, "beta", "delta")):
        if other is None and wanted in attr(node, "update_rule"):
            fail(node, f"update_rule {attr(node, 'update_rule')} needs {what}")
        fits(node, other, what, b, t, None)
    state = TensorType(q.dtype if past is None else past.dtype, (b, hkv, dk, dv))
    return [TensorType(q.dtype, (b, t, hq * dv if isinstance(dv, int) else None)), state]


def _linear_attention(node: Node, inputs: list[Any]) -> list[Any]:
    """The recurrence over time, one token after the other: [output, last state [B, H, Dk, Dv]]."""
    query, key, value, past, decay, beta = inputs
    hq, hkv = attr(node, "q_num_heads"), attr(node, "kv_num_heads")
    rule = attr(node, "update_rule")
    wide = np.promote_types(query.dtype, np.float32)
    q, k, v = (heads(node, x.astype(wide), n) for x, n in ((query, hq), (key, hkv), (value, hkv)))
    scale = attr(node, "scale") or 1 / math.sqrt(q.shape[-1])
    state = np.zeros((*k.shape[:2], k.shape[3], v.shape[3]), wide) if past is None else past.astype(wide)
    fade = np.exp(heads(node, decay.astype(wide), hkv)) if "gated" in rule else None
    rate = np.broadcast_to(beta.astype(wide), (*beta.shape[:2], hkv)) if "delta" in rule else None
    out = np.zeros((*q.shape[:3], v.shape[3]), wide)
    for t in range(q.shape[2]):
        if fade is not None:
            state = fade[:, :, t, :, None] * state
        add = v[:, :, t]
        if rate is not None:
            add = rate[:, t, :, None] * (add - np.einsum("bhkv,bhk->bhv", state, k[:, :, t]))
        state = state + k[:, :, t, :, None] * add[:, :, None, :]
        out[:, :, t] = scale * np.einsum("bhkv,bhk->bhv", np.repeat(state, hq // hkv, 1), q[:, :, t])
    y = out.transpose(0, 2, 1, 3).reshape(*query.shape[:2], -1)
    return [y.astype(query.dtype), state.astype(query.dtype if past is None else past.dtype)]


def _infer_causal_conv(node: Node, types: Types) -> list[TensorType]:
    x, w, bias, past = types
    need_rank(node, x, 3, 3)
    need_rank(node, w, 3, 3, "weight")
    need_kind(node, x, FLOAT)
    one_dtype(node, types)
    one_of(node, "activation", attr(node, "activation"), ("none", "silu", "swish"))
    b, c, _ = x.shape or (None, None, None)
    k = w.shape[2] if w.shape else None
    fits(node, w, "weight", c, 1, k)
    fits(node, bias, "bias", c)
    fits(node, past, "past_state", b, c, k - 1 if isinstance(k, int) else None)
    if k == 0:
        fail(node, "the kernel must not be empty")
    return [*same_type(node, types), TensorType(x.dtype, (b, c, k - 1 if isinstance(k, int) else None))]


def _causal_conv(node: Node, inputs: list[Any]) -> list[Any]:
    """Depthwise convolution over the past: [y [B, C, T], the last k - 1 positions for the next call]."""
    x, w, b, past = inputs
    k, wide = w.shape[2], np.promote_types(x.dtype, np.float32)
    before = np.zeros((*x.shape[:2], k - 1), x.dtype) if past is None else past
    full = np.concatenate([before, x], 2)
    y = sum(full[:, :, i : i + x.shape[2]].astype(wide) * w[:, 0, i, None] for i in range(k))
    y = y if b is None else y + b[:, None]
    y = y if attr(node, "activation") == "none" else y * sigmoid(y)
    return [y.astype(x.dtype), full[:, :, full.shape[2] - (k - 1) :]]


define(
    "linear_attention", _infer_linear_attention, _linear_attention, inputs=(3, 6),
    attrs={
        "chunk_size": 64, "kv_num_heads": REQUIRED, "q_num_heads": REQUIRED, "scale": 0.0,
        "update_rule": "gated_delta",
    },
    work=squares,
)  # fmt: skip
define("causal_conv_with_state", _infer_causal_conv, _causal_conv, inputs=(2, 4), attrs={"activation": "none"})
