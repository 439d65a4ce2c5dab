"""onnxruntime's attention operators, as projections, ONNX's rotary_embedding and ONNX's attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call
from .contrib import Attrs, contrib
from .contrib_dynamic import integer_product
from .linear import CAST

_HEADS = "mask_filter_value=-10000.0 num_heads:int! scale:float? unidirectional=0"
_SELF = f"do_rotary=0 past_present_share_buffer=0 {_HEADS}"
_I64, _F32 = np.dtype(np.int64), np.dtype(np.float32)


@contrib(
    "Attention: input weights bias? mask_index? past? attention_bias? past_sequence_length? -> output present?"
    f" | {_SELF} qkv_hidden_sizes:ints? rotary_embedding_dim:int?"
)
def self_attention(call: Call, attrs: Attrs) -> list[Value]:
    x = call.add("matmul", [call.x(0), call.x(1)])
    x = x if call.input(2) is None else call.add("add", [x, call.x(2)])
    return _self_attention(call, attrs, x, call.input(3), call.input(4), call.input(5))


@contrib(
    "QAttention: input weight bias input_scale weight_scale mask_index? input_zero_point? weight_zero_point? past?"
    f" -> output present? | {_SELF}"
)
def quantized_attention(call: Call, attrs: Attrs) -> list[Value]:
    a, b = (call.x(0), call.x(3), call.input(6)), (call.x(1), call.x(4), call.input(7))
    x = integer_product(call, a, b, call.x(2))
    return _self_attention(call, attrs, x, call.input(5), call.input(8), None)


def _self_attention(
    call: Call, attrs: Attrs, x: Value, mask: Value | None, past: Value | None, bias: Value | None
) -> list[Value]:
    """Attention of x [B, S, queries | keys | values]; past and present are [2, B, heads, T, size]."""
    for name in ("do_rotary", "past_present_share_buffer"):
        if attrs[name]:
            call.unsupported(f"with {name}, which onnxruntime has on GPUs only")
    sizes = attrs.get("qkv_hidden_sizes")
    if sizes and (len(sizes) != 3 or min(sizes) < 1):
        call.fail(f"expected qkv_hidden_sizes of three numbers from 1 on, found {sizes}")
    parts = [x, call.const(list(sizes))] if sizes else [x]
    split: Attrs = {"axis": -1} if sizes else {"axis": -1, "num_outputs": 3}
    q, k, v = call.add_many("split", parts, split, 3)
    kept: list[Value | None] = [None, None]
    if past is not None:
        kept = [call.add("gather", [past, call.const(i, dtype=_I64)], axis=0) for i in (0, 1)]
    found = _attend(call, attrs, [q, k, v], kept, _added(call, attrs, k, kept[0], mask, bias), len(call.outputs) > 1)
    if len(call.outputs) < 2:
        return found[:1]
    pair = [call.add("unsqueeze", [value, call.const([0])]) for value in found[1:3]]
    return [found[0], call.add("concat", pair, axis=0)]


def _attend(
    call: Call, attrs: Attrs, qkv: list[Value], past: list[Value | None], mask: Value | None, present: bool,
    scores: bool = False,
) -> list[Value]:  # fmt: skip
    heads = attrs["num_heads"]
    if heads < 1:
        call.fail(f"expected num_heads from 1 on, found {heads}")
    kind: Attrs = {
        "q_num_heads": heads, "kv_num_heads": heads, "scale": attrs["scale"] or None,
        "is_causal": attrs["unidirectional"],
    }  # fmt: skip
    return call.add_many("attention", [*qkv, mask, *past], kind, 4 if scores else 3 if present else 1)


def _added(
    call: Call, attrs: Attrs, k: Value, past: Value | None, mask: Value | None, bias: Value | None
) -> Value | None:
    """What is added to the scores: the bias, and mask_filter_value where a key is masked.

    The mask is [B, T] or [B, S, T] of truths, or says where each sequence ends, [B], and where they begin, [2 * B].
    `k`, and `past` if there is one, say how many keys there are.
    """
    if mask is None:
        return bias
    axes = call.known_rank(mask)
    if axes not in (1, 2, 3):
        call.unsupported("with a mask of no known number of axes" if axes is None else f"with a mask of {axes} axes")
    if axes == 1:
        seen = _between(call, mask, _length(call, k, past), call.add("shape", [k], start=0, end=1))
    else:
        seen = call.add("cast", [mask], **CAST, to=np.dtype(bool))
    raw = call.add("unsqueeze", [seen, call.const([1] if axes == 3 else [1, 2])])
    filled = [call.const(value, dtype=_F32) for value in (0.0, attrs["mask_filter_value"])]
    forbids = call.add("where", [raw, *filled])
    return forbids if bias is None else call.add("add", [bias, forbids])


def _length(call: Call, k: Value, past: Value | None) -> Value:
    """int64 [1]: how many keys there are, of k [B, T, width] or [B, heads, T, size], behind those of the past."""
    axis = 2 if call.known_rank(k) == 4 else 1
    new = call.add("shape", [k], start=axis, end=axis + 1)
    return new if past is None else call.add("add", [new, call.add("shape", [past], start=2, end=3)])


def _between(call: Call, mask: Value, length: Value, batch: Value) -> Value:
    """bool [B, T]: which keys stand before their sequence's end, and not before its begin, which is 0 unless told."""
    zeros = call.add("constant_of_shape", [batch], value=np.zeros(1, np.int64))
    padded = call.add("concat", [call.add("cast", [mask], **CAST, to=_I64), zeros], axis=0)
    twice, axis = call.add("add", [batch, batch]), call.const([0])
    ends, begins = (
        call.add("unsqueeze", [call.add("slice", [padded, a, b, axis, None]), call.const([1])])
        for a, b in ((axis, batch), (batch, twice))
    )
    places = call.add("range", [call.const(0), call.add("squeeze", [length, axis]), call.const(1)])
    late, early = call.add("less", [places, ends]), call.add("greater_or_equal", [places, begins])
    return call.add("and", [late, early])


