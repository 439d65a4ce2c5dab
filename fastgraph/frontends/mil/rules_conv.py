"""Convolutions, pools and matrix products. MIL has channels first, the graph last.

Semantics: coremltools/converters/mil/mil/ops/defs/iOS15/{conv, pool, linear}.py; iOS17's forms let weights have
another floating point type than x, and be computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from ..core.common import transposed
from .call import Call
from .common import alike, extents, reals
from .signatures import CHOICES, rule

# -- windows


def _spatial(c: Call, x: Value) -> int:
    """The number of spatial axes of x [N, C, spatial...], from 1 to 3."""
    count = c.rank(x) - 2
    if not 1 <= count <= 3:
        c.fail(f"expected an input with batch, channels and 1 to 3 spatial axes, found {x.type}")
    return count


def _numbers(c: Call, key: str, count: int, default: int, least: int) -> tuple[int, ...]:
    """Parameter `key`: `count` whole numbers, none below `least`."""
    found: tuple[int, ...] = c.ints(key, None) or (default,) * count
    if len(found) != count or min(found) < least:
        c.fail(f"expected its parameter {key!r} as {count} numbers from {least} on, found {list(found)}")
    return found


def _window(c: Call, count: int, dilated: bool = True) -> dict[str, Any]:
    """strides, dilations, auto_pad and pads. `pad` has before and after of each axis, for pad_type "custom"."""
    kind = c.text("pad_type", *CHOICES["PadType"], default="valid")
    pairs = _numbers(c, "pad", 2 * count, 0, 0) if kind == "custom" else (0,) * (2 * count)
    return {
        "strides": _numbers(c, "strides", count, 1, 1),
        "dilations": _numbers(c, "dilations", count, 1, 1) if dilated else (1,) * count,
        "auto_pad": CHOICES["PadType"][kind],
        "pads": (*pairs[::2], *pairs[1::2]),
    }


# -- weights


def _convolution(c: Call, op: str, x: Value, w: Value, bias: Value | None, **attrs: Any) -> Value:
    """A convolution, whose weights have the outputs first and the channels last."""
    x, w = alike(c, x, w)
    operands = [c.to_last(x), w] if bias is None else [c.to_last(x), w, _like(c, bias, x)]
    return c.to_first(c(op, *operands, **attrs))


def _like(c: Call, bias: Value, x: Value) -> Value:
    return bias if bias.type.quant is not None else c.cast(bias, x.type.dtype)


def _checked(c: Call, x: Value, w: Value, groups: int) -> int:
    """The number of spatial axes of an input; the weights must have as many."""
    count = _spatial(c, x)
    if c.rank(w) != count + 2:
        c.fail(f"expected weights of rank {count + 2}, as its input has, found {w.type}")
    if groups < 1:
        c.fail(f"expected its parameter 'groups' to be a number from 1 on, found {groups!r}")
    return count


@rule("conv: x weight bias? groups:int=1")
def conv(c: Call, x: Value, weight: Value, bias: Value | None, groups: int) -> Value:
    """Weights are [O, C / groups, k...]."""
    count = _checked(c, x, weight, groups)
    w = transposed(c, weight, (0, *range(2, count + 2), 1))
    return _convolution(c, "conv", x, w, bias, groups=groups, **_window(c, count))


@rule("conv_quantized: x weight:Array quantization_type:Scales bias? groups:int=1")
def conv_quantized(
    c: Call, x: Value, weight: np.ndarray, quantization_type: str, bias: Value | None, groups: int
) -> Value:
    """Weights are quant_scale * stored + quant_bias: numbers, or one for each output channel."""
    if quantization_type != "linear":
        c.unsupported("with a look-up table, whose form is not documented; constexpr_lut_to_dense has one that is")
    scale, shift = (_by_channel(c, key, weight) for key in ("quant_scale", "quant_bias"))
    return conv(c, x, c.const((weight * scale + shift).astype(np.float32)), bias, groups)


def _by_channel(c: Call, key: str, w: np.ndarray) -> np.ndarray:
    numbers = np.asarray(c.known(key), np.float32)
    if numbers.size not in (1, *w.shape[:1]):
        c.fail(f"expected its parameter {key!r} as one number or {w.shape[0]}, found {numbers.size}")
    return numbers.reshape(-1, *[1] * (w.ndim - 1))


@rule("conv_transpose: x weight bias? groups:int=1 output_shape:Ints?")
def conv_transpose(
    c: Call, x: Value, weight: Value, bias: Value | None, groups: int, output_shape: tuple[int, ...] | None
) -> Value:
    """Weights are [C, O / groups, k...]. What `output_shape` adds or takes is at the end of each axis."""
    count = _checked(c, x, weight, groups)
    window = _window(c, count)
    if output_shape is not None:
        if len(output_shape) != count + 2 or min(output_shape) < 1:
            c.fail(f"expected an output shape of {count + 2} positive numbers, found {list(output_shape)}")
        if window["auto_pad"] == "NOTSET":
            window |= _fitted(c, x, weight, output_shape[2:], window)
        else:
            window["output_shape"] = output_shape[2:]
    return _convolution(c, "conv_transpose", x, _flipped(c, weight, groups), bias, groups=groups, **window)


def _fitted(c: Call, x: Value, w: Value, wanted: tuple[int, ...], window: dict[str, Any]) -> dict[str, Any]:
    """Paddings with which the result has the wanted extents: begins stay."""
    count = len(wanted)
    spatial: Any = extents(x, *range(2, count + 2))
    kernel: Any = extents(w, *range(2, count + 2))
    if None in (*spatial, *kernel):
        c.unsupported("with an output shape, for an input or weights whose extents the program leaves open")
    extra, ends = [], list(window["pads"][count:])
    for i, (d, k, want) in enumerate(zip(spatial, kernel, wanted, strict=True)):
        full = window["strides"][i] * (d - 1) + (k - 1) * window["dilations"][i] + 1
        more = want - (full - window["pads"][i] - ends[i])
        extra.append(max(more, 0))
        ends[i] -= min(more, 0)
    return {"output_padding": tuple(extra), "pads": (*window["pads"][:count], *ends)}


def _flipped(c: Call, w: Value, groups: int) -> Value:
    """[C, O / groups, k...] as [O, k..., C / groups]."""
    rank = c.rank(w)
    if groups == 1:
        return transposed(c, w, (1, *range(2, rank), 0))
    if not w.type.concrete or w.type.dims[0] % groups:
        c.fail(f"expected weights of known shape, whose first extent {groups} groups divide, found {w.type}")
    channels, out, *kernel = w.type.dims
    split, last = (groups, channels // groups, out, *kernel), (groups * out, *kernel, channels // groups)
    perm = (0, *range(2, rank + 1), 1)
    if w.data is not None:
        return c.const(reals(c, w).reshape(split).transpose(perm).reshape(last))
    return c("reshape", c.transpose(c("reshape", w, c.vector(*split)), *perm), c.vector(*last))


# -- pools


POOLS = {"max_pool": "max_pool", "avg_pool": "average_pool", "l2_pool": "lp_pool"}


@rule("max_pool avg_pool l2_pool: x ceil_mode:flag=0 exclude_padding_from_average:flag=0")
def pool(c: Call, x: Value, ceil_mode: bool, exclude_padding_from_average: bool) -> Value:
    count = _spatial(c, x)
    attrs = _window(c, count, dilated=False) | {"kernel_shape": _numbers(c, "kernel_sizes", count, 0, 1)}
    if ceil_mode and attrs["auto_pad"] != "NOTSET":
        c.fail("expected ceil_mode with pad_type valid or custom only")
    op = POOLS[c.op]
    if op == "lp_pool":
        attrs["p"] = 2
    if op == "average_pool":
        attrs["count_include_pad"] = int(not exclude_padding_from_average)
    return c.to_first(c(op, c.to_last(x), ceil_mode=ceil_mode, **attrs))


# -- products


@rule("linear: x:Alike weight:Alike bias?")
def linear(c: Call, x: Value, weight: Value, bias: Value | None) -> Value:
    """x [..., I] times weights [O, I], transposed, plus bias [O]."""
    if c.rank(weight) != 2:
        c.fail(f"expected weights [outputs, inputs], found {weight.type}")
    summand = [] if bias is None else [_like(c, bias, x)]
    if c.rank(x) == 2:
        return c("gemm", x, weight, *summand, trans_b=1)
    y = x @ transposed(c, weight, (1, 0))
    return y + summand[0] if summand else y


@rule("matmul: x:Alike y:Alike transpose_x:flag=0 transpose_y:flag=0")
def matmul(c: Call, x: Value, y: Value, transpose_x: bool, transpose_y: bool) -> Value:
    """NumPy's product of stacks of matrices; a vector is not transposed."""
    return (_swapped(c, x) if transpose_x else x) @ (_swapped(c, y) if transpose_y else y)


def _swapped(c: Call, x: Value) -> Value:
    rank = c.rank(x)
    return x if rank < 2 else transposed(c, x, (*range(rank - 2), rank - 1, rank - 2))
