"""Gathers at constant places as what they are: slices, and transposes of a split axis."""

from __future__ import annotations

import numpy as np

from ..ir import Node, Value
from ..ir.build import constant
from ..ops.registry import attr
from ..rules.moves import shaped, turn
from ..rules.rule import rule
from ..rules.sweep import Sweep


@rule("canonical", "gather", quantized=True)
def known_gather(state: Sweep, node: Node) -> bool:
    """At one place or at places that are equally far apart: a slice. At all of them, those a step apart first: an axis
    that is split in two, which change places, as in a shuffle of channels.
    """
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
        y = _slice(state, node, axis, int(at[0]), int(at[-1]), step)
    elif _deals(at, dims[axis], step):
        split = shaped(state, node, x, (*dims[:axis], dims[axis] // step, step, *dims[axis + 1 :]))
        order = list(range(len(dims) + 1))
        order[axis], order[axis + 1] = axis + 1, axis
        y = turn(state, node, split, tuple(order))
    else:
        return False
    state.replace(out, shaped(state, node, y, out.type.dims))
    return True


def _slice(state: Sweep, node: Node, axis: int, first: int, last: int, step: int) -> Value:
    """x from `first` to `last` along the axis."""
    dims = list(node.x.type.dims)
    dims[axis] = (last - first) // step + 1
    end = last + step if last + step >= 0 else np.iinfo(np.int64).min
    lists = {"starts": first, "ends": end, "axes": axis, "steps": step}
    at = [constant(node.out, np.array([number], np.int64), name) for name, number in lists.items()]
    return state.add("slice", [node.x, *at], node.x.type.with_shape(tuple(dims)), node)


def _deals(at: np.ndarray, extent: int, step: int) -> bool:
    """Whether places are 0, step, 2 * step, ..., 1, 1 + step, ... of an axis."""
    whole = at.size == extent and step > 1 and extent % step == 0
    return whole and bool((at == np.arange(extent).reshape(-1, step).T.ravel()).all())
