"""What older operator sets say, brought into the newest form.

UPGRADES names the upgrades of each operator, in the order in which they apply: functions that change a call in place,
and do nothing when it is of a newer operator set. Sources: onnx/docs/Changelog.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir import Value
from .call import Call
from .elements import NUMBERS

Upgrade = Callable[[Call], None]

ALWAYS = 1 << 30
NOTHING: Mapping[str, Any] = {}


def old(
    before: int,
    *,
    dropped: Sequence[str] = (),
    renamed: Mapping[str, str] = NOTHING,
    defaults: Mapping[str, Any] = NOTHING,
    words: Mapping[str, Mapping[str, str]] = NOTHING,
    inputs: Mapping[str, int] = NOTHING,
) -> Upgrade:
    """What operator sets below `before` say otherwise: attributes that do not matter for inference, attributes' names,
    defaults and words, and attributes that became inputs at these places.
    """

    def upgrade(c: Call) -> None:
        if c.version >= before:
            return
        attrs = {renamed.get(name, name): value for name, value in c.attrs.items() if name not in dropped}
        c.attrs = {**defaults, **attrs}
        for name, known in words.items():
            if name in c.attrs:
                c.attrs[name] = known.get(c.attrs[name], c.attrs[name])
        for name, index in inputs.items():
            if name in c.attrs:
                value = c.attrs.pop(name)
                if not all(isinstance(n, int | float) for n in (value if isinstance(value, tuple) else [value])):
                    c.fail(f"expected its attribute {name!r} as numbers, found {str(value)[:80]}")
                c.set_input(index, c.number(value, c.x()))

    return upgrade


def _is(c: Call, y: Value) -> None:
    """The node becomes an identity: its result is y."""
    c.op, c.inputs, c.attrs = "Identity", [y], {}


def _broadcast(c: Call) -> None:
    """Below operator set 7, `broadcast` and `axis` aligned B with A's dimensions from `axis` on."""
    if c.version < 7:
        axis = c.attrs.pop("axis", None)
        if c.attrs.pop("broadcast", 0) and axis is not None:
            c.set_input(1, _aligned(c, c.x(0), c.x(1), axis))


def _aligned(c: Call, a: Value, b: Value, axis: int) -> Value:
    """`b` with ones appended to its shape, so that its first dimension meets dimension `axis` of `a`."""
    rank, own = c.known_rank(a), c.known_rank(b)
    if axis < 0 and rank is None:
        c.unsupported("with a negative broadcast axis and an input of unknown rank")
    if rank is not None and own is not None:
        extra = rank - (axis + rank if axis < 0 else axis) - own
        if extra < 0:
            c.fail(f"expected broadcast axis {axis} to fit ranks {rank} and {own}")
        return c("unsqueeze", b, range(-extra, 0)) if extra else b
    missing = c.rank_of(a) - axis - c.rank_of(b)
    return c.reshape(b, c.extents(b), c("constant_of_shape", missing, value=np.ones(1, np.int64)))


def _prelu(c: Call) -> None:
    if c.version < 7 and ((slope := c.x(1).data) is None or slope.size != 1):
        c.set_input(1, _aligned(c, c.x(0), c.x(1), 1))


def _cast_names(c: Call) -> None:
    if c.version < 6 and isinstance(c.attrs.get("to"), str):
        name = c.attrs["to"].upper()
        if name not in NUMBERS:
            c.fail(f"expected its attribute 'to' to name an element type, found {name[:40]!r}")
        c.attrs["to"] = NUMBERS[name]


def _clip(c: Call) -> None:
    if 6 <= c.version < 11:
        largest = float(np.finfo(np.float32).max)
        c.attrs = {"min": -largest, "max": largest, **c.attrs}


def _whole_p(c: Call) -> None:
    if c.version < 2 and isinstance(c.attrs.get("p"), float):
        if not c.attrs["p"].is_integer():
            c.unsupported(f"with p = {c.attrs['p']}, which is no whole number")
        c.attrs["p"] = int(c.attrs["p"])


def _tile(c: Call) -> None:
    """Below operator set 6: how often, and along which one axis."""
    if c.version < 6:
        times, axis = (c.reshape(c.cast(c.x(i), np.int64), 1) for i in (1, 2))
        ones = c("constant_of_shape", c.rank_of(c.x(0)), value=np.ones(1, np.int64))
        c.inputs = [c.x(0), c("scatter_elements", ones, axis, times)]


def _upsample(c: Call) -> None:
    if c.version < 7:
        c.attrs["scales"] = (1.0, 1.0, c.attrs.pop("height_scale", 0.0), c.attrs.pop("width_scale", 0.0))
        if min(c.attrs["scales"]) < 1:
            c.fail("expected height_scale and width_scale of 1 and more")
    if c.version < 9 and "scales" in c.attrs:
        c.set_input(1, c.const(c.attrs.pop("scales"), dtype=np.float32))
    c.op, c.version = "Resize", 10


