"""Convolutions and matrix products, channels last. Semantics: TFLite's kernels.

Weights are [O, kernel..., I / groups], as TFLite's are but for depthwise and 3-d ones. A bias of integers always has
the scale of the products that it is added to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Quantization, TensorType, Value
from ..core.common import ints
from .call import Call, rule
from .common import computed, known, same_dtype, whole
from .hybrid import hybrid
from .rules_pool import padding
from .weights import row_by_row


def _operands(c: Call, x: Value, w: Value) -> None:
    """ModelError unless such types are multiplied: floats, quantized integers, or floats by quantized weights."""
    computed(c, x, w, *c.outputs)
    quantized = x.type.quant is not None
    if quantized != (c.outputs[0].type.quant is not None):
        c.fail(f"expected an output of the input's kind, found {x.type} and {c.outputs[0].type}")
    if quantized and w.type.quant is None:
        c.fail(f"expected quantized weights for the quantized input {x.type}, found {w.type}")
    assert w.type.dtype is not None and x.type.dtype is not None
    stored = w.type.dtype.kind in "iu"
    if stored and (w.type.quant is None or w.type.dtype.itemsize > x.type.dtype.itemsize):
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
    plain = quant._replace(zero_point=(0,) * len(quant.zero_point))
    if w.data is not None:
        return c.const(w.data, plain)
    return c.add("reinterpret", [w], type=TensorType(w.type.dtype, w.type.shape, plain))


def turned(c: Call, w: Value, perm: tuple[int, ...]) -> Value:
    """Weights with their axes in another order, and their quantization along with them; constants at once."""
    quant = w.type.quant
    if quant is not None and quant.axis is not None:
        quant = Quantization(quant.scale, quant.zero_point, perm.index(quant.axis))
    if w.data is not None:
        return c.const(np.ascontiguousarray(w.data.transpose(perm)), quant)
    return c.add("transpose", [w], type=TensorType(w.type.dtype, None, quant), perm=perm)


def bias_of(c: Call, index: int, x: Value, w: Value) -> Value | None:
    """The bias [O]. Integers stand for multiples of the input's scale times the weights', whatever the file says."""
    bias = c.input(index)
    if bias is None:
        return None
    if x.type.quant is None or w.type.quant is None:
        same_dtype(c, bias, c.outputs[0])
        return _flat(c, bias, None)
    if bias.type.dtype not in (np.dtype(np.int32), np.dtype(np.int64)):
        c.fail(f"expected a bias of int32 or int64, found {bias.type}")
    scales = tuple((x.type.quant.scale[0] * np.array(w.type.quant.scale)).tolist())
    axis = None if w.type.quant.axis is None else 0
    return _flat(c, bias, Quantization(scales, (0,) * len(scales), axis))


def _flat(c: Call, bias: Value, quant: Quantization | None) -> Value:
    """A bias as a vector with the given quantization."""
    if bias.data is not None:
        return c.const(bias.data.reshape(-1), quant)
    if bias.type.shape is not None and len(bias.type.shape) != 1:
        bias = c.add("reshape", [bias, ints(c, [-1])], type=bias.type.with_shape(None))
    if bias.type.quant == quant:
        return bias
    return c.add("reinterpret", [bias], type=TensorType(bias.type.dtype, None, quant))


def _window(c: Call, rank: int = 2) -> dict[str, Any]:
    o = c.options
    depth = [(o.stride_d, o.dilation_d_factor)] if rank == 3 else []
    steps = [*depth, (o.stride_h, o.dilation_h_factor), (o.stride_w, o.dilation_w_factor)]
    return {"strides": tuple(s for s, _ in steps), "dilations": tuple(d for _, d in steps), "auto_pad": padding(c)}


def _groups(c: Call, x: Value, w: Value) -> int:
    """How many groups of channels weights [O, kernel..., I / groups] make of the input's."""
    channels, taken = (None if v.type.shape is None else v.type.shape[-1] for v in (x, w))
    if not isinstance(channels, int) or not isinstance(taken, int):
        return 1
    if taken < 1 or channels % taken:
        c.fail(f"expected weights for a part of the {channels} channels, found {taken} in {w.type}")
    return channels // taken


@rule("CONV_2D", "CONV_3D")
def _conv(c: Call) -> None:
    c.count((2, 3))
    x, w = c.x(0), symmetric(c, c.x(1))
    _operands(c, x, w)
    bias = bias_of(c, 2, x, w)
    x = hybrid(c, x, w, symmetric=w.type.quant is None or len(set(w.type.quant.scale)) == 1)
    spatial = 3 if c.op == "CONV_3D" else 2
    w = turned(c, w, (4, 0, 1, 2, 3)) if spatial == 3 else w
    c.activate("conv", [x, w, bias], groups=_groups(c, x, w), **_window(c, spatial))


@rule("DEPTHWISE_CONV_2D")
def _depthwise(c: Call) -> None:
    """Weights [1, kernel..., O]: each input channel makes O / I output channels side by side."""
    c.count((2, 3))
    x, w = c.x(0), symmetric(c, c.x(1))
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
    bias = bias_of(c, 2, x, w)
    x = hybrid(c, x, w, symmetric=False)
    c.activate("conv", [x, turned(c, w, (3, 1, 2, 0)), bias], groups=groups, **_window(c))


