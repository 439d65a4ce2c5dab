"""Circle's own operators. Semantics: Samsung ONE: res/CircleSchema, luci-interpreter's InstanceNorm and RmsNorm,
cker's RoPE, onert's shape inference of the binary-coded ones; GRU is among the recurrent rules.
"""

from __future__ import annotations

import numpy as np

from ...ir import TensorType, Value
from ..core.common import FLOAT32, ints
from .call import Call, rule
from .common import computed, same_dtype
from .weights import from_bits


@rule("INSTANCE_NORM")
def _instance_norm(c: Call) -> None:
    """Each image's channels by their own mean and variance. Of rank 4 the channels are last, of rank 3 second."""
    c.count(3)
    x = c.x(0)
    computed(c, x, c.outputs[0])
    rank = c.rank(x)
    if rank not in (3, 4):
        c.fail(f"expected an input of rank 3 or 4, found {x.type}")
    channels = x.type.shape[-1 if rank == 4 else 1] if x.type.shape else None
    scale, shift = (_as_wide(c, c.x(i), channels) for i in (1, 2))
    if rank == 4:
        c.activate("instance_normalization", [x, scale, shift], epsilon=c.options.epsilon)
        return
    kind = c.outputs[0].type.with_shape(None)
    last = c.add("transpose", [x], type=x.type.with_shape(None), perm=(0, 2, 1))
    y = c.add("instance_normalization", [last, scale, shift], type=kind, epsilon=c.options.epsilon)
    c.activate("transpose", [y], perm=(0, 2, 1))


def _as_wide(c: Call, value: Value, channels: object) -> Value:
    """One number for each channel."""
    if value.type.shape is None or len(value.type.shape) != 1:
        c.fail(f"expected a vector of the channels' parameters, found {value.type}")
    if value.type.shape[0] == 1 and isinstance(channels, int) and channels != 1:
        return c.add("expand", [value, ints(c, [channels])], type=value.type.with_shape(None))
    return value


@rule("RMS_NORM")
def _rms_norm(c: Call) -> None:
    """Over the root of the last axis' mean square, times gamma, plus beta where there is one."""
    c.count((2, 3))
    x, gamma, beta = c.x(0), c.x(1), c.input(2)
    computed(c, x, gamma)
    kind = c.outputs[0].type.with_shape(None)
    if beta is None:
        c.write("rms_normalization", [x, gamma], axis=-1, epsilon=c.options.epsilon)
    else:
        c.write("add", [c.add("rms_normalization", [x, gamma], type=kind, axis=-1, epsilon=c.options.epsilon), beta])


@rule("ROPE")
def _rope(c: Call) -> None:
    """Pairs of elements, from the two halves of the last axis, turned: x cos + (-second half, first half) sin."""
    c.count(3)
    x, sine, cosine = (c.x(i) for i in range(3))
    same_dtype(c, x, sine, cosine)
    if c.options.mode != "GPT_NEOX":
        c.unsupported(f"with mode {c.options.mode}; Circle's runtimes define GPT_NEOX only")
    size = x.type.shape[-1] if x.type.shape else None
    if not isinstance(size, int) or size % 2:
        c.fail(f"expected an even last extent, found {x.type}")
    kind = TensorType(FLOAT32 if x.type.quant is not None else x.type.dtype)
    first, second = c.fresh(kind), c.fresh(kind)
    c.add("split", [x, ints(c, [size // 2] * 2)], [first, second], axis=-1)
    turned = c.add("concat", [c.add("neg", [second], type=kind), first], type=kind, axis=-1)
    c.write("add", [c.add("mul", [x, cosine], type=kind), c.add("mul", [turned, sine], type=kind)])


def _coded(c: Call, at: int, clusters: int, hidden: int) -> Value:
    arrays = [c.array(i) for i in (at, at + 1, clusters)]
    if any(a is None for a in arrays):
        c.unsupported("with weights that are computed; expected constants")
    scales, binary, groups = (np.asarray(a) for a in arrays)
    return c.const(from_bits(c, scales, binary, groups, hidden))


@rule("BCQ_FULLY_CONNECTED")
def _bcq_fully_connected(c: Call) -> None:
    """[outputs, batch] = weights times x [hidden, batch], plus a bias for each output."""
    c.count((4, 5))
    weights = _coded(c, 1, 4 if len(c.inputs) > 4 else 3, c.options.weights_hidden_size)
    bias = c.input(3) if len(c.inputs) > 4 else None
    if bias is None:
        c.activate("gemm", [weights, c.x(0)])
        return
    column = c.add("reshape", [bias, ints(c, [-1, 1])], type=bias.type.with_shape(None))
    c.activate("gemm", [weights, c.x(0), column])


@rule("BCQ_GATHER")
def _bcq_gather(c: Call) -> None:
    """Rows (axis 0) or columns (axis 1) of binary-coded weights."""
    c.count(4)
    c.write("gather", [_coded(c, 0, 3, c.options.input_hidden_size), c.x(2)], axis=c.options.axis)


@rule("RUN_MODEL")
def _run_model(c: Call) -> None:
    c.unsupported("runs another model by its path; load that model by itself")
