"""MIL operators whose parameters are the operands and attributes of one canonical operator.

    name...: operand... -> operator | attribute...

Operands, and attributes with a kind, are parameters, which may be absent where they have a default. An attribute is
written `attribute<parameter` where the two are called differently; one without a kind is a constant. `?` marks
what may be absent and is None then. `signatures` has the kinds. Without `-> operator` the row says what a function
is given, and by which names.
Semantics: coremltools/converters/mil/mil/ops/defs/.
"""

TABLE = """
abs acos asin atan atanh ceil cos cosh erf exp floor relu round shape sigmoid sign sin sinh softplus softsign sqrt
  tan tanh: x ->
add equal greater less mod mul pow sub: x:Alike y:Alike ->
clip: x alpha:float beta:float ->
crop_resize: x:Rank4 | height<target_height:int=1 width<target_width:int=1
  normalized<normalized_coordinates:flag=0 scale<spatial_scale:float=1.0 pad_value:float=0.0
  boxes<box_coordinate_mode:Boxes=corners_height_first sampling<sampling_mode:Sampling=default
depth_to_space: x:Image -> depth_to_space | blocksize<block_size:int mode=DCR
elu: x -> elu | alpha:float
expand_dims: x axes:Ints -> unsqueeze
flatten2d: x -> flatten | axis:int=1
greater_equal: x:Alike y:Alike -> greater_or_equal
leaky_relu: x -> leaky_relu | alpha:float
less_equal: x:Alike y:Alike -> less_or_equal
local_response_norm: x:Last -> lrn | size:int alpha:float=0.0001 beta:float=0.75 bias<k:float=1.0
logical_and: x y -> and
logical_not: x -> not
logical_or: x y -> or
logical_xor: x y -> xor
maximum: x:Alike y:Alike -> max
minimum: x:Alike y:Alike -> min
non_maximum_suppression: boxes scores | max_boxes:int limit<iou_threshold:float
  least<score_threshold:float? per_class<per_class_suppression:flag=0
pixel_shuffle: x:Image -> depth_to_space | blocksize<upscale_factor:int mode=CRD
pixel_unshuffle: x:Image -> space_to_depth | blocksize<downscale_factor:int mode=CRD
prelu: x alpha:Channel ->
range_1d: start:Alike end:Alike step:Alike -> range
real_div: x:Alike y:Alike -> div
reduce_argmax: x -> arg_max | axis:Axis=-1 keepdims<keep_dims:flag=0
reduce_argmin: x -> arg_min | axis:Axis=-1 keepdims<keep_dims:flag=0
resample: x:Rank4 coordinates:Float32 -> resample | mode<sampling_mode:Interpolation padding<padding_mode:Border
  pad_value<padding_value:float=0.0 units<coordinates_mode:Units corners<align_corners:flag=0
reverse_sequence: x lengths:Int64 -> reverse_sequence | time_axis<seq_axis:Axis=0 batch_axis:Axis=0
sigmoid_hard: x -> hard_sigmoid | alpha:float beta:float
silu: x -> swish | alpha=1.0
softmax: x -> softmax | axis:int=-1
space_to_depth: x:Image -> space_to_depth | blocksize<block_size:int mode=DCR
square: x x -> mul
threshold: x alpha:float -> max
tile: x reps:Int64 ->
"""

CHOICES = """
Activation: tanh=Tanh scaled_tanh=Tanh sigmoid=Sigmoid hard_sigmoid=HardSigmoid sigmoid_hard=HardSigmoid
  relu=Relu linear=Affine
Border: constant border reflection symmetric
Boxes: corners_height_first corners_width_first center_size_height_first center_size_width_first
Byte: int8 uint8
Direction: forward reverse bidirectional
Gelu: exact tanh_approximation sigmoid_approximation
Interpolation: bilinear=linear nearest
Odds: logits probs
PadMode: constant reflect replicate=edge
PadType: valid=NOTSET custom=NOTSET same=SAME_UPPER same_lower=SAME_LOWER
Resize: linear nearest_neighbor=nearest
Sampling: strict_align_corners align_corners default unalign_corners offset_corners
Scales: linear lut
Scatter: update add sub mul div max min
Units: unnormalized normalized_minus_one_to_one normalized_zero_to_one
"""
"""Kinds of parameters that are one of several texts, `text=what the graph calls it`."""
