"""Each operator of a composition in TensorFlow Lite's operators."""

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from .composition import Op, opened
from .quantized import one_in
from .rules_tflite_layers import conv, conv_transpose, dense, end, matmul, pool
from .rules_tflite_rare import KINDS as RARE
from .shapes import EDGE
from .write_tflite import F32, I32, TO_FIRST, TO_LAST, Declined, Flat


def elementwise(kind: str, f: Flat, op: Op) -> None:
    """Operators that have the same operands there; stored ones where kernels are."""
    out, rank = op.outputs[0], f.rank(op.outputs[0])
    moving = [name for name in op.inputs if name not in f.net.consts]
    last = any(map(f.only_last, moving)) and all(f.rank(name) == rank for name in moving)
    stored = f.is_stored(op) and kind in STORED
    more = {}
    if kind in ("ADD", "MUL", "SUB") and len(op.inputs) == 2:
        out, more["fused_activation_function"] = end(f, op)
    if kind == "LEAKY_RELU":
        more["alpha"] = 0.125
    inputs = [f.read(name, last, True) if stored else f.spread(name, last, rank) for name in op.inputs]
    f.give(out, f.op(kind, inputs, out, last, stored, **more), last, stored)


STORED = frozenset({"ADD", "MUL", "SUB", "RELU", "RELU6", "HARD_SWISH", "LEAKY_RELU"})
"""Elementwise operators of 8 bits."""


def composed(f: Flat, op: Op) -> None:
    """Operators of one operand that are several there."""
    x, out = op.inputs[0], op.outputs[0]
    last = f.only_last(x)
    shape, tensor = f.shape(x, last), f.read(x, last)
    match op.kind:
        case "swish":
            y = f.raw("MUL", [tensor, f.raw("LOGISTIC", [tensor], shape)], shape)
        case "hard_sigmoid":
            line = f.raw("ADD", [f.raw("MUL", [tensor, f.number(0.2)], shape), f.number(0.5)], shape)
            y = f.raw("RELU_0_TO_1", [line], shape)
        case "sqrt":
            y = f.raw("SQRT", [f.raw("ABS", [tensor], shape)], shape)
        case "cube":
            y = f.raw("POW", [tensor, f.number(3)], shape)
        case "softplus":
            y = f.raw("LOG", [f.raw("ADD", [f.raw("EXP", [tensor], shape), f.number(1)], shape)], shape)
        case _:
            low, high = op.attrs["low"], op.attrs["high"]
            y = f.raw("MINIMUM", [tensor, f.number(high)], shape)
            y = y if low is None else f.raw("MAXIMUM", [y, f.number(low)], shape)
    f.give(out, y, last)


def axis_in(f: Flat, name: str, axis: int, last: bool) -> int:
    return TO_LAST.index(axis) if last and f.rank(name) == 4 else axis


def softmax(f: Flat, op: Op) -> None:
    x, out, axis = op.inputs[0], op.outputs[0], op.attrs["axis"]
    kind = "SOFTMAX" if op.kind == "softmax" else "LOG_SOFTMAX"
    more = {"beta": 1.0} if kind == "SOFTMAX" else {}
    rank = f.rank(x)
    if axis == rank - 1 or rank == 4 and axis == 1:
        last = axis != rank - 1
        f.give(out, f.op(kind, [f.read(x, last)], out, last, **more), last)
        return
    perm = [*(i for i in range(rank) if i != axis), axis]
    shape = tuple(f.shapes[x][i] for i in perm)
    turned = f.raw("TRANSPOSE", [f.read(x), f.ints(*perm)], shape)
    back = [perm.index(i) for i in range(rank)]
    f.give(out, f.raw("TRANSPOSE", [f.raw(kind, [turned], shape, **more), f.ints(*back)], f.shapes[x]))


def cumsum(f: Flat, op: Op) -> None:
    f.give(op.outputs[0], f.op("CUMSUM", [f.read(op.inputs[0]), f.ints(op.attrs["axis"])], op.outputs[0], False))


