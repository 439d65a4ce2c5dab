"""Convolutions, pools and products of a composition in TensorFlow Lite's operators."""

import numpy as np

from .composition import Op, Shape
from .quantized import one_in
from .write_tflite import F32, I32, TO_LAST, Declined, Flat


def same_pads(image: Shape, kernel: Shape, strides: Shape, dilations: Shape = (1, 1)) -> tuple[int, ...]:
    before, after = [], []
    for d, k, s, step in zip(image, kernel, strides, dilations, strict=True):
        total = max((-(-d // s) - 1) * s + (k - 1) * step + 1 - d, 0)
        before.append(total // 2)
        after.append(total - total // 2)
    return (*before, *after)


def framed(f: Flat, op: Op, kernel: Shape, stored: bool) -> tuple[int, str]:
    """(images with channels last, padding) for a window: what the two kinds of padding can't say is padded before."""
    x, a = op.inputs[0], op.attrs
    n, c, *image = f.shapes[x]
    pads = tuple(a["pads"])
    if op.kind == "max_pool" and a.get("dilations", (1, 1)) != (1, 1):
        raise Declined("pools with holes")
    tensor = f.read(x, True, stored)
    if not any(pads):
        return tensor, "VALID"
    if pads == same_pads(tuple(image), kernel, a["strides"], a.get("dilations", (1, 1))):
        return tensor, "SAME"
    shape = (n, image[0] + pads[0] + pads[2], image[1] + pads[1] + pads[3], c)
    places = f.model.const(np.array([[0, 0], [pads[0], pads[2]], [pads[1], pads[3]], [0, 0]], I32))
    if op.kind == "average_pool":
        raise Declined("padding of a pool")
    kind, more = ("PADV2", [f.number(-3e38)]) if op.kind == "max_pool" else ("PAD", [])
    if stored and more:
        raise Declined("padding of a pool")
    spec = (shape, np.int8, f.quant(x)) if stored else (shape, F32)
    return f.model.op(kind, [tensor, places, *more], [spec])[0], "VALID"


def end(f: Flat, op: Op) -> tuple[str, str]:
    """(result, activation) of an operator that may end with one: of its only reader, if that is one."""
    out = op.outputs[0]
    readers = f.readers.get(out, [])
    if len(readers) == 1 and out not in f.net.outputs and readers[0].kind in ("relu", "relu6"):
        after = readers[0]
        if (out in f.params) == (after.outputs[0] in f.params):
            f.ends[out] = after
            return after.outputs[0], after.kind.upper()
    return out, "NONE"


def conv(f: Flat, op: Op) -> None:
    w, a = op.inputs[1], op.attrs
    o, per_group, *kernel = f.shapes[w]
    stored = f.is_stored(op)
    plain = a["strides"] == (1, 1) and a["group"] == 1 and not stored and f.numbers != "dynamic"
    if a["dilations"] != (1, 1) and plain and one_in(op.outputs[0], 2):
        return spaced(f, op)
    tensor, padding = framed(f, op, tuple(kernel), stored)
    c = f.shapes[op.inputs[0]][1]
    deep = a["group"] == c > 1 and per_group == 1
    turn, axis = ((1, 2, 3, 0), 3) if deep else (TO_LAST, 0)
    held, scales = f.layer_weights(w, "conv", stored, turn, axis)
    if scales is not None and not stored and (a["group"] > 1 and not deep):
        raise Declined("groups of rounded activations")
    out, activation = end(f, op)
    more = {"padding": padding, "stride_h": a["strides"][0], "stride_w": a["strides"][1],
            "dilation_h_factor": a["dilations"][0], "dilation_w_factor": a["dilations"][1],
            "fused_activation_function": activation}  # fmt: skip
    if deep:
        more["depth_multiplier"] = o // c
    inputs = [tensor, held, f.bias(op, o, scales, stored)]
    f.give(out, f.op("DEPTHWISE_CONV_2D" if deep else "CONV_2D", inputs, out, True, stored, **more), True, stored)


def spaced(f: Flat, op: Op) -> None:
    """A dilated convolution between SPACE_TO_BATCH_ND and its inverse, as TensorFlow wrote them."""
    x, w, *_ = op.inputs
    (o, _per_group, *kernel), (n, c, *image), a, out = f.shapes[w], f.shapes[x], op.attrs, op.outputs[0]
    (dh, dw), pads = a["dilations"], a["pads"]
    padded = [image[i] + pads[i] + pads[i + 2] for i in (0, 1)]
    more = [-p % d for p, d in zip(padded, (dh, dw), strict=True)]
    small = [(p + m) // d for p, m, d in zip(padded, more, (dh, dw), strict=True)]
    block = f.ints(dh, dw)
    places = f.model.const(np.array([[pads[i], pads[i + 2] + more[i]] for i in (0, 1)], I32))
    y = f.raw("SPACE_TO_BATCH_ND", [f.read(x, True), block, places], (n * dh * dw, *small, c))
    shape = (n * dh * dw, *(s - k + 1 for s, k in zip(small, kernel, strict=True)), o)
    weights = f.weights(f.net.consts[w].array().transpose(TO_LAST))
    y = f.raw("CONV_2D", [y, weights, f.bias(op, o, None, False)], shape, padding="VALID", stride_h=1, stride_w=1)
    crops = f.model.const(np.array([[0, m] for m in more], I32))
    f.give(out, f.op("BATCH_TO_SPACE_ND", [y, block, crops], out, True), True)


def conv_transpose(f: Flat, op: Op) -> None:
    x, w, *bias = op.inputs
    a, (_, o, *kernel), (n, _, *image) = op.attrs, f.shapes[w], f.shapes[x]
    if a.get("group", 1) > 1:
        raise Declined("groups of transposed convolutions")
    full = (n, *((d - 1) * s + k for d, s, k in zip(image, a["strides"], kernel, strict=True)), o)
    more = {"padding": "VALID", "stride_h": a["strides"][0], "stride_w": a["strides"][1]}
    out = op.outputs[0]
    shape = f.shape(out, True)
    if f.is_stored(op) and shape == full:
        held, scales = f.layer_weights(w, "conv", True, (1, 2, 3, 0), 0)
        inputs = [f.ints(*full), held, f.read(x, True, True), f.bias(op, o, scales, True)]
        f.give(out, f.op("TRANSPOSE_CONV", inputs, out, True, True, version=3, **more), True, True)
        return
    weights = f.weights(f.net.consts[w].array().transpose(1, 2, 3, 0))
    y = f.raw("TRANSPOSE_CONV", [f.ints(*full), weights, f.read(x, True)], full, **more)
    if shape != full:
        begin = (0, a["pads"][0], a["pads"][1], 0)
        y = f.raw("SLICE", [y, f.ints(*begin), f.ints(*shape)], shape)
    if bias:
        y = f.raw("ADD", [y, f.weights(f.net.consts[bias[0]].array())], shape)
    f.give(out, y, True)


def pool(f: Flat, op: Op) -> None:
    a, out, stored = op.attrs, op.outputs[0], f.is_stored(op) and op.kind == "max_pool"
    tensor, padding = framed(f, op, tuple(a["kernel"]), stored)
    more = {"padding": padding, "stride_h": a["strides"][0], "stride_w": a["strides"][1],
            "filter_height": a["kernel"][0], "filter_width": a["kernel"][1]}  # fmt: skip
    kind = "MAX_POOL_2D" if op.kind == "max_pool" else "AVERAGE_POOL_2D"
    f.give(out, f.op(kind, [tensor], out, True, stored, **more), True, stored)


def dense(f: Flat, op: Op) -> None:
    x, w = op.inputs[:2]
    stored = f.is_stored(op)
    held, scales = f.layer_weights(w, "dense", stored, (1, 0), 0)
    out, activation = end(f, op)
    inputs = [f.read(x, False, stored), held, f.bias(op, f.shapes[w][1], scales, stored)]
    made = f.op("FULLY_CONNECTED", inputs, out, False, stored, keep_num_dims=True, fused_activation_function=activation)
    f.give(out, made, False, stored)


def matmul(f: Flat, op: Op) -> None:
    out, stored = op.outputs[0], f.is_stored(op)
    inputs = [f.read(name, False, stored) for name in op.inputs]
    f.give(out, f.op("BATCH_MATMUL", inputs, out, False, stored), False, stored)
