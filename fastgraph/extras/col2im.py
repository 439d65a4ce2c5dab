"""Columns of an image's blocks added up where these lie in it. Semantics: ONNX Col2Im."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from ..ir import Node, TensorType
from ..ops import check
from ..ops.inference import Types, ints, join
from ..ops.registry import define, fail
from ..ops.window import reach, tap, window_attrs
from ..ops.work import squares
from ..rules.rule import rule
from ..rules.sweep import Sweep

MOST_TAPS = 64
"""Larger blocks are left to the reference."""


@check.takes("x biufc 3, image_shape iu 1, block_shape iu 1")
def _infer(node: Node, types: Types) -> list[TensorType]:
    x, image, block = types[0], node.const(1), node.const(2)
    if image is None or block is None:
        return [TensorType(x.dtype, None)]
    channels = x.shape[1] if x.shape else None
    area = math.prod(ints(block))
    windows = _windows(node, ints(image), ints(block))
    if isinstance(channels, int) and channels % area:
        fail(node, f"{channels} rows do not divide into blocks of {area}")
    if x.shape is not None:
        join(node, x.shape[2], math.prod(windows))
    depth = channels // area if isinstance(channels, int) else None
    return [TensorType(x.dtype, (x.shape[0] if x.shape else None, depth, *ints(image)))]


def _windows(node: Node, image: list[int], block: list[int]) -> list[int]:
    """The number of blocks along each axis of the image; ModelError when its shape, the block's and the attributes
    disagree."""
    if len(image) != len(block) or min(image, default=0) < 1:
        fail(node, f"image_shape and block_shape must be as many positive numbers, found {image} and {block}")
    rank, a = len(image), window_attrs(node, len(image), block)
    spans = zip(image, block, a["strides"], a["dilations"], a["pads"][:rank], a["pads"][rank:], strict=True)
    counts = [(n + b + e - ((k - 1) * d + 1)) // s + 1 for n, k, s, d, b, e in spans]
    if min(counts) < 1:
        fail(node, f"blocks of {block} do not fit an image of {image}")
    return counts


def _reference(node: Node, inputs: list[Any]) -> list[Any]:
    """Columns [N, C * block, L] added up where their blocks lie in the image [N, C, spatial...]."""
    x, image, block = inputs
    spatial, kernel = ints(image), ints(block)
    rank = len(spatial)
    a = window_attrs(node, rank, kernel)
    begin = a["pads"][:rank]
    out = _windows(node, spatial, kernel)
    columns = x.reshape(x.shape[0], -1, *kernel, *out)
    # Channels last while adding, since `tap` gives the slices of N and the spatial axes.
    covered = reach(out, kernel, a["strides"], a["dilations"])
    extents = [max(r, b + n) for r, b, n in zip(covered, begin, spatial, strict=True)]
    y = np.zeros((x.shape[0], *extents, columns.shape[1]), x.dtype)
    for index in np.ndindex(*kernel):
        y[tap(index, out, a["strides"], a["dilations"])] += np.moveaxis(
            columns[(slice(None), slice(None), *index)], 1, -1
        )
    inside = tuple(slice(b, b + n) for b, n in zip(begin, spatial, strict=True))
    return [np.moveaxis(y[(slice(None), *inside)], -1, 1)]


define(
    "col2im", _infer, _reference, attrs={"dilations": None, "pads": None, "strides": None},
    work=squares, shaped_by=(1, 2),
)  # fmt: skip


@rule("rare", "col2im")
def col2im(g: Sweep, node: Node) -> bool:
    """A sum of images, each of the elements of a block that do not overlap: for dilated blocks one element, else as
    many neighbors as the stride."""
    x, image, block = node.x, node.const(1), node.const(2)
    numbers = x.type.dtype is not None and x.type.dtype.kind in "iuf"
    if image is None or block is None or not numbers or not x.type.concrete or not x.type.size:
        return False
    spatial, kernel = ints(image), ints(block)
    rank, a = len(spatial), window_attrs(node, len(spatial), kernel)
    strides, dilations, begin = a["strides"], a["dilations"], a["pads"][:rank]
    counts = _windows(node, spatial, kernel)
    runs = [
        [(t, min(s if d == 1 else 1, k - t), t * d) for t in range(0, k, s if d == 1 else 1)]
        for k, s, d in zip(kernel, strides, dilations, strict=True)
    ]
    if math.prod(map(len, runs)) > MOST_TAPS:
        return False
    lead = x.type.size // (math.prod(kernel) * math.prod(counts))
    columns, blank, total = g.shape(x, lead, *kernel, *counts), [0] * rank, None
    for pieces in product(*runs):
        starts, many = [p[0] for p in pieces], [p[1] for p in pieces]
        ends = [start + n for start, n in zip(starts, many, strict=True)]
        part = g.slice(columns, range(1, 1 + rank), starts, ends)
        missing = [s - n for s, n in zip(strides, many, strict=True)]
        part = g.pad(part, [0, *blank, *blank], [0, *missing, *blank])
        part = g.transpose(part, 0, *(axis for i in range(rank) for axis in (1 + rank + i, 1 + i)))
        dense = [n * s for n, s in zip(counts, strides, strict=True)]
        before = [p[2] - b for p, b in zip(pieces, begin, strict=True)]
        after = [n - f - m for n, f, m in zip(spatial, before, dense, strict=True)]
        part = g.pad(g.shape(part, lead, *dense), [0, *before], [0, *after])
        total = part if total is None else total + part
    assert total is not None
    return g.becomes(total)
