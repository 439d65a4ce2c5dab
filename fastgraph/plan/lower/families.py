"""Which file of the families lowers which operators: those of an operator are imported when a graph has it."""

FAMILIES = {
    "custom": "custom",
    "attention.attention": "attention",
    "flow.branch": "if",
    "flow.loop": "loop scan",
    "gemm.blocks": "block_dense",
    "gemm.conv": "conv",
    "gemm.conv_transpose": "conv_transpose",
    "gemm.dense": "conv dense matmul",
    "gemm.dynamic": "dynamic_round dynamic_dense dynamic_conv",
    "gemm.matmul": "matmul",
    "move.copy": "reshape reinterpret concat split slice transpose expand tile",
    "move.diagonal": "trilu eye_like matrix_diag matrix_set_diag checked_indices",
    "move.gather": "pad center_crop_pad gather",
    "move.places": "gather gather_elements gather_nd gather_batches gather_slices reverse_sequence",
    "move.resize": "resize",
    "move.sample": "grid_sample resample crop_resize sample_boxes",
    "move.scatter": """
        scatter_elements scatter_nd scatter_slices dynamic_update_slice tensor_scatter one_hot hardmax
        max_unpool
    """,
    "move.slice_update": "slice_update",
    "move.non_zero": "bounded_non_zero",
    "move.suppress": "non_max_suppression box_suppression",
    "move.top_k": "top_k",
    "pointwise.arg_extreme": "arg_max arg_min",
    "pointwise.cast": "cast bit_cast",
    "pointwise.elementwise": "fused",
    "pointwise.norm": "layer_normalization rms_normalization",
    "pointwise.exact": """
        add sub mul div floor_div copysign min max neg sign floor ceil round sqrt reciprocal pow prelu and or xor equal
        less less_or_equal is_nan greater greater_or_equal bitwise_and bitwise_or bitwise_xor bitwise_not mod bit_shift
        is_inf not abs where clip relu exp expm1 log log1p atan sin cos erf cast
    """,
    "pointwise.product": "matmul",
    "pointwise.random": "random_words",
    "pointwise.reduce": """
        reduce_mean reduce_sum reduce_max reduce_min reduce_prod reduce_l1 reduce_l2 reduce_sum_square
        reduce_log_sum reduce_log_sum_exp
    """,
    "pointwise.requantize": "requantize",
    "pointwise.running": "cum_sum cum_prod",
    "pointwise.select": "equal less less_or_equal greater greater_or_equal where",
    "pointwise.softmax": "softmax log_softmax",
    "pointwise.table": "table",
    "recurrent.recurrent": "rnn gru lstm",
    "recurrent.sequence": "lstm_sequence",
    "window.depthwise": "conv",
    "window.pool": "reduce_mean reduce_sum max_pool average_pool lp_pool",
}
