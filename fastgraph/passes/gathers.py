"""Gathers at constant indices as slices, or as transposes of a split axis; elements at spread indices as rows."""

from __future__ import annotations

import numpy as np

from ..ir import Node
from ..ops.registry import attr
from ..rules.rule import rule
from ..rules.sweep import Sweep


@rule("canonical", "gather", quantized=True)
def known_gather(g: Sweep, node: Node) -> bool:
    """Equally spaced indices become a slice; a permutation (0, step, 2 * step, ..., 1, 1 + step, ...) of an axis a
    transpose of the axis split in two, as in a shuffle of channels."""
    x, out, indices = node.x, node.out, node.const(1)
    quant = x.type.quant
    if indices is None or not indices.size or x.data is not None or not x.type.concrete or not out.type.concrete:
        return False
    if not x.type.size or quant != out.type.quant or (quant is not None and quant.axis is not None):
        return False
    dims = x.type.dims
    axis = attr(node, "axis") % len(dims)
    at = indices.ravel().astype(np.int64) % dims[axis]
    step = int(at[1] - at[0]) if at.size > 1 else 1
    if step and (np.diff(at) == step).all():
        end = int(at[-1]) + step
        y = g.cut(x, axis, int(at[0]), end if end >= 0 else np.iinfo(np.int64).min, step)
    elif _is_shuffle(at, dims[axis], step):
        split = g.shape(x, *dims[:axis], dims[axis] // step, step, *dims[axis + 1 :])
        y = g.transpose(split, *range(axis), axis + 1, axis, *range(axis + 2, len(dims) + 1))
    else:
        return False
    return g.becomes(y)


def _is_shuffle(at: np.ndarray, extent: int, step: int) -> bool:
    """Whether indices are 0, step, 2 * step, ..., 1, 1 + step, ... of an axis."""
    whole = at.size == extent and step > 1 and extent % step == 0
    return whole and bool((at == np.arange(extent).reshape(-1, step).T.ravel()).all())


@rule("canonical", "gather_elements scatter_elements")
def expanded_indices(g: Sweep, node: Node) -> bool:
    """Given ``y = gather_elements(x, expand(index))`` or a scatter, whose index is the same for all elements of a row,
    which lie behind the axis; result a gather of rows (for each batch, where indices differ), or ``scatter_nd``.
    """
    spread = g.made_by(node.y, "expand")
    if spread is None or not all(v is not None and v.type.concrete and v.type.size for v in (*node.inputs, spread.x)):
        return False
    x, index, dims = node.x, spread.x, node.y.type.dims
    axis = attr(node, "axis") % len(dims)
    small = (1,) * (len(dims) - len(index.type.dims)) + index.type.dims
    lead, count, rest = small[:axis], dims[axis], x.type.dims[axis + 1 :]
    if small[axis:] != (count, *(1 for _ in rest)) or dims[axis + 1 :] != rest or dims[:axis] != x.type.dims[:axis]:
        return False
    if node.op == "scatter_elements":
        if any(n != 1 for n in dims[:axis]):
            return False
        to, updates = g.shape(x, x.type.dims[axis], *rest), g.shape(node.operands[2], count, *rest)
        how = node.attrs.get("reduction", "none")
        return g.becomes(g("scatter_nd", to, g.shape(index, count, 1), updates, reduction=how))
    if all(n == 1 for n in lead):
        return g.becomes(g("gather", x, g.shape(index, count), axis=axis))
    if lead != dims[:axis]:
        return False
    return g.becomes(g("gather_batches", x, g.shape(index, *lead, count), axis=axis, batch_dims=axis))
