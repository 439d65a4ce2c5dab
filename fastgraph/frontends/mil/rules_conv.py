"""Convolutions, pools and matrix products. MIL has channels first, the graph last.

Semantics: coremltools/converters/mil/mil/ops/defs/iOS15/{conv, pool, linear}.py; iOS17's forms let weights have
another floating point type than x, and be computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir import Value
from ...ir.quantization import to_real
from ..core.common import ints
from .call import Call, Rule, rule
from .common import alike

PAD_TYPES = {"valid": "VALID", "custom": "NOTSET", "same": "SAME_UPPER", "same_lower": "SAME_LOWER"}


# windows


def _spatial(c: Call, x: Value) -> int:
    """The number of spatial axes of x [N, C, spatial...], from 1 to 3."""
    count = c.rank(x) - 2
    if not 1 <= count <= 3:
        c.fail(f"expected an input with batch, channels and 1 to 3 spatial axes, found {x.type}")
    return count


def _numbers(c: Call, key: str, count: int, default: int, least: int) -> tuple[int, ...]:
    """Parameter `key`: `count` whole numbers, none below `least`."""
    found = c.ints(key, None) or (default,) * count
    if len(found) != count or min(found) < least:
        c.fail(f"expected its parameter {key!r} as {count} numbers from {least} on, found {list(found)}")
    return found


def _pads(c: Call, count: int) -> tuple[int, ...]:
    """`pad` lists before and after of each axis; the graph all befores, then all afters."""
    pairs = _numbers(c, "pad", 2 * count, 0, 0)
    return (*pairs[::2], *pairs[1::2])


def _window(c: Call, count: int, dilated: bool = True) -> dict[str, Any]:
    """strides, dilations, auto_pad and pads. `pad` counts where pad_type is "custom" only."""
    kind = PAD_TYPES[c.text("pad_type", *PAD_TYPES, default="valid")]
    return {
        "strides": _numbers(c, "strides", count, 1, 1),
        "dilations": _numbers(c, "dilations", count, 1, 1) if dilated else (1,) * count,
        "auto_pad": "NOTSET" if kind == "VALID" else kind,
        "pads": _pads(c, count) if kind == "NOTSET" else (0,) * (2 * count),
    }


# weights


def turned(c: Call, w: Value, perm: Sequence[int]) -> Value:
    """w with its axes permuted: at once where it is constant."""
    if w.data is None:
        return c.add("transpose", [w], perm=tuple(perm))
    quant = w.type.quant
    if quant is not None and quant.axis is not None:
        quant = quant._replace(axis=tuple(perm).index(quant.axis))
    return c.const(w.data.transpose(perm), quant)


def _weights(c: Call, count: int) -> Value:
    """Weights [O, C / groups, k...] as [O, k..., C / groups]."""
    w = c.x("weight")
    if c.rank(w) != count + 2:
        c.fail(f"expected weights of rank {count + 2}, as its input has, found {w.type}")
    return turned(c, w, (0, *range(2, count + 2), 1))


def _groups(c: Call) -> int:
    groups = c.known("groups", 1)
    if not isinstance(groups, int) or groups < 1:
        c.fail(f"expected its parameter 'groups' to be a number from 1 on, found {groups!r}")
    return groups


def _bias(c: Call, like: Value) -> list[Value]:
    bias = c.value("bias")
    return [] if bias is None else [bias if bias.type.quant is not None else c.cast(bias, like.type.dtype)]


def _operands(c: Call, w: Value) -> list[Value]:
    x, w = alike(c, c.x(), w)
    return [c.to_last(x), w, *_bias(c, x)]


@rule("conv")
def conv(c: Call) -> None:
    count = _spatial(c, c.x())
    y = c.add("conv", _operands(c, _weights(c, count)), groups=_groups(c), **_window(c, count))
    c.give(c.to_first(y))


@rule("conv_quantized")
def conv_quantized(c: Call) -> None:
    """Weights are quant_scale * stored + quant_bias: numbers, or one for each output channel."""
    if c.text("quantization_type", "linear", "lut") != "linear":
        c.unsupported("with a look-up table, whose form is not documented; constexpr_lut_to_dense has one that is")
    count, w = _spatial(c, c.x()), c.x("weight")
    if w.data is None or w.data.ndim != count + 2:
        c.fail(f"expected constant weights of rank {count + 2}, found {w.type}")
    scale, shift = (_by_channel(c, key, w.data) for key in ("quant_scale", "quant_bias"))
    reals = c.const((w.data * scale + shift).astype(np.float32))
    w = turned(c, reals, (0, *range(2, count + 2), 1))
    y = c.add("conv", _operands(c, w), groups=_groups(c), **_window(c, count))
    c.give(c.to_first(y))


def _by_channel(c: Call, key: str, w: np.ndarray) -> np.ndarray:
    found = np.asarray(c.known(key), np.float32)
    if found.size not in (1, w.shape[0]):
        c.fail(f"expected its parameter {key!r} as one number or {w.shape[0]}, found {found.size}")
    return found.reshape(-1, *[1] * (w.ndim - 1))


@rule("conv_transpose")
def conv_transpose(c: Call) -> None:
    """Weights are [C, O / groups, k...]. What `output_shape` adds or takes is at the end of each axis."""
    x, w = c.x(), c.x("weight")
    count, groups = _spatial(c, x), _groups(c)
    if c.rank(w) != count + 2:
        c.fail(f"expected weights of rank {count + 2}, as its input has, found {w.type}")
    kernel = w.type.shape[2:]  # type: ignore[index]
    window = _window(c, count)
    wanted = c.ints("output_shape", None)
    if wanted is not None:
        if len(wanted) != count + 2 or min(wanted) < 1:
            c.fail(f"expected an output shape of {count + 2} positive numbers, found {list(wanted)}")
        if window["auto_pad"] == "NOTSET":
            window |= _fitted(c, x, kernel, wanted[2:], window)
        else:
            window["output_shape"] = wanted[2:]
    y = c.add("conv_transpose", _operands(c, _flipped(c, w, groups)), groups=groups, **window)
    c.give(c.to_first(y))


def _fitted(c: Call, x: Value, kernel: Any, wanted: tuple[int, ...], window: dict[str, Any]) -> dict[str, Any]:
    """Paddings with which the result has the wanted extents: begins stay."""
    count = len(wanted)
    spatial = x.type.shape[2:]  # type: ignore[index]
    if not all(isinstance(d, int) for d in (*spatial, *kernel)):
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
        return turned(c, w, (1, *range(2, rank), 0))
    if not w.type.concrete or w.type.dims[0] % groups:
        c.fail(f"expected weights of known shape, whose first extent {groups} groups divide, found {w.type}")
    channels, out, *kernel = w.type.dims
    if w.data is not None:
        data = w.data if w.type.quant is None else to_real(w.data, w.type.quant).astype(np.float32)
        parts = np.moveaxis(data.reshape(groups, channels // groups, out, *kernel), 1, -1)
        return c.const(parts.reshape(groups * out, *kernel, channels // groups))
    split = c.add("reshape", [w, ints(c, [groups, channels // groups, out, *kernel])])
    moved = c.add("transpose", [split], perm=(0, *range(2, rank + 1), 1))
    return c.add("reshape", [moved, ints(c, [groups * out, *kernel, channels // groups])])


# pools


def _pool(op: str, **more: Any) -> Rule:
    def translate(c: Call) -> None:
        count = _spatial(c, c.x())
        window = _window(c, count, dilated=False)
        kernel = _numbers(c, "kernel_sizes", count, 0, 1)
        ceil_mode = int(bool(c.known("ceil_mode", False)))
        if ceil_mode and window["auto_pad"] != "NOTSET":
            c.fail("expected ceil_mode with pad_type valid or custom only")
        if op == "average_pool":
            more["count_include_pad"] = int(not c.known("exclude_padding_from_average", False))
        y = c.add(op, [c.to_last(c.x())], kernel_shape=kernel, ceil_mode=ceil_mode, **window, **more)
        c.give(c.to_first(y))

    return translate


rule("max_pool")(_pool("max_pool"))
rule("avg_pool")(_pool("average_pool"))
rule("l2_pool")(_pool("lp_pool", p=2))


# products


@rule("linear")
def linear(c: Call) -> None:
    """x [..., I] times weights [O, I], transposed, plus bias [O]."""
    x, w = alike(c, c.x(), c.x("weight"))
    if c.rank(w) != 2:
        c.fail(f"expected weights [outputs, inputs], found {w.type}")
    bias = _bias(c, x)
    if c.rank(x) == 2:
        c.finish("gemm", [x, w, *bias], trans_b=1)
        return
    y = c.add("matmul", [x, turned(c, w, (1, 0))])
    c.give(c.add("add", [y, *bias]) if bias else y)


@rule("matmul")
def matmul(c: Call) -> None:
    """NumPy's product of stacks of matrices; a vector is not transposed."""
    x, y = alike(c, c.x("x"), c.x("y"))
    c.finish("matmul", [_swapped(c, "transpose_x", x), _swapped(c, "transpose_y", y)])


def _swapped(c: Call, key: str, x: Value) -> Value:
    if not c.known(key, False) or c.rank(x) < 2:
        return x
    rank = c.rank(x)
    return turned(c, x, (*range(rank - 2), rank - 1, rank - 2))