@contrib(
    "MultiHeadAttention: query key? value? bias? key_padding_mask? attention_bias? past_key? past_value?"
    " past_sequence_length? cache_indirection? -> output present_key? present_value? qk?"
    f" | {_HEADS}"
)
def multi_head_attention(call: Call, attrs: Attrs) -> list[Value]:
    """query [B, S, width], or [B, S, heads, 3, size] with all three; key and value alike, [B, T, heads, 2, size] with
    both, or [B, heads, T, size].
    """
    for index, name in ((8, "past_sequence_length"), (9, "cache_indirection")):
        if call.input(index) is not None:
            call.unsupported(f"with {name}")
    qkv = _unpacked(call)
    if call.input(3) is not None:
        qkv = _biased(call, qkv, call.x(3))
    past = [call.input(6), call.input(7)]
    mask = _added(call, attrs, qkv[1], past[0], call.input(4), call.input(5))
    if call.known_rank(qkv[1]) == 4:  # attention takes operands of one rank: heads of the queries come first too
        qkv[0] = _by_head(call, qkv[0], attrs["num_heads"])
        found = _attend(call, attrs, qkv, past, mask, len(call.outputs) > 1, len(call.outputs) > 3)
        return [_flat(call, found[0]), *found[1:]]
    return _attend(call, attrs, qkv, past, mask, len(call.outputs) > 1, len(call.outputs) > 3)


def _unpacked(call: Call) -> list[Value]:
    query, key, value = call.x(0), call.input(1), call.input(2)
    if key is None:
        return _flat_parts(call, query, 3)
    if value is None:
        return [query, *_flat_parts(call, key, 2)]
    return [query, key, value]


def _flat_parts(call: Call, packed: Value, count: int) -> list[Value]:
    """[B, T, heads, count, size] as `count` of [B, T, heads * size]."""
    parts = call.add_many("split", [packed], {"axis": 3, "num_outputs": count}, count)
    return [_rows(call, part) for part in parts]


def _biased(call: Call, qkv: list[Value], bias: Value) -> list[Value]:
    """A bias of all three in a row; keys and values that are by head already get none."""
    if bias.data is None:
        call.unsupported("with a computed bias")
    by_head = call.known_rank(qkv[1]) == 4
    if by_head:
        call.unsupported("with a bias, and keys by head")
    widths = bias.data.size // 3
    if bias.data.ndim != 1 or bias.data.size % 3:
        call.unsupported("with a bias of values that are wider than keys")
    return [call.add("add", [x, call.const(bias.data[i * widths : (i + 1) * widths])]) for i, x in enumerate(qkv)]


def _by_head(call: Call, x: Value, heads: int, size: int = -1) -> Value:
    """[B, S, heads * size] as [B, heads, S, size]; one of the two may be -1."""
    split = call.add("reshape", [x, call.const([0, 0, heads, size])], allowzero=0)
    return call.add("transpose", [split], perm=(0, 2, 1, 3))


def _flat(call: Call, x: Value) -> Value:
    """[B, heads, S, size] as [B, S, heads * size]."""
    return _rows(call, call.add("transpose", [x], perm=(0, 2, 1, 3)))


def _rows(call: Call, x: Value) -> Value:
    """[B, S, ...] as [B, S, width]."""
    return call.add("reshape", [x, call.const([0, 0, -1])], allowzero=0)


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
    by_head = _by_head(call, x, -1, 2 * table.shape[-1])
    return _flat(call, call.add("rotary_embedding", [by_head, *inputs], num_heads=0, **kind))


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
    q4, k4, v4 = _by_head(call, q, heads), _by_head(call, k, shared), _by_head(call, v, shared)
    if call.input(3) is not None:
        k4, v4 = (_stored(call, call.x(3 + i), x, before, total) for i, x in enumerate((k4, v4)))
    window = attrs["local_window_size"]
    kind: Attrs = {
        "is_causal": attrs["causal"], "scale": attrs["scale"] or None, "softcap": attrs["softcap"],
        "left_window_size": window - 1 if window > 0 else -1,
    }  # fmt: skip
    inputs = [q4, k4, v4, call.input(10), None, None, call.add("add", [before, length])]
    (y,) = call.add_many("attention", inputs, kind, 1)
    return [_flat(call, y), k4, v4][: len(call.outputs)]


def _check_group_query(call: Call, attrs: Attrs) -> None:
    names = ("head_sink", "k_scale", "v_scale", "q_norm_weight", "k_norm_weight")
    for index, name in enumerate(names, 11):
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
    if (call.input(3) is None) != (call.input(4) is None):
        call.fail("expected past_key and past_value together, found one of them")
    if attrs["do_rotary"] and (call.input(7) is None or call.input(8) is None):
        call.fail("do_rotary wants cos_cache and sin_cache, of which one is absent")


def _group_query(call: Call, attrs: Attrs) -> list[Value]:
    """Queries [B, S, heads * size], keys and values [B, S, kv_heads * size]."""
    if call.input(1) is not None and call.input(2) is not None:
        return [call.x(0), call.x(1), call.x(2)]
    heads, shared = attrs["num_heads"], attrs["kv_num_heads"]
    split = call.add("reshape", [call.x(0), call.const([0, 0, heads + 2 * shared, -1])], allowzero=0)
    parts = call.add_many("split", [split, call.const([heads, shared, shared])], {"axis": 2}, 3)
    return [_rows(call, part) for part in parts]


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
