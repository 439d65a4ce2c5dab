"""Rules by phase, and the operators that each sees. Written by `python -m docs.catalog`."""

CATALOG = {
    "splits": {
        "passes.attention.split_of_reshape": "split",
    },
    "attention": {
        "passes.attention.attention_of_products": "matmul",
    },
    "branches": {
        "passes.branches.parallel_convolutions": "add",
    },
    "canonical": {
        "passes.canonicalize.spatial_axes": "*",
        "passes.canonicalize.strided_slice": "strided_slice",
        "passes.canonicalize.identity": "cast clip dropout expand identity pad resize slice tile",
        "passes.canonicalize.one_input": "concat max mean min sum",
        "passes.canonicalize.variadic": "max mean min sum",
        "passes.canonicalize.transpose": "transpose",
        "passes.canonicalize.reshape": "*",
        "passes.canonicalize.after_reshape": "*",
        "passes.canonicalize.spread_operand": "*",
        "passes.canonicalize.gemm": "gemm",
        "passes.canonicalize.matmul": "matmul",
        "passes.canonicalize.batch_norm": "batch_normalization",
        "passes.canonicalize.explicit_window": "*",
        "passes.gathers.known_gather": "gather",
    },
    "sinking": {
        "passes.canonicalize.transpose": "transpose",
        "passes.layout.sink": "*",
    },
    "reshapes": {
        "passes.canonicalize.reshape": "*",
    },
    "masks": {
        "passes.decompositions.attention.attention_alone": "attention",
    },
    "early": {
        "passes.decompositions.attention.causal_mask": "attention",
        "passes.decompositions.element_types.formatted": "cast",
        "passes.decompositions.normalizations.grouped_channels": "instance_normalization",
        "passes.decompositions.rare_functions.rare": "acos acosh asin asinh atan atanh celu cosh expm1 log1p sinh tan",
        "passes.decompositions.reductions.axis_at_run_time": "cum_prod cum_sum",
        "passes.decompositions.slice_places.slice_update": "slice_update",
    },
    "common": {
        "passes.decompositions.blocks.depth_to_space": "depth_to_space",
        "passes.decompositions.blocks.space_to_depth": "space_to_depth",
        "passes.decompositions.blocks.space_to_batch": "space_to_batch",
        "passes.decompositions.blocks.batch_to_space": "batch_to_space",
        "passes.decompositions.disguises.affine_grid": "affine_grid",
        "passes.decompositions.disguises.fake_quant": "fake_quant",
        "passes.decompositions.normalizations.normalization": "instance_normalization layer_normalization rms_normalization",
        "passes.decompositions.normalizations.group_normalization": "group_normalization",
        "passes.decompositions.normalizations.lp_normalization": "lp_normalization",
        "passes.decompositions.normalizations.lrn": "lrn",
        "passes.decompositions.rare_functions.power": "pow",
        "passes.decompositions.rotary.rotary_embedding": "rotary_embedding",
        "extras.bucketize.bucketize": "bucketize",
        "extras.svdf.svdf": "svdf",
    },
    "rare": {
        "passes.decompositions.contractions.einsum": "einsum",
        "passes.decompositions.disguises.swiglu": "swiglu",
        "passes.decompositions.disguises.shrink": "shrink",
        "passes.decompositions.disguises.det": "det",
        "passes.decompositions.disguises.circular_scatter": "tensor_scatter",
        "passes.decompositions.normalizations.open_batch_norm": "batch_normalization",
        "passes.decompositions.normalizations.mean_variance": "mean_variance_normalization",
        "passes.decompositions.open_scales.quantized": "quantize_linear",
        "passes.decompositions.open_scales.dequantized": "dequantize_linear",
        "passes.decompositions.open_scales.matmul_integer": "matmul_integer",
        "passes.decompositions.open_scales.qlinear_matmul": "qlinear_matmul",
        "passes.decompositions.open_scales.conv_integer": "conv_integer",
        "passes.decompositions.open_scales.qlinear_conv": "qlinear_conv",
        "passes.decompositions.windows.lp_pool": "lp_pool",
        "passes.decompositions.windows.col2im": "col2im",
        "passes.decompositions.windows.max_pool_places": "max_pool",
        "extras.audio.audio_spectrogram": "audio_spectrogram",
        "extras.audio.mfcc": "mfcc",
        "extras.audio.hadamard_rotation": "hadamard_rotation",
        "extras.crop_resize.crop_resize": "crop_resize",
        "extras.deform_conv.deform_conv": "deform_conv",
        "extras.image_warp.warp": "dense_image_warp",
        "extras.linear_attention.linear_attention": "linear_attention",
        "extras.linear_attention.causal_conv": "causal_conv_with_state",
        "extras.losses.loss": "negative_log_likelihood_loss softmax_cross_entropy_loss",
        "extras.lstm_sequence.lstm_sequence": "lstm_sequence",
        "extras.random.distribution": "random_normal random_normal_like random_uniform random_uniform_like",
        "extras.random.bernoulli": "bernoulli",
        "extras.random.dropout": "dropout",
        "extras.random.multinomial": "multinomial",
        "extras.random.philox": "philox_normal philox_uniform",
        "extras.random.philox_multinomial": "philox_multinomial",
        "extras.random.random_bits": "random_bits",
        "extras.regions.roi_align": "roi_align",
        "extras.spectra.dft": "dft",
        "extras.spectra.stft": "stft",
        "extras.spectra.rfft2d": "rfft2d",
        "extras.spectra.part": "imag real",
        "extras.spectra.complex_abs": "complex_abs",
        "extras.text.tf_idf.tf_idf_vectorizer": "tf_idf_vectorizer",
        "extras.unpool.max_unpool": "max_unpool",
        "extras.window_reduce.interior_pad": "interior_pad",
        "extras.window_reduce.reduce_window": "reduce_window",
    },
    "pads": {
        "passes.decompositions.contractions.spread_matmul": "matmul",
        "passes.fuse.fold_pad": "conv",
    },
    "exponents": {
        "passes.decompositions.element_types.exponent": "pow",
    },
    "narrow_types": {
        "passes.decompositions.element_types.narrow": "arg_max arg_min cum_prod cum_sum matmul reduce_max reduce_min reduce_prod reduce_sum",
    },
    "other_types": {
        "passes.decompositions.element_types.scattered_bools": "scatter_elements scatter_nd scatter_slices",
        "passes.decompositions.element_types.resized_whole": "resize",
        "passes.decompositions.reductions.composed": "reduce_l1 reduce_l2 reduce_log_sum reduce_log_sum_exp reduce_mean reduce_sum_square",
        "passes.decompositions.windows.word_pool": "average_pool",
    },
    "stored_weights": {
        "passes.decompositions.open_weights.stored_weights": "conv conv_transpose",
    },
    "open_weights": {
        "passes.decompositions.open_weights.open_conv": "conv",
        "passes.decompositions.open_weights.open_conv_transpose": "conv_transpose",
    },
    "last_chains": {
        "passes.decompositions.phases.phases": "conv_transpose",
        "passes.fuse.for_each_element": "fused",
    },
    "reductions": {
        "passes.decompositions.reductions.reduction": "reduce_l1 reduce_l2 reduce_log_sum reduce_log_sum_exp reduce_max reduce_mean reduce_min reduce_prod reduce_sum reduce_sum_square",
    },
    "f64_rest": {
        "passes.decompositions.reductions.composed": "reduce_l1 reduce_l2 reduce_log_sum reduce_log_sum_exp reduce_mean reduce_sum_square",
        "passes.decompositions.windows.pool": "average_pool lp_pool max_pool",
    },
    "f64": {
        "passes.decompositions.reductions.softmax": "log_softmax softmax",
        "extras.doubles.double": "celu elu gelu hard_sigmoid hard_swish leaky_relu mish selu sigmoid softplus softsign swish tanh thresholded_relu",
        "extras.doubles.square": "pow",
    },
    "small_maps": {
        "passes.decompositions.small_maps.small_map": "conv",
    },
    "linear": {
        "passes.explicit_quantization.linear": "dequantize_linear quantize_linear",
        "passes.explicit_quantization.moves_stored": "*",
    },
    "moved": {
        "passes.explicit_quantization.moved_constant": "reshape transpose",
        "passes.explicit_quantization.moved": "*",
    },
    "whole_products": {
        "passes.explicit_quantization.stored_gemm": "gemm",
        "passes.quantized.integer_product.whole_product": "conv_integer matmul_integer",
        "passes.quantized.integer_product.rounded_by_range": "dynamic_quantize_linear",
    },
    "integers_moved": {
        "passes.explicit_quantization.moved": "*",
        "passes.to_integers.requantized_twice": "requantize",
    },
    "padded": {
        "passes.explicit_quantization.padded": "pad",
    },
    "factors": {
        "passes.fuse.fold_affine": "add div mul sub",
        "passes.fuse.fold_past_relu": "add div mul sub",
        "passes.fuse.squares": "reduce_mean reduce_sum",
    },
    "chains": {
        "passes.fuse.as_chain": "*",
    },
    "counts": {
        "passes.lists.counted": "loop",
    },
    "lists": {
        "passes.lists.listed": "loop",
        "passes.lists.joined_parts": "concat_from_sequence",
    },
    "norms": {
        "passes.norms.norm_of_means": "div mul",
        "passes.norms.scale_of_norm": "mul",
        "passes.norms.bias_of_norm": "add",
    },
    "block_weights": {
        "passes.quantized.coded_layer.block_layer": "gemm matmul",
    },
    "coded_layers": {
        "passes.quantized.coded_layer.coded_layer": "dense matmul",
    },
    "dynamic_layers": {
        "passes.quantized.dynamic_layer.dynamic_layer": "conv dense",
    },
    "scaled_products": {
        "passes.quantized.integer_product.integer_product": "mul",
    },
    "reference": {
        "passes.quantized.integer_product.rounded_by_range": "dynamic_quantize_linear",
        "extras.lstm_sequence.by_scan": "lstm_sequence",
    },
    "signs": {
        "passes.quantized.signs.reads_signed": "dense fused requantize",
        "passes.quantized.signs.writes_signed": "requantize",
    },
    "tables": {
        "passes.quantized.tables.tabulate": "*",
    },
    "rows": {
        "passes.row_loops.by_rows": "reduce_max reduce_mean reduce_min reduce_sum",
    },
    "shuffles": {
        "passes.shuffles.ordered_channels": "transpose",
    },
    "spatial": {
        "passes.spatial.to_last": "transpose",
        "passes.spatial.joint": "*",
        "passes.spatial.single": "*",
    },
    "integers": {
        "passes.to_integers.moves_integers": "*",
        "passes.to_integers.never_nan": "where",
        "passes.to_integers.on_integers": "*",
        "passes.to_integers.absorb": "requantize",
    },
    "clamps": {
        "passes.to_integers.requantized_twice": "requantize",
        "passes.to_integers.clamp": "clip relu",
    },
    "integer_chains": {
        "passes.to_integers.as_chain": "*",
    },
    "real_constants": {
        "passes.to_integers.real_constants": "*",
    },
}
