"""What every operator of TensorFlow Lite and Circle takes and gives: an entry each, shared by those that are alike.

    NAME NAME=operator: inputs -> results | attributes                  the canonical operator: `name` unless told
    NAME: inputs -> results by file.function | attributes               rules_<file>.py writes it
    NAME: refused why

Inputs are `name` or `name:kind`; `?` optional, `*` any number of, `+` one or more. Kinds:

    vector     whole numbers as a vector of int64 (vector16: of int16 too)
    whole      int32 or int64 as they are
    index      int16, int32 or int64 as they are
    bool       bools
    numbers    constant whole numbers, for a function or an attribute called the same; `number`: one
    kept       stored numbers are kept, whatever quantization the file declares of the result
    like       so too, unless both are quantized
    wide       of the result's element type, where a constant may be int8 beside int16

Results, in order, `?` optional, `*` and `+` as above:

    any        by inference
    same       so; the inputs without a kind are of one element type
    alike      of the inputs' element type
    reals      so, and bytes have a scale
    fused      so, then the fused activation (wraps: plain int16 without one wrap; clamped: plain bytes are fine without
               one; activated: types are not compared)
    moved      elements of input 0, or its padding: stored numbers are kept
    stored     from and to stored numbers, whatever they stand for
    declared   int64, in the element type that the file declares
    rounded    alike; of plain integers, rounded

Attributes are `name`, an option or input that is called the same, or `name=source`: an option, several `a,b` as a
tuple, a number, a 'text'. `?default` serves where custom options lack it; `:conversion` is listed in signatures.py.

TENSORFLOW has TensorFlow's operators that files carry as custom ones: "AddV2" as Circle's tools write it, "FlexAddV2"
as TensorFlow Lite's converter does (tf.raw_ops). CUSTOM has those that TensorFlow Lite and MediaPipe build in
(tflite/kernels/{detection_postprocess, mfcc, audio_spectrogram, numeric_verify, hadamard_rotation}.cc,
tflite/kernels/perception; mediapipe/util/tflite/operations).
"""

