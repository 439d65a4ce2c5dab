"""Grouped transposed convolutions as one convolution per phase: the outputs whose index has the same remainder by the
stride."""

from __future__ import annotations

from itertools import product
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from ...ir import Node, Value
from ...ir.build import constant
from ...ir.weights import once
from ...ops.conv import transposed_window
from ...ops.registry import OPS
from ...rules.rule import rule
from ...rules.sweep import Sweep

MOST = 64
"""The most phases of a transposed convolution: each is a step."""
NARROW = 16
"""Channels of a group from which on a product with the weights of all taps fills vectors."""


class Phase(NamedTuple):
    """Outputs number `first`, first + stride, ... along one axis, as a convolution of x[start:end] by some taps.

    `taps`: those of the window, in the order in which they meet x; `pads`: before and after.
    """

    taps: slice
    dilation: int
    pads: tuple[int, int]
    start: int
    end: int


def phase(first: int, size: int, kernel: int, stride: int, dilation: int, pad: int, count: int) -> Phase | None:
    """The phase of `count` outputs from number `first` on, of `size` inputs; None where it has no taps or no input."""
    taps = [k for k in range(kernel) if (k * dilation - first - pad) % stride == 0]
    if not taps:
        return None
    low, high = ((first + pad - k * dilation) // stride for k in (taps[-1], taps[0]))
    before, after = -low, count - 1 + high - (size - 1)
    start, end = max(-before, 0), size - max(-after, 0)
    if start >= end:
        return None
    step = stride // gcd(stride, dilation)
    stop = taps[0] - step
    order = slice(taps[-1], stop if stop >= 0 else None, -step)
    return Phase(order, dilation * step // stride, (max(before, 0), max(after, 0)), start, end)


@rule("last_chains", "conv_transpose", quantized=True)
def phases(g: Sweep, node: Node) -> bool:
    """Given ``y = conv_transpose(x, w) {groups=8, strides=(2,)}``; result ``y = concat(conv(x, w0), conv(x, w1))``,
    whose rows are two pixels each. A chain that reads other maps, as one that ends in their sum, is computed behind it.
    """
    at = OPS[node.op].extras_at or 0
    x, w, extras, groups = node.x, node.y, node.inputs[at:], node.attrs["groups"]
    if w.data is None or not node.out.type.size or groups == 1 or w.type.dims[0] // groups >= NARROW:
        return False
    apart = not all(v is None or v.type.concrete and v.type.size == (v.type.dims or (1,))[-1] for v in extras)
    if apart and (node.out.type.quant is not None or not node.attrs["chain"]):
        return False
    sizes, out = x.type.dims[1:-1], node.out.type.dims[1:-1]
    begin, _, a = transposed_window(node, sizes, w.type.dims[1:-1])
    strides = a["strides"]
    if prod(strides) > MOST:
        return False
    counts = [-(-n // s) for n, s in zip(out, strides, strict=True)]
    along = list(zip(sizes, w.type.dims[1:-1], strides, a["dilations"], begin, counts, strict=True))
    by_axis = [[p for i in range(axis[2]) if (p := phase(i, *axis)) is not None] for axis in along]
    if any(len(found) < s for found, s in zip(by_axis, strides, strict=True)):
        return False
    firsts = product(*map(range, strides))
    layer = node.with_(node.inputs[:at], attrs={**node.attrs, "chain": ()}) if apart else node
    parts = {f: convolved(g, layer, list(axes), counts) for f, axes in zip(firsts, product(*by_axis), strict=True)}
    y = g.slice(_interleaved(g, parts, counts, strides), range(1, 1 + len(out)), [0] * len(out), out)
    return g.becomes(g("fused", y, *extras, type=node.out.type, chain=node.attrs["chain"]) if apart else y)


def _part(data: np.ndarray, index: tuple[slice, ...]) -> np.ndarray:
    return np.ascontiguousarray(data[index])


def convolved(g: Sweep, node: Node, axes: list[Phase], counts: list[int]) -> Value:
    """The outputs of one phase, [N, counts..., O]; of a convolution, those of one part, in its steps."""
    w, spatial = node.y, range(1, 1 + len(axes))
    x = g.slice(node.x, spatial, [p.start for p in axes], [p.end for p in axes])
    taps = once(_part, w.array, (slice(None), *(p.taps for p in axes), slice(None)))
    attrs = {
        "strides": node.attrs["strides"] if node.op == "conv" else (1,) * len(axes),
        "dilations": tuple(p.dilation for p in axes), "pads": tuple(p.pads[end] for end in (0, 1) for p in axes),
        "groups": node.attrs["groups"], "auto_pad": "NOTSET", "kernel_shape": taps.shape[1:-1],
    }  # fmt: skip
    kept = {name: value for name, value in node.attrs.items() if name not in OWN}
    kind = node.out.type.with_shape((node.x.type.dims[0], *counts, node.out.type.dims[-1]))
    return g("conv", x, constant(w, taps, "taps", w.type.quant), *node.inputs[2:], type=kind, **attrs, **kept)


OWN = {"strides", "dilations", "pads", "groups", "auto_pad", "kernel_shape", "output_padding", "output_shape"}


def _interleaved(g: Sweep, parts: dict[tuple[int, ...], Value], counts: list[int], strides: tuple[int, ...]) -> Value:
    """[N, counts * strides..., O] of the phases; each concatenation is along the last axis, so that rows get longer."""
    n, *_, channels = next(iter(parts.values())).type.dims
    row = channels
    for axis in reversed(range(len(counts))):
        dims = (n, *counts[: axis + 1], row)
        leads = product(*map(range, strides[:axis]))
        phases = {lead: [parts[*lead, i] for i in range(strides[axis])] for lead in leads}
        parts = {
            lead: g.join([g.shape(v, *dims) for v in each] if len(each) > 1 else each, len(dims) - 1)
            for lead, each in phases.items()
        }
        row *= strides[axis] * counts[axis]
    return g.shape(parts[()], n, *(c * s for c, s in zip(counts, strides, strict=True)), channels)
