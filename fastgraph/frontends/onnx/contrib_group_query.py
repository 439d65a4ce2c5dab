"""Positions and caches of keys: onnxruntime's rotary embedding, and its attention of groups of queries."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call
from .contrib import Attrs, contrib
from .heads import by_head, flat, rows
from .linear import CAST

_I64 = np.dtype(np.int64)


def _whole(call: Call, x: Value) -> Value:
    """As int64 [n]."""
    return call.add("reshape", [call.add("cast", [x], **CAST, to=_I64), call.const([-1])], allowzero=0)


@contrib(
    "RotaryEmbedding: input position_ids cos_cache sin_cache -> output"
    " | interleaved=0 is_packed_batching=0 num_heads=0 rotary_embedding_dim=0 scale=1.0"
)
def rotary(call: Call, attrs: Attrs) -> Value:
    """One position is where the sequence begins, for all of a batch. The scale is not used, nor is it there."""
    x, positions = call.x(0), call.x(1)
    rank = call.known_rank(x)
    if rank not in (3, 4):
        call.unsupported("of an operand whose number of axes the file leaves open")
    if call.known_rank(positions) == 1:
        positions = _positions(call, x, 1 if rank == 3 else 2, positions)
    inputs = [call.x(2), call.x(3), positions]
    kind: Attrs = {"interleaved": attrs["interleaved"], "rotary_embedding_dim": attrs["rotary_embedding_dim"]}
    if rank == 4:
        return call.add("rotary_embedding", [x, *inputs], num_heads=0, **kind)
    if attrs["num_heads"]:
        return call.add("rotary_embedding", [x, *inputs], num_heads=attrs["num_heads"], **kind)
    table = call.x(2).data
    if table is None:
        call.unsupported("without num_heads, of a computed cos_cache")
    split = by_head(call, x, -1, 2 * table.shape[-1])
    return flat(call, call.add("rotary_embedding", [split, *inputs], num_heads=0, **kind))


def _positions(call: Call, x: Value, axis: int, first: Value) -> Value:
    """int64 [B, S]: S positions from `first` ([1] or [B, 1]) on."""
    length = call.add("shape", [x], start=axis, end=axis + 1)
    batch = call.add("shape", [x], start=0, end=1)
    count = call.add("squeeze", [length, call.const([0])])
    steps = call.add("range", [call.const(0), count, call.const(1)])
    first = call.add("cast", [first], **CAST, to=_I64)
    return call.add("expand", [call.add("add", [steps, first]), call.add("concat", [batch, length], axis=0)])


@contrib(
    "GroupQueryAttention: query key? value? past_key? past_value? seqlens_k total_sequence_length cos_cache? sin_cache?"
    " position_ids? attention_bias? head_sink? k_scale? v_scale? q_norm_weight? k_norm_weight?"
    " -> output present_key? present_value? output_qk? | causal=1 do_rotary=0 k_quant_type=NONE kv_cache_bit_width=0"
    " kv_num_heads:int! local_window_size=-1 num_heads:int! qk_norm_epsilon=1e-06 qk_output=0 rotary_interleaved=0"
    " scale:float? sliding_window_cache=0 smooth_softmax=-1 softcap=0.0 v_quant_type=NONE"
)
def group_query_attention(call: Call, attrs: Attrs) -> list[Value]:
    """Keys and values go into the cache behind those of earlier runs, of which each sequence has so many."""
    _check_group_query(call, attrs)
    heads, shared = attrs["num_heads"], attrs["kv_num_heads"]
    q, k, v = _group_query(call, attrs)
    total, length = _whole(call, call.x(6)), call.add("shape", [q], start=1, end=2)
    known = call.add("add", [_whole(call, call.x(5)), call.const([1])])
    later = call.add("cast", [call.add("less", [length, total])], **CAST, to=_I64)
    before = call.add("mul", [call.add("sub", [known, length]), later])  # a first run begins at 0, whatever is padding
    if attrs["do_rotary"]:
        q, k = _rotated(call, attrs, q, k, before)
    q4, k4, v4 = by_head(call, q, heads), by_head(call, k, shared), by_head(call, v, shared)
    if call.input(3) is not None:
        k4, v4 = (_stored(call, call.x(3 + i), x, before, total) for i, x in enumerate((k4, v4)))
    window = attrs["local_window_size"]
    kind: Attrs = {
        "is_causal": attrs["causal"], "scale": attrs["scale"] or None, "softcap": attrs["softcap"],
        "left_window_size": window - 1 if window > 0 else -1,
    }  # fmt: skip
    inputs = [q4, k4, v4, call.input(10), None, None, call.add("add", [before, length])]
    (y,) = call.add_many("attention", inputs, kind, 1)
    return [flat(call, y), k4, v4][: len(call.outputs)]


def _check_group_query(call: Call, attrs: Attrs) -> None:
    for index, name in enumerate(("head_sink", "k_scale", "v_scale", "q_norm_weight", "k_norm_weight"), 11):
        if call.input(index) is not None:
            call.unsupported(f"with {name}")
    for name in ("kv_cache_bit_width", "qk_output", "sliding_window_cache"):
        if attrs[name]:
            call.unsupported(f"with {name}")
    if attrs["smooth_softmax"] == 1:
        call.unsupported("with smooth_softmax")
    heads, shared = attrs["num_heads"], attrs["kv_num_heads"]
    if shared < 1 or heads < 1 or heads % shared:
        call.fail(f"expected num_heads as a multiple of kv_num_heads, found {heads} and {shared}")
    for index, pair in ((1, "key and value"), (3, "past_key and past_value")):
        if (call.input(index) is None) != (call.input(index + 1) is None):
            call.fail(f"expected {pair} together, found one of them")
    if attrs["do_rotary"] and (call.input(7) is None or call.input(8) is None):
        call.fail("do_rotary wants cos_cache and sin_cache, of which one is absent")


def _group_query(call: Call, attrs: Attrs) -> list[Value]:
    """Queries [B, S, heads * size], keys and values [B, S, kv_heads * size]."""
    if call.input(1) is not None and call.input(2) is not None:
        return [call.x(0), call.x(1), call.x(2)]
    heads, shared = attrs["num_heads"], attrs["kv_num_heads"]
    split = call.add("reshape", [call.x(0), call.const([0, 0, heads + 2 * shared, -1])], allowzero=0)
    parts = call.add_many("split", [split, call.const([heads, shared, shared])], {"axis": 2}, 3)
    return [rows(call, part) for part in parts]


def _rotated(call: Call, attrs: Attrs, q: Value, k: Value, before: Value) -> tuple[Value, Value]:
    positions: Any = call.input(9)
    if positions is None:
        positions = _positions(call, q, 1, call.add("unsqueeze", [before, call.const([1])]))
    table = call.x(7).type.shape
    turned = 2 * table[-1] if table and isinstance(table[-1], int) else 0
    kind: Attrs = {"interleaved": attrs["rotary_interleaved"], "rotary_embedding_dim": turned}
    inputs = [call.x(7), call.x(8), positions]
    q, k = (
        call.add("rotary_embedding", [x, *inputs], num_heads=heads, **kind)
        for x, heads in ((q, attrs["num_heads"]), (k, attrs["kv_num_heads"]))
    )
    return q, k


def _stored(call: Call, cache: Value, new: Value, before: Value, total: Value) -> Value:
    """The cache, made as long as `total` at least, with what is new behind the places that are taken."""
    had = call.add("shape", [cache], start=2, end=3)
    more = call.add("max", [call.add("sub", [total, had]), call.const([0])])
    pads = call.add("concat", [call.const([0] * 6), more, call.const([0])], axis=0)
    wide = call.add("pad", [cache, pads, None, None], mode="constant")
    return call.add("tensor_scatter", [wide, new, before], axis=2, mode="linear")
