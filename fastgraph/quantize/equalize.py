"""Cross-layer equalization: channels between two layers get ranges alike (Nagel et al. 2019, section 4.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .network import array, attribute, constants, own_copy, replace, uses

MOST = 64.0
"""The largest factor of a channel."""
ROUNDS = 20
CLOSE = 1e-3
"""Rounds stop when no factor differs from 1 by more."""


def equalize(model: Any) -> int:
    """Scale the channels between all pairs of convolutions with nothing but Relu between them, so that a channel's
    weights before and behind it are of the same size; results stay the same. How many pairs there were.
    """
    pairs = _pairs(model)
    for _ in range(ROUNDS):
        if max((_balance(model, one, other) for one, other in pairs), default=0.0) < CLOSE:
            break
    return len(pairs)


def _pairs(model: Any) -> list[tuple[Any, Any]]:
    """Convolutions, and the one that alone reads the result, or the Relu of it."""
    known, count = constants(model), uses(model)
    readers = {name: node for node in model.graph.node for name in node.input}
    found = []
    for node in model.graph.node:
        if node.op_type != "Conv" or not _fixed(node, known):
            continue
        between = node.output[0]
        following = readers.get(between)
        if following is not None and following.op_type == "Relu" and count[between] == 1:
            between = following.output[0]
            following = readers.get(between)
        if following is None or following.op_type != "Conv" or count[between] != 1 or following.input[0] != between:
            continue
        if _fixed(following, known) and _separable(following, known):
            found.append((node, following))
    for one, other in found:
        for node in (one, other):
            for i in range(1, len(node.input)):
                own_copy(model, node, i, count)
    return found


def _fixed(node: Any, known: dict[str, Any]) -> bool:
    return all(name in known for name in node.input[1:] if name)


def _separable(node: Any, known: dict[str, Any]) -> bool:
    """Whether each weight belongs to one input channel that is known: one group, or one channel each."""
    groups, dims = attribute(node, "group", 1), known[node.input[1]].dims
    return groups == 1 or dims[1] == 1


def _balance(model: Any, one: Any, other: Any) -> float:
    """Scale a pair; the largest deviation of a factor from 1."""
    known = constants(model)
    before, behind = array(known[one.input[1]]), array(known[other.input[1]])
    groups = attribute(other, "group", 1)
    # Depthwise: output channels o of each group belong to input channel o // multiplier.
    by_input = behind.reshape(groups, -1).T if groups > 1 else behind.swapaxes(0, 1).reshape(behind.shape[1], -1).T
    sizes = np.abs(before.reshape(len(before), -1)).max(axis=1), np.abs(by_input).max(axis=0)
    used = (sizes[0] > 0) & (sizes[1] > 0)
    factors = np.where(used, np.sqrt(sizes[0] / np.where(used, sizes[1], 1)), 1.0).clip(1 / MOST, MOST)
    replace(known[one.input[1]], (before / factors.reshape(-1, *[1] * (before.ndim - 1))).astype(np.float32))
    if len(one.input) > 2 and one.input[2]:
        bias = known[one.input[2]]
        replace(bias, (array(bias) / factors).astype(np.float32))
    if groups > 1:
        scaled = behind * np.repeat(factors, len(behind) // groups).reshape(-1, *[1] * (behind.ndim - 1))
    else:
        scaled = behind * factors.reshape(1, -1, *[1] * (behind.ndim - 2))
    replace(known[other.input[1]], scaled.astype(np.float32))
    return float(np.abs(factors - 1).max(initial=0.0))
