"""Pools that say where what they found was, element by element of the window."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from ...ir import Node, Value
from ...ops import window
from ...ops.registry import attr
from ...rules.operands import known
from ...rules.rule import rule
from ...rules.sweep import Sweep

MOST_TAPS = 256
"""Larger windows stay what they are."""
KINDS = (np.float32, np.float64, np.int8, np.uint8)


@rule("rare", "max_pool")
def max_pool_places(g: Sweep, node: Node) -> bool:
    """Given ``y, places = max_pool(x)``; result for each element of the window ``more = tap > y``, ``y = max(tap, y)``
    and ``places = where(more, its place, places)``; of places that nobody reads the pool alone.
    """
    kernel = attr(node, "kernel_shape")
    if len(node.outputs) > 1 and not g.reads[node.outputs[1]]:
        return g.becomes(g(node.op, *node.inputs, type=node.out.type, **node.attrs))
    if len(node.outputs) < 2 or prod(kernel) > MOST_TAPS or not known(node.x, node.out, dtypes=KINDS):
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
    x, y = _around(g, node.x, pads), None
    best = g.spread(_column(g, first), *node.out.type.dims)
    for span, place in zip(spans, places, strict=True):
        tap = g.slice(x, range(1, 1 + len(span)), [s.start for s in span], [s.stop for s in span], strides)
        best = best if y is None else g.choose(tap > y, _column(g, place), best)
        y = tap if y is None else g.max(y, tap)
    planes = np.arange(n * channels).reshape(n, *(1 for _ in out), channels) * prod(spatial)
    assert y is not None
    return g.becomes(y, best + planes)


def _column(g: Sweep, places: np.ndarray) -> Value:
    """Places of pixels, alike for all images and channels."""
    return g.held(places[None, ..., None])


def _around(g: Sweep, x: Value, pads: list[tuple[int, int]]) -> Value:
    """x with the lowest numbers around it; and where it is none."""
    dtype = x.type.dtype
    assert dtype is not None
    low = -np.inf if dtype.kind == "f" else np.iinfo(dtype).min
    if dtype.kind == "f":
        x = g.choose(g("is_nan", x), low, x)
    return g.pad(x, [0, *(before for before, _ in pads), 0], [0, *(after for _, after in pads), 0], low)