def _resize(c: Call) -> None:
    if c.version < 11:
        c.inputs = [c.x(0), None, c.x(1)]
        c.attrs["coordinate_transformation_mode"] = "asymmetric"
        given = c.x(2).data
        scales = np.ones(1) if given is None else given
        shrinks = bool((scales < 1).any())
        if shrinks and (scales > 1).any() and c.attrs.get("mode", "nearest") == "nearest":
            c.unsupported("of operator set 10 that shrinks one dimension and grows another")
        # operator set 10 rounds up when it shrinks: its own test cases and onnxruntime agree on that
        c.attrs["nearest_mode"] = "ceil" if shrinks else "floor"
    empty = [v is not None and v.data is not None and v.data.size == 0 for v in c.inputs]
    c.inputs = [None if i and empty[i] else v for i, v in enumerate(c.inputs)]


def _group_normalization(c: Call) -> None:
    """Below operator set 21, scale and bias were per group."""
    groups = c.attrs.get("num_groups")
    if c.version >= 21 or not isinstance(groups, int):
        return
    shape = c("concat", [groups], c.extent(c.x(0), 1) / groups, axis=0)
    for index in (1, 2):
        c.set_input(index, c.reshape(c("expand", c("unsqueeze", c.x(index), [1]), shape), -1))


def _softmax(c: Call) -> None:
    """Below operator set 13, everything from `axis` on was one dimension."""
    if c.version >= 13:
        return
    axis, x = c.attrs.pop("axis", 1), c.x(0)
    rank = c.known_rank(x)
    c.attrs["axis"] = -1
    if axis != -1 and (rank is None or axis != rank - 1):
        name = {"LogSoftmax": "log_softmax"}.get(c.op, c.op.lower())
        _is(c, c("reshape", c(name, c("flatten", x, axis=axis), axis=-1), c.extents(x), allowzero=1))


def _batch_normalization(c: Call) -> None:
    """Below operator set 14, more outputs than one said that it is training's form; it had two more."""
    if c.version < 14 and any(c.outputs[1:]):
        c.attrs["training_mode"], c.outputs = 1, c.outputs[:3]
    if c.version < 9 and not c.attrs.pop("spatial", 1):
        x, scale, bias, mean, var = (c.x(i) for i in range(5))
        _is(c, (x - mean) / c.sqrt(var + c.attrs.get("epsilon", 1e-5)) * scale + bias)


def _scatter(c: Call) -> None:
    c.op = "ScatterElements"


def _scan(c: Call) -> None:
    if c.version < 9 and c.inputs and c.inputs.pop(0) is not None:
        c.unsupported("of operator set 8 with sequence_lens")


def _label_encoder(c: Call) -> None:
    if c.version < 2:
        c.unsupported("of operator set 1")


_SELU = {"alpha": float(np.float32(1.6732)), "gamma": float(np.float32(1.0507))}

_TABLE: dict[str, Sequence[Upgrade]] = {
    "Add Sub Mul Div Pow And Or Xor Equal Greater Less": [_broadcast],
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare": [
        old(18, inputs={"axes": 1})
    ],
    "ReduceSum Squeeze Unsqueeze": [old(13, inputs={"axes": 1})],
    "RNN LSTM GRU": [old(7, dropped=["output_sequence"])],
    "Softmax LogSoftmax Hardmax": [_softmax],
    "BatchNormalization": [old(7, dropped=["is_test"]), _batch_normalization],
    "Cast": [_cast_names],
    "Clip": [_clip, old(11, inputs={"min": 1, "max": 2})],
    "Concat": [old(4, defaults={"axis": 1})],
    "DFT": [old(20, defaults={"axis": 1}, inputs={"axis": 2})],
    "Dropout": [old(7, dropped=["is_test"]), old(12, inputs={"ratio": 1})],
    "Gemm": [old(7, dropped=["broadcast"])],
    "GlobalLpPool LpPool": [_whole_p],
    "GridSample": [old(20, words={"mode": {"bilinear": "linear", "bicubic": "cubic"}})],
    "GroupNormalization": [_group_normalization],
    "ai.onnx.ml.LabelEncoder": [_label_encoder],
    "PRelu": [_prelu],
    "Pad": [old(2, renamed={"paddings": "pads"}), old(11, defaults={"value": 0.0}, inputs={"pads": 1, "value": 2})],
    "Reshape": [old(5, inputs={"shape": 1})],
    "RoiAlign": [old(16, defaults={"coordinate_transformation_mode": "output_half_pixel"})],
    "Scatter": [_scatter],
    "Scan": [old(9, renamed={"directions": "scan_input_directions"}), _scan],
    "Selu": [old(6, defaults=_SELU)],
    "Slice": [old(10, inputs={"starts": 1, "ends": 2, "axes": 3})],
    "Split": [old(13, inputs={"split": 1})],
    "Tile": [_tile],
    "TopK": [old(10, inputs={"k": 1})],
    "Upsample": [old(ALWAYS, words={"mode": {"bilinear": "linear"}}), _upsample, _resize],
    "Resize": [_resize],
}
UPGRADES = {name: upgrades for names, upgrades in _TABLE.items() for name in names.split()}
