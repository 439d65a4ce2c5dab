"""Attention and rotary position embedding. Semantics: ONNX Attention, RotaryEmbedding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir import Dim, Node, Shape, TensorType
from . import check
from .inference import Types, join, same_type, shown
from .registry import attr, define, fail
from .work import scores


def heads(node: Node, x: np.ndarray, count: int | None) -> np.ndarray:
    """[B, S, H * D] as [B, H, S, D]; 4-d stays."""
    if x.ndim == 4:
        return x
    if not count:
        fail(node, "3-d inputs need q_num_heads and kv_num_heads")
    return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)


def head_dims(node: Node, t: TensorType, count: int | None) -> tuple[Dim, Dim, Dim, Dim]:
    """(B, H, S, D) as far as known."""
    check.operand(node, t, "x 3-4")
    if t.shape is None:
        return (None, count, None, None)
    if len(t.shape) == 4:
        if count is not None and isinstance(t.shape[1], int) and count != t.shape[1]:
            fail(node, f"attributes say {count} heads, the input {shown(t.shape)} has {t.shape[1]}")
        return t.shape
    if not count or count < 1:
        fail(node, "3-d inputs need q_num_heads and kv_num_heads")
    b, s, width = t.shape
    if isinstance(width, int) and width % count:
        fail(node, f"the width {width} does not divide into {count} heads")
    return (b, count, s, width // count if isinstance(width, int) else None)


@check.takes("query f 3-4, key f 3-4, value f 3-4, mask? biuf 1-4, past_key? f, past_value? f, nonpad_kv_seqlen? iu 1")
def _infer_attention(node: Node, types: Types) -> list[TensorType]:
    q, k, v, mask, past, past_value, valid = types
    check.one_dtype(node, [q, k, past])
    check.one_dtype(node, [v, past_value])
    check.one_of(node, "blind", attr(node, "blind"), _WEIGHTS)
    check.one_of(node, "qk_matmul_output_mode", attr(node, "qk_matmul_output_mode"), range(4))
    for name in ("left_window_size", "right_window_size"):
        check.at_least(node, name, attr(node, name), -1)
    check.at_least(node, "softcap", attr(node, "softcap"), 0)
    b, h, s, size = head_dims(node, q, attr(node, "q_num_heads"))
    kb, kv, t, d = head_dims(node, k, attr(node, "kv_num_heads"))
    vb, v_heads, values, e = head_dims(node, v, attr(node, "kv_num_heads"))
    b, kv = join(node, b, join(node, kb, vb)), join(node, kv, v_heads)
    t, d = join(node, t, values), join(node, d, size)
    if isinstance(h, int) and isinstance(kv, int) and (kv < 1 or h % kv):
        fail(node, f"{h} query heads do not share {kv} key heads evenly")
    if (past is None) != (past_value is None):
        fail(node, "past_key and past_value must be given together")
    if past is not None:
        before = past.shape[2] if past.shape and len(past.shape) == 4 else None
        check.shape(node, past, "past_key", b, kv, before, d)
        check.shape(node, past_value, "past_value", b, kv, before, e)
        t = t + before if isinstance(t, int) and isinstance(before, int) else None
    _check_mask(node, mask, (b, h, s, t))
    check.shape(node, valid, "nonpad_kv_seqlen", b)
    check.inside(node, "nonpad_kv_seqlen", node.const(6), 0, t + 1 if isinstance(t, int) else None)
    width = h * e if isinstance(h, int) and isinstance(e, int) else None
    y: Shape | None = None if q.shape is None else (b, h, s, e) if len(q.shape) == 4 else (b, s, width)
    return [
        TensorType(q.dtype, y),
        TensorType(k.dtype, (b, kv, t, d)),
        TensorType(v.dtype, (b, kv, t, e)),
        TensorType(q.dtype, (b, h, s, t)),
    ]


def _check_mask(node: Node, mask: TensorType | None, scores: Shape) -> None:
    """ModelError unless the mask broadcasts to the scores; it may have fewer keys, the last ones masked away."""
    if mask is None:
        return
    keys = mask.shape[-1] if mask.shape else None
    fewer = isinstance(keys, int) and isinstance(scores[3], int) and keys < scores[3]
    check.broadcasts(node, mask, "the mask", (*scores[:3], keys if fewer else scores[3]))


def allowed_keys(node: Node, s: int, t: int, past: int, valid: np.ndarray | None) -> np.ndarray:
    """[B or 1, 1, S, T]: which keys each query may see by causality, window and padding."""
    given = attr(node, "place")
    offset = np.full(1, given or past) if valid is None or past or given is not None else valid - s
    place = offset[:, None] + np.arange(s)
    keys = np.arange(t)
    ok = np.ones((len(offset), s, t), bool)
    if attr(node, "is_causal"):
        ok &= keys <= place[..., None]
    if attr(node, "left_window_size") >= 0:
        ok &= keys >= place[..., None] - attr(node, "left_window_size")
    if attr(node, "right_window_size") >= 0:
        ok &= keys <= place[..., None] + attr(node, "right_window_size")
    if valid is not None:
        ok = ok & (keys < valid[:, None, None])
    return ok[:, None]


def _bias(mask: np.ndarray | None, allowed: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The term that is added to the scores: 0 where a key is allowed, -inf where it is not, plus a float mask."""
    bias = np.where(allowed, dtype.type(0), dtype.type(-np.inf))
    if mask is None:
        return bias
    if mask.dtype == bool:
        mask = np.where(mask, dtype.type(0), dtype.type(-np.inf))
    missing = allowed.shape[-1] - mask.shape[-1]
    if missing > 0 and mask.shape[-1] != 1:
        mask = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)], constant_values=-np.inf)
    return bias + mask.astype(dtype)


