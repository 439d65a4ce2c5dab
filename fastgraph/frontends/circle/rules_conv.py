"""Convolutions, matrix products, pools and resizes, channels last. Semantics: TFLite's kernels; of shuffled weights
reference_ops.h (ShuffledFullyConnected) and Samsung ONE's ShuffleWeightTo16x1Float32Pass.

Weights are [O, kernel..., I / groups], as TFLite's are but for depthwise and 3-d ones. A bias of integers always has
the scale of the products that it is added to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import FLOAT32, Quantization, TensorType, Value
from ..core.common import transposed
from .call import Call
from .common import computed, known, same_dtype

BLOCKS = {"SHUFFLED4x16INT8": (4, 16), "SHUFFLED16x1FLOAT32": (16, 1)}
"""Rows and columns of the blocks that lie one after another."""


def _operands(c: Call, x: Value, w: Value) -> None:
    """ModelError unless such types are multiplied: floats, quantized integers, or floats by quantized weights."""
    computed(c, x, w, *c.outputs)
    quantized = x.type.quant is not None
    if quantized != (c.outputs[0].type.quant is not None):
        c.fail(f"expected an output of the input's kind, found {x.type} and {c.outputs[0].type}")
    if quantized and w.type.quant is None:
        c.fail(f"expected quantized weights for the quantized input {x.type}, found {w.type}")
    stored = w.type.element.kind in "iu"
    if stored and (w.type.quant is None or w.type.itemsize > x.type.itemsize):
        c.fail(f"expected weights of floats, or of quantized integers no wider than {x.type}, found {w.type}")
    if not quantized:
        same_dtype(c, x, c.outputs[0])


def symmetric(c: Call, w: Value, always: bool = True) -> Value:
    """Weights as TFLite's kernels read them: signed ones have no zero points, whatever the file says.

    Where these are per tensor, FULLY_CONNECTED and BATCH_MATMUL (not `always`) do subtract them.
    """
    quant = w.type.quant
    if quant is None or not any(quant.zero_point) or w.type.dtype == np.uint8 or not (always or quant.axis is not None):
        return w
    return c.read_as(w, quant._replace(zero_point=(0,) * len(quant.zero_point)))


def bias_of(c: Call, bias: Value | None, x: Value, w: Value) -> Value | None:
    """The bias [O]. Integers stand for multiples of the input's scale times the weights', whatever the file says."""
    if bias is None:
        return None
    quant = None
    if x.type.quant is None or w.type.quant is None:
        same_dtype(c, bias, c.outputs[0])
    elif bias.type.dtype not in (np.dtype(np.int32), np.dtype(np.int64)):
        c.fail(f"expected a bias of int32 or int64, found {bias.type}")
    else:
        scales = tuple((x.type.quant.scale[0] * np.array(w.type.quant.scale)).tolist())
        quant = Quantization(scales, (0,) * len(scales), None if w.type.quant.axis is None else 0)
    if bias.data is not None:
        return c.const(bias.data.reshape(-1), quant)
    if bias.type.shape is not None and len(bias.type.shape) != 1:
        bias = c("reshape", bias, c.vector(-1))
    return c.read_as(bias, quant)


def hybrid(c: Call, x: Value, w: Value, symmetric: bool, per: str = "batch") -> Value:
    """The x that is multiplied: floats beside quantized weights are rounded to 8 bits, by their range in each batch or
    row. `symmetric`: to -127 .. 127 steps, else to 256 from the least to the greatest. So do LiteRT's kernels (but for
    the last bits; its XNNPACK delegate rounds otherwise); Circle's runtimes do it only for weights with one scale.
    """
    is_circle = bytes(c.scope.reader.model.wire.data[4:8]) == b"CIR0"
    if x.type.quant is not None or w.type.quant is None or (is_circle and w.type.quant.axis is not None):
        return x
    grid = "symmetric" if symmetric else "asymmetric"
    return c("dynamic_round", x, type=TensorType(FLOAT32, x.type.shape), per=per, grid=grid)


def _groups(c: Call, x: Value, w: Value) -> int:
    """How many groups of channels weights [O, kernel..., I / groups] make of the input's."""
    channels, taken = (None if v.type.shape is None else v.type.shape[-1] for v in (x, w))
    if not isinstance(channels, int) or not isinstance(taken, int):
        return 1
    if taken < 1 or channels % taken:
        c.fail(f"expected weights for a part of the {channels} channels, found {taken} in {w.type}")
    return channels // taken


