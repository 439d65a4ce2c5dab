"""Pools without kernels as operators on slices, one for each tap of the window."""

from __future__ import annotations

import operator
from functools import reduce
from itertools import product
from math import prod

import numpy as np

from ...ir import FLOAT32, FLOAT64, Node, TensorType, Value
from ...ops import window
from ...ops.cast import PLAIN
from ...ops.pool import counts
from ...ops.registry import attr
from ...ops.window import reach, resolve_pads, window_attrs
from ...rules.operands import known
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .open_weights import cut_out

MOST_TAPS = 64
"""Larger windows are not decomposed."""


@rule("rare", "lp_pool")
def lp_pool(g: Sweep, node: Node) -> bool:
    """Given ``y = lp_pool(x) {p=p}``; result ``lp_pool(|x| ** p) {p=1} ** (1 / p)``."""
    x, p = node.x, attr(node, "p")
    if p == 1 or not known(x, dtypes=[FLOAT64] if p == 2 else [FLOAT32, FLOAT64]) or not node.out.type.concrete:
        return False
    return g.becomes(g("lp_pool", abs(x) ** p, **{**node.attrs, "p": 1}) ** (1 / p))


@rule("f64_rest", "max_pool average_pool lp_pool")
def pool(g: Sweep, node: Node) -> bool:
    """Pools of f64: the maximum, or the sum, of the taps' slices."""
    x, greatest = node.x, node.op == "max_pool"
    if x.type.dtype != FLOAT64 or len(node.outputs) > 1 or node.op == "lp_pool" and attr(node, "p") != 1:
        return False
    taps = _taps(g, node, -np.inf if greatest else 0.0)
    if taps is None:
        return False
    if greatest:
        return g.becomes(reduce(lambda y, tap: g.choose(tap > y, tap, y), taps, g.number(-np.inf, x)))
    y = reduce(operator.add, map(abs, taps) if node.op == "lp_pool" else taps)
    if node.op == "average_pool":
        y = y / np.maximum(counts(node, x.type.dims[1:-1]), 1).astype(FLOAT64)
    return g.becomes(y)


def _taps(g: Sweep, node: Node, fill: float) -> list[Value] | None:
    """The slices [N, out..., C] of x, one for each tap of the window; None where there are many."""
    x, out, kernel = node.x, node.out, tuple(attr(node, "kernel_shape"))
    if not known(x, out) or prod(kernel) > MOST_TAPS:
        return None
    spatial, number = x.type.dims[1:-1], out.type.dims[1:-1]
    a = window_attrs(node, len(spatial), kernel)
    strides, dilations = a["strides"], a["dilations"]
    begin, _ = resolve_pads(spatial, kernel, strides, dilations, a["auto_pad"], a["pads"])
    whole = reach(number, kernel, strides, dilations)
    after = [w - n - b for w, n, b in zip(whole, spatial, begin, strict=True)]
    wide = g.pad(x, [0, *begin, 0], [0, *after, 0], fill)
    starts = [[k * d for k, d in zip(at, dilations, strict=True)] for at in product(*map(range, kernel))]
    return [cut_out(g, wide, start, number, strides) for start in starts]


MOST_PLACES = 256
"""Larger windows are not decomposed."""
KINDS = (np.float32, np.float64, np.int8, np.uint8)