BUILTIN = """
ABS CEIL COS EXP FLOOR LOG NEG ROUND SIGN SIN SQRT: x -> alike
ADD MUL: x y -> wraps
ADD_N=sum: values+ -> alike
ARG_MAX ARG_MIN: x axis:number -> declared | axis keepdims=0
ASSIGN_VARIABLE: handle value -> by state.assign_variable
ATAN2: y x -> alike
AVERAGE_POOL_2D: x -> clamped by conv.average_pool | kernel_shape=filter_height,filter_width strides=stride_h,stride_w
  auto_pad=padding:padding
BATCH_MATMUL: x y -> any by conv.batch_matmul
BATCH_TO_SPACE_ND=batch_to_space: x block:vector crops:whole -> moved
BCQ_FULLY_CONNECTED: x scales bits bias? clusters? -> activated by custom.bcq_fully_connected
BCQ_GATHER: scales bits indices clusters -> any by custom.bcq_gather | axis
BIDIRECTIONAL_SEQUENCE_LSTM: x rest+ -> any any? by recurrent.bidirectional_lstm
BIDIRECTIONAL_SEQUENCE_RNN: x w r bias h w2 r2 bias2 h2 aux? aux_w? aux_w2? -> any any? by recurrent.bidirectional_rnn
BITCAST=bit_cast: x -> stored | to=:dtype resize=1
BITWISE_XOR: x y -> stored
BROADCAST_ARGS=broadcast_shapes: x:vector y:vector -> declared
BROADCAST_TO=expand: x shape:vector -> moved
BUCKETIZE: x -> any | boundaries:ascending
CALL: values* -> any* by control.call | index=subgraph
CALL_ONCE: -> by control.call_once
CAST: x -> stored | to=:dtype
COMPLEX_ABS IMAG REAL STABLEHLO_ABS STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_TANH LOGICAL_NOT=not STABLEHLO_COSINE=cos
  STABLEHLO_EXPONENTIAL=exp STABLEHLO_LOGISTIC=sigmoid STABLEHLO_NEGATE=neg: x -> any
CONCATENATION: values+ -> any by slice.concatenation
CONCAT_EMBEDDINGS: refused has a number but no meaning: no kernel of it was ever published
CONV_2D: x w bias? -> activated by conv.conv | strides=stride_h,stride_w dilations=dilation_h_factor,dilation_w_factor
  auto_pad=padding:padding
CONV_3D: x w bias? -> activated by conv.conv | strides=stride_d,stride_h,stride_w
  dilations=dilation_d_factor,dilation_h_factor,dilation_w_factor auto_pad=padding:padding
CONV_3D_TRANSPOSE: shape:whole w x bias? -> activated by conv.conv_transpose | strides=stride_d,stride_h,stride_w
  dilations=dilation_d_factor,dilation_h_factor,dilation_w_factor auto_pad=padding:padding
CUMSUM=cum_sum: x axis:whole -> alike | exclusive reverse
DELEGATE: refused stands for a part that was compiled for another device; use the model from before that
DENSIFY: x -> any by elementwise.densify
DEPTHWISE_CONV_2D: x w bias? -> activated by conv.depthwise | strides=stride_h,stride_w
  dilations=dilation_h_factor,dilation_w_factor auto_pad=padding:padding
DEPTH_TO_SPACE SPACE_TO_DEPTH: x -> moved | blocksize=block_size:positive mode='DCR'
DEQUANTIZE QUANTIZE: x -> any by elementwise.requantize
DILATE: x dilations:numbers fill -> moved by slice.dilate
DIV SUB: x y -> fused
DYNAMIC_UPDATE_SLICE: x update starts:vector -> moved
ELU: x -> reals | alpha=1.0
EMBEDDING_LOOKUP: ids:whole table -> any by slice.embedding_lookup
EMBEDDING_LOOKUP_SPARSE: ids indices shape weights table -> any | combiner
EQUAL GREATER LESS STABLEHLO_ADD GREATER_EQUAL=greater_or_equal LESS_EQUAL=less_or_equal STABLEHLO_DIVIDE=div
  STABLEHLO_MAXIMUM=max STABLEHLO_MINIMUM=min STABLEHLO_MULTIPLY=mul STABLEHLO_POWER=pow STABLEHLO_SUBTRACT=sub: x y
  -> same
EXPAND_DIMS=unsqueeze: x axes:vector -> moved
FAKE_QUANT: x -> any | min max num_bits narrow_range
FILL: shape:vector value -> any by shape.fill
FLOOR_DIV: x y -> alike by elementwise.floor_div
FLOOR_MOD=mod POW: x y -> alike
FULLY_CONNECTED: x w bias? -> activated any? by conv.fully_connected
GATHER: x indices:index -> moved by slice.gather | axis batch=batch_dims
GATHER_ND: x indices:index -> moved | batch_dims=0
GELU: x -> reals | approximate:gelu
GRU: x w b? r c? h -> any by recurrent.gru | layout=time_major:batch_first steps=return_sequences
HARD_SWISH RELU TANH LOGISTIC=sigmoid: x -> reals
LEAKY_RELU: x -> reals | alpha
HASHTABLE: -> any by state.hashtable
HASHTABLE_FIND: handle keys default -> any by state.hashtable_find
HASHTABLE_IMPORT: handle keys values -> by state.hashtable_import
HASHTABLE_LOOKUP: x keys values -> any any
HASHTABLE_SIZE: handle -> any by state.hashtable_size
IF: condition values* -> any* by control.branch | then=then_subgraph_index other=else_subgraph_index
INSTANCE_NORM: x scale shift -> activated by custom.instance_norm | epsilon
L2_NORMALIZATION=lp_normalization: x -> fused | axis=-1 p=2 least=1e-6
L2_POOL_2D: x -> fused by conv.l2_pool | kernel_shape=filter_height,filter_width strides=stride_h,stride_w
  auto_pad=padding:padding
LOCAL_RESPONSE_NORMALIZATION: x -> reals by elementwise.local_response | alpha beta bias
LOGICAL_AND=and LOGICAL_OR=or: x y -> any
LOG_SOFTMAX: x -> reals | axis=-1
LSH_PROJECTION: seeds x weights? -> any | dense=type:lsh
LSTM: x rest+ -> any any? any? any? by recurrent.lstm
MATRIX_DIAG: x -> stored
MATRIX_SET_DIAG: x diagonal -> moved
MAXIMUM=max MINIMUM=min: x:like y:like -> alike
MAX_POOL_2D=max_pool: x:like -> clamped | kernel_shape=filter_height,filter_width strides=stride_h,stride_w
  auto_pad=padding:padding
MEAN=reduce_mean REDUCE_MAX REDUCE_MIN REDUCE_PROD SUM=reduce_sum: x axes:vector -> alike by elementwise.reduction |
  keepdims=keep_dims
MIRROR_PAD: x pads:whole -> moved by slice.pad | mode:lower
MULTINOMIAL=philox_multinomial: x count:vector -> any by state.drawn | seeds=seed,seed2 dtype=:dtype
NON_MAX_SUPPRESSION_V4: boxes scores most:whole overlap least -> declared declared by shape.non_max_suppression
NON_MAX_SUPPRESSION_V5=box_suppression: boxes scores most:whole overlap least sigma -> declared any declared
NOT_EQUAL: x y -> same by elementwise.not_equal
ONE_HOT: indices:whole depth:vector on:kept off:kept -> alike by shape.one_hot | axis
PACK: values+ -> alike by slice.pack | axis count=values_count
PAD: x pads:whole -> moved by slice.pad
PADV2: x pads:whole value -> moved by slice.pad
PLACEHOLDER_FOR_GREATER_OP_CODES: refused is no operator: the file says no newer code beside it
PRELU: x slope:wide -> reals
RANDOM_STANDARD_NORMAL=philox_normal RANDOM_UNIFORM=philox_uniform: shape:vector -> any by state.drawn |
  seeds=seed,seed2
RANGE: start limit delta -> alike
RANK: x -> declared by shape.rank
READ_VARIABLE: handle -> any by state.read_variable
REDUCE_ALL=reduce_min REDUCE_ANY=reduce_max: x:bool axes:vector -> any by elementwise.reduction | keepdims=keep_dims
REDUCE_WINDOW: x initial window:numbers strides:numbers dilations:numbers -> alike |
  reduction=reduce_function:window_reduction window strides dilations
RELU6: x -> reals by elementwise.clamp | low=0 high=6
RELU_0_TO_1: x -> reals by elementwise.clamp | low=0 high=1
RELU_N1_TO_1: x -> reals by elementwise.clamp | low=-1 high=1
RESHAPE: x shape:vector? -> moved by shape.reshape
RESIZE_BILINEAR: x size:vector -> rounded by conv.resize | mode='linear' corners=align_corners
  centers=half_pixel_centers
RESIZE_NEAREST_NEIGHBOR: x:like size:vector -> rounded by conv.resize | mode='nearest' corners=align_corners
  centers=half_pixel_centers
REVERSE_SEQUENCE: x lengths:vector -> moved | time_axis=seq_dim:axis batch_axis=batch_dim:axis
REVERSE_V2: x axes:vector -> moved by slice.reverse
RFFT2D: x lengths:vector -> any by stablehlo.rfft2d
RIGHT_SHIFT=bit_shift: x y -> stored | direction='RIGHT'
RMS_NORM: x gamma beta? -> any by custom.rms_norm | epsilon
RNN: x w r bias h -> activated by recurrent.rnn_step
ROPE: x sine cosine -> same by custom.rope | mode
RSQRT: x -> alike by elementwise.rsqrt
RUN_MODEL: refused runs another model by its path; load that model by itself
SCATTER_ND: indices:whole updates:like shape:vector -> stored by slice.scatter_nd
SEGMENT_SUM=segment_reduce: x ids:whole -> alike | reduction='sum'
SELECT: condition:bool x:kept y:kept -> alike by elementwise.select_rows
SELECT_V2=where: condition:bool x:kept y:kept -> alike
SHAPE: x -> declared
SKIP_GRAM: x -> any | ngram_size max_skip_size include_all_ngrams
SLICE: x begin:vector size:vector -> moved by slice.slice
SOFTMAX: x -> any by elementwise.softmax | beta
SPACE_TO_BATCH_ND=space_to_batch: x block:vector pads:whole -> moved
SPARSE_TO_DENSE: indices:whole shape:vector values:kept other:kept -> alike by slice.sparse_to_dense
SPLIT: axis:number x -> moved+ by slice.split
SPLIT_V: x sizes:vector axis:number -> moved+ by slice.split_v
SQUARE: x -> alike by elementwise.square
SQUARED_DIFFERENCE: x y -> alike by elementwise.squared_difference
SQUEEZE: x -> moved by shape.squeeze | axes=squeeze_dims
STABLEHLO_AND STABLEHLO_OR: x y -> same by stablehlo.bits
STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CBRT STABLEHLO_CLAMP STABLEHLO_COMPARE STABLEHLO_CONVOLUTION
  STABLEHLO_CUSTOM_CALL STABLEHLO_DOT_GENERAL STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_IOTA
  STABLEHLO_REDUCE STABLEHLO_REMAINDER STABLEHLO_SORT: refused has no kernel in TensorFlow Lite: legalize StableHLO
  when converting
STABLEHLO_CASE: number values* -> any* by control.case | indices=branch_subgraph_indices
STABLEHLO_COMPOSITE: values* -> any* by control.call | index=decomposition_subgraph_index
STABLEHLO_CONCATENATE=concat: values+ -> any | axis=dimension
STABLEHLO_CONVERT: x -> any by stablehlo.convert
STABLEHLO_GATHER=gather_slices: x indices:whole -> any | offset_dims collapsed_dims=collapsed_slice_dims
  start_map=start_index_map index_vector_dim slice_sizes
STABLEHLO_PAD=interior_pad: x value -> same | low=edge_padding_low high=edge_padding_high interior=interior_padding
STABLEHLO_REDUCE_WINDOW: x initial -> same by stablehlo.reduce_window | window=window_dimensions
  strides=window_strides base_dilations dilations=window_dilations
STABLEHLO_RESHAPE: x -> any by stablehlo.reshape
STABLEHLO_RNG_BIT_GENERATOR: state -> any any by state.bits | algorithm
STABLEHLO_RSQRT: x -> any by elementwise.rsqrt
STABLEHLO_SCATTER: x indices:whole updates -> same by stablehlo.scatter | offset_dims=update_window_dims
  collapsed_dims=inserted_window_dims start_map=scatter_dims_to_operand_dims index_vector_dim
STABLEHLO_SELECT=where: condition x y -> any
STABLEHLO_SHIFT_LEFT=bit_shift: x y -> same | direction='LEFT'
STABLEHLO_SLICE: x -> any by stablehlo.slice | start=start_indices end=limit_indices strides
STABLEHLO_TRANSPOSE: x -> any | perm=permutation
STABLEHLO_WHILE WHILE: values* -> any* by control.loop | test=cond_subgraph_index body=body_subgraph_index
STRIDED_SLICE: x begin:vector end:vector steps:vector -> moved by slice.strided_slice | offset begin_mask end_mask
  ellipsis_mask new_axis_mask shrink_axis_mask
SVDF: x feature time bias? state -> activated by recurrent.svdf | rank
TILE: x repeats:vector -> moved
TOPK_V2=top_k: x:kept k:vector16 -> alike declared | axis=-1
TRANSPOSE: x perm:numbers -> moved by shape.transpose
TRANSPOSE_CONV: shape:whole w x bias? -> activated by conv.conv_transpose | strides=stride_h,stride_w dilations=1,1
  auto_pad=padding:padding
UNIDIRECTIONAL_SEQUENCE_LSTM: x rest+ -> any by recurrent.sequence_lstm | time_major
UNIDIRECTIONAL_SEQUENCE_RNN: x w r bias h -> any by recurrent.sequence_rnn
UNIQUE: x:kept -> any declared by shape.unique
UNPACK: x -> any+ by slice.unpack | axis count=num
UNSORTED_SEGMENT_MAX=segment_reduce: x ids:whole count:whole -> alike | reduction='max'
UNSORTED_SEGMENT_MIN=segment_reduce: x ids:whole count:whole -> alike | reduction='min'
UNSORTED_SEGMENT_PROD=segment_reduce: x ids:whole count:whole -> alike | reduction='prod'
UNSORTED_SEGMENT_SUM=segment_reduce: x ids:whole count:whole -> alike | reduction='sum'
VAR_HANDLE: -> any by state.var_handle
WHERE: x -> declared by shape.where
ZEROS_LIKE: x -> alike by elementwise.zeros_like
"""

