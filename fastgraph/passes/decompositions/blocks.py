"""Blocks of places as reshapes and transposes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir import Node, Value
from ...ops.registry import attr
from ...rules.rule import rule
from ...rules.sweep import Sweep


@rule("common", "depth_to_space", quantized=True)
def depth_to_space(g: Sweep, node: Node) -> bool:
    """Channels become blocks of pixels: reshape, transpose, reshape."""
    if not node.x.type.concrete or not node.x.type.size:
        return False
    (n, h, w, c), b = node.x.type.dims, attr(node, "blocksize")
    if attr(node, "mode") == "DCR":
        return g.becomes(_turned(g, node.x, (n, h, w, b, b, c // b // b), (0, 1, 3, 2, 4, 5)))
    return g.becomes(_turned(g, node.x, (n, h, w, c // b // b, b, b), (0, 1, 4, 2, 5, 3)))


@rule("common", "space_to_depth", quantized=True)
def space_to_depth(g: Sweep, node: Node) -> bool:
    """Blocks of pixels become channels: reshape, transpose, reshape."""
    if not node.x.type.concrete or not node.x.type.size:
        return False
    (n, h, w, c), b = node.x.type.dims, attr(node, "blocksize")
    perm = (0, 1, 3, 2, 4, 5) if attr(node, "mode") == "DCR" else (0, 1, 3, 5, 2, 4)
    return g.becomes(_turned(g, node.x, (n, h // b, b, w // b, b, c), perm))


@rule("common", "space_to_batch", quantized=True)
def space_to_batch(g: Sweep, node: Node) -> bool:
    """Places within a block become batches: pad, reshape, transpose, reshape."""
    block, pairs = _blocked(node)
    if not block:
        return False
    k, rank = len(block), len(node.x.type.dims)
    before, after = ([0, *(pair[end] for pair in pairs), *[0] * (rank - 1 - k)] for end in (0, 1))
    x = g.pad(node.x, before, after)
    n, *dims = x.type.dims
    cut = [part for d, b in zip(dims, block, strict=False) for part in (d // b, b)]
    perm = (*range(2, 2 * k + 1, 2), 0, *range(1, 2 * k, 2), *range(2 * k + 1, rank + k))
    return g.becomes(_turned(g, x, (n, *cut, *dims[k:]), perm))


@rule("common", "batch_to_space", quantized=True)
def batch_to_space(g: Sweep, node: Node) -> bool:
    """Batches become places within a block: reshape, transpose, reshape, slice."""
    block, pairs = _blocked(node)
    if not block:
        return False
    (batch, *dims), k = node.x.type.dims, len(block)
    n = batch // prod(block)
    perm = (k, *(a for i in range(k) for a in (k + 1 + i, i)), *range(2 * k + 1, len(dims) + 1 + k))
    spread = [d * b for d, b in zip(dims, block, strict=False)]
    y = g.shape(_turned(g, node.x, (*block, n, *dims), perm), n, *spread, *dims[k:])
    if any(map(any, pairs)):
        ends = [size - high for size, (_, high) in zip(spread, pairs, strict=True)]
        y = g.slice(y, range(1, k + 1), [low for low, _ in pairs], ends)
    return g.becomes(y)


def _blocked(node: Node) -> tuple[list[int], list[tuple[int, int]]]:
    """The block and the pairs (before, after) of a node with constant parameters; without, no block."""
    block, pairs = node.const(1), node.const(2)
    if block is None or pairs is None or not node.out.type.concrete or not node.out.type.size or not node.x.type.size:
        return [], []
    return [int(b) for b in block.ravel()], [(int(a), int(b)) for a, b in pairs.reshape(-1, 2)]


def _turned(g: Sweep, x: Value, split: Sequence[int], perm: Sequence[int]) -> Value:
    return g.turn(g.shape(x, *split), *perm)