def conv(c: Call, x: Value, w: Value, bias: Value | None, **window: Any) -> None:
    w = symmetric(c, w)
    _operands(c, x, w)
    bias = bias_of(c, bias, x, w)
    x = hybrid(c, x, w, symmetric=w.type.quant is None or len(set(w.type.quant.scale)) == 1)
    w = transposed(c, w, (4, 0, 1, 2, 3)) if c.op == "CONV_3D" else w
    c.write("conv", [x, w, bias], groups=_groups(c, x, w), **window)


def depthwise(c: Call, x: Value, w: Value, bias: Value | None, **window: Any) -> None:
    """Weights [1, kernel..., O]: each input channel makes O / I output channels side by side."""
    w = symmetric(c, w)
    _operands(c, x, w)
    shape = w.type.shape
    if shape is None or len(shape) != 4 or shape[0] != 1:
        c.fail(f"expected weights of shape [1, height, width, channels], found {w.type}")
    if x.type.shape is not None and isinstance(x.type.shape[-1], int):
        groups = x.type.shape[-1]
    elif isinstance(shape[3], int) and c.options.depth_multiplier > 0:
        groups = shape[3] // c.options.depth_multiplier
    else:
        c.unsupported("whose number of channels the file leaves open")
    bias = bias_of(c, bias, x, w)
    x = hybrid(c, x, w, symmetric=False)
    c.write("conv", [x, transposed(c, w, (3, 1, 2, 0)), bias], groups=groups, **window)


def conv_transpose(c: Call, shape: Value, w: Value, x: Value, bias: Value | None, **window: Any) -> Value:
    """SAME pads what the output's extent leaves over, odd ones at the end."""
    w = symmetric(c, w)
    _operands(c, x, w)
    bias = bias_of(c, bias, x, w)
    x = hybrid(c, x, w, symmetric=False)
    w = transposed(c, w, (3, 0, 1, 2, 4)) if c.op == "CONV_3D_TRANSPOSE" else w
    wanted = _output_shape(c, shape, len(window["strides"]) + 2)
    batch = x.type.shape[0] if x.type.shape is not None else None
    if isinstance(batch, int) and wanted[0] != batch:
        c.fail(f"expected an output shape of batch {batch}, found {wanted}")
    return c("conv_transpose", x, w, bias, output_shape=tuple(wanted[1:-1]), groups=1, **window)


def _output_shape(c: Call, given: Value, rank: int) -> list[int]:
    """The first input, or, where that is computed, the shape that the file declares of the result."""
    shape = c.outputs[0].type.shape
    if given.data is None and shape is not None and len(shape) == rank:
        numbers = [d if isinstance(d, int) else 0 for d in shape]
        if all(numbers[1:]):
            return numbers
    found = known(c, 0)
    if len(found) != rank or min(found) < 1:
        c.fail(f"expected an output shape of {rank} positive numbers, found {found}")
    return found


def fully_connected(c: Call, x: Value, w: Value, bias: Value | None) -> None:
    """x [..., I] times weights [O, I], transposed; x becomes a matrix unless keep_num_dims keeps its axes."""
    w = symmetric(c, _row_by_row(c, w), always=False)
    for workspace in c.outputs[1:]:  # where a device would shuffle x as the weights are
        c.add("reinterpret", [x], [workspace])
    _operands(c, x, w)
    if w.type.shape is None or len(w.type.shape) != 2:
        c.fail(f"expected weights of shape [outputs, inputs], found {w.type}")
    rows, columns = w.type.shape
    bias = bias_of(c, bias, x, w)
    lead = None if x.type.shape is None else x.type.shape[:-1]
    flat = x
    if lead is None or len(lead) != 1 or x.type.shape[-1] != columns:  # type: ignore[index]
        flat = c("reshape", x, c.vector(-1, columns if isinstance(columns, int) else -1))
    flat = hybrid(c, flat, w, symmetric=not c.options.asymmetric_quantize_inputs, per="row")
    if not c.options.keep_num_dims or (lead is not None and len(lead) == 1):
        c.settle(["activated"], "gemm", [flat, w, bias], c.outputs[:1], trans_b=1)
        return
    y = c("gemm", flat, w, bias, type=c.outputs[0].type.with_shape(None), trans_b=1)
    c.add("reshape", [c.activated(y), _kept(c, x, rows)], c.outputs[:1], allowzero=1)


