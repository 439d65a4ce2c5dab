"""Normalizations of onnxruntime's own: with the sum that is normalized, of embeddings, of groups of channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call
from .contrib import contrib
from .linear import real

_SKIP = "output mean? inv_std_var? input_skip_bias_sum? | epsilon=1e-12"
_GROUPS = "activation:int! channels_last=1 epsilon=1e-05 groups:int!"


@contrib(f"SkipLayerNormalization: input skip gamma beta? bias? -> {_SKIP}")
def skip_layer(
    c: Call, x: Value, skip: Value, gamma: Value, beta: Value | None, bias: Value | None, epsilon: float
) -> list[Value]:
    return _with_sum(c, _sum(x, skip, bias), "layer_normalization", gamma, beta, epsilon=epsilon)


@contrib(f"SkipSimplifiedLayerNormalization: input skip gamma bias? -> {_SKIP}")
def skip_rms(c: Call, x: Value, skip: Value, gamma: Value, bias: Value | None, epsilon: float) -> list[Value]:
    return _with_sum(c, _sum(x, skip, bias), "rms_normalization", gamma, epsilon=epsilon)


def _sum(x: Value, y: Value, bias: Value | None) -> Value:
    return x + y if bias is None else x + y + bias


def _with_sum(c: Call, total: Value, op: str, *weights: Value | None, epsilon: float) -> list[Value]:
    """The normalized sum, and the sum; the outputs between them are for training."""
    if any(c.outputs[1:3]):
        c.unsupported("that gives mean or inv_std_var, which training wants")
    return [c(op, total, *weights, epsilon=epsilon), total, total, total]


@contrib(
    "EmbedLayerNormalization: input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma beta"
    " mask? position_ids? -> output mask_index? embedding_sum? | epsilon=1e-12 mask_index_type=0"
)
def embed_layer(c: Call, ids: Value, of_segments: Value | None, *inputs: Any, epsilon: float, **_: int) -> list[Value]:
    *weights, mask, places = inputs
    return _embedded(c, (ids, of_segments, places), weights, mask, epsilon)


@contrib(
    "QEmbedLayerNormalization: input_ids segment_ids? word_embedding_quant position_embedding_quant"
    " segment_embedding? gamma_quant beta_quant mask? word_embedding_scale position_embedding_scale"
    " segment_embedding_scale? gamma_scale beta_scale word_embedding_zero_point position_embedding_zero_point"
    " segment_embedding_zero_point? gamma_zero_point beta_zero_point -> layernorm_out mask_index_out? | epsilon=1e-12"
)
def quantized_embed_layer(c: Call, ids: Value, of_segments: Value | None, *inputs: Any, epsilon: float) -> list[Value]:
    stored, mask, scales, zeros = inputs[:5], inputs[5], inputs[6:11], inputs[11:]
    parts = zip(stored, scales, zeros, strict=True)
    weights = [None if x is None else real(c, x, scale, zero) for x, scale, zero in parts]
    return _embedded(c, (ids, of_segments, None), weights, mask, epsilon)


def _embedded(
    c: Call, indices: tuple[Value, Value | None, Value | None], weights: list[Any], mask: Value | None, epsilon: float
) -> list[Value]:
    """[normalized sum of the words', segments' and positions' rows, how many words the mask has, the sum]."""
    (ids, of_segments, places), (words, positions, segments, gamma, beta) = indices, weights
    if (segments is None) != (of_segments is None):
        c.fail("expected segment_ids and segment_embedding together, found one of them")
    total = c.pick(words, ids)
    if places is None:
        total = total + c("slice", positions, [0], c.extent(ids, 1), [0])
    else:
        total = total + c.pick(positions, places)
    if segments is not None:
        total = total + c.pick(segments, of_segments)
    count = c("constant_of_shape", c.extent(ids, 0), value=np.zeros(1, np.int32)) if mask is None else c.sum(mask, [1])
    return [c("layer_normalization", total, gamma, beta, epsilon=epsilon), count, total]


@contrib(f"GroupNorm: X gamma beta -> Y | {_GROUPS}")
def group_norm(
    c: Call, x: Value, gamma: Value, beta: Value, *, activation: int, channels_last: int, epsilon: float, groups: int
) -> Value:
    """Each group of channels with mean 0 and variance 1, times gamma, plus beta; then x * sigmoid(x), if wanted."""
    if activation not in (0, 1):
        c.fail(f"expected activation as 0 or 1, found {activation}")
    if gamma.data is None or groups < 1 or gamma.data.size % groups:
        c.unsupported(f"whose gamma is no constant of channels that {groups} groups share")
    first = c.transpose(x, 0, 3, 1, 2) if channels_last else x
    y = c("group_normalization", first, gamma, beta, num_groups=groups, epsilon=epsilon)
    y = c.transpose(y, 0, 2, 3, 1) if channels_last else y
    return c("swish", y) if activation else y


@contrib(f"SkipGroupNorm: X gamma beta skip bias? -> Y S? | {_GROUPS}")
def skip_group_norm(
    c: Call, x: Value, gamma: Value, beta: Value, skip: Value, bias: Value | None, **attrs: Any
) -> list[Value]:
    """X and skip of [N, H, W, C]; skip may be [N, 1, 1, C] or [N, C], and bias is [C]."""
    total = _sum(x, c("unsqueeze", skip, [1, 2]) if c.known_rank(skip) == 2 else skip, bias)
    return [group_norm(c, total, gamma, beta, **attrs), total]
