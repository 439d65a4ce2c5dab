"""Positions and caches of keys: onnxruntime's rotary embedding, and its attention of groups of queries."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call
from .contrib import contrib
from .contrib_attention import by_head, flat, rows


@contrib(
    "RotaryEmbedding: input position_ids cos_cache sin_cache -> output"
    " | interleaved=0 is_packed_batching=0 num_heads=0 rotary_embedding_dim=0 scale=1.0"
)
def rotary(c: Call, x: Value, positions: Value, cos: Value, sin: Value, **attrs: Any) -> Value:
    """One position is where the sequence begins, for all of a batch. The scale is not used, nor is it there."""
    rank = c.known_rank(x)
    if rank not in (3, 4):
        c.unsupported("of an operand whose number of axes the file leaves open")
    if c.known_rank(positions) == 1:
        positions = _positions(c, x, rank - 2, positions)
    kind: Any = {name: attrs[name] for name in ("interleaved", "rotary_embedding_dim")}
    if rank == 4 or attrs["num_heads"]:
        heads = 0 if rank == 4 else attrs["num_heads"]
        return c("rotary_embedding", x, cos, sin, positions, num_heads=heads, **kind)
    half = (cos.type.shape or (None,))[-1]
    if not isinstance(half, int):
        c.unsupported("without num_heads, of a cos_cache whose width the file leaves open")
    split = by_head(c, x, -1, 2 * half)
    return flat(c, c("rotary_embedding", split, cos, sin, positions, num_heads=0, **kind))


def _positions(c: Call, x: Value, axis: int, first: Value) -> Value:
    """int64 [B, S]: S positions from `first` ([1] or [B, 1]) on."""
    length = c.extent(x, axis)
    places = c.places(length) + c.cast(first, np.int64)
    return c("expand", places, c.join([c.extent(x, 0), length], axis=0))


@contrib(
    "GroupQueryAttention: query key? value? past_key? past_value? seqlens_k total_sequence_length cos_cache? sin_cache?"
    " position_ids? attention_bias? head_sink? k_scale? v_scale? q_norm_weight? k_norm_weight?"
    " -> output present_key? present_value? output_qk? | causal=1 do_rotary=0 k_quant_type=NONE kv_cache_bit_width=0"
    " kv_num_heads:int! local_window_size=-1 num_heads:int! qk_norm_epsilon=1e-06 qk_output=0 rotary_interleaved=0"
    " scale:float? sliding_window_cache=0 smooth_softmax=-1 softcap=0.0 v_quant_type=NONE"
)
def group_query_attention(c: Call, query: Value, *inputs: Any, **attrs: Any) -> list[Value]:
    """Keys and values go into the cache behind those of earlier runs, of which each sequence has so many."""
    key, value, past_key, past_value, last, total, cos, sin, positions, bias, sink, *_ = inputs
    _check_group_query(c, attrs)
    heads, shared = attrs["num_heads"], attrs["kv_num_heads"]
    if key is None or value is None:
        split = c.reshape(query, 0, 0, heads + 2 * shared, -1)
        query, key, value = (rows(c, part) for part in c.several("split", 3, split, [heads, shared, shared], axis=2))
    last, total = (c.reshape(c.cast(x, np.int64), -1) for x in (last, total))
    length, known = c.extent(query, 1), last + 1
    before = (known - length) * c.cast(length < total, np.int64)  # a first run begins at 0, whatever is padding
    if attrs["do_rotary"]:
        positions = _positions(c, query, 1, c("unsqueeze", before, [1])) if positions is None else positions
        table = cos.type.shape
        turned = 2 * table[-1] if table and isinstance(table[-1], int) else 0
        kind: Any = {"interleaved": attrs["rotary_interleaved"], "rotary_embedding_dim": turned}
        query = c("rotary_embedding", query, cos, sin, positions, num_heads=heads, **kind)
        key = c("rotary_embedding", key, cos, sin, positions, num_heads=shared, **kind)
    q, k, v = by_head(c, query, heads), by_head(c, key, shared), by_head(c, value, shared)
    if past_key is not None:
        k, v = _stored(c, past_key, k, before, total), _stored(c, past_value, v, before, total)
    kind = {"is_causal": attrs["causal"], "scale": attrs["scale"] or None, "softcap": attrs["softcap"]}
    kind["left_window_size"] = max(attrs["local_window_size"] - 1, -1)
    if sink is None and attrs["smooth_softmax"] == 1:
        sink = c("expand", c.number(0.0, query), [heads])
    if sink is None:
        y = c("attention", q, k, v, bias, None, None, before + length, **kind)
    else:
        if bias is not None:
            c.unsupported("with both attention_bias and a sink")
        y = _with_sink(c, [q, k, v], sink, _seen(c, q, k, before, kind), kind)
    return [flat(c, y), k, v]


def _seen(c: Call, q: Value, k: Value, before: Value, kind: dict[str, Any]) -> Value:
    """bool [B, 1, S, T]: which keys each query sees, of those that there are."""
    queries, keys = c.extent(q, 2), c.places(c.extent(k, 2))
    first = c("unsqueeze", before, [1, 2, 3])
    place = first + c("unsqueeze", c.places(queries), [1])
    seen = keys <= place if kind["is_causal"] else keys < first + queries
    window = kind["left_window_size"]
    return seen if window < 0 else seen & (keys >= place - window)


def _with_sink(c: Call, qkv: list[Value], sink: Value, seen: Value, kind: dict[str, Any]) -> Value:
    """Attention with one more key, whose score is a number of its own for each head and whose value is zero."""
    q, k, v = qkv
    k, v = (c("pad", x, [0, 0, 1, 0, 0, 0, 0, 0]) for x in (k, v))
    rows = c.join([c.extent(q, 0), c.extent(q, 1), c.extent(q, 2), c.vector(1)], axis=0)
    scores = c.reshape(sink, 1, -1, 1, 1), c.choose(seen, c.number(0.0, q), -np.inf)
    mask = c.join([c("expand", score, rows) for score in scores], axis=3)
    return c("attention", q, k, v, mask, scale=kind["scale"], softcap=kind["softcap"])


def _check_group_query(c: Call, attrs: dict[str, Any]) -> None:
    for index, name in enumerate(("k_scale", "v_scale", "q_norm_weight", "k_norm_weight"), 12):
        if c.input(index) is not None:
            c.unsupported(f"with {name}")
    for name in ("kv_cache_bit_width", "qk_output", "sliding_window_cache"):
        if attrs[name]:
            c.unsupported(f"with {name}")
    heads, shared = attrs["num_heads"], attrs["kv_num_heads"]
    if shared < 1 or heads < 1 or heads % shared:
        c.fail(f"expected num_heads as a multiple of kv_num_heads, found {heads} and {shared}")
    for index, pair in ((1, "key and value"), (3, "past_key and past_value")):
        if (c.input(index) is None) != (c.input(index + 1) is None):
            c.fail(f"expected {pair} together, found one of them")
    if attrs["do_rotary"] and (c.input(7) is None or c.input(8) is None):
        c.fail("do_rotary wants cos_cache and sin_cache, of which one is absent")


def _stored(c: Call, cache: Value, new: Value, before: Value, total: Value) -> Value:
    """The cache, extended to `total` places where it has fewer, with the new keys or values from place `before` on."""
    more = c.max(total - c.extent(cache, 2), 0)
    wide = c("pad", cache, c("concat", [0] * 6, more, [0], axis=0))
    return c("tensor_scatter", wide, new, before, axis=2)
