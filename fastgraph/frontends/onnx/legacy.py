"""What older operator sets say, brought into the newest form.

UPGRADES names the upgrades of each operator, in the order in which they apply. Sources: onnx/docs/Changelog.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .call import Call, rank_of, shape_of
from .elements import NUMBERS
from .upgrades import Upgrade, aligned, broadcast, defaults, drop, now, rename, spell, to_inputs


def _cast_names(call: Call) -> None:
    if call.version < 6 and isinstance(call.attrs.get("to"), str):
        name = call.attrs["to"].upper()
        if name not in NUMBERS:
            call.fail(f"expected its attribute 'to' to name an element type, found {name[:40]!r}")
        call.attrs["to"] = NUMBERS[name]


def _clip(call: Call) -> None:
    if call.version >= 11:
        return
    largest = float(np.finfo(np.float32).max)
    dtype = call.x(0).type.dtype
    dtype = dtype if dtype is not None and dtype.kind == "f" else np.dtype(np.float32)
    for index, name, missing in ((1, "min", -largest), (2, "max", largest)):
        bound = call.attrs.pop(name, missing if call.version >= 6 else None)
        if bound is not None and not isinstance(bound, float):
            call.fail(f"expected its attribute {name!r} as float, found {str(bound)[:80]}")
        limit = float(np.finfo(dtype).max)
        call.set_input(index, None if bound is None else call.const(np.clip(bound, -limit, limit), dtype=dtype))


def _whole_p(call: Call) -> None:
    if call.version < 2 and isinstance(call.attrs.get("p"), float):
        if not call.attrs["p"].is_integer():
            call.unsupported(f"with p = {call.attrs['p']}, which is no whole number")
        call.attrs["p"] = int(call.attrs["p"])


def _prelu(call: Call) -> None:
    slope = call.input(1)
    if call.version < 7 and not (slope is not None and slope.data is not None and slope.data.size == 1):
        call.set_input(1, aligned(call, call.x(0), call.x(1), 1))


def _tile(call: Call) -> None:
    """Below operator set 6: how often, and along which one axis."""
    if call.version >= 6:
        return
    one = call.const([1])
    ones = call.add("constant_of_shape", [rank_of(call, call.x(0))], value=np.ones(1, np.int64))
    whole: dict[str, Any] = {"to": np.dtype(np.int64), "saturate": 1, "round_mode": "up", "format": ""}
    times, axis = (call.add("reshape", [call.add("cast", [call.x(i)], **whole), one], allowzero=0) for i in (1, 2))
    call.inputs = [call.x(0), call.add("scatter_elements", [ones, axis, times], axis=0, reduction="none")]


def _upsample(call: Call) -> None:
    if call.version < 7:
        scale = [1.0, 1.0, call.attrs.pop("height_scale", 0.0), call.attrs.pop("width_scale", 0.0)]
        call.attrs["scales"] = tuple(scale)
        if min(scale) < 1:
            call.fail("expected height_scale and width_scale of 1 and more")
    if call.version < 9:
        to_inputs(9, np.float32, scales=1)(call)
    spell(1 << 30, "mode", {"bilinear": "linear"})(call)
    call.version = 10


def _resize(call: Call) -> None:
    if call.version < 11:
        call.inputs = [call.x(0), None, call.x(1)]
        call.attrs["coordinate_transformation_mode"] = "asymmetric"
        scales = call.x(2).data
        shrinks = scales is not None and bool(np.any(scales < 1))
        if (
            scales is not None
            and shrinks
            and bool(np.any(scales > 1))
            and call.attrs.get("mode", "nearest") == "nearest"
        ):
            call.unsupported("of operator set 10 that shrinks one dimension and grows another")
        # operator set 10 rounds up when it shrinks: its own test cases and onnxruntime agree on that
        call.attrs["nearest_mode"] = "ceil" if shrinks else "floor"
    for index in (1, 2, 3):
        value = call.input(index)
        if value is not None and value.data is not None and value.data.size == 0:
            call.set_input(index, None)


def _dft(call: Call) -> None:
    if call.version < 20:
        call.set_input(2, call.const(call.attrs.pop("axis", 1)))


def _group_normalization(call: Call) -> None:
    """Below operator set 21, scale and bias were per group."""
    groups = call.attrs.get("num_groups")
    if call.version >= 21 or not isinstance(groups, int):
        return
    channels = call.add("shape", [call.x(0)], start=1, end=2)
    shape = call.add("concat", [call.const([groups]), call.add("div", [channels, call.const([groups])])], axis=0)
    for index in (1, 2):
        wide = call.add("expand", [call.add("unsqueeze", [call.x(index), call.const([1])]), shape])
        call.set_input(index, call.add("reshape", [wide, call.const([-1])], allowzero=0))


def _pad(call: Call) -> None:
    if call.version < 11:
        rename(2, paddings="pads")(call)
        value = call.attrs.pop("value", 0.0)
        if "pads" not in call.attrs:
            call.fail("its attribute 'pads' is required and absent")
        dtype = call.x(0).type.dtype
        call.inputs = [call.x(0), call.const(call.attrs.pop("pads")), call.const(value, dtype=dtype or np.float32)]


def _top_k(call: Call) -> None:
    if call.version < 10 and "k" in call.attrs:
        call.set_input(1, call.const([call.attrs.pop("k")]))


def _softmax(call: Call) -> None:
    """Below operator set 13, everything from `axis` on was one dimension."""
    if call.version >= 13:
        return
    axis, x = call.attrs.pop("axis", 1), call.x(0)
    rank = call.known_rank(x)
    call.attrs["axis"] = -1
    if axis == -1 or rank is not None and axis == rank - 1:
        return
    name = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Hardmax": "hardmax"}[call.op]
    y = call.add(name, [call.add("flatten", [x], axis=axis)], axis=-1)
    call.op, call.inputs, call.attrs = "Reshape", [y, shape_of(call, x)], {}


def _batch_normalization(call: Call) -> None:
    drop(7, "is_test")(call)
    if call.version < 14 and any(call.outputs[1:]):
        call.unsupported("in the training form of operator sets below 14")
    if call.version >= 9 or call.attrs.pop("spatial", 1):
        return
    x, scale, bias, mean, var = (call.x(i) for i in range(5))
    epsilon = call.const(call.attrs.get("epsilon", 1e-5), dtype=np.float32)
    deviation = call.add("sqrt", [call.add("add", [var, epsilon])])
    y = call.add("mul", [call.add("div", [call.add("sub", [x, mean]), deviation]), scale])
    call.op, call.inputs, call.attrs = "Add", [y, bias], {}


def _scan(call: Call) -> None:
    if call.version < 9:
        rename(9, directions="scan_input_directions")(call)
        if call.inputs and call.inputs.pop(0) is not None:
            call.unsupported("of operator set 8 with sequence_lens")


def _label_encoder(call: Call) -> None:
    if call.version < 2:
        call.unsupported("of operator set 1")


def _dropout(call: Call) -> None:
    drop(7, "is_test")(call)
    to_inputs(12, np.float32, ratio=1)(call)


_ALIGNED = (broadcast(),)
_AXES_18: Sequence[Upgrade] = (to_inputs(18, axes=1),)
_RNN = (drop(7, "output_sequence"),)

UPGRADES: dict[str, Sequence[Upgrade]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor"), _ALIGNED),
    **dict.fromkeys(("Equal", "Greater", "Less"), _ALIGNED),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
                     "ReduceMin", "ReduceProd", "ReduceSumSquare"), _AXES_18),
    **dict.fromkeys(("RNN", "LSTM", "GRU"), _RNN),
    "ReduceSum": (to_inputs(13, axes=1),),
    "Squeeze": (to_inputs(13, axes=1),),
    "Unsqueeze": (to_inputs(13, axes=1),),
    "Softmax": (_softmax,),
    "LogSoftmax": (_softmax,),
    "Hardmax": (_softmax,),
    "BatchNormalization": (_batch_normalization,),
    "Cast": (_cast_names,),
    "Clip": (_clip,),
    "Concat": (defaults(4, axis=1),),
    "DFT": (_dft,),
    "Dropout": (_dropout,),
    "Gemm": (drop(7, "broadcast"),),
    "GlobalLpPool": (_whole_p,),
    "GridSample": (spell(20, "mode", {"bilinear": "linear", "bicubic": "cubic"}),),
    "GroupNormalization": (_group_normalization,),
    "LpPool": (_whole_p,),
    "ai.onnx.ml.LabelEncoder": (_label_encoder,),
    "PRelu": (_prelu,),
    "Pad": (_pad,),
    "Reshape": (to_inputs(5, shape=1),),
    "RoiAlign": (defaults(16, coordinate_transformation_mode="output_half_pixel"),),
    "Scatter": (now("ScatterElements"),),
    "Scan": (_scan,),
    "Selu": (defaults(6, alpha=float(np.float32(1.6732)), gamma=float(np.float32(1.0507))),),
    "Slice": (to_inputs(10, starts=1, ends=2, axes=3),),
    "Split": (to_inputs(13, split=1),),
    "Tile": (_tile,),
    "TopK": (_top_k,),
    "Upsample": (_upsample, now("Resize"), _resize),
    "Resize": (_resize,),
}  # fmt: skip