@rule("rare", "max_pool")
def max_pool_places(g: Sweep, node: Node) -> bool:
    """Given ``y, places = max_pool(x)``; result for each tap ``more = tap > y``, ``y = max(tap, y)`` and ``places =
    where(more, its index, places)``. Where nobody reads the indices, the pool alone."""
    kernel = attr(node, "kernel_shape")
    if len(node.outputs) > 1 and not g.reads[node.outputs[1]]:
        return g.becomes(g(node.op, *node.inputs, type=node.out.type, **node.attrs))
    if len(node.outputs) < 2 or prod(kernel) > MOST_PLACES or not known(node.x, node.out, dtypes=KINDS):
        return False
    if attr(node, "auto_pad") != "NOTSET" or "chain" in node.attrs:
        return False
    (n, *spatial, channels), out = node.x.type.dims, node.out.type.dims[1:-1]
    strides, dilations = attr(node, "strides"), attr(node, "dilations")
    ends = zip(attr(node, "pads"), window.reach(out, kernel, strides, dilations), spatial, strict=False)
    pads = [(begin, max(extent - begin - size, 0)) for begin, extent, size in ends]
    order = "F" if attr(node, "storage_order") else "C"
    pixels = np.pad(np.arange(prod(spatial)).reshape(spatial, order=order), pads, constant_values=-1)  # type: ignore[call-overload]
    spans = [window.tap(index, out, strides, dilations)[1:] for index in product(*map(range, kernel))]
    places = [pixels[span] for span in spans]
    first = np.full(out, -1)
    for place in places:
        first = np.where(first < 0, place, first)
    if (first < 0).any():
        return False  # a window of padding alone
    x, y = _padded(g, node.x, pads), None
    best = g.broadcast(_column(g, first), *node.out.type.dims)
    for span, place in zip(spans, places, strict=True):
        tap = g.slice(x, range(1, 1 + len(span)), [s.start for s in span], [s.stop for s in span], strides)
        best = best if y is None else g.choose(tap > y, _column(g, place), best)
        y = tap if y is None else g.max(y, tap)
    planes = np.arange(n * channels).reshape(n, *(1 for _ in out), channels) * prod(spatial)
    assert y is not None
    return g.becomes(y, best + planes)


def _column(g: Sweep, places: np.ndarray) -> Value:
    """The indices of pixels, as a column that broadcasts over images and channels."""
    return g.held(places[None, ..., None])


def _padded(g: Sweep, x: Value, pads: list[tuple[int, int]]) -> Value:
    """x padded with the lowest number, which also replaces NaN."""
    dtype = x.type.element
    low = -np.inf if dtype.kind == "f" else np.iinfo(dtype).min
    if dtype.kind == "f":
        x = g.choose(g("is_nan", x), low, x)
    return g.pad(x, [0, *(before for before, _ in pads), 0], [0, *(after for _, after in pads), 0], low)


LARGEST = 256
"""The most elements of a window whose sum f32 holds exactly, and whose mean it tells from whole numbers."""


@rule("other_types", "average_pool", quantized=True)
def word_pool(g: Sweep, node: Node) -> bool:
    """Given ``y = average_pool(x) {ties=0.0}``, both int16 of one scale; result ``y = sign(s) * floor((abs(s) + n // 2)
    / n)``, s the sums of x's stored numbers over windows as a convolution, n how many they are of.
    """
    x, kernel = node.x, attr(node, "kernel_shape")
    quant, ties = x.type.quant, node.attrs.get("ties")
    if ties != 0 or quant is None or any(quant.zero_point) or x.type.dtype != np.int16 or not x.type.concrete:
        return False
    if not node.out.type.concrete or not node.out.type.size or prod(kernel) > LARGEST or attr(node, "ceil_mode"):
        return False
    channels, out = x.type.dims[-1], node.out.type
    numbers = g("cast", g("reinterpret", x, type=TensorType(x.type.dtype, x.type.shape)), to=FLOAT32, **PLAIN)
    window = {name: node.attrs[name] for name in ("strides", "dilations", "pads", "auto_pad", "kernel_shape")}
    sums = g("conv", numbers, np.ones((channels, *kernel, 1), FLOAT32), groups=channels, **window)
    many = counts(node, x.type.dims[1:-1])
    size = g.floor((abs(sums) + (many // 2).astype(FLOAT32)) / many.astype(FLOAT32))
    y = g("cast", g("sign", sums) * size, to=x.type.dtype, **PLAIN)
    return g.becomes(g("reinterpret", y, type=out))
