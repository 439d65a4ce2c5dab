"""Normalizations of onnxruntime's own: with the sum that is normalized, of embeddings, of groups of channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call
from .contrib import Attrs, contrib
from .linear import real

_SKIP = "output mean? inv_std_var? input_skip_bias_sum? | epsilon=1e-12"
_GROUPS = "activation:int! channels_last=1 epsilon=1e-05 groups:int!"


def _sum(call: Call, *values: Value | None) -> Value:
    total, *rest = (v for v in values if v is not None)
    for value in rest:
        total = call.add("add", [total, value])
    return total


@contrib(f"SkipLayerNormalization: input skip gamma beta? bias? -> {_SKIP}")
def skip_layer(call: Call, attrs: Attrs) -> list[Value]:
    total = _sum(call, call.x(0), call.x(1), call.input(4))
    return _with_sum(call, "layer_normalization", [total, call.x(2), call.input(3)], attrs["epsilon"])


@contrib(f"SkipSimplifiedLayerNormalization: input skip gamma bias? -> {_SKIP}")
def skip_rms(call: Call, attrs: Attrs) -> list[Value]:
    total = _sum(call, call.x(0), call.x(1), call.input(3))
    return _with_sum(call, "rms_normalization", [total, call.x(2)], attrs["epsilon"])


def _with_sum(call: Call, op: str, inputs: list[Value | None], epsilon: float) -> list[Value]:
    """The normalized sum; the second and third outputs are none that inference has."""
    if any(call.outputs[1:3]):
        call.unsupported("that gives mean or inv_std_var, which training wants")
    unused = inputs[0]
    assert unused is not None
    return [call.add(op, inputs, axis=-1, epsilon=epsilon, stash_type=1), unused, unused, unused][: len(call.outputs)]


@contrib(
    "EmbedLayerNormalization: input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma beta"
    " mask? position_ids? -> output mask_index? embedding_sum? | epsilon=1e-12 mask_index_type=0"
)
def embed_layer(call: Call, attrs: Attrs) -> list[Value]:
    tables = [call.x(2), call.x(3), call.input(4)]
    return _embedded(call, tables, [call.x(5), call.x(6)], call.input(7), call.input(8), attrs["epsilon"])


@contrib(
    "QEmbedLayerNormalization: input_ids segment_ids? word_embedding_quant position_embedding_quant"
    " segment_embedding? gamma_quant beta_quant mask? word_embedding_scale position_embedding_scale"
    " segment_embedding_scale? gamma_scale beta_scale word_embedding_zero_point position_embedding_zero_point"
    " segment_embedding_zero_point? gamma_zero_point beta_zero_point -> layernorm_out mask_index_out? | epsilon=1e-12"
)
def quantized_embed_layer(call: Call, attrs: Attrs) -> list[Value]:
    stored = {i: call.input(i) for i in range(2, 7)}
    tables = [None if x is None else real(call, x, call.x(i + 6), call.x(i + 11)) for i, x in stored.items()]
    return _embedded(call, tables[:3], tables[3:], call.input(7), None, attrs["epsilon"])


def _embedded(
    call: Call, tables: list[Value | None], affine: list[Value | None], mask: Value | None, positions: Value | None,
    epsilon: float,
) -> list[Value]:  # fmt: skip
    """[normalized sum of the words', positions' and segments' rows, how many words the mask has, the sum]."""
    words, places, segments = tables
    ids, of_segments = call.x(0), call.input(1)
    if (segments is None) != (of_segments is None):
        call.fail("expected segment_ids and segment_embedding together, found one of them")
    assert words is not None and places is not None
    total = call.add("gather", [words, ids], axis=0)
    if positions is None:
        length = call.add("shape", [ids], start=1, end=2)
        at: Any = call.add("slice", [places, call.const([0]), length, call.const([0]), None])
    else:
        at = call.add("gather", [places, positions], axis=0)
    total = call.add("add", [total, at])
    if segments is not None:
        total = call.add("add", [total, call.add("gather", [segments, of_segments], axis=0)])
    y = call.add("layer_normalization", [total, *affine], axis=-1, epsilon=epsilon, stash_type=1)
    return [y, _present(call, ids, mask), total][: len(call.outputs)]


def _present(call: Call, ids: Value, mask: Value | None) -> Value:
    """int32 [N]: how many words of each row the mask has; 0 without a mask."""
    if mask is None:
        rows = call.add("shape", [ids], start=0, end=1)
        return call.add("constant_of_shape", [rows], value=np.zeros(1, np.int32))
    return call.add("reduce_sum", [mask, call.const([1])], keepdims=0, noop_with_empty_axes=0)


@contrib(f"GroupNorm: X gamma beta -> Y | {_GROUPS}")
def group_norm(call: Call, attrs: Attrs) -> Value:
    return _groups(call, call.x(0), attrs)


@contrib(f"SkipGroupNorm: X gamma beta skip bias? -> Y S? | {_GROUPS}")
def skip_group_norm(call: Call, attrs: Attrs) -> list[Value]:
    """X and skip of [N, H, W, C]; skip may be [N, 1, 1, C] or [N, C], and bias is [C]."""
    skip = call.x(3)
    if call.known_rank(skip) == 2:
        skip = call.add("unsqueeze", [skip, call.const([1, 2])])
    total = _sum(call, call.x(0), skip, call.input(4))
    return [_groups(call, total, attrs), total]


def _groups(call: Call, x: Value, attrs: Attrs) -> Value:
    """Each group of channels with mean 0 and variance 1, times gamma, plus beta; then x * sigmoid(x), if wanted."""
    gamma, beta, groups = call.x(1), call.x(2), attrs["groups"]
    if attrs["activation"] not in (0, 1):
        call.fail(f"expected activation as 0 or 1, found {attrs['activation']}")
    if gamma.data is None or groups < 1 or gamma.data.size % groups:
        call.unsupported(f"whose gamma is no constant of channels that {groups} groups share")
    last = bool(attrs["channels_last"])
    first = call.add("transpose", [x], perm=(0, 3, 1, 2)) if last else x
    y = call.add("group_normalization", [first, gamma, beta], num_groups=groups, epsilon=attrs["epsilon"])
    y = call.add("transpose", [y], perm=(0, 2, 3, 1)) if last else y
    return call.add("swish", [y], alpha=1.0) if attrs["activation"] else y
