"""Weights and biases of channels, changed before they are rounded (Nagel et al. 2019).

Cross-layer equalization (section 4.1): channels between two layers get ranges alike. Bias correction (4.2, by means of
samples): what rounding of weights adds to a layer's mean result is taken off its bias.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .network import add_constant, array, attribute, constants, own_copy, replace, uses
from .observe import Tensor

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


def rounded(weights: np.ndarray, axis: int | None) -> np.ndarray:
    """Weights as they are stored, 8 bits around 128, with a scale for each index of an axis, or one."""
    others = tuple(i for i in range(weights.ndim) if i != axis)
    most = np.abs(weights).max(axis=None if axis is None else others, keepdims=True)
    scale = np.where(most > 0, 2 * most / 255, 1)
    return np.clip(np.rint(weights / scale), -128, 127) * scale


def correct(model: Any, nodes: Sequence[str], seen: Mapping[str, Tensor], per_channel: bool) -> int:
    """Correct the biases of the Conv, Gemm and MatMul nodes of these names whose weights are constant; the bias of a
    MatMul is the operand of the Add behind it. Returns how many were corrected.
    """
    done = 0
    for node in model.graph.node:
        tensor = seen.get(node.input[0]) if node.input else None
        if node.name in nodes and tensor is not None:
            shift = _shift(model, node, tensor, per_channel)
            if shift is not None and _subtract(model, node, shift):
                done += 1
    return done


def _shift(model: Any, node: Any, tensor: Tensor, per_channel: bool) -> np.ndarray | None:
    """The shift that rounded weights give the mean of each output channel; None where that is not known."""
    known, means = constants(model), tensor.last if node.op_type == "MatMul" else tensor.channels
    if node.op_type not in ("Conv", "Gemm", "MatMul") or node.input[1] not in known:
        return None
    if means is None or not np.isfinite(means).all():
        return None
    weights = array(known[node.input[1]]).astype(np.float64)
    if node.op_type == "MatMul":
        if weights.shape[:-1] != means.shape:
            return None
        return means @ (rounded(weights, 1 if per_channel else None) - weights)
    if node.op_type == "Gemm":
        if attribute(node, "transA", 0) or attribute(node, "alpha", 1.0) != 1 or attribute(node, "beta", 1.0) != 1:
            return None
        axis = 0 if attribute(node, "transB", 0) else 1
        errors = rounded(weights, axis if per_channel else None) - weights
        errors = errors if axis == 0 else errors.T
        return errors @ means if errors.shape[1] == len(means) else None
    errors = (rounded(weights, 0 if per_channel else None) - weights).reshape(*weights.shape[:2], -1).sum(axis=2)
    groups = attribute(node, "group", 1)
    if errors.shape[1] * groups != len(means):
        return None
    return np.einsum("goc,gc->go", errors.reshape(groups, -1, errors.shape[1]), means.reshape(groups, -1)).ravel()


def _subtract(model: Any, node: Any, shift: np.ndarray) -> bool:
    """Take the shift off a node's bias; whether there is one, or may be."""
    at = _added(model, node) if node.op_type == "MatMul" else (node, 2)
    if at is None:
        return False
    to, i = at
    if len(to.input) <= i or not to.input[i]:
        to.input[:] = [*to.input[:i], add_constant(model, f"{to.name}_bias", (-shift).astype(np.float32))]
        return True
    known = constants(model).get(to.input[i])
    if known is None or [n for n in known.dims if n != 1] != [n for n in shift.shape if n != 1]:
        return False
    bias = own_copy(model, to, i, uses(model))
    before = array(bias)
    replace(bias, (before - shift.reshape(before.shape)).astype(np.float32))
    return True


def _added(model: Any, node: Any) -> tuple[Any, int] | None:
    """The Add that alone reads a node's result, and which of its inputs is a constant row."""
    (out,) = node.output
    readers = [each for each in model.graph.node if out in each.input]
    if len(readers) != 1 or readers[0].op_type != "Add" or uses(model)[out] != 1:
        return None
    return readers[0], 1 - list(readers[0].input).index(out)
