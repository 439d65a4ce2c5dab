"""Which file of this folder defines which operators: that of an operator is imported when the operator is asked for."""

FAMILIES = {
    "activation": """
        relu sigmoid softplus softsign mish hard_swish swish leaky_relu thresholded_relu hard_sigmoid elu celu selu
        gelu shrink softmax log_softmax hardmax swiglu
    """,
    "arrange": "compress non_zero bounded_non_zero unique reverse_sequence center_crop_pad",
    "attention": "attention rotary_embedding",
    "audio": "audio_spectrogram mfcc rfft2d hadamard_rotation",
    "block_dense": "block_dense",
    "blocks": """
        strided_slice slice_update dynamic_update_slice gather_batches space_to_batch batch_to_space matrix_diag
        matrix_set_diag broadcast_shapes
    """,
    "cast": "cast cast_like bit_cast",
    "control": "if loop scan sequence_map",
    "conv": "conv conv_integer conv_transpose",
    "custom": "custom",
    "crop": "crop_resize sample_boxes resample",
    "detection": "non_max_suppression listed_places max_roi_pool max_unpool col2im",
    "detection_postprocess": "detection_postprocess",
    "dynamic": "dynamic_round dynamic_conv dynamic_dense",
    "elementwise": """
        abs neg ceil floor round sign sqrt reciprocal exp log erf tanh sin cos tan asin acos atan sinh cosh asinh
        acosh atanh expm1 log1p not bitwise_not add sub mul div floor_div atan2 copysign bitwise_and bitwise_or
        bitwise_xor equal less less_or_equal greater greater_or_equal and or xor max min real imag complex_abs sum mean
        identity pow mod bit_shift prelu clip where is_nan is_inf
    """,
    "fake_quant": "fake_quant",
    "fill": "range one_hot trilu eye_like",
    "fused": "table dense fused",
    "gather": "gather_elements gather_nd checked_indices scatter_elements scatter_nd tensor_scatter",
    "index": "slice pad concat split gather top_k",
    "linear_attention": "linear_attention causal_conv_with_state",
    "lists": "list_make list_write",
    "lookup": "hashtable_lookup hashtable_find embedding_lookup_sparse lsh_projection skip_gram bucketize",
    "loss": "negative_log_likelihood_loss softmax_cross_entropy_loss",
    "lstm_sequence": "lstm_sequence svdf",
    "matmul": "matmul matmul_integer gemm einsum det inverse",
    "normalization": """
        batch_normalization instance_normalization layer_normalization rms_normalization group_normalization lrn
        lp_normalization mean_variance_normalization global_lp_pool
    """,
    "philox": "philox_uniform philox_normal philox_multinomial random_bits random_words",
    "pool": "max_pool average_pool lp_pool",
    "pool_places": "max_pool_places max_unpool_places",
    "quantize": "quantize_linear dequantize_linear dynamic_quantize_linear qlinear_conv qlinear_matmul",
    "random": "random_normal random_normal_like random_uniform random_uniform_like multinomial bernoulli dropout",
    "reals": "requantize reinterpret",
    "recurrent": "rnn gru lstm",
    "reduce": """
        reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_l1 reduce_l2 reduce_sum_square
        reduce_log_sum reduce_log_sum_exp arg_max arg_min cum_sum cum_prod
    """,
    "resize": "resize",
    "sample": "grid_sample affine_grid deform_conv roi_align",
    "segment": "segment_reduce",
    "sequence": """
        sequence_construct sequence_empty sequence_insert sequence_erase sequence_at sequence_length
        concat_from_sequence split_to_sequence optional optional_get_element optional_has_element
    """,
    "shape": """
        transpose reshape flatten squeeze unsqueeze expand tile shape size constant_of_shape depth_to_space
        space_to_depth
    """,
    "signal": "dft stft hann_window hamming_window blackman_window mel_weight_matrix",
    "slices": "gather_slices scatter_slices",
    "suppression": "box_suppression select_boxes",
    "text": "string_concat string_split regex_full_match string_normalizer tf_idf_vectorizer",
    "warp": "dense_image_warp",
    "window_reduce": "interior_pad reduce_window",
}
