"""What every operator of ai.onnx takes and gives, in its newest operator set: an entry for all that are alike.

    Names: input optional? variadic* -> output optional? | attribute=default attribute:type! attribute:type?

`!` marks a required attribute and `?` one without a default, which is None when absent. A default's
spelling tells its type (1, 1.0, text); other types are ints, floats, strs, dtype, tensor, graph and type.
From the definitions in onnx/docs/Operators.md; `legacy` brings what older operator sets say into this form.
"""

TABLE = """
Abs BitwiseNot Ceil Det Floor GlobalAveragePool GlobalMaxPool HardSwish IsNaN Mish Neg NonZero Not Reciprocal Relu
  Round Sigmoid Softplus Sqrt: X -> Y
Acos Acosh Asin Asinh Atan Atanh Cos Cosh Erf Exp Identity Log OptionalGetElement Sign Sin Sinh Softsign Tan Tanh:
  input -> output
Add And BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Mul Or Sub Xor: A B -> C
AffineGrid: theta size -> grid | align_corners=0
ArgMax ArgMin: data -> reduced | axis=0 keepdims=1 select_last_index=0
Attention: Q K V attn_mask? past_key? past_value? nonpad_kv_seqlen? -> Y present_key? present_value? qk_matmul_output?
  | is_causal=0 kv_num_heads:int? left_window_size=-1 q_num_heads:int? qk_matmul_output_mode=0 right_window_size=-1
  scale:float? softcap=0.0 softmax_precision:dtype?
AveragePool: X -> Y | auto_pad=NOTSET ceil_mode=0 count_include_pad=0 dilations:ints? kernel_shape:ints! pads:ints?
  strides:ints?
BatchNormalization: X scale B input_mean input_var -> Y running_mean? running_var? | epsilon=1e-05 momentum=0.9
  training_mode=0
Bernoulli: input -> output | dtype:dtype? seed:float?
BitCast: input -> output | to:dtype!
BitShift: X Y -> Z | direction:str!
BlackmanWindow HammingWindow HannWindow: size -> output | output_datatype:dtype=1 periodic=1
Cast: input -> output | round_mode=up saturate=1 to:dtype!
CastLike: input target_type -> output | round_mode=up saturate=1
CausalConvWithState: input weight bias? past_state? -> output present_state | activation=none
Celu Elu Swish ThresholdedRelu: X -> Y | alpha=1.0
CenterCropPad: input_data shape -> output_data | axes:ints?
Clip: input min? max? -> output
Col2Im: input image_shape block_shape -> output | dilations:ints? pads:ints? strides:ints?
Compress: input condition -> output | axis:int?
Concat: inputs* -> concat_result | axis:int!
ConcatFromSequence: input_sequence -> concat_result | axis:int! new_axis=0
Constant: -> output | sparse_value:tensor? value:tensor? value_float:float? value_floats:floats? value_int:int?
  value_ints:ints? value_string:str? value_strings:strs?
ConstantOfShape: input -> output | value:tensor?
Conv: X W B? -> Y | auto_pad=NOTSET dilations:ints? group=1 kernel_shape:ints? pads:ints? strides:ints?
ConvInteger: x w x_zero_point? w_zero_point? -> y | auto_pad=NOTSET dilations:ints? group=1 kernel_shape:ints?
  pads:ints? strides:ints?
ConvTranspose: X W B? -> Y | auto_pad=NOTSET dilations:ints? group=1 kernel_shape:ints? output_padding:ints?
  output_shape:ints? pads:ints? strides:ints?
CumProd CumSum: x axis -> y | exclusive=0 reverse=0
DFT: input dft_length? axis? -> output | inverse=0 onesided=0
DeformConv: X W offset B? mask? -> Y | dilations:ints? group=1 kernel_shape:ints? offset_group=1 pads:ints?
  strides:ints?
DepthToSpace SpaceToDepth: input -> output | blocksize:int! mode=DCR
DequantizeLinear: x x_scale x_zero_point? -> y | axis=1 block_size=0 output_dtype:dtype=0
Dropout: data ratio? training_mode? -> output mask? | seed:int?
DynamicQuantizeLinear: x -> y y_scale y_zero_point
Einsum: Inputs* -> Output | equation:str!
Expand: input shape -> output
EyeLike: input -> output | dtype:dtype? k=0
Flatten: input -> output | axis=1
GRU: X W R B? sequence_lens? initial_h? -> Y? Y_h? | activation_alpha:floats? activation_beta:floats?
  activations:strs? clip:float? direction=forward hidden_size:int? layout=0 linear_before_reset=0
Gather GatherElements: data indices -> output | axis=0
GatherND: data indices -> output | batch_dims=0
Gelu: X -> Y | approximate=none
Gemm: A B C? -> Y | alpha=1.0 beta=1.0 transA=0 transB=0
GlobalLpPool: X -> Y | p=2
GridSample: X grid -> Y | align_corners=0 mode=linear padding_mode=zeros
GroupNormalization: X scale bias -> Y | epsilon=1e-05 num_groups:int! stash_type:dtype=1
HardSigmoid: X -> Y | alpha=0.2 beta=0.5
Hardmax LogSoftmax Softmax: input -> output | axis=-1
If: cond -> outputs* | else_branch:graph! then_branch:graph!
ImageDecoder: encoded_stream -> image | pixel_format=RGB
InstanceNormalization: input scale B -> output | epsilon=1e-05
IsInf: X -> Y | detect_negative=1 detect_positive=1
LRN: X -> Y | alpha=0.0001 beta=0.75 bias=1.0 size:int!
LSTM: X W R B? sequence_lens? initial_h? initial_c? P? -> Y? Y_h? Y_c? | activation_alpha:floats?
  activation_beta:floats? activations:strs? clip:float? direction=forward hidden_size:int? input_forget=0 layout=0
LayerNormalization: X Scale B? -> Y Mean? InvStdDev? | axis=-1 epsilon=1e-05 stash_type:dtype=1
LeakyRelu: X -> Y | alpha=0.01
LinearAttention: query key value past_state? decay? beta? -> output present_state | chunk_size=64 kv_num_heads:int!
  q_num_heads:int! scale=0.0 update_rule=gated_delta
Loop: M? cond? v_initial* -> v_final_and_scan_outputs* | body:graph!
LpNormalization: input -> output | axis=-1 p=2
LpPool: X -> Y | auto_pad=NOTSET ceil_mode=0 dilations:ints? kernel_shape:ints! p=2 pads:ints? strides:ints?
MatMul: A B -> Y
MatMulInteger: A B a_zero_point? b_zero_point? -> Y
Max: data_0* -> max
MaxPool: X -> Y Indices? | auto_pad=NOTSET ceil_mode=0 dilations:ints? kernel_shape:ints! pads:ints? storage_order=0
  strides:ints?
MaxRoiPool: X rois -> Y | pooled_shape:ints! spatial_scale=1.0
MaxUnpool: X I output_shape? -> output | kernel_shape:ints! pads:ints? strides:ints?
Mean: data_0* -> mean
MeanVarianceNormalization: X -> Y | axes:ints=0,2,3
MelWeightMatrix: num_mel_bins dft_length sample_rate lower_edge_hertz upper_edge_hertz -> output |
  output_datatype:dtype=1
Min: data_0* -> min
Mod: A B -> C | fmod=0
Multinomial: input -> output | dtype:dtype=6 sample_size=1 seed:float?
NegativeLogLikelihoodLoss: input target weight? -> loss | ignore_index:int? reduction=mean
NonMaxSuppression: boxes scores max_output_boxes_per_class? iou_threshold? score_threshold? -> selected_indices |
  center_point_box=0
OneHot: indices depth values -> output | axis=-1
Optional: input? -> output | type:type?
OptionalHasElement: input? -> output
PRelu: X slope -> Y
Pad: data pads constant_value? axes? -> output | mode=constant
Pow StringConcat: X Y -> Z
QLinearConv: x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B? -> y | auto_pad=NOTSET
  dilations:ints? group=1 kernel_shape:ints? pads:ints? strides:ints?
QLinearMatMul: a a_scale a_zero_point b b_scale b_zero_point y_scale y_zero_point -> y
QuantizeLinear: x y_scale y_zero_point? -> y | axis=1 block_size=0 output_dtype:dtype=0 precision:dtype=0 saturate=1
RMSNormalization: X scale -> Y | axis=-1 epsilon=1e-05 stash_type:dtype=1
RNN: X W R B? sequence_lens? initial_h? -> Y? Y_h? | activation_alpha:floats? activation_beta:floats?
  activations:strs? clip:float? direction=forward hidden_size:int? layout=0
RandomNormal: -> output | dtype:dtype=1 mean=0.0 scale=1.0 seed:float? shape:ints!
RandomNormalLike: input -> output | dtype:dtype? mean=0.0 scale=1.0 seed:float?
RandomUniform: -> output | dtype:dtype=1 high=1.0 low=0.0 seed:float? shape:ints!
RandomUniformLike: input -> output | dtype:dtype? high=1.0 low=0.0 seed:float?
Range: start limit delta -> output | stash_type:dtype=1
ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare:
  data axes? -> reduced | keepdims=1 noop_with_empty_axes=0
RegexFullMatch: X -> Y | pattern:str?
Reshape: data shape -> reshaped | allowzero=0
Resize: X roi? scales? sizes? -> Y | antialias=0 axes:ints? coordinate_transformation_mode=half_pixel
  cubic_coeff_a=-0.75 exclude_outside=0 extrapolation_value=0.0 keep_aspect_ratio_policy=stretch mode=nearest
  nearest_mode=round_prefer_floor
ReverseSequence: input sequence_lens -> Y | batch_axis=1 time_axis=0
RoiAlign: X rois batch_indices -> Y | coordinate_transformation_mode=half_pixel mode=avg output_height=1
  output_width=1 sampling_ratio=0 spatial_scale=1.0
RotaryEmbedding: X cos_cache sin_cache position_ids? -> Y | interleaved=0 num_heads:int? rotary_embedding_dim=0
STFT: signal frame_step window? frame_length? -> output | onesided=1
Scan: initial_state_and_scan_inputs* -> final_state_and_scan_outputs* | body:graph! num_scan_inputs:int!
  scan_input_axes:ints? scan_input_directions:ints? scan_output_axes:ints? scan_output_directions:ints?
ScatterElements: data indices updates -> output | axis=0 reduction=none
ScatterND: data indices updates -> output | reduction=none
Selu: X -> Y | alpha=1.67326319 gamma=1.05070102
SequenceAt: input_sequence position -> tensor
SequenceConstruct: inputs* -> output_sequence
SequenceEmpty: -> output | dtype:dtype?
SequenceErase: input_sequence position? -> output_sequence
SequenceInsert: input_sequence tensor position? -> output_sequence
SequenceLength: input_sequence -> length
SequenceMap: input_sequence additional_inputs* -> out_sequence* | body:graph!
Shape: data -> shape | end:int? start=0
Shrink: input -> output | bias=0.0 lambd=0.5
SimplifiedLayerNormalization: X scale -> Y inv_std_var? | axis=-1 epsilon=1e-05 stash_type=1
Size: data -> size
Slice: data starts ends axes? steps? -> output
SoftmaxCrossEntropyLoss: scores labels weights? -> output log_prob? | ignore_index:int? reduction=mean
Split: input split? -> outputs* | axis=0 num_outputs:int?
SplitToSequence: input split? -> output_sequence | axis=0 keepdims=1
Squeeze: data axes? -> squeezed
StringNormalizer: X -> Y | case_change_action=NONE is_case_sensitive=0 locale:str? stopwords:strs?
StringSplit: X -> Y Z | delimiter:str? maxsplit:int?
Sum: data_0* -> sum
SwiGLU: A B -> Y | alpha=1.0
TensorScatter: past_cache update write_indices? -> present_cache | axis=-2 mode=linear
TfIdfVectorizer: X -> Y | max_gram_length:int! max_skip_count:int! min_gram_length:int! mode:str! ngram_counts:ints!
  ngram_indexes:ints! pool_int64s:ints? pool_strings:strs? weights:floats?
Tile: input repeats -> output
TopK: X K -> Values Indices | axis=-1 largest=1 sorted=1
Transpose: data -> transposed | perm:ints?
Trilu: input k? -> output | upper=1
Unique: X -> Y indices? inverse_indices? counts? | axis:int? sorted=1
Unsqueeze: data axes -> expanded
Where: condition X Y -> output
"""
