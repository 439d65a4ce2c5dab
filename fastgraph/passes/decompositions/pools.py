"""Pools that say where what they found was, element by element of the window."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from ...ir import Node, Value
from ...ir.build import constant
from ...ops.registry import attr
from ...ops.window import reach, tap
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .writing import Steps, known

MOST_TAPS = 256
"""Larger windows stay what they are."""
KINDS = (np.float32, np.float64, np.int8, np.uint8)


@rule("rare", "max_pool")
def max_pool_places(state: Sweep, node: Node) -> bool:
    """Given ``y, places = max_pool(x)``; result for each element of the window ``more = tap > y``, ``y = max(tap, y)``
    and ``places = where(more, its place, places)``; of places that nobody reads the pool alone.
    """
    kernel = attr(node, "kernel_shape")
    if len(node.outputs) > 1 and not state.reads[node.outputs[1]]:
        state.write(Node(node.op, node.inputs, node.outputs[:1], node.attrs, node.name))
        return True
    if len(node.outputs) < 2 or prod(kernel) > MOST_TAPS or not known(node.x, node.out, dtypes=KINDS):
        return False
    if attr(node, "auto_pad") != "NOTSET" or "chain" in node.attrs:
        return False
    do, (n, *spatial, channels), out = Steps(state, node), node.x.type.dims, node.out.type.dims[1:-1]
    strides, dilations = attr(node, "strides"), attr(node, "dilations")
    ends = zip(attr(node, "pads"), reach(out, kernel, strides, dilations), spatial, strict=False)
    pads = [(begin, max(extent - begin - size, 0)) for begin, extent, size in ends]
    order = "F" if attr(node, "storage_order") else "C"
    pixels = np.pad(np.arange(prod(spatial)).reshape(spatial, order=order), pads, constant_values=-1)  # type: ignore[call-overload]
    spans = [tap(index, out, strides, dilations)[1:] for index in product(*map(range, kernel))]
    places = [pixels[span] for span in spans]
    first = np.full(out, -1)
    for place in places:
        first = np.where(first < 0, place, first)
    if (first < 0).any():
        return False  # a window of padding alone
    x, y = _around(do, pads), None
    best = do.spread(_column(do, first), *node.out.type.dims)
    for span, place in zip(spans, places, strict=True):
        cut = ([s.start for s in span], [s.stop for s in span], range(1, 1 + len(span)), strides)
        found = do("slice", x, *(do.ints(*numbers) for numbers in cut))
        best = best if y is None else do.where(do("greater", found, y), _column(do, place), best)
        y = found if y is None else do("max", y, found)
    planes = np.arange(n * channels).reshape(n, *(1 for _ in out), channels) * prod(spatial)
    assert y is not None
    return do.becomes(y, do("add", best, constant(node.out, planes, "planes")))


def _column(do: Steps, places: np.ndarray) -> Value:
    """Places of pixels, alike for all images and channels."""
    return constant(do.node.out, places[None, ..., None], "places")


def _around(do: Steps, pads: list[tuple[int, int]]) -> Value:
    """x with the lowest numbers around it; and where it is none."""
    x, dtype = do.node.x, do.node.x.type.dtype
    assert dtype is not None
    low = do.number(-np.inf if dtype.kind == "f" else np.iinfo(dtype).min, x)
    if dtype.kind == "f":
        x = do.where(do("is_nan", x), low, x)
    if not any(any(pair) for pair in pads):
        return x
    amounts = (0, *(before for before, _ in pads), 0, 0, *(after for _, after in pads), 0)
    return do("pad", x, do.ints(*amounts), low, mode="constant")
