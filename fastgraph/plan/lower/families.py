"""Which file of the families lowers which operators: those of an operator are imported when a graph has it."""

FAMILIES = {
    "flow.branch": "if",
    "flow.loop": "loop scan",
    "gemm.conv": "conv",
    "gemm.conv_transpose": "conv_transpose",
    "gemm.dense": "conv dense matmul",
    "gemm.dynamic": "dynamic_round dynamic_dense dynamic_conv",
    "gemm.matmul": "matmul",
    "move.copy": "reshape concat split slice transpose expand tile",
    "move.gather": "pad gather",
    "move.resize": "resize",
    "pointwise.arg_extreme": "arg_max arg_min",
    "pointwise.cast": "cast",
    "pointwise.elementwise": "fused",
    "pointwise.reduce": """
        reduce_mean reduce_sum reduce_max reduce_min reduce_prod reduce_l1 reduce_l2 reduce_sum_square
        reduce_log_sum reduce_log_sum_exp
    """,
    "pointwise.requantize": "requantize",
    "pointwise.select": "and or xor not equal less less_or_equal greater greater_or_equal where",
    "pointwise.softmax": "softmax log_softmax",
    "pointwise.table": "table",
    "window.depthwise": "conv",
    "window.pool": "reduce_mean reduce_sum max_pool average_pool lp_pool",
}