@rule("TRANSPOSE_CONV", "CONV_3D_TRANSPOSE")
def _conv_transpose(c: Call) -> None:
    """Inputs: output shape, weights, x, bias. SAME pads what the output's extent leaves over, odd ones at the end."""
    c.count((3, 4))
    x, w = c.x(2), symmetric(c, c.x(1))
    _operands(c, x, w)
    bias = bias_of(c, 3, x, w)
    x = hybrid(c, x, w, symmetric=False)
    spatial = 3 if c.op == "CONV_3D_TRANSPOSE" else 2
    w = turned(c, w, (3, 0, 1, 2, 4)) if spatial == 3 else w
    o = c.options
    strides = (o.stride_h, o.stride_w) if spatial == 2 else (o.stride_d, o.stride_h, o.stride_w)
    dilations = (1, 1) if spatial == 2 else (o.dilation_d_factor, o.dilation_h_factor, o.dilation_w_factor)
    wanted = _output_shape(c, spatial + 2)
    batch = x.type.shape[0] if x.type.shape is not None else None
    if isinstance(batch, int) and wanted[0] != batch:
        c.fail(f"expected an output shape of batch {batch}, found {wanted}")
    c.activate(
        "conv_transpose", [x, w, bias], strides=strides, dilations=dilations, auto_pad=padding(c),
        output_shape=tuple(wanted[1:-1]), groups=1,
    )  # fmt: skip


def _output_shape(c: Call, rank: int) -> list[int]:
    """The first input, or, where that is computed, the shape that the file declares of the result."""
    shape = c.outputs[0].type.shape
    if whole(c, 0).data is None and shape is not None and len(shape) == rank:
        numbers = [d if isinstance(d, int) else 0 for d in shape]
        if all(numbers[1:]):
            return numbers
    found = known(c, 0, "output shapes")
    if len(found) != rank or min(found) < 1:
        c.fail(f"expected an output shape of {rank} positive numbers, found {found}")
    return found


@rule("FULLY_CONNECTED")
def _fully_connected(c: Call) -> None:
    """x [..., I] times weights [O, I], transposed; x becomes a matrix unless keep_num_dims keeps its axes."""
    c.count((2, 3), (1, 2))
    x, w = c.x(0), symmetric(c, row_by_row(c, c.x(1)), always=False)
    for workspace in c.outputs[1:]:  # where a device would shuffle x as the weights are
        c.add("reinterpret", [x], [workspace])
    _operands(c, x, w)
    if w.type.shape is None or len(w.type.shape) != 2:
        c.fail(f"expected weights of shape [outputs, inputs], found {w.type}")
    rows, columns = w.type.shape
    bias = bias_of(c, 2, x, w)
    lead = None if x.type.shape is None else x.type.shape[:-1]
    flat = x
    if lead is None or len(lead) != 1 or x.type.shape[-1] != columns:  # type: ignore[index]
        shape = ints(c, [-1, columns if isinstance(columns, int) else -1])
        flat = c.add("reshape", [x, shape], type=x.type.with_shape(None))
    flat = hybrid(c, flat, w, symmetric=not c.options.asymmetric_quantize_inputs, last=True)
    if not c.options.keep_num_dims or (lead is not None and len(lead) == 1):
        c.activate("gemm", [flat, w, bias], trans_b=1)
        return
    y = c.add("gemm", [flat, w, bias], type=c.outputs[0].type.with_shape(None), trans_b=1)
    y = c.apply(c.options.fused_activation_function, y)
    c.add("reshape", [y, _kept(c, x, rows)], c.outputs[:1])


def _kept(c: Call, x: Value, rows: Any) -> Value:
    """The shape of x with another last extent."""
    lead = None if x.type.shape is None else x.type.shape[:-1]
    numbers = [d if isinstance(d, int) else -1 for d in lead or ()]
    if lead is not None and isinstance(rows, int) and numbers.count(-1) <= 1:
        return ints(c, [*numbers, rows])
    first = c.add("shape", [x], type=TensorType(np.dtype(np.int64)), start=0, end=-1)
    return c.add("concat", [first, ints(c, [rows])], type=TensorType(np.dtype(np.int64)), axis=0)


@rule("BATCH_MATMUL")
def _batch_matmul(c: Call) -> None:
    c.count(2)
    x, y = c.x(0), symmetric(c, c.x(1), always=False)
    _operands(c, x, y)
    x = _adjoint(c, x) if c.options.adj_x else x
    y = _adjoint(c, y) if c.options.adj_y else y
    c.write("matmul", [hybrid(c, x, y, symmetric=not c.options.asymmetric_quantize_inputs, last=True), y])


def _adjoint(c: Call, x: Value) -> Value:
    """x with its last two axes swapped."""
    rank = c.rank(x)
    if rank < 2:
        c.fail(f"expected a matrix to transpose, found {x.type}")
    return turned(c, x, (*range(rank - 2), rank - 1, rank - 2))
