"""Circle's own operators, and custom ones with options or results of their own form.

Semantics of Circle's: Samsung ONE: res/CircleSchema, luci-interpreter's InstanceNorm and RmsNorm, cker's RoPE,
onert's shape inference of the binary-coded ones, FuseBCQPass; GRU is among the recurrent rules. Of the others:
`signature_table`.
"""

from __future__ import annotations

from struct import calcsize, unpack_from
from typing import Any

import numpy as np

from ...ir import FLOAT32, INT64, TensorType, Value
from .call import Call
from .common import computed, reals_of


def instance_norm(c: Call, x: Value, scale: Value, shift: Value, epsilon: float) -> Value:
    """Each image's channels by their own mean and variance. Of rank 4 the channels are last, of rank 3 second."""
    computed(c, x, c.outputs[0])
    rank = c.rank(x)
    if rank not in (3, 4):
        c.fail(f"expected an input of rank 3 or 4, found {x.type}")
    channels = x.type.shape[-1 if rank == 4 else 1] if x.type.shape else None
    scale, shift = (_as_wide(c, v, channels) for v in (scale, shift))
    if rank == 4:
        return c("instance_normalization", x, scale, shift, epsilon=epsilon)
    kind = c.outputs[0].type.with_shape(None)
    y = c("instance_normalization", c.transpose(x, 0, 2, 1), scale, shift, type=kind, epsilon=epsilon)
    return c.transpose(y, 0, 2, 1)


def _as_wide(c: Call, value: Value, channels: object) -> Value:
    """The value, or its only number for each channel."""
    if value.type.shape is None or len(value.type.shape) != 1:
        c.fail(f"expected a vector of the channels' parameters, found {value.type}")
    wide = value.type.shape[0] != 1 or not isinstance(channels, int)
    return value if wide else c.broadcast(value, channels)  # type: ignore[arg-type]


def rms_norm(c: Call, x: Value, gamma: Value, beta: Value | None, epsilon: float) -> Value:
    """x over the root of the last axis' mean square, times gamma, plus beta where there is one."""
    computed(c, x, gamma)
    kind = c.outputs[0].type.with_shape(None)
    y = c("rms_normalization", x, gamma, type=kind, axis=-1, epsilon=epsilon)
    return y if beta is None else y + beta