def reduce(f: Flat, op: Op) -> None:
    x, out, a = op.inputs[0], op.outputs[0], op.attrs
    kinds = {"mean": "MEAN", "sum": "SUM", "max": "REDUCE_MAX", "min": "REDUCE_MIN", "prod": "REDUCE_PROD"}
    if a["how"] not in kinds:
        raise Declined(a["how"])
    kind = kinds[a["how"]]
    last = f.only_last(x) and (a["keep"] or set(a["axes"]) == {2, 3})
    stored = kind in ("MEAN", "REDUCE_MAX", "REDUCE_MIN") and f.is_stored(op)
    axes = f.ints(*(axis_in(f, x, axis, last) for axis in a["axes"]))
    f.give(out, f.op(kind, [f.read(x, last, stored), axes], out, last, stored, keep_dims=bool(a["keep"])), last, stored)


def normalize(f: Flat, op: Op) -> None:
    """By hand: batch normalization as a factor and a summand, others with the mean and the mean square."""
    x, out, rank = op.inputs[0], op.outputs[0], f.rank(op.inputs[0])
    numbers = [f.net.consts[name].array() for name in op.inputs[1:]]
    if op.kind == "batch_norm":
        scale, shift, mean, variance = numbers
        factor = scale / np.sqrt(variance + np.float32(1e-2))
        last = rank == 4
        tall = (1, -1, *[1] * (rank - 2))
        factors, shifts = ((a if last else a.reshape(tall)) for a in (factor, shift - mean * factor))
        shape = f.shape(x, last)
        y = f.raw("MUL", [f.read(x, last), f.weights(factors)], shape)
        f.give(out, f.raw("ADD", [y, f.weights(shifts)], shape), last)
        return
    last = op.kind == "instance_norm" and rank == 4
    shape = f.shape(x, last)
    axes = (rank - 1,) if op.kind == "layer_norm" else (1, 2) if last else tuple(range(2, rank))
    small = tuple(1 if i in axes else d for i, d in enumerate(shape))
    tensor = f.read(x, last)
    centered = f.raw("SUB", [tensor, f.raw("MEAN", [tensor, f.ints(*axes)], small, keep_dims=True)], shape)
    spread = f.raw("MEAN", [f.raw("MUL", [centered, centered], shape), f.ints(*axes)], small, keep_dims=True)
    root = f.raw("RSQRT", [f.raw("ADD", [spread, f.number(1e-2)], small)], small)
    scale, shift = (a if last or op.kind == "layer_norm" else a.reshape(1, -1, *[1] * (rank - 2)) for a in numbers)
    y = f.raw("MUL", [f.raw("MUL", [centered, root], shape), f.weights(scale)], shape)
    f.give(out, f.raw("ADD", [y, f.weights(shift)], shape), last)


def concat(f: Flat, op: Op) -> None:
    out, stored = op.outputs[0], f.is_stored(op)
    last = any(map(f.only_last, op.inputs))
    inputs = [f.read(name, last, stored) for name in op.inputs]
    f.give(
        out,
        f.op("CONCATENATION", inputs, out, last, stored, axis=axis_in(f, out, op.attrs["axis"], last)),
        last,
        stored,
    )


def split(f: Flat, op: Op) -> None:
    x, sizes, stored = op.inputs[0], op.attrs["sizes"], f.is_stored(op)
    last = f.only_last(x)
    specs = [(f.shape(o, last), np.int8, f.quant(o)) if stored else (f.shape(o, last), F32) for o in op.outputs]
    axis = f.model.const(np.array(axis_in(f, x, op.attrs["axis"], last), I32))
    tensor = f.read(x, last, stored)
    if len(set(sizes)) == 1:
        made = f.model.op("SPLIT", [axis, tensor], specs, num_splits=len(sizes))
    else:
        made = f.model.op("SPLIT_V", [tensor, f.ints(*sizes), axis], specs, num_splits=len(sizes))
    for name, tensor in zip(op.outputs, made, strict=True):
        f.give(name, tensor, last, stored)


def slice_(f: Flat, op: Op) -> None:
    x, out, a, stored = op.inputs[0], op.outputs[0], op.attrs, f.is_stored(op)
    last, rank = f.only_last(x), f.rank(x)
    axis, shape = axis_in(f, x, a["axis"], last), f.shape(x, last)
    begin = [a["start"] if i == axis else 0 for i in range(rank)]
    if a.get("step", 1) == 1 and one_in(out, 2):
        kind, ends = "SLICE", [f.ints(*f.shape(out, last))]
    else:
        stop = [a["end"] if i == axis else d for i, d in enumerate(shape)]
        kind, ends = (
            "STRIDED_SLICE",
            [f.ints(*stop), f.ints(*(a.get("step", 1) if i == axis else 1 for i in range(rank)))],
        )
    f.give(out, f.op(kind, [f.read(x, last, stored), f.ints(*begin), *ends], out, last, stored), last, stored)


