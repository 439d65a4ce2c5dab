"""onnxruntime's attention operators, as projections and ONNX's attention."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ...ir import Value
from .call import Call
from .contrib import contrib
from .contrib_linear import integer_product

_HEADS = "mask_filter_value=-10000.0 num_heads:int! scale:float? unidirectional=0"
_SELF = f"do_rotary=0 past_present_share_buffer=0 {_HEADS}"


@contrib(
    "Attention: input weights bias? mask_index? past? attention_bias? past_sequence_length? -> output present?"
    f" | {_SELF} qkv_hidden_sizes:ints? rotary_embedding_dim:int?"
)
def self_attention(c: Call, *inputs: Any, **attrs: Any) -> list[Value]:
    x, weights, bias, mask, past, added, _ = inputs
    x = x @ weights if bias is None else x @ weights + bias
    return _self_attention(c, attrs, x, mask, past, added)


@contrib(
    "QAttention: input weight bias input_scale weight_scale mask_index? input_zero_point? weight_zero_point? past?"
    f" -> output present? | {_SELF}"
)
def quantized_attention(c: Call, *inputs: Any, **attrs: Any) -> list[Value]:
    x, weights, bias, x_scale, w_scale, mask, x_zero, w_zero, past = inputs
    y = integer_product(c, (x, x_scale, x_zero), (weights, w_scale, w_zero), bias)
    return _self_attention(c, attrs, y, mask, past, None)


def _self_attention(
    c: Call, attrs: dict[str, Any], x: Value, mask: Value | None, past: Value | None, added: Value | None
) -> list[Value]:
    """Attention of x [B, S, queries | keys | values]; past and present are [2, B, heads, T, size]."""
    for name in ("do_rotary", "past_present_share_buffer"):
        if attrs[name]:
            c.unsupported(f"with {name}, which onnxruntime has on GPUs only")
    sizes = attrs.get("qkv_hidden_sizes")
    if sizes and (len(sizes) != 3 or min(sizes) < 1):
        c.fail(f"expected qkv_hidden_sizes of three numbers from 1 on, found {sizes}")
    q, k, v = c.several("split", 3, x, sizes, axis=-1) if sizes else c.several("split", 3, x, axis=-1, num_outputs=3)
    kept: list[Any] = [None, None] if past is None else [c.pick(past, i) for i in (0, 1)]
    mask = _mask(c, attrs, k, kept[0], mask, added)
    y, *present = _attend(c, attrs, [q, k, v], kept, mask)
    return [y, c.join([c("unsqueeze", value, [0]) for value in present[:2]], axis=0)] if present else [y]


def _attend(
    c: Call, attrs: dict[str, Any], qkv: list[Value], past: list[Value | None], mask: Value | None
) -> list[Value]:
    """The result; then keys and values for the next run, and scores, as far as they are asked for."""
    heads = attrs["num_heads"]
    if heads < 1:
        c.fail(f"expected num_heads from 1 on, found {heads}")
    kind = {"is_causal": attrs["unidirectional"], "scale": attrs["scale"] or None}
    count = (1, 1, 3, 3, 4)[len(c.outputs)]
    return c.several("attention", count, *qkv, mask, *past, q_num_heads=heads, kv_num_heads=heads, **kind)


def _mask(
    c: Call, attrs: dict[str, Any], k: Value, past: Value | None, mask: Value | None, added: Value | None
) -> Value | None:
    """What is added to the scores: `added`, and mask_filter_value where a key is masked.

    The mask is [B, T] or [B, S, T] of truths, or says where each sequence ends, [B], and where they begin, [2 * B].
    `k`, and `past` if there is one, say how many keys there are.
    """
    if mask is None:
        return added
    axes = c.known_rank(mask)
    if axes not in (1, 2, 3):
        c.unsupported("with a mask of no known number of axes" if axes is None else f"with a mask of {axes} axes")
    seen = c.cast(mask, bool) if axes != 1 else _between(c, mask, _length(c, k, past), c.extent(k, 0))
    return _where(c, c("unsqueeze", seen, [1] if axes == 3 else [1, 2]), attrs["mask_filter_value"], added)


def _where(c: Call, seen: Value, otherwise: float, added: Value | None) -> Value:
    """0 where a key is seen, else a number; and `added`."""
    mask = c.choose(seen, c.const(0, dtype=np.float32), otherwise)
    return mask if added is None else added + mask


def _length(c: Call, k: Value, past: Value | None) -> Value:
    """int64 [1]: how many keys there are, of k [B, T, width] or [B, heads, T, size], behind those of the past."""
    new = c.extent(k, 2 if c.known_rank(k) == 4 else 1)
    return new if past is None else new + c.extent(past, 2)


def _between(c: Call, mask: Value, length: Value, batch: Value) -> Value:
    """bool [B, T]: which keys stand before their sequence's end, and not before its begin, which is 0 unless told."""
    (count,), (size, *_) = mask.type.shape or (None,), c.x(0).type.shape or (None,)
    if isinstance(count, int) and isinstance(size, int) and count not in (size, 2 * size):
        c.fail(f"expected a mask of {size} ends, or as many begins behind them, found {count} numbers")
    zeros = c("constant_of_shape", batch, value=np.zeros(1, np.int64))
    padded = c.join([c.cast(mask, np.int64), zeros], axis=0)
    ends, begins = (
        c("unsqueeze", c("slice", padded, start, end, [0]), [1])
        for start, end in (([0], batch), (batch, batch + batch))
    )
    places = c.places(length)
    return (places < ends) & (places >= begins)


