"""Arithmetic shared by the lowerings of quantized layers: multipliers, folded biases, clamps, in stored numbers.

A layer sums acc = sum (x - zx) * (w - zw) + bias in int32 and stores q = clamp(rint(f32(acc) * multiplier) +
zero_point, low, high), rounded half to even, or the f32 acc * multiplier, or acc itself.
"""

from __future__ import annotations

import numpy as np

from ..ir import Node, Quantization, TensorType, Value
from ..ir.quantization import spread, to_real, to_stored

TINY, LARGE = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
"""The least and the greatest normal f32: runs take what is less for zero."""
CLAMPS = ("relu", "clip", "max", "min")
"""Steps of a chain that `bounds` takes as the limits of the result."""


def per_tensor(value: Value | None, *dtypes: type) -> bool:
    """Whether the value is stored as one of these types with one scale and one zero point."""
    if value is None or not value.type.concrete or value.type.quant is None or value.type.dtype not in dtypes:
        return False
    return len(value.type.quant.scale) == 1 == len(value.type.quant.zero_point)


def quant(value: Value) -> Quantization:
    assert value.type.quant is not None, f"{value} is not quantized"
    return value.type.quant


def zero_point(value: Value) -> int:
    """The stored number for 0.0 of a value with one scale; 0 when it isn't quantized."""
    return 0 if value.type.quant is None else int(value.type.quant.zero_point[0])


def scales(value: Value, channels: int) -> np.ndarray:
    """f64 [channels]: the scale of each channel of a constant or activation; 1 when it isn't quantized."""
    found = (1.0,) if value.type.quant is None else value.type.quant.scale
    return np.broadcast_to(np.array(found, np.float64), (channels,))


def multipliers(x: Value, w: Value, out: Value, channels: int) -> np.ndarray:
    """f32 [channels]: scale of x times scale of w by scale of out (1 for an f32 result); at most LARGE."""
    with np.errstate(over="ignore", under="ignore"):
        factor = scales(x, channels) * scales(w, channels) / scales(out, channels)
        return np.minimum(factor, LARGE).astype(np.float32)


def stored_bias(x: Value, w: Value, bias: Value | None, channels: int) -> np.ndarray:
    """int64 [channels]: a constant bias in units of scale of x times scale of w.

    An int32 bias with (nearly) these scales is taken as it is stored; any other is rounded half to even.
    """
    if bias is None:
        return np.zeros(channels, np.int64)
    unit = scales(x, channels) * scales(w, channels)
    if bias.type.quant is not None:
        axis = bias.type.quant.axis
        own = spread(bias.type.quant.scale, axis, bias.array.ndim)
        if (np.abs(np.broadcast_to(own, bias.array.shape).reshape(-1) - unit) <= 1e-5 * unit).all():
            zero = spread(bias.type.quant.zero_point, axis, bias.array.ndim).astype(np.int64)
            return (bias.array.astype(np.int64) - zero).reshape(-1)
        reals = to_real(bias.array, bias.type.quant)
    else:
        reals = bias.array.astype(np.float64)
    return np.clip(np.rint(reals.reshape(-1) / unit), -(1 << 40), 1 << 40).astype(np.int64)


def holds_bias(x: Value, w: Value, bias: Value | None, out: Value) -> bool:
    """Whether `stored_bias` is near enough to a bias of floats: half a step of the result or, where that is real, a
    128th of the largest.
    """
    if bias is None or bias.type.quant is not None:
        return True
    reals = bias.array.reshape(-1).astype(np.float64)
    unit = scales(x, reals.size) * scales(w, reals.size)
    with np.errstate(all="ignore"):
        error = np.abs(np.rint(reals / unit) * unit - reals)
    most = np.abs(reals).max(initial=0) / 128 if out.type.quant is None else scales(out, reals.size) / 2
    return bool((error <= most).all())


def folded_bias(weights: np.ndarray, bias: np.ndarray, zx: int, zw: np.ndarray | int = 0) -> np.ndarray:
    """int32 [n]: the initial sums of x * w - zw * sum x, such that the result is sum (x - zx) * (w - zw) + bias.

    weights: stored numbers [n, k]; bias: integers [n]; zw: one or [n]. It wraps as the int32 sum itself does.
    """
    products = weights.sum(axis=1, dtype=np.int64) - np.int64(weights.shape[1]) * np.asarray(zw, np.int64)
    return (bias.astype(np.int64) - zx * products).astype(np.int32)


def fits_int32(weights: np.ndarray, bias: np.ndarray, zw: np.ndarray | int = 0) -> bool:
    """Whether no sum of a layer overflows int32, which kernels don't check.

    weights: stored numbers [n, k]; u8 activations with any zero point.
    """

    def small(parts: np.ndarray) -> bool:
        return bool(np.all(255.0 * parts + np.abs(bias) < 2.0**31))

    zero = np.asarray(zw, np.int64).reshape(-1, 1)
    at_most = weights.shape[1] * (128.0 + np.abs(zero).max(initial=0))
    return small(np.array(at_most)) or small(np.abs(weights.astype(np.int64) - zero).sum(axis=1))


def clamps_only(node: Node) -> bool:
    """Whether the node's chain only clamps the result to constants."""
    for i, (name, *operands) in enumerate(node.attrs.get("chain", ())):
        if name not in CLAMPS or operands[0] != i or any(isinstance(c, int) for c in operands[1:]):
            return False
    return True


def real_bounds(node: Node) -> tuple[float, float]:
    """(least, greatest) real to which the node's chain, of clamps only, limits its result."""
    low, high = -np.inf, np.inf
    for name, _, *limits in node.attrs.get("chain", ()):
        if name in ("relu", "max", "clip"):
            floor = 0.0 if name == "relu" else float(limits[0])
            low, high = max(low, floor), max(high, floor)
        if name in ("min", "clip"):
            ceiling = float(limits[-1])
            low, high = min(low, ceiling), min(high, ceiling)
    return low, high


def bounds(node: Node) -> tuple[int, int]:
    """The least and the greatest number that the node stores: the limits of its type, and its chain's clamps."""
    return stored_bounds(node.out.type, *real_bounds(node))


def stored_bounds(type_: TensorType, low: float, high: float) -> tuple[int, int]:
    """The stored numbers for two reals (or infinities), within the limits of a type with one scale."""
    both = to_stored(np.array([low, high]), type_.element, type_.quantization)
    return int(both[0]), int(both[1])


def f32_bits(x: float) -> int:
    """An f32 as the int that a slot of a record holds; a number that f32 lacks is the greatest or least there is."""
    return int(np.float32(min(max(x, -LARGE), LARGE) if np.isfinite(x) else x).view(np.int32))