def rope(c: Call, x: Value, sine: Value, cosine: Value, mode: str) -> Value:
    """Pairs of elements, from the two halves of the last axis, turned: x cos + (-second half, first half) sin."""
    if mode != "GPT_NEOX":
        c.unsupported(f"with mode {mode}; Circle's runtimes define GPT_NEOX only")
    size = x.type.shape[-1] if x.type.shape else None
    if not isinstance(size, int) or size % 2:
        c.fail(f"expected an even last extent, found {x.type}")
    first, second = (c.fresh(reals_of(x)) for _ in range(2))
    c.add("split", [x, c.vector(size // 2, size // 2)], [first, second], axis=-1)
    return x * cosine + c.join([-second, first], -1) * sine


def _coded(c: Call, scales: Value, binary: Value, groups: Value, hidden: int) -> Value:
    if scales.data is None or binary.data is None or groups.data is None:
        c.unsupported("with weights that are computed; expected constants")
    return c.const(_from_bits(c, scales.data, binary.data, groups.data, hidden))


def _from_bits(c: Call, scales: np.ndarray, binary: np.ndarray, clusters: np.ndarray, hidden: int) -> np.ndarray:
    """f32 [outputs, hidden] of binary-coded weights: each is the sum of its row's scales, or of their negatives.

    clusters [n, 2]: how many bits, and how many outputs have as many. A row of `binary`, one for each output and bit,
    holds 32 columns in an int32, the first in the lowest bit; `scales` has one number for each such row.
    """
    if clusters.ndim != 2 or clusters.shape[1] != 2 or (clusters < 1).any():
        c.fail(f"expected clusters [n, 2] of positive numbers, found {clusters.tolist()[:8]}")
    bits = np.repeat(clusters[:, 0], clusters[:, 1].clip(max=scales.size))
    words = binary.reshape(-1, binary.shape[-1]) if binary.ndim > 1 else binary.reshape(len(binary), 1)
    if bits.sum() != scales.size or len(words) != scales.size or not 0 < hidden <= 32 * words.shape[1]:
        c.fail(
            f"expected {bits.sum()} rows of bits and scales for {hidden} columns, found {list(binary.shape)} "
            f"and {scales.size}"
        )
    ones = np.unpackbits(np.ascontiguousarray(words, "<i4").view(np.uint8), axis=1, bitorder="little")[:, :hidden]
    signed = (ones * np.float32(2) - np.float32(1)) * scales.reshape(-1, 1).astype(np.float32)
    return np.add.reduceat(signed, np.concatenate([[0], np.cumsum(bits)[:-1]]), axis=0)


def bcq_fully_connected(c: Call, x: Value, scales: Value, bits: Value, *rest: Value) -> Value:
    """[outputs, batch] = weights times x [hidden, batch], plus a bias for each output; bias and clusters may come."""
    bias = rest[0] if rest[1] is not None else None
    weights = _coded(c, scales, bits, c.x(len(c.inputs) - 1), c.options.weights_hidden_size)
    return c("gemm", weights, x, *([] if bias is None else [c("reshape", bias, c.vector(-1, 1))]))


def bcq_gather(c: Call, scales: Value, bits: Value, indices: Value, clusters: Value, axis: int) -> Value:
    """Rows (axis 0) or columns (axis 1) of binary-coded weights."""
    return c.pick(_coded(c, scales, bits, clusters, c.options.input_hidden_size), indices, axis)


_POOL = "padding stride_w stride_h filter_w filter_h"


def numeric_verify(c: Call, x: Value, wanted: Value) -> Value | None:
    """How far quantized values are from their float twins; LiteRT only logs it unless its output is asked for."""
    return c("requantize", x, type=TensorType(FLOAT32)) - wanted if c.outputs else None


def _struct(c: Call, names: str) -> dict[str, int]:
    """The numbers that a C structure begins with; its padding is 1 (SAME) or 2 (VALID)."""
    fields = names.split()
    form = f"<{len(fields)}i"
    if len(c.custom_options) < calcsize(form):
        c.fail(
            f"expected a structure of {calcsize(form)} bytes or more as custom options, found {len(c.custom_options)}"
        )
    found = dict(zip(fields, unpack_from(form, bytes(c.custom_options)), strict=True))
    if found["padding"] not in (1, 2) or any(found[name] < 1 for name in fields if name != "padding"):
        c.fail(f"expected a padding, strides and extents from 1 on in its custom options, found {found}")
    return found


def conv_transpose(c: Call, x: Value, w: Value, bias: Value) -> Value:
    """Weights [O, height, width, I]; SAME takes off what the last stride leaves over."""
    told = _struct(c, "padding stride_w stride_h")
    strides = (told["stride_h"], told["stride_w"])
    pads = [0, 0, 0, 0]
    if told["padding"] == 1:
        shapes = [v.type.shape[1:3] if v.type.shape is not None else (None, None) for v in (x, w)]
        for i, (n, k, s) in enumerate(zip(*shapes, strides, strict=True)):
            if not isinstance(n, int) or not isinstance(k, int):
                c.unsupported("with SAME padding of an open shape")
            size = max(0, k - (n - 1) % s - 1)
            pads[i], pads[2 + i] = size // 2, size - size // 2
    return c("conv_transpose", x, w, bias, strides=strides, dilations=(1, 1), pads=tuple(pads), groups=1)


def _pool(c: Call, op: str, *inputs: Value, **attrs: Any) -> None:
    told = _struct(c, _POOL)
    c.write(
        op, inputs, kernel_shape=(told["filter_h"], told["filter_w"]), same=int(told["padding"] == 1),
        strides=(told["stride_h"], told["stride_w"]), **attrs,
    )  # fmt: skip


def max_pool(c: Call, x: Value) -> None:
    """MediaPipe's: places are positions in the window, as floats."""
    _pool(c, "max_pool_places", x, in_window=1, places_dtype=FLOAT32)


def max_unpool(c: Call, x: Value, places: Value) -> None:
    """MediaPipe's has places in the window, as floats; TensorFlow Lite's in the image, as integers."""
    _pool(c, "max_unpool_places", x, places, in_window=int(places.type.dtype == FLOAT32))


def max_pool_with_argmax(c: Call, x: Value) -> None:
    """TensorFlow's: (maxima, their flat places in the image, or with `include_batch_in_index` in the batch)."""
    kernel, strides, padding = (c.told.get(name, []) for name in ("ksize", "strides", "padding"))
    if not all(isinstance(v, list) and len(v) == 4 and v[0] == v[3] == 1 for v in (kernel, strides)):
        c.fail(
            f"expected ksize and strides [1, height, width, 1] in its custom options, found {kernel} and {strides}; "
            "without them nobody can tell what it computes"
        )
    if padding not in ("SAME", "VALID"):
        c.fail(f"expected padding SAME or VALID in its custom options, found {padding}")
    c.write(
        "max_pool_places", [x], kernel_shape=tuple(kernel[1:3]), strides=tuple(strides[1:3]),
        same=int(padding == "SAME"), with_batch=int(bool(c.told.get("include_batch_in_index", False))),
        places_dtype=INT64,
    )  # fmt: skip