def reshape(f: Flat, op: Op) -> None:
    """Also the identity."""
    x, out, stored = op.inputs[0], op.outputs[0], f.is_stored(op)
    last = op.kind == "identity" and f.only_last(x)
    shape = opened(f.net, f.shape(x, last), f.shape(out, last))
    inputs = [f.read(x, last, stored), f.ints(*shape)]
    f.give(out, f.op("RESHAPE", inputs, out, last, stored), last, stored)


def transpose(f: Flat, op: Op) -> None:
    """One that takes channels to the end, or back, is not written where the value is held so."""
    x, out, perm, stored = op.inputs[0], op.outputs[0], tuple(op.attrs["perm"]), f.is_stored(op)
    if perm == TO_LAST and f.only_last(x):
        f.give(out, f.read(x, True, stored), False, stored)
    elif perm == TO_FIRST:
        f.give(out, f.read(x, False, stored), True, stored)
    else:
        f.give(out, f.op("TRANSPOSE", [f.read(x, False, stored), f.ints(*perm)], out, False, stored), False, stored)


def pad(f: Flat, op: Op) -> None:
    x, out, a, stored = op.inputs[0], op.outputs[0], op.attrs, f.is_stored(op)
    if a["mode"] == "edge":
        raise Declined("edges")
    last, rank = f.only_last(x), f.rank(x)
    pairs = [(a["pads"][i], a["pads"][i + rank]) for i in (TO_LAST if last else range(rank))]
    places = f.model.const(np.array(pairs, I32))
    reflects = a["mode"] == "reflect"
    more = {"mode": "REFLECT"} if reflects else {}
    made = f.op("MIRROR_PAD" if reflects else "PAD", [f.read(x, last, stored), places], out, last, stored, **more)
    f.give(out, made, last, stored)


def resize(f: Flat, op: Op) -> None:
    x, out = op.inputs[0], op.outputs[0]
    nearest = op.attrs["mode"] == "nearest"
    kind, more = ("RESIZE_NEAREST_NEIGHBOR", {}) if nearest else ("RESIZE_BILINEAR", {"half_pixel_centers": True})
    stored = f.is_stored(op)
    inputs = [f.read(x, True, stored), f.ints(*f.shapes[out][2:])]
    f.give(out, f.op(kind, inputs, out, True, stored, **more), True, stored)


def blocks(f: Flat, op: Op) -> None:
    x, out, stored = op.inputs[0], op.outputs[0], f.is_stored(op)
    if op.attrs.get("mode") == "CRD":
        raise Declined("CRD")
    made = f.op(op.kind.upper(), [f.read(x, True, stored)], out, True, stored, block_size=op.attrs["block"])
    f.give(out, made, True, stored)


def gather(f: Flat, op: Op) -> None:
    x, out, a = op.inputs[0], op.outputs[0], op.attrs
    last = f.only_last(x) and a.get("indices") is not None
    indices = f.read(op.inputs[1]) if a.get("indices") is None else f.ints(*a["indices"])
    f.give(out, f.op("GATHER", [f.read(x, last), indices], out, last, axis=axis_in(f, x, a["axis"], last)), last)


def expand(f: Flat, op: Op) -> None:
    x, out = op.inputs[0], op.outputs[0]
    f.give(out, f.op("BROADCAST_TO", [f.read(x), f.ints(*f.shapes[out])], out, False))


def lstm(f: Flat, op: Op) -> None:
    """ONNX has the gates as input, output, forget, cell."""
    x, *rest = op.inputs
    w, r, b = (f.net.consts[name].array()[0] for name in rest)
    hidden, (n, _t, _c) = r.shape[-1], f.shapes[x]
    order = (0, 2, 3, 1)
    inner, outer = ([f.model.const(p.reshape(4, hidden, -1)[i]) for i in order] for p in (w, r))
    biases = [f.model.const(b.reshape(2, 4, hidden).sum(0)[i]) for i in order]
    states = [f.model.variable((n, hidden)) for _ in range(2)]
    inputs = [f.read(x), *inner, *outer, None, None, None, *biases, None, None, *states, None, None, None, None]
    made = f.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, op.outputs[0], False, fused_activation_function="TANH",
                time_major=False)  # fmt: skip
    f.give(op.outputs[0], made)