def guarded_softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis; rows that are -inf throughout give zeros."""
    top = x.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(x - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def _softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis; rows that are -inf throughout give NaN."""
    e = np.exp(x - x.max(axis=-1, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=-1, keepdims=True)


def _never_nan(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis; rows that would be NaN are zeros."""
    y = _softmax(x)
    return np.where(np.isnan(y), y.dtype.type(0), y)


_WEIGHTS = {"zeros": guarded_softmax, "nan": _softmax, "never nan": _never_nan}
"""The softmax by attribute `blind`, which says what a query without any allowed key gets. ONNX has neither `blind` nor
`place`, the position of the first query among the keys."""


def _attention(node: Node, inputs: list[Any]) -> list[Any]:
    """[y, present key, present value, scores at the stage that qk_matmul_output_mode names]."""
    q, k, v, mask, past_key, past_value, valid = inputs
    flat, kind = q.ndim == 3, q.dtype
    q = heads(node, q, attr(node, "q_num_heads"))
    k, v = (heads(node, x, attr(node, "kv_num_heads")) for x in (k, v))
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        k, v = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    (b, h, s, d), t = q.shape, k.shape[2]
    scale = 1 / math.sqrt(d) if attr(node, "scale") is None else attr(node, "scale")
    root = math.sqrt(abs(scale))
    signed = math.copysign(root, scale)
    wide = np.promote_types(kind, np.float32)
    share = h // k.shape[1]
    keys, values = (np.repeat(x, share, 1).astype(wide, copy=False) for x in (k, v))
    queries = q.astype(wide, copy=False) * wide.type(signed)
    stages = [queries @ (keys.swapaxes(2, 3) * wide.type(root))]
    cap = attr(node, "softcap")
    stages.append(cap * np.tanh(stages[0] / cap) if cap else stages[0])
    stages.append(stages[1] + _bias(mask, allowed_keys(node, s, t, past, valid), wide))
    precision = attr(node, "softmax_precision")
    scores = stages[2] if precision is None else stages[2].astype(precision)
    stages.append(_WEIGHTS[attr(node, "blind")](scores).astype(wide, copy=False))
    y = stages[3] @ values
    y = y.transpose(0, 2, 1, 3).reshape(b, s, -1) if flat else y
    return [y.astype(kind), k, v, stages[attr(node, "qk_matmul_output_mode")].astype(kind)]


@check.takes("x f 3-4, cos_cache, sin_cache, position_ids? iu")
def _infer_rotary(node: Node, types: Types) -> list[TensorType]:
    x, cos, sin, positions = types
    check.one_dtype(node, [x, cos, sin])
    if x.shape is None:
        return same_type(node, types)
    heads, turned = attr(node, "num_heads") or 0, attr(node, "rotary_embedding_dim") or 0
    if heads < 0 or (len(x.shape) == 3 and not heads):
        fail(node, f"num_heads must be positive for 3-d inputs, found {heads}")
    b, s, size = (x.shape[0], x.shape[2], x.shape[3]) if len(x.shape) == 4 else (*x.shape[:2], None)
    width = x.shape[2] if len(x.shape) == 3 else None
    if len(x.shape) == 4 and heads:
        check.shape(node, x, "a 4-d input", b, heads, s, size)
    if isinstance(width, int):
        if width % heads:
            fail(node, f"the width {width} does not divide into {heads} heads")
        size = width // heads
    if turned < 0 or turned % 2 or (isinstance(size, int) and (turned > size or size % 2 and not turned)):
        fail(node, f"rotary_embedding_dim must be even and at most {size}, found {turned}")
    angles = turned // 2 or (size // 2 if isinstance(size, int) else None)
    lead: tuple[Dim, ...] = (b, s) if positions is None else (cos.shape[0] if cos.shape else None,)
    for cache, what in ((cos, "cos_cache"), (sin, "sin_cache")):
        check.shape(node, cache, what, *lead, angles)
    check.shape(node, positions, "position_ids", b, s)
    check.inside(node, "position_ids", node.const(3), 0, lead[0])
    return same_type(node, types)


define(
    "attention", _infer_attention, _attention,
    attrs={
        "blind": "zeros", "is_causal": 0, "kv_num_heads": None, "left_window_size": -1, "place": None,
        "q_num_heads": None, "qk_matmul_output_mode": 0, "right_window_size": -1, "scale": None, "softcap": 0.0,
        "softmax_precision": None,
    },
    work=scores,
)  # fmt: skip
define("rotary_embedding", _infer_rotary, attrs={"interleaved": 0, "num_heads": None, "rotary_embedding_dim": 0})
