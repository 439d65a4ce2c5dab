"""Changes of quantization, between stored numbers and from and to f32; lookup tables of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import Node, Value
from ....ir.quantization import spread
from ....kernels.isa.tiers import cpu_flags
from ....ops.reals import flips
from ...quantized import LARGE, TINY, per_tensor, quant, zero_point
from ..elements import element, plain
from ..registry import Emit, lowers
from ..walk import Out
from .calls import call_of_one, fits
from .chains import RESULTS, Chain, call_stored, f32, held, product, readable, writable


def has_vbmi(e: Emit) -> bool:
    """Whether this CPU and tier can permute bytes across a 512-bit register."""
    return e.tier.masks and "avx512vbmi" in cpu_flags()


def look_up(e: Emit, node: Node, values: np.ndarray) -> None:
    """Write the lookup values[x]."""
    index, value = node.x.type.itemsize, values.itemsize
    params = {"index": index, "value": value, "vbmi": index == value == 1 and has_vbmi(e)}
    call_of_one(e, node, "table", params, table=values)


def _maps(node: Node) -> bool:
    if not plain(node.x.type, node.out.type) or node.x.type.dims != node.out.type.dims:
        return False
    size = node.x.type.itemsize
    return size <= 2 and node.attrs["values"].size == 1 << 8 * size and fits(node)


@lowers("table", match=_maps, strided_in=True, strided_out=True, in_place=True)
def table(e: Emit, node: Node, _: Any) -> None:
    look_up(e, node, np.ascontiguousarray(node.attrs["values"].reshape(-1), node.out.type.element))


READ = (np.float32, np.uint8, np.int8, np.int16, np.uint16, np.int32)
"""Types that the elementwise kernel reads."""


def _by_axis(node: Node) -> bool:
    """Whether operand or result has several scales along an axis."""
    return any(v.type.quant is not None and len(v.type.quant.scale) > 1 for v in (node.x, node.out))


def _along(value: Value) -> tuple[np.ndarray, np.ndarray]:
    """The scales of a value, in f64, and its zero points, in f32; both broadcast against it."""
    if value.type.quant is None:
        return np.ones(1), np.zeros(1, np.float32)
    scale, zero, axis = value.type.quant
    rank = len(value.type.dims)
    return spread(scale, axis, rank), spread(zero, axis, rank).astype(np.float32)


def _match_by_axis(node: Node) -> bool:
    x, out = node.x, node.out
    if x.data is not None or out.type.dims != x.type.dims or not _by_axis(node) or not x.type.size:
        return False
    known = all(v.type.concrete and (v.type.quant is not None or v.type.dtype == np.float32) for v in (x, out))
    if not known or x.type.dtype not in READ or (out.type.quant is not None and out.type.dtype not in RESULTS):
        return False
    return fits(node, *_along(x), *_along(out))


def _requantize_by_axis(e: Emit, node: Node) -> None:
    """A change of quantization with a scale and zero point for each index along an axis."""
    x, out, chain = node.x, node.out, Chain()
    (scale, zero), (unit, first) = _along(x), _along(out)
    y = chain.tensor(x)
    if zero.any():
        y = chain.step("sub", y, chain.tensor(zero))
    if x.type.quant is None:
        y = chain.step("div", y, chain.tensor(np.maximum(unit, TINY).astype(np.float32)))
    else:
        y = chain.step("mul", y, chain.tensor(np.minimum(scale / unit, LARGE).astype(np.float32)))
    if out.type.quant is None:
        call_stored(e, node, chain, Out())
        return
    if first.any():
        chain.step("add", chain.step("round", y), chain.tensor(first))
    limits = np.iinfo(out.type.element)
    call_stored(e, node, chain, Out(element(out), 0, limits.min, limits.max, False))


def _changes(node: Node) -> bool:
    if _by_axis(node):
        return _match_by_axis(node)
    x, out = node.x, node.out
    if not writable(out) or x.data is not None or out.type.dims != x.type.dims:
        return False
    return (x.type.quant is not None or out.type.quant is not None) and readable(x) and fits(node)


@lowers("requantize", match=_changes, strided_in=True, strided_out=True, in_place=True)
def requantize(e: Emit, node: Node, _: Any) -> None:
    """Rounded once: (x - zx) * (sx / sy) between quantized values, x / sy from f32, (x - zx) * sx to f32."""
    if _by_axis(node):
        _requantize_by_axis(e, node)
        return
    x, out = node.x, node.out
    if flips(x.type, out.type):
        call_of_one(e, node, "flip", {})
        return
    if all(per_tensor(v, np.uint8, np.int8) for v in (x, out)) and has_vbmi(e):
        look_up(e, node, _table(x, out))
        return
    chain = Chain()
    if x.type.quant is None:
        # Runs take a subnormal scale for zero, and 0 / 0 is no number.
        most = np.inf
        chain.step("div", chain.tensor(x), f32(max(quant(out).scale[0], TINY)))
    else:
        most = product(chain, [x], 1.0 if out.type.quant is None else quant(out).scale[0])
    call_stored(e, node, chain, held(node, most))


def _table(x: Value, out: Value) -> np.ndarray:
    """The elementwise kernel's result for each stored byte."""
    stored = np.arange(256).astype(np.uint8).view(x.type.element)
    factor = np.float32(min(quant(x).scale[0] / quant(out).scale[0], LARGE))
    with np.errstate(all="ignore"):
        real = (stored.astype(np.float32) - np.float32(zero_point(x))) * factor
    limits = np.iinfo(out.type.element)
    return np.clip(np.rint(real.astype(np.float64)) + zero_point(out), limits.min, limits.max).astype(out.type.element)