def select(f: Flat, op: Op) -> None:
    x, a, b = op.inputs
    out = op.outputs[0]
    if prod(f.shapes[x]) != prod(f.shapes[out]):
        raise Declined("a condition that spreads")
    f.give(out, f.op("SELECT_V2", [test(f, x, op.attrs["test"]), f.read(a), f.read(b)], out, False))


def test(f: Flat, x: str, what: str) -> int:
    def against(kind: str, number: float = 0) -> int:
        return f.raw(kind, [f.read(x), f.number(number)], f.shapes[x], np.bool_)

    match what:
        case "within":
            kind, parts = "LOGICAL_AND", [against("GREATER_EQUAL", -EDGE), against("LESS_EQUAL", EDGE)]
        case "outside":
            kind, parts = "LOGICAL_OR", [against("LESS", -EDGE), against("GREATER", EDGE)]
        case "odd":
            above = f.raw("LOGICAL_NOT", [against("GREATER")], f.shapes[x], np.bool_)
            kind, parts = "NOT_EQUAL", [above, against("LESS", EDGE)]
        case _:
            return against({"different": "NOT_EQUAL"}.get(what, what.upper().replace("_OR", "")))
    return f.raw(kind, parts, f.shapes[x], np.bool_)


def total(f: Flat, op: Op) -> None:
    """Sums of any number; of others two at a time."""
    out, how = op.outputs[0], op.attrs["how"]
    inputs = [f.read(name) for name in op.inputs]
    if how == "mean":
        raise Declined("mean of several")
    if how == "sum":
        f.give(out, f.op("ADD_N", inputs, out, False))
        return
    made = inputs[0]
    for other in inputs[1:]:
        made = f.raw("MAXIMUM" if how == "max" else "MINIMUM", [made, other], f.shapes[out])
    f.give(out, made if len(inputs) > 1 else f.op("RESHAPE", [made, f.ints(*f.shapes[out])], out, False))


def tile(f: Flat, op: Op) -> None:
    x, out = op.inputs[0], op.outputs[0]
    f.give(out, f.op("TILE", [f.read(x), f.ints(*op.attrs["repeats"])], out, False))


def arg(f: Flat, op: Op) -> None:
    x, out, a = op.inputs[0], op.outputs[0], op.attrs
    axis = f.model.const(np.array(a["axis"], I32))
    shape = tuple(d for i, d in enumerate(f.shapes[x]) if i != a["axis"])
    rounded = f.raw("ROUND", [f.read(x)], f.shapes[x])
    place = f.raw(f"ARG_{a['how'].upper()}", [rounded, axis], shape, np.int32, output_type="INT32")
    reals = f.raw("CAST", [place], shape, in_data_type="INT32", out_data_type="FLOAT32")
    f.give(out, f.op("RESHAPE", [reals, f.ints(*f.shapes[out])], out, False))


SAME = {
    "add": "ADD", "sub": "SUB", "mul": "MUL", "div": "DIV", "max": "MAXIMUM", "min": "MINIMUM", "relu": "RELU",
    "relu6": "RELU6", "sigmoid": "LOGISTIC", "tanh": "TANH", "hard_swish": "HARD_SWISH", "gelu": "GELU",
    "leaky_relu": "LEAKY_RELU", "elu": "ELU", "abs": "ABS", "neg": "NEG", "exp": "EXP", "square": "SQUARE",
}  # fmt: skip

KINDS: dict[str, Callable[[Flat, Op], None]] = {
    **{kind: partial(elementwise, name) for kind, name in SAME.items()},
    **dict.fromkeys(("swish", "hard_sigmoid", "sqrt", "cube", "softplus", "clip"), composed),
    **dict.fromkeys(("batch_norm", "layer_norm", "instance_norm"), normalize),
    "conv": conv, "conv_transpose": conv_transpose, "max_pool": pool, "average_pool": pool, "dense": dense,
    "matmul": matmul, "softmax": softmax, "log_softmax": softmax, "cumsum": cumsum, "reduce": reduce, "concat": concat,
    "split": split, "slice": slice_, "reshape": reshape, "identity": reshape, "transpose": transpose, "pad": pad,
    "resize": resize, "depth_to_space": blocks, "space_to_depth": blocks, "gather": gather, "expand": expand,
    "lstm": lstm, "select": select, "total": total, "tile": tile, "arg": arg, **RARE,
}  # fmt: skip
