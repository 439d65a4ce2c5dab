"""Blocks of places as reshapes and transposes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir import Node, Value
from ...ops.inference import ints
from ...ops.registry import attr
from ...rules.rule import rule
from ...rules.sweep import Sweep


@rule("common", "depth_to_space", quantized=True)
def depth_to_space(g: Sweep, node: Node) -> bool:
    """Channels as blocks of pixels: reshape, transpose, reshape."""
    if not node.x.type.concrete or not node.x.type.size:
        return False
    (n, *space, c), b = node.x.type.dims, attr(node, "blocksize")
    k, last = len(space), attr(node, "mode") == "DCR"
    block, depth = [b] * k, c // b ** len(space)
    split = [n, *space, *block, depth] if last else [n, *space, depth, *block]
    within = 1 + k if last else 2 + k
    pairs = [axis for i in range(k) for axis in (1 + i, within + i)]
    return g.becomes(_turned(g, node.x, split, [0, *pairs, 1 + 2 * k if last else 1 + k]))


@rule("common", "space_to_depth", quantized=True)
def space_to_depth(g: Sweep, node: Node) -> bool:
    """Blocks of pixels as channels: reshape, transpose, reshape."""
    if not node.x.type.concrete or not node.x.type.size:
        return False
    (n, *space, c), b = node.x.type.dims, attr(node, "blocksize")
    last = 2 * len(space) + 1
    outer, inner = range(1, last, 2), range(2, last, 2)
    perm = [0, *outer, *inner, last] if attr(node, "mode") == "DCR" else [0, *outer, last, *inner]
    return g.becomes(_turned(g, node.x, [n, *(part for s in space for part in (s // b, b)), c], perm))


@rule("common", "space_to_batch", quantized=True)
def space_to_batch(g: Sweep, node: Node) -> bool:
    """Positions within a block as batches: pad, reshape, transpose, reshape."""
    if not _fixed(node):
        return False
    block, pairs = _blocked(node)
    k, rank = len(block), len(node.x.type.dims)
    before, after = ([0, *(pair[end] for pair in pairs), *[0] * (rank - 1 - k)] for end in (0, 1))
    x = g.pad(node.x, before, after)
    n, *dims = x.type.dims
    cut = [part for d, b in zip(dims, block, strict=False) for part in (d // b, b)]
    perm = (*range(2, 2 * k + 1, 2), 0, *range(1, 2 * k, 2), *range(2 * k + 1, rank + k))
    return g.becomes(_turned(g, x, (n, *cut, *dims[k:]), perm))


@rule("common", "batch_to_space", quantized=True)
def batch_to_space(g: Sweep, node: Node) -> bool:
    """Batches as positions within a block: reshape, transpose, reshape, slice."""
    if not _fixed(node):
        return False
    block, pairs = _blocked(node)
    (batch, *dims), k = node.x.type.dims, len(block)
    n = batch // prod(block)
    perm = (k, *(a for i in range(k) for a in (k + 1 + i, i)), *range(2 * k + 1, len(dims) + 1 + k))
    spread = [d * b for d, b in zip(dims, block, strict=False)]
    y = g.shape(_turned(g, node.x, (*block, n, *dims), perm), n, *spread, *dims[k:])
    if any(map(any, pairs)):
        ends = [size - high for size, (_, high) in zip(spread, pairs, strict=True)]
        y = g.slice(y, range(1, k + 1), [low for low, _ in pairs], ends)
    return g.becomes(y)


def _fixed(node: Node) -> bool:
    """Whether the block, and the padding or crop, are constant."""
    sizes = node.out.type.concrete and node.out.type.size and node.x.type.size
    return bool(sizes) and node.const(1) is not None and node.const(2) is not None


def _blocked(node: Node) -> tuple[list[int], list[tuple[int, int]]]:
    """The block and the pairs (before, after)."""
    block, pairs = node.const(1), node.const(2)
    assert block is not None and pairs is not None
    return ints(block), [(int(a), int(b)) for a, b in pairs.reshape(-1, 2)]


def _turned(g: Sweep, x: Value, split: Sequence[int], perm: Sequence[int]) -> Value:
    return g.transpose(g.shape(x, *split), *perm)
