"""MIL operators whose parameters are the operands and attributes of one canonical operator.

    name...: operand... -> operator | attribute...

Operands, and attributes with a kind (`signatures.KINDS`), are parameters, which may be absent with a default or `?`;
`*` stands for several values. An attribute is written `attribute<parameter` where the two are called differently; one
without a kind is a constant. Without `-> operator` the graph's operator has the same name.
Semantics: coremltools/converters/mil/mil/ops/defs/.
"""

TABLE = """
abs acos asin atan atanh ceil cos cosh erf exp floor relu round shape sigmoid sign sin sinh softplus softsign sqrt
  tan tanh: x
add equal greater less mod mul pow sub: x:Alike y:Alike
clip: x alpha:float beta:float
cumsum: x axis:Axis=0 -> cum_sum | exclusive:flag=0 reverse:flag=0
depth_to_space: x:Image | blocksize<block_size:int mode=DCR
elu: x | alpha:float
expand_dims: x axes:Ints -> unsqueeze
flatten2d: x -> flatten | axis:int=1
gather_along_axis: x:Dense indices:Indices -> gather_elements | axis:Axis=0
gather_nd: x:Dense indices:Indices | batch_dims:int=0
greater_equal: x:Alike y:Alike -> greater_or_equal
leaky_relu: x | alpha:float
less_equal: x:Alike y:Alike -> less_or_equal
local_response_norm: x:Last -> lrn | size:int alpha:float=0.0001 beta:float=0.75 bias<k:float=1.0
logical_and: x y -> and
logical_not: x -> not
logical_or: x y -> or
logical_xor: x y -> xor
maximum: x:Alike y:Alike -> max
minimum: x:Alike y:Alike -> min
pixel_shuffle: x:Image -> depth_to_space | blocksize<upscale_factor:int mode=CRD
pixel_unshuffle: x:Image -> space_to_depth | blocksize<downscale_factor:int mode=CRD
prelu: x alpha:Channel
range_1d: start:Alike end:Alike step:Alike -> range
real_div: x:Alike y:Alike -> div
reduce_argmax: x -> arg_max | axis:Axis=-1 keepdims<keep_dims:flag=0
reduce_argmin: x -> arg_min | axis:Axis=-1 keepdims<keep_dims:flag=0
resample: x:Rank4 coordinates:Float32 | mode<sampling_mode:Interpolation padding<padding_mode:Border
  pad_value<padding_value:float=0.0 units<coordinates_mode:Units corners<align_corners:flag=0
reverse_sequence: x lengths:Int64 | time_axis<seq_axis:Axis=0 batch_axis:Axis=0
scatter_along_axis: data:Dense indices:Indices updates:Updates -> scatter_elements | axis:Axis=0
  reduction<mode:Scatter=add
scatter_nd: data:Dense indices:Indices updates:Updates | reduction<mode:Scatter=add
sigmoid_hard: x -> hard_sigmoid | alpha:float beta:float
silu: x -> swish | alpha=1.0
softmax: x | axis:int=-1
space_to_depth: x:Image | blocksize<block_size:int mode=DCR
square: x x -> mul
threshold: x alpha:float -> max
tile: x reps:Int64
transpose: x | perm:Perm
"""

CHOICES = """
Activation: tanh=Tanh scaled_tanh=Tanh sigmoid=Sigmoid hard_sigmoid=HardSigmoid sigmoid_hard=HardSigmoid
  relu=Relu linear=Affine
Border: constant border reflection symmetric
Boxes: corners_height_first corners_width_first center_size_height_first center_size_width_first
Byte: int8 uint8
F32: fp32
Direction: forward reverse bidirectional
Gelu: exact=none tanh_approximation=tanh sigmoid_approximation=sigmoid
Interpolation: bilinear=linear nearest
Odds: logits probs
PadMode: constant reflect replicate=edge
PadType: valid=NOTSET custom=NOTSET same=SAME_UPPER same_lower=SAME_LOWER
Resize: linear nearest_neighbor=nearest
Sampling: strict_align_corners align_corners default unalign_corners offset_corners
Scales: linear lut
Scatter: update=none add sub=add mul div max min
Units: unnormalized normalized_minus_one_to_one normalized_zero_to_one
"""
"""Kinds of parameters that are one of several texts, `text=what the graph calls it`."""