@contrib(
    "MultiHeadAttention: query key? value? bias? key_padding_mask? attention_bias? past_key? past_value?"
    " past_sequence_length? cache_indirection? -> output present_key? present_value? qk?"
    f" | {_HEADS}"
)
def multi_head_attention(c: Call, query: Value, *inputs: Any, **attrs: Any) -> list[Value]:
    """query [B, S, width], or [B, S, heads, 3, size] with all three; key and value alike, [B, T, heads, 2, size] with
    both, or [B, heads, T, size].
    """
    key, value, bias, mask, added, *past, length, indirection = inputs
    for given, name in ((length, "past_sequence_length"), (indirection, "cache_indirection")):
        if given is not None:
            c.unsupported(f"with {name}")
    if key is None:
        qkv = _unpacked(c, query, 3)
    else:
        qkv = [query, *_unpacked(c, key, 2)] if value is None else [query, key, value]
    qkv = qkv if bias is None else _biased(c, qkv, bias)
    mask = _mask(c, attrs, qkv[1], past[0], mask, added)
    if attrs["unidirectional"]:
        attrs, mask = _in_order(c, attrs, qkv, past[0], mask)
    if c.known_rank(qkv[1]) != 4:
        return _attend(c, attrs, qkv, past, mask)
    qkv[0] = by_head(c, qkv[0], attrs["num_heads"])  # attention takes operands of one rank
    y, *others = _attend(c, attrs, qkv, past, mask)
    return [flat(c, y), *others]


def _in_order(
    c: Call, attrs: dict[str, Any], qkv: list[Value], past: Value | None, mask: Value | None
) -> tuple[dict[str, Any], Value | None]:
    """The attributes and the mask of causal attention; of more keys than queries, the last query sees all."""
    (_, count, *_), keys = qkv[0].type.shape or (None, None), qkv[1].type.shape or (None, None)
    new = keys[2 if len(keys) == 4 else 1]
    if count is not None and count == new or isinstance(count, int) and isinstance(new, int) and count > new:
        return attrs, mask
    attrs = {**attrs, "unidirectional": 0}
    if count == 1:
        return attrs, mask
    queries = c.extent(qkv[0], 1)
    row, place = c("unsqueeze", c.places(queries), [1]), c.places(_length(c, qkv[1], past))
    own = row if past is None else row + c.extent(past, 2)
    seen = (place <= own) | (row >= queries - 1)
    return attrs, _where(c, seen, float(np.finfo(np.float32).min), mask)


def _unpacked(c: Call, packed: Value, count: int) -> list[Value]:
    """[B, T, heads, count, size] as `count` of [B, T, heads * size]."""
    return [rows(c, part) for part in c.several("split", count, packed, axis=3, num_outputs=count)]


def _biased(c: Call, qkv: list[Value], bias: Value) -> list[Value]:
    """A bias of all three in a row, of which values may have another width; keys and values that are by head already
    have theirs.
    """
    by_heads = c.known_rank(qkv[1]) == 4
    width, values, found = ((v.type.shape or (None,))[-1] for v in (qkv[0], qkv[2], bias))
    if isinstance(width, int):
        if not by_heads and isinstance(values, int) and isinstance(found, int) and found != 2 * width + values:
            c.fail(f"expected a bias of {2 * width + values} numbers, found {found}")
        ends = [0, width, 2 * width, np.iinfo(np.int64).max]
        parts = [c("slice", bias, [start], [end], [0]) for start, end in pairwise(ends)]
    else:
        parts = c.several("split", 3, bias, axis=0, num_outputs=3)
    count = 1 if by_heads else 3
    return [x + part for x, part in zip(qkv[:count], parts[:count], strict=True)] + qkv[count:]


def by_head(c: Call, x: Value, heads: int, size: int = -1) -> Value:
    """[B, S, heads * size] as [B, heads, S, size]; one of the two may be -1."""
    return c.transpose(c.reshape(x, 0, 0, heads, size), 0, 2, 1, 3)


def flat(c: Call, x: Value) -> Value:
    """[B, heads, S, size] as [B, S, heads * size]."""
    return rows(c, c.transpose(x, 0, 2, 1, 3))


def rows(c: Call, x: Value) -> Value:
    """[B, S, ...] as [B, S, width]."""
    return c.reshape(x, 0, 0, -1)