TENSORFLOW = """
Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Elu Erf Exp Expm1 Floor Identity IsInf IsNan Log Log1p Neg
  Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh Inv=reciprocal LogicalNot=not
  Rint=round StopGradient=identity: x -> any
Add Div Equal Greater Less Mul Pow Sub AddV2=add GreaterEqual=greater_or_equal LessEqual=less_or_equal LogicalAnd=and
  LogicalOr=or Maximum=max Minimum=min RealDiv=div: x y -> any
All=reduce_min Any=reduce_max: x axes:vector -> any by elementwise.of_bools | keepdims=keep_dims?0
BatchMatMul BatchMatMulV2 BatchMatMulV3: x y -> any by conv.matmul | a=adj_x?0 b=adj_y?0
BroadcastTo=expand: x shape:vector -> any
Cast: x -> any | to=:dtype
Cumsum=cum_sum: x axis:whole -> any | exclusive?0 reverse?0
Einsum XlaEinsum=einsum: values+ -> any | equation
LogSoftmax Softmax: x -> any | axis=-1
MatMul: x y -> any by conv.matmul | a=transpose_a?0 b=transpose_b?0
MatrixBandPart: x lower:number upper:number -> any by shape.band
Max=reduce_max Mean=reduce_mean Min=reduce_min Prod=reduce_prod Sum=reduce_sum: x axes:vector -> any by
  elementwise.reduction | keepdims=keep_dims?0
MaxPoolWithArgmax: x -> any declared by custom.max_pool_with_argmax
NotEqual: x y -> any by elementwise.not_equal
RandomStandardNormal=philox_normal RandomUniform=philox_uniform: shape:vector -> any by state.tensorflow |
  seeds=seed,seed2?0
Relu6: x -> any by elementwise.clamp | low=0 high=6
Reshape: x shape:vector -> any | allowzero=1
Rsqrt: x -> any by elementwise.rsqrt
Select=where SelectV2=where: condition x y -> any
SplitV=split: x sizes:vector axis:number -> any+ | axis
Square: x -> any by elementwise.square
SquaredDifference: x y -> any by elementwise.squared_difference
Transpose: x perm:numbers -> any | perm
"""

CUSTOM = """
AudioSpectrogram: x -> any | window_size stride squared=magnitude_squared
Convolution2DTransposeBias: x w bias -> same by custom.conv_transpose
DenseImageWarp: x flow -> same
MaxPoolingWithArgmax2D: x -> any any by custom.max_pool
MaxUnpooling2D: x places -> any by custom.max_unpool
Mfcc: x rate -> any | upper_frequency=upper_frequency_limit lower_frequency=lower_frequency_limit
  filters=filterbank_channel_count coefficients=dct_coefficient_count
NumericVerify: x wanted -> any? by custom.numeric_verify
TFLite_Detection_PostProcess=detection_postprocess: boxes scores anchors -> any any any any |
  detections=max_detections classes_per_detection=max_classes_per_detection classes=num_classes
  detections_per_class?100 regular=use_regular_nms?0 score_threshold=nms_score_threshold
  iou_threshold=nms_iou_threshold scales=y_scale,x_scale,h_scale,w_scale
UNIDIRECTIONAL_SEQUENCE_GRU: x h gates gate_bias candidate candidate_bias -> any any by recurrent.sequence_gru
aeq.hadamard_rotation=hadamard_rotation: x -> any | size=hadamard_size
"""