def _row_by_row(c: Call, w: Value) -> Value:
    """Weights [outputs, inputs] of a fully connected layer, stored row by row whatever `weights_format` says.

    In SHUFFLED4x16INT8 each byte has its highest bit flipped.
    """
    form, weights = c.options.weights_format, w.data
    if form == "DEFAULT":
        return w
    if weights is None:
        c.unsupported(f"with {form} weights that are computed; expected a constant")
    rows, columns = BLOCKS[form]
    dtype = np.dtype(np.float32 if form == "SHUFFLED16x1FLOAT32" else np.uint8)
    if weights.ndim != 2 or weights.dtype != dtype or weights.shape[0] % rows or weights.shape[1] % columns:
        c.fail(
            f"expected {form} weights of {dtype} in blocks of {rows} x {columns}, "
            f"found {weights.dtype} of shape {list(weights.shape)}"
        )
    height, width = weights.shape[0] // rows, weights.shape[1] // columns
    plain = weights.reshape(height, width, rows, columns).swapaxes(1, 2).reshape(weights.shape)
    return c.const(np.ascontiguousarray(plain) if dtype == np.float32 else plain ^ np.uint8(0x80), w.type.quant)


def _kept(c: Call, x: Value, rows: Any) -> Value:
    """The shape of x with another last extent."""
    lead = None if x.type.shape is None else x.type.shape[:-1]
    numbers = [d if isinstance(d, int) else -1 for d in lead or ()]
    if lead is not None and isinstance(rows, int) and numbers.count(-1) <= (0 not in (*numbers, rows)):
        return c.vector(*numbers, rows)
    return c.join([c("shape", x, start=0, end=-1), c.vector(rows)], 0)


def batch_matmul(c: Call, x: Value, y: Value) -> Value:
    y = symmetric(c, y, always=False)
    _operands(c, x, y)
    x, y = _adjoint(c, x, c.options.adj_x), _adjoint(c, y, c.options.adj_y)
    return c("matmul", hybrid(c, x, y, symmetric=not c.options.asymmetric_quantize_inputs, per="row"), y)


def _adjoint(c: Call, x: Value, yes: bool) -> Value:
    """x with its last two axes swapped, if so."""
    if not yes:
        return x
    rank = c.rank(x)
    if rank < 2:
        c.fail(f"expected a matrix to transpose, found {x.type}")
    return transposed(c, x, (*range(rank - 2), rank - 1, rank - 2))


def matmul(c: Call, x: Value, y: Value, a: int, b: int) -> Value:
    """TensorFlow's. Where a file tells nothing of its operands, the declared result says which are transposed."""
    flags, shapes = (bool(a), bool(b)), [v.type.shape for v in (x, y, c.outputs[0])]
    if not c.told and all(s is not None and len(s) >= 2 and all(isinstance(d, int) for d in s[-2:]) for s in shapes):
        (m, k), (n, o), wanted = ((s or ())[-2:] for s in shapes)
        fits = [(ta, tb) for ta in (False, True) for tb in (False, True)
                if (m if ta else k) == (o if tb else n) and (k if ta else m, n if tb else o) == wanted]  # fmt: skip
        flags = fits[0] if fits else flags
    return _adjoint(c, x, flags[0]) @ _adjoint(c, y, flags[1])


# pools and resizes


def average_pool(c: Call, x: Value, **window: Any) -> None:
    """Means over what lies inside the image; of integers halves are rounded away from the stored number 0."""
    quant = x.type.quant
    if c.activation == "NONE" and quant is None:
        c.results_are, window["ties"] = ["rounded"], 0.0
    elif quant is not None and quant.axis is None and quant == c.outputs[0].type.quant:
        window["ties"] = -quant.scale[0] * quant.zero_point[0]
    c.write("average_pool", [x], **window, count_include_pad=0)


def l2_pool(c: Call, x: Value, **window: Any) -> Value:
    """The root of the mean of squares over what lies inside the image."""
    return c.sqrt(c("average_pool", x * x, **window, count_include_pad=0))


def resize(c: Call, x: Value, size: Value, mode: str, corners: bool, centers: bool) -> None:
    """Coordinates are computed in float32 by the multiplier in / out, so that ties fall as they do in TFLite; between
    words by one of 10 bits after the point.
    """
    if corners and centers:
        c.fail("expected at most one of align_corners and half_pixel_centers")
    form = "tf_align_corners" if corners else "tf_half_pixel" if centers else "tf_asymmetric"
    rounding = "floor" if form == "tf_asymmetric" else "round_prefer_ceil"
    form += "_10" * (mode == "linear" and x.type.dtype == np.int16)
    c.write(
        "resize", [x, None, None, size], axes=(1, 2), mode=mode, coordinate_transformation_mode=form,
        nearest_mode=rounding,
    )  # fmt: skip
