"""Pools that have no kernel, as operators on the elements of their windows one after the other; windows undone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from ...ir import Node, TensorType, Value
from ...ir.build import constant
from ...ops.common import ints
from ...ops.pool import counts
from ...ops.registry import attr
from ...ops.window import reach, resolve_pads, window_attrs
from ...rules.moves import shaped, turn
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .element_types import F32, F64
from .open_weights import cut_out, padded_around

MOST_TAPS = 64
"""Larger windows stay what they are."""


@rule("rare", "lp_pool")
def lp_pool(state: Sweep, node: Node) -> bool:
    """The root of sums of |x|**p: of any p, by the pool that sums sizes."""
    x, p, out = node.x, attr(node, "p"), node.out
    if x.type.dtype not in (F32, F64) or not x.type.concrete or (x.type.dtype == F32 and p in (1, 2)) or p == 1:
        return False
    if not out.type.concrete or not x.type.size:
        return False
    number, share = (constant(out, np.array(n, x.type.dtype), "number") for n in (p, 1 / p))
    power = state.add("pow", [state.add("abs", [x], x.type, node), number], x.type, node)
    total = state.add("lp_pool", [power], out.type, node, **{**node.attrs, "p": 1})
    state.replace(out, state.add("pow", [total, share], out.type, node))
    return True


@rule("f64_rest", "max_pool average_pool lp_pool")
def pool(state: Sweep, node: Node) -> bool:
    """Pools of f64: the greatest element of each window, or the sum."""
    x, out = node.x, node.out
    if x.type.dtype != F64 or len(node.outputs) > 1:
        return False
    greatest = node.op == "max_pool"
    taps = _taps(state, node, -np.inf if greatest else 0.0)
    if taps is None or (node.op == "lp_pool" and attr(node, "p") != 1):
        return False
    if node.op == "lp_pool":
        taps = [state.add("abs", [tap], tap.type, node) for tap in taps]
    y = constant(out, np.array(-np.inf), "least") if greatest else taps[0]
    truth = TensorType(np.dtype(np.bool_), out.type.shape)
    for tap in taps if greatest else taps[1:]:
        if greatest:
            y = state.add("where", [state.add("greater", [tap, y], truth, node), tap, y], out.type, node)
        else:
            y = state.add("add", [y, tap], out.type, node)
    if node.op == "average_pool":
        number = np.maximum(counts(node, x.type.dims[1:-1]), 1)
        y = state.add("div", [y, constant(out, number.astype(F64), "counts")], out.type, node)
    state.replace(out, y)
    return True


def _window(node: Node, spatial: Sequence[int]) -> tuple[Sequence[int], Sequence[int], dict[str, tuple[int, ...]]]:
    kernel = tuple(attr(node, "kernel_shape"))
    a = window_attrs(node, len(spatial), kernel)
    begin, end = resolve_pads(spatial, kernel, a["strides"], a["dilations"], a["auto_pad"], a["pads"])
    return begin, end, a


def _taps(state: Sweep, node: Node, fill: float) -> list[Value] | None:
    """The elements of the windows [N, out..., C], one value for each place in them; None where those are many."""
    x, out, kernel = node.x, node.out, tuple(attr(node, "kernel_shape"))
    if not x.type.concrete or not out.type.concrete or not x.type.size or not out.type.size:
        return None
    if prod(kernel) > MOST_TAPS:
        return None
    begin, _, a = _window(node, x.type.dims[1:-1])
    counts = out.type.dims[1:-1]
    whole = reach(counts, kernel, a["strides"], a["dilations"])
    after = [w - n - b for w, n, b in zip(whole, x.type.dims[1:-1], begin, strict=True)]
    wide = padded_around(state, node, x, [0, *begin, 0], [0, *after, 0], fill)
    starts = [[k * d for k, d in zip(at, a["dilations"], strict=True)] for at in product(*map(range, kernel))]
    return [cut_out(state, node, wide, start, counts, a["strides"], 1) for start in starts]


@rule("rare", "col2im")
def col2im(state: Sweep, node: Node) -> bool:
    """The sum of images, each of the elements of a block that do not lie over one another: a stride of neighbors, or
    one where they are dilated.
    """
    x, out, image, block = node.x, node.out, node.const(1), node.const(2)
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
    columns = shaped(state, node, x, (lead, *kernel, *counts))
    total: Value | None = None
    for pieces in product(*runs):
        starts, many = [p[0] for p in pieces], [p[1] for p in pieces]
        part = cut_out(state, node, columns, starts, many, [1] * rank, 1)
        missing = [s - n for s, n in zip(strides, many, strict=True)]
        part = padded_around(state, node, part, [0] * (1 + 2 * rank), [0, *missing, *[0] * rank])
        part = turn(state, node, part, (0, *(axis for i in range(rank) for axis in (1 + rank + i, 1 + i))))
        dense = [n * s for n, s in zip(counts, strides, strict=True)]
        part = shaped(state, node, part, (lead, *dense))
        before = [p[2] - b for p, b in zip(pieces, begin, strict=True)]
        after = [n - f - m for n, f, m in zip(spatial, before, dense, strict=True)]
        part = padded_around(state, node, part, [0, *before], [0, *after])
        total = part if total is None else state.add("add", [total, part], part.type, node)
    assert total is not None
    state.replace(out, shaped(state, node, total, out.type.dims))
    return True
