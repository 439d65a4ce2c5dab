"""Operators that are others in disguise: normalizations as reductions and elementwise steps, blocks as transposes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ..ir import Graph, Node, TensorType
from .rewrite import rules_for, sweep

FOLDER = "decompositions"
UNCOMMON = {
    "contractions.einsum": "einsum",
    "disguises.circular_scatter": "tensor_scatter",
    "disguises.det": "det",
    "disguises.shrink": "shrink",
    "disguises.swiglu": "swiglu",
    "losses.loss": "negative_log_likelihood_loss softmax_cross_entropy_loss",
    "lstm.lstm_sequence": "lstm_sequence",
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
PLACES = {"pools.max_pool_places": "max_pool"}
"""Of pools with a second result."""
DOUBLES = {
    "doubles.double": """
        sigmoid tanh softplus softsign mish hard_swish hard_sigmoid swish leaky_relu thresholded_relu elu celu
        selu gelu
    """,
    "composed.softmax": "softmax log_softmax",
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
    "grouped.grouped_channels": "instance_normalization",
    "rare_functions.rare": "tan asin acos atan sinh cosh asinh acosh atanh expm1 log1p",
    "slice_places.slice_update": "slice_update",
    "small_types.formatted": "cast",
}
OTHERS = {
    "composed.composed": "reduce_mean reduce_l1 reduce_l2 reduce_sum_square reduce_log_sum reduce_log_sum_exp",
    "element_types.scattered_bools": "scatter_elements scatter_nd scatter_slices",
    "pixels.resized_whole": "resize",
    "word_pool.word_pool": "average_pool",
}
"""Of element types beside f32 and 8 bits that stand for reals."""
ALONE = {"attention.attention_alone": "attention"}
REDUCTIONS = {
    "reductions.reduction": """
        reduce_mean reduce_sum reduce_max reduce_min reduce_prod reduce_l1 reduce_l2 reduce_sum_square
        reduce_log_sum reduce_log_sum_exp
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
    "element_types.narrow": """
        reduce_sum reduce_prod reduce_max reduce_min arg_max arg_min cum_sum cum_prod matmul
    """,
}
STORED = {"open_weights.stored_weights": "conv conv_transpose"}
"""Of stored numbers, with weights that are no constants."""
OPEN = {"open_weights.open_conv": "conv", "open_weights.open_conv_transpose": "conv_transpose"}
"""Where weights are no constants, or f64."""


def decompose(graph: Graph) -> bool:
    """Given ``y = instance_normalization(x, s, b)``; result reduce_mean, sub, mul, sqrt, ... that kernels run."""
    return any([sweep(graph, *rules_for(graph, table, FOLDER)) for table in _tables(graph)])


def _tables(graph: Graph) -> Iterator[Mapping[str, str]]:
    """The tables in order, each chosen when those before it have been swept."""
    places = any(node.op == "max_pool" and len(node.outputs) > 1 for node in graph.nodes)
    yield {**UNCOMMON, **PLACES} if places else UNCOMMON
    doubles = any(v.type.dtype == np.float64 for node in graph.nodes for v in node.outputs)
    if doubles:
        yield DOUBLES
    others = any(_is_other(v.type) for node in graph.nodes for v in node.outputs)
    yield {**FIRST, **OTHERS} if others else FIRST
    yield ALONE
    opened = [node for node in graph.nodes if _is_open(node)]
    if any(node.x.type.quant is not None for node in opened):
        yield STORED
    yield {**COMMON, **OPEN} if opened else COMMON
    if others:
        yield {**DOUBLES_LAST, **LAST} if doubles else LAST


def _is_other(kind: TensorType) -> bool:
    return kind.dtype != np.float32 and (kind.quant is None or kind.dtype not in (np.int8, np.uint8))


def _is_open(node: Node) -> bool:
    w = node.inputs[1] if node.op in ("conv", "conv_transpose") else None
    return w is not None and (w.data is None or w.type.dtype == np.float64)
