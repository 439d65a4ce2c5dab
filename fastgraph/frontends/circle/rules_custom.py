"""Custom operators that TensorFlow Lite and MediaPipe build in. Semantics: tflite/kernels/{detection_postprocess, mfcc,
audio_spectrogram, numeric_verify, hadamard_rotation}.cc, tflite/kernels/perception; mediapipe/util/tflite/operations.
"""

from __future__ import annotations

from struct import calcsize, unpack_from
from typing import Any

from ...ir import TensorType
from ..core.common import FLOAT32
from .call import Call, custom
from .common import inputs_alike, one_to_one, same_dtype

PADDINGS = {1: "SAME", 2: "VALID"}
"""TfLitePadding in the structures that some operators keep as they are in memory."""

DETECTION = (
    "max_detections", "max_classes_per_detection", "nms_score_threshold", "nms_iou_threshold", "num_classes", "y_scale",
    "x_scale", "h_scale", "w_scale",
)  # fmt: skip
"""Settings of TFLite_Detection_PostProcess that have no default."""


@custom("TFLite_Detection_PostProcess")
def _detection(c: Call) -> None:
    c.count(3, 4)
    told = c.flexbuffer()
    missing = [name for name in DETECTION if name not in told]
    if missing:
        c.fail(f"expected {', '.join(missing)} in its custom options, found {', '.join(sorted(told)) or 'nothing'}")
    c.write(
        "detection_postprocess", detections=told["max_detections"],
        classes_per_detection=told["max_classes_per_detection"], classes=told["num_classes"],
        detections_per_class=told.get("detections_per_class", 100), regular=int(told.get("use_regular_nms", False)),
        score_threshold=told["nms_score_threshold"], iou_threshold=told["nms_iou_threshold"],
        scales=tuple(told[f"{axis}_scale"] for axis in "yxhw"),
    )  # fmt: skip


@custom("AudioSpectrogram")
def _spectrogram(c: Call) -> None:
    c.count(1)
    told = c.flexbuffer()
    c.write("audio_spectrogram", window_size=told["window_size"], stride=told["stride"],
            squared=int(told["magnitude_squared"]))  # fmt: skip


@custom("Mfcc")
def _mfcc(c: Call) -> None:
    c.count(2)
    told = c.flexbuffer()
    c.write(
        "mfcc", upper_frequency=told["upper_frequency_limit"], lower_frequency=told["lower_frequency_limit"],
        filters=told["filterbank_channel_count"], coefficients=told["dct_coefficient_count"],
    )  # fmt: skip


@custom("aeq.hadamard_rotation")
def _hadamard(c: Call) -> None:
    c.count(1)
    c.write("hadamard_rotation", size=c.flexbuffer()["hadamard_size"])


@custom("NumericVerify")
def _numeric_verify(c: Call) -> None:
    """How far quantized values are from their float twins; LiteRT only logs it unless its output is asked for."""
    c.count(2, (0, 1))
    if c.outputs:
        c.write("sub", [c.add("requantize", [c.x(0)], type=TensorType(FLOAT32)), c.x(1)])


def _struct(c: Call, names: str) -> dict[str, int]:
    """The numbers that a C structure begins with."""
    fields = names.split()
    form = f"<{len(fields)}i"
    if len(c.custom_options) < calcsize(form):
        c.fail(f"expected a structure of {calcsize(form)} bytes or more as custom options, "
               f"found {len(c.custom_options)}")  # fmt: skip
    found = dict(zip(fields, unpack_from(form, bytes(c.custom_options)), strict=True))
    if found["padding"] not in PADDINGS or any(found[name] < 1 for name in fields if name not in ("padding", "act")):
        c.fail(f"expected a padding, strides and extents from 1 on in its custom options, found {found}")
    return found


@custom("Convolution2DTransposeBias")
def _transpose_conv_bias(c: Call) -> None:
    """x, weights [O, height, width, I], bias; SAME takes off what the last stride leaves over."""
    c.count(3)
    x, w = c.x(0), c.x(1)
    same_dtype(c, x, w, c.x(2))
    told = _struct(c, "padding stride_w stride_h")
    strides = (told["stride_h"], told["stride_w"])
    pads = [0, 0, 0, 0]
    if told["padding"] == 1:
        if x.type.shape is None or w.type.shape is None:
            c.unsupported("with SAME padding of an open shape")
        for i, (n, k, s) in enumerate(zip(x.type.shape[1:3], w.type.shape[1:3], strides, strict=True)):
            if not isinstance(n, int) or not isinstance(k, int):
                c.unsupported("with SAME padding of an open shape")
            size = max(0, k - (n - 1) % s - 1)
            pads[i], pads[2 + i] = size // 2, size - size // 2
    c.write("conv_transpose", strides=strides, dilations=(1, 1), pads=tuple(pads), groups=1)


one_to_one({"DenseImageWarp": "dense_image_warp"}, 2, inputs_alike, custom)


_POOL = "padding stride_w stride_h filter_w filter_h"


def _places(c: Call, op: str, **attrs: Any) -> None:
    told = _struct(c, _POOL)
    c.write(
        op, kernel_shape=(told["filter_h"], told["filter_w"]), same=int(told["padding"] == 1),
        strides=(told["stride_h"], told["stride_w"]), **attrs,
    )  # fmt: skip


@custom("MaxPoolingWithArgmax2D")
def _max_pool(c: Call) -> None:
    """MediaPipe's: places are positions in the window, as floats."""
    c.count(1, 2)
    _places(c, "max_pool_places", in_window=1, places_dtype=FLOAT32)


@custom("MaxUnpooling2D")
def _max_unpool(c: Call) -> None:
    """MediaPipe's has places in the window, as floats; TensorFlow Lite's in the image, as integers."""
    c.count(2)
    _places(c, "max_unpool_places", in_window=int(c.x(1).type.dtype == FLOAT32))
