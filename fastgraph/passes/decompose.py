"""Operators that are others in disguise: normalizations as reductions and elementwise steps, blocks as transposes."""

from __future__ import annotations

from ..ir import Graph, Node
from .rewrite import rules_for, sweep
from .uncommon import UNCOMMON

RARE = {
    "contractions.einsum": "einsum",
    "disguises.circular_scatter": "tensor_scatter",
    "disguises.det": "det",
    "disguises.shrink": "shrink",
    "disguises.swiglu": "swiglu",
    "losses.loss": "negative_log_likelihood_loss softmax_cross_entropy_loss",
    "ngrams.tf_idf_vectorizer": "tf_idf_vectorizer",
    "normalizations.mean_variance": "mean_variance_normalization",
    "normalizations.open_batch_norm": "batch_normalization",
    "open_scales.conv_integer": "conv_integer",
    "open_scales.dequantized": "dequantize_linear",
    "open_scales.matmul_integer": "matmul_integer",
    "open_scales.qlinear_conv": "qlinear_conv",
    "open_scales.qlinear_matmul": "qlinear_matmul",
    "open_scales.quantized": "quantize_linear",
    "pools.max_pool_places": "max_pool",
    "recurrences.causal_conv": "causal_conv_with_state",
    "recurrences.linear_attention": "linear_attention",
}
"""Rules that write what the others see."""
FIRST = {
    "attention.causal_mask": "attention",
    "composed.axis_at_run_time": "cum_sum cum_prod",
    "composed.composed": "reduce_mean reduce_l1 reduce_l2 reduce_sum_square reduce_log_sum reduce_log_sum_exp",
    "composed.softmax": "softmax log_softmax",
    "grouped.grouped_channels": "instance_normalization",
    "rare_functions.rare": "tan asin acos atan sinh cosh asinh acosh atanh expm1 log1p",
    "slice_places.slice_update": "slice_update",
    "small_types.formatted": "cast",
}
ALONE = {"attention.attention_alone": "attention"}
REDUCTIONS = {
    "reductions.reduction": """
        reduce_mean reduce_sum reduce_max reduce_min reduce_prod reduce_l1 reduce_l2 reduce_sum_square
        reduce_log_sum_exp
    """,
}
COMMON = {
    "blocks.batch_to_space": "batch_to_space",
    "blocks.depth_to_space": "depth_to_space",
    "blocks.space_to_batch": "space_to_batch",
    "blocks.space_to_depth": "space_to_depth",
    "disguises.affine_grid": "affine_grid",
    "disguises.bucketize": "bucketize",
    "disguises.fake_quant": "fake_quant",
    "disguises.svdf": "svdf",
    "normalizations.group_normalization": "group_normalization",
    "normalizations.lp_normalization": "lp_normalization",
    "normalizations.lrn": "lrn",
    "normalizations.normalization": "instance_normalization layer_normalization rms_normalization",
    "rare_functions.power": "pow",
    **REDUCTIONS,
    "rotary.rotary_embedding": "rotary_embedding",
}
LAST = {
    "composed.composed": "reduce_mean reduce_l1 reduce_l2",
    "element_types.narrow": """
        reduce_sum reduce_prod reduce_max reduce_min arg_max arg_min cum_sum cum_prod matmul gemm
    """,
}
"""Of f64 normalizations, too."""


OPEN = {"open_weights.open_conv": "conv", "open_weights.open_conv_transpose": "conv_transpose"}
"""Where weights are no constants."""


def decompose(graph: Graph) -> bool:
    """Given ``y = instance_normalization(x, s, b)``; result reduce_mean, sub, mul, sqrt, ... that kernels run."""
    tables = [UNCOMMON, RARE, FIRST, ALONE]
    common = {**COMMON, **OPEN} if any(map(_has_open_weights, graph.nodes)) else COMMON
    changed = [sweep(graph, *rules_for(graph, table)) for table in tables]
    return any([*changed, *(sweep(graph, *rules_for(graph, table)) for table in (common, LAST))])


def _has_open_weights(node: Node) -> bool:
    w = node.inputs[1] if node.op in ("conv", "conv_transpose") else None
    return w is not None and w.data is None
