"""Blocks of places as reshapes and transposes."""

from __future__ import annotations

import numpy as np

from ...ir import Node, Value
from ...ir.build import constant
from ...ops.registry import attr
from ...rules.moves import shaped, turn
from ...rules.rule import rule
from ...rules.sweep import Sweep


@rule("common", "depth_to_space", quantized=True)
def depth_to_space(state: Sweep, node: Node) -> bool:
    """Channels become blocks of pixels: reshape, transpose, reshape."""
    if not node.x.type.concrete or not node.x.type.size or len(node.x.type.dims) != 4:
        return False
    n, h, w, c = node.x.type.dims
    b = attr(node, "blocksize")
    if attr(node, "mode") == "DCR":
        split, perm = (n, h, w, b, b, c // b // b), (0, 1, 3, 2, 4, 5)
    else:
        split, perm = (n, h, w, c // b // b, b, b), (0, 1, 4, 2, 5, 3)
    return _blocks(state, node, split, perm)


@rule("common", "space_to_depth", quantized=True)
def space_to_depth(state: Sweep, node: Node) -> bool:
    """Blocks of pixels become channels: reshape, transpose, reshape."""
    if not node.x.type.concrete or not node.x.type.size or len(node.x.type.dims) != 4:
        return False
    n, h, w, c = node.x.type.dims
    b = attr(node, "blocksize")
    perm = (0, 1, 3, 2, 4, 5) if attr(node, "mode") == "DCR" else (0, 1, 3, 5, 2, 4)
    return _blocks(state, node, (n, h // b, b, w // b, b, c), perm)


@rule("common", "space_to_batch", quantized=True)
def space_to_batch(state: Sweep, node: Node) -> bool:
    """Places within a block become batches: pad, reshape, transpose, reshape."""
    found = _blocked(node)
    if found is None:
        return False
    block, pairs = found
    x, k, rank = node.x, len(block), len(node.x.type.dims)
    before, after = [0] * rank, [0] * rank
    for i, (low, high) in enumerate(pairs, 1):
        before[i], after[i] = low, high
    dims = tuple(b + d + a for b, d, a in zip(before, x.type.dims, after, strict=True))
    if any(before) or any(after):
        pads = constant(node.out, np.array([*before, *after], np.int64), "pads")
        x = state.add("pad", [x, pads], x.type.with_shape(dims), node, mode="constant")
    cut = [part for d, b in zip(dims[1:], block, strict=False) for part in (d // b, b)]
    split = shaped(state, node, x, (dims[0], *cut, *dims[k + 1 :]))
    perm = (*range(2, 2 * k + 1, 2), 0, *range(1, 2 * k, 2), *range(2 * k + 1, rank + k))
    state.replace(node.out, shaped(state, node, turn(state, node, split, perm), node.out.type.dims))
    return True


@rule("common", "batch_to_space", quantized=True)
def batch_to_space(state: Sweep, node: Node) -> bool:
    """Batches become places within a block: reshape, transpose, reshape, slice."""
    found = _blocked(node)
    if found is None:
        return False
    block, pairs = found
    dims, k = node.x.type.dims, len(block)
    n = dims[0] // int(np.prod(block))
    split = shaped(state, node, node.x, (*block, n, *dims[1:]))
    perm = (k, *(a for i in range(k) for a in (k + 1 + i, i)), *range(2 * k + 1, len(dims) + k))
    whole = (n, *(d * b for d, b in zip(dims[1:], block, strict=False)), *dims[k + 1 :])
    y = shaped(state, node, turn(state, node, split, perm), whole)
    if any(any(pair) for pair in pairs):
        ends = [whole[i] - high for i, (_, high) in enumerate(pairs, 1)]
        parts = [[low for low, _ in pairs], ends, [*range(1, k + 1)]]
        names = ("starts", "ends", "axes")
        cut = [constant(node.out, np.array(p, np.int64), name) for p, name in zip(parts, names, strict=True)]
        y = state.add("slice", [y, *cut], node.out.type, node)
    state.replace(node.out, y)
    return True


def _blocked(node: Node) -> tuple[list[int], list[tuple[int, int]]] | None:
    """The block and the pairs (before, after) of a node with constant parameters, else None."""
    block, pairs = node.const(1), node.const(2)
    if block is None or pairs is None or not node.out.type.concrete or not node.out.type.size or not node.x.type.size:
        return None
    return [int(b) for b in block.ravel()], [(int(a), int(b)) for a, b in pairs.reshape(-1, 2)]


def _blocks(state: Sweep, node: Node, split: tuple[int, ...], perm: tuple[int, ...]) -> bool:
    moved: Value = turn(state, node, shaped(state, node, node.x, split), perm)
    state.replace(node.out, shaped(state, node, moved, node.out.type.dims))
    return True
