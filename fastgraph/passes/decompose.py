"""Operators that are others in disguise: normalizations as reductions and elementwise steps, blocks as transposes."""

from __future__ import annotations

import numpy as np

from ..ir import Graph, Node
from .rewrite import rules_for, sweep

UNCOMMON = {
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
    "randoms.bernoulli": "bernoulli",
    "randoms.distribution": "random_normal random_normal_like random_uniform random_uniform_like",
    "randoms.dropout": "dropout",
    "randoms.multinomial": "multinomial",
    "randoms.philox": "philox_uniform philox_normal",
    "randoms.philox_multinomial": "philox_multinomial",
    "randoms.random_bits": "random_bits",
    "recurrences.causal_conv": "causal_conv_with_state",
    "recurrences.linear_attention": "linear_attention",
    "regions.crop_resize": "crop_resize",
    "regions.deform_conv": "deform_conv",
    "regions.roi_align": "roi_align",
    "spectra.audio_spectrogram": "audio_spectrogram",
    "spectra.complex_abs": "complex_abs",
    "spectra.dft": "dft",
    "spectra.hadamard_rotation": "hadamard_rotation",
    "spectra.mfcc": "mfcc",
    "spectra.part": "real imag",
    "spectra.rfft2d": "rfft2d",
    "spectra.stft": "stft",
    "windows.col2im": "col2im",
    "windows.lp_pool": "lp_pool",
    "windows.max_unpool": "max_unpool",
}
"""Operators that few networks have: rules that write what the others see."""
PIXELS = {"pixels.resized_whole": "resize"}
"""Of whole numbers."""
PLACES = {"pools.max_pool_places": "max_pool"}
"""Of pools with a second result."""
DOUBLES = {
    "doubles.double": """
        sigmoid tanh softplus softsign mish hard_swish hard_sigmoid swish leaky_relu thresholded_relu elu celu
        selu gelu
    """,
    "doubles.square": "pow",
}
DOUBLES_LAST = {
    "composed.composed": "reduce_mean reduce_l1 reduce_l2",
    "windows.pool": "max_pool average_pool lp_pool",
}
"""Where there is f64, before the rest and after it."""
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
    "word_pool.word_pool": "average_pool",
}
LAST = {
    "element_types.narrow": """
        reduce_sum reduce_prod reduce_max reduce_min arg_max arg_min cum_sum cum_prod matmul gemm
    """,
}
OPEN = {"open_weights.open_conv": "conv", "open_weights.open_conv_transpose": "conv_transpose"}
"""Where weights are no constants, or f64."""


def decompose(graph: Graph) -> bool:
    """Given ``y = instance_normalization(x, s, b)``; result reduce_mean, sub, mul, sqrt, ... that kernels run."""
    doubles = any(v.type.dtype == np.float64 for node in graph.nodes for v in node.outputs)
    places = any(node.op == "max_pool" and len(node.outputs) > 1 for node in graph.nodes)
    pixels = any(node.op == "resize" and node.out.type.dtype != np.float32 for node in graph.nodes)
    uncommon = {**UNCOMMON, **(PLACES if places else {}), **(PIXELS if pixels else {})}
    tables = [uncommon, FIRST, ALONE, COMMON, LAST]
    if doubles:
        tables = [uncommon, DOUBLES, FIRST, ALONE, COMMON, {**DOUBLES_LAST, **LAST}]
    return any([sweep(graph, *rules_for(graph, _with_open(graph, table))) for table in tables])


def _with_open(graph: Graph, table: dict[str, str]) -> dict[str, str]:
    """COMMON has the rules of OPEN, too, where what came before it leaves such layers; others as they are."""
    return {**table, **OPEN} if table is COMMON and any(map(_is_open, graph.nodes)) else table


def _is_open(node: Node) -> bool:
    w = node.inputs[1] if node.op in ("conv", "conv_transpose") else None
    return w is not None and (w.data is None or w.type.dtype == np.float64)
