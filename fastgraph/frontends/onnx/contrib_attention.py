"""onnxruntime's attention operators, as projections and ONNX's attention."""

from __future__ import annotations

import numpy as np

from ...ir import Value
from .call import Call
from .contrib import Attrs, contrib
from .contrib_dynamic import integer_product
from .heads import by_head, flat, rows
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
        _check_ends(call, mask)
        seen = _between(call, mask, _length(call, k, past), call.add("shape", [k], start=0, end=1))
    else:
        seen = call.add("cast", [mask], **CAST, to=np.dtype(bool))
    raw = call.add("unsqueeze", [seen, call.const([1] if axes == 3 else [1, 2])])
    filled = [call.const(value, dtype=_F32) for value in (0.0, attrs["mask_filter_value"])]
    forbids = call.add("where", [raw, *filled])
    return forbids if bias is None else call.add("add", [bias, forbids])


def _check_ends(call: Call, mask: Value) -> None:
    """ModelError where a mask of one axis is seen to have another length than a batch of ends, or ends and begins."""
    (count,), (batch, *_) = mask.type.shape or (None,), call.x(0).type.shape or (None,)
    if isinstance(count, int) and isinstance(batch, int) and count not in (batch, 2 * batch):
        call.fail(f"expected a mask of {batch} ends, or as many begins behind them, found {count} numbers")


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
    if attrs["unidirectional"]:
        attrs, mask = _in_order(call, attrs, qkv, past[0], mask)
    if call.known_rank(qkv[1]) == 4:  # attention takes operands of one rank: heads of the queries come first too
        qkv[0] = by_head(call, qkv[0], attrs["num_heads"])
        found = _attend(call, attrs, qkv, past, mask, len(call.outputs) > 1, len(call.outputs) > 3)
        return [flat(call, found[0]), *found[1:]]
    return _attend(call, attrs, qkv, past, mask, len(call.outputs) > 1, len(call.outputs) > 3)


def _in_order(
    call: Call, attrs: Attrs, qkv: list[Value], past: Value | None, mask: Value | None
) -> tuple[Attrs, Value | None]:
    """The attributes and the mask for queries that see the keys up to their own: of more keys than queries, the last
    query sees all.
    """
    (_, count, *_), keys = qkv[0].type.shape or (None, None), qkv[1].type.shape or (None, None)
    new = keys[2 if len(keys) == 4 else 1]
    if count is not None and count == new or isinstance(count, int) and isinstance(new, int) and count > new:
        return attrs, mask
    attrs = {**attrs, "unidirectional": 0}
    if count == 1:
        return attrs, mask
    queries = call.add("shape", [qkv[0]], start=1, end=2)
    row, place = (
        call.add("range", [call.const(0), call.add("squeeze", [n, call.const([0])]), call.const(1)])
        for n in (queries, _length(call, qkv[1], past))
    )
    row = call.add("unsqueeze", [row, call.const([1])])
    own = row if past is None else call.add("add", [row, call.add("shape", [past], start=2, end=3)])
    last = call.add("greater_or_equal", [row, call.add("sub", [queries, call.const([1])])])
    seen = call.add("or", [call.add("less_or_equal", [place, own]), last])
    filled = [call.const(value, dtype=_F32) for value in (0.0, np.finfo(np.float32).min)]
    forbids = call.add("where", [seen, *filled])
    return attrs, forbids if mask is None else call.add("add", [mask, forbids])


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
    return [rows(call, part) for part in parts]


def _biased(call: Call, qkv: list[Value], bias: Value) -> list[Value]:
    """A bias of all three in a row; keys and values that are by head already get none."""
    if call.known_rank(qkv[1]) == 4:
        call.unsupported("with a bias, and keys by head")
    if bias.data is None:  # a view of a constant, as a rule: its size is checked where types are known
        parts = call.add_many("split", [bias], {"axis": 0, "num_outputs": 3}, 3)
    elif bias.data.ndim != 1 or bias.data.size % 3:
        call.unsupported("with a bias of values that are wider than keys")
    else:
        parts = [call.const(part) for part in np.split(bias.data, 3)]
    return [call.add("add", [x, part]) for x, part in zip(qkv, parts, strict=True)]
