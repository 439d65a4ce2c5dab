"""Operators that are others in disguise: normalizations as reductions and elementwise steps, blocks as transposes."""

from __future__ import annotations

import numpy as np

from ..ir import Graph, Node
from .rewrite import rules_for, sweep
from .uncommon import UNCOMMON

FIRST = {
    "composed.axis_at_run_time": "cum_sum cum_prod",
    "composed.composed": "reduce_mean reduce_l1 reduce_l2 reduce_sum_square reduce_log_sum reduce_log_sum_exp",
    "composed.softmax": "softmax log_softmax",
    "rare_functions.rare": "tan asin acos atan sinh cosh asinh acosh atanh expm1 log1p",
    "small_types.formatted": "cast",
}
ALONE = {"attention.attention_alone": "attention"}
COMMON = {
    "blocks.batch_to_space": "batch_to_space",
    "blocks.depth_to_space": "depth_to_space",
    "blocks.space_to_batch": "space_to_batch",
    "blocks.space_to_depth": "space_to_depth",
    "disguises.affine_grid": "affine_grid",
    "disguises.svdf": "svdf",
    "normalizations.group_normalization": "group_normalization",
    "normalizations.lp_normalization": "lp_normalization",
    "normalizations.lrn": "lrn",
    "normalizations.normalization": "instance_normalization layer_normalization rms_normalization",
    "rare_functions.power": "pow",
    "reductions.reduction": """
        reduce_mean reduce_sum reduce_max reduce_min reduce_prod reduce_l1 reduce_l2 reduce_sum_square
        reduce_log_sum_exp
    """,
    "rotary.rotary_embedding": "rotary_embedding",
}
LAST = {
    "windows.pool": "max_pool average_pool lp_pool",
    "composed.composed": "reduce_mean reduce_l1 reduce_l2",
    "element_types.narrow": """
        reduce_sum reduce_prod reduce_max reduce_min arg_max arg_min cum_sum cum_prod matmul gemm
    """,
}
"""Of f64 normalizations, too."""


OPEN = {"open_weights.open_conv": "conv", "open_weights.open_conv_transpose": "conv_transpose"}
"""Where weights are no constants, or f64."""


def decompose(graph: Graph) -> bool:
    """Given ``y = instance_normalization(x, s, b)``; result reduce_mean, sub, mul, sqrt, ... that kernels run."""
    tables = [UNCOMMON, FIRST, ALONE, {**COMMON, **OPEN} if any(map(_is_open, graph.nodes)) else COMMON, LAST]
    return any([sweep(graph, *rules_for(graph, table)) for table in tables])


def _is_open(node: Node) -> bool:
    w = node.inputs[1] if node.op in ("conv", "conv_transpose") else None
    return w is not None and (w.data is None or w.type.dtype == np.float64)
