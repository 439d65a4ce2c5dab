"""Custom operators with options or results of their own form. Semantics: see `signature_table`."""

from __future__ import annotations

from struct import calcsize, unpack_from
from typing import Any

from ...ir import TensorType, Value
from ..core.common import FLOAT32, INT64
from .call import Call

PADDINGS = {1: "SAME", 2: "VALID"}
"""TfLitePadding in the structures that some operators keep as they are in memory."""

_POOL = "padding stride_w stride_h filter_w filter_h"


def numeric_verify(c: Call, x: Value, wanted: Value) -> Value | None:
    """How far quantized values are from their float twins; LiteRT only logs it unless its output is asked for."""
    return c("requantize", x, type=TensorType(FLOAT32)) - wanted if c.outputs else None


def _struct(c: Call, names: str) -> dict[str, int]:
    """The numbers that a C structure begins with."""
    fields = names.split()
    form = f"<{len(fields)}i"
    if len(c.custom_options) < calcsize(form):
        c.fail(f"expected a structure of {calcsize(form)} bytes or more as custom options, "
               f"found {len(c.custom_options)}")  # fmt: skip
    found = dict(zip(fields, unpack_from(form, bytes(c.custom_options)), strict=True))
    if found["padding"] not in PADDINGS or any(found[name] < 1 for name in fields if name != "padding"):
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
        c.fail(f"expected ksize and strides [1, height, width, 1] in its custom options, found {kernel} and {strides}; "
               "without them nobody can tell what it computes")  # fmt: skip
    if padding not in ("SAME", "VALID"):
        c.fail(f"expected padding SAME or VALID in its custom options, found {padding}")
    c.write(
        "max_pool_places", [x], kernel_shape=tuple(kernel[1:3]), strides=tuple(strides[1:3]),
        same=int(padding == "SAME"), with_batch=int(bool(c.told.get("include_batch_in_index", False))),
        places_dtype=INT64,
    )  # fmt: skip
