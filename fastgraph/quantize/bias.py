"""Bias correction: what rounding of weights adds to a layer's mean result is taken off its bias (Nagel et al. 2019,
section 4.2, with means of samples).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .network import add_constant, array, attribute, constants, own_copy, replace, uses
from .observe import Tensor


def rounded(weights: np.ndarray, axis: int | None) -> np.ndarray:
    """Weights as they are stored, 8 bits around 128, with a scale for each index of an axis, or one."""
    others = tuple(i for i in range(weights.ndim) if i != axis)
    most = np.abs(weights).max(axis=None if axis is None else others, keepdims=True)
    scale = np.where(most > 0, 2 * most / 255, 1)
    return np.clip(np.rint(weights / scale), -128, 127) * scale


def correct(model: Any, nodes: Sequence[str], seen: Mapping[str, Tensor], per_channel: bool) -> int:
    """Correct the biases of the Conv and Gemm nodes of these names whose weights are constant. How many there were."""
    done = 0
    for node in model.graph.node:
        tensor = seen.get(node.input[0]) if node.input else None
        if node.name in nodes and tensor is not None and tensor.means is not None:
            shift = _shift(model, node, tensor.means, per_channel)
            if shift is not None:
                _subtract(model, node, shift)
                done += 1
    return done


def _shift(model: Any, node: Any, means: np.ndarray, per_channel: bool) -> np.ndarray | None:
    """What rounding adds to the mean of each output channel; None where that is not known."""
    known = constants(model)
    if node.op_type not in ("Conv", "Gemm") or node.input[1] not in known or not np.isfinite(means).all():
        return None
    weights = array(known[node.input[1]]).astype(np.float64)
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


def _subtract(model: Any, node: Any, shift: np.ndarray) -> None:
    known = constants(model)
    if len(node.input) > 2 and node.input[2]:
        if node.input[2] in known and known[node.input[2]].dims == [len(shift)]:
            bias = own_copy(model, node, 2, uses(model))
            replace(bias, (array(bias) - shift).astype(np.float32))
        return
    name = add_constant(model, f"{node.name}_bias", (-shift).astype(np.float32))
    node.input[:] = [*node.input[:2], name]
