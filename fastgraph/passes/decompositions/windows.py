"""Pools that have no kernel, as operators on the elements of their windows one after the other; windows undone."""

from __future__ import annotations

import operator
from functools import reduce
from itertools import product
from math import prod

import numpy as np

from ...ir import Node, Value
from ...ops.pool import counts
from ...ops.registry import attr
from ...ops.shapes import ints
from ...ops.window import reach, resolve_pads, window_attrs
from ...rules.operands import known
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .element_types import F32, F64
from .open_weights import cut_out

MOST_TAPS = 64
"""Larger windows stay what they are."""


@rule("rare", "lp_pool")
def lp_pool(g: Sweep, node: Node) -> bool:
    """The root of sums of |x|**p: of any p, by the pool that sums sizes."""
    x, p = node.x, attr(node, "p")
    if p == 1 or not known(x, dtypes=[F64] if p == 2 else [F32, F64]) or not node.out.type.concrete:
        return False
    return g.becomes(g("lp_pool", abs(x) ** p, **{**node.attrs, "p": 1}) ** (1 / p))


@rule("f64_rest", "max_pool average_pool lp_pool")
def pool(g: Sweep, node: Node) -> bool:
    """Pools of f64: the greatest element of each window, or the sum."""
    x, greatest = node.x, node.op == "max_pool"
    if x.type.dtype != F64 or len(node.outputs) > 1 or node.op == "lp_pool" and attr(node, "p") != 1:
        return False
    taps = _taps(g, node, -np.inf if greatest else 0.0)
    if taps is None:
        return False
    if greatest:
        return g.becomes(reduce(lambda y, tap: g.choose(tap > y, tap, y), taps, g.number(-np.inf, x)))
    y = reduce(operator.add, map(abs, taps) if node.op == "lp_pool" else taps)
    return g.becomes(y / np.maximum(counts(node, x.type.dims[1:-1]), 1).astype(F64) if node.op == "average_pool" else y)


def _taps(g: Sweep, node: Node, fill: float) -> list[Value] | None:
    """The elements of the windows [N, out..., C], one value for each place in them; None where those are many."""
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


@rule("rare", "col2im")
def col2im(g: Sweep, node: Node) -> bool:
    """The sum of images, each of the elements of a block that do not lie over one another: a stride of neighbors, or
    one where they are dilated.
    """
    x, image, block = node.x, node.const(1), node.const(2)
    numbers = x.type.dtype is not None and x.type.dtype.kind in "iuf"
    if image is None or block is None or not numbers or not x.type.concrete or not x.type.size:
        return False
    spatial, kernel = ints(image), ints(block)
    rank, a = len(spatial), window_attrs(node, len(spatial), kernel)
    strides, dilations, begin = a["strides"], a["dilations"], a["pads"][:rank]
    ends = zip(spatial, kernel, strides, dilations, begin, a["pads"][rank:], strict=True)
    counts = [(n + b + e - ((k - 1) * d + 1)) // s + 1 for n, k, s, d, b, e in ends]
    runs = [
        [(t, min(s if d == 1 else 1, k - t), t * d) for t in range(0, k, s if d == 1 else 1)]
        for k, s, d in zip(kernel, strides, dilations, strict=True)
    ]
    if prod(map(len, runs)) > MOST_TAPS:
        return False
    lead = x.type.size // (prod(kernel) * prod(counts))
    columns, blank, total = g.shape(x, lead, *kernel, *counts), [0] * rank, None
    for pieces in product(*runs):
        starts, many = [p[0] for p in pieces], [p[1] for p in pieces]
        part = cut_out(g, columns, starts, many)
        missing = [s - n for s, n in zip(strides, many, strict=True)]
        part = g.pad(part, [0, *blank, *blank], [0, *missing, *blank])
        part = g.turn(part, 0, *(axis for i in range(rank) for axis in (1 + rank + i, 1 + i)))
        dense = [n * s for n, s in zip(counts, strides, strict=True)]
        before = [p[2] - b for p, b in zip(pieces, begin, strict=True)]
        after = [n - f - m for n, f, m in zip(spatial, before, dense, strict=True)]
        part = g.pad(g.shape(part, lead, *dense), [0, *before], [0, *after])
        total = part if total is None else total + part
    assert total is not None
    return g.becomes(total)
