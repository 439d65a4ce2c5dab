"""The queries, keys and values of attention, read backwards: where they lie before they are scaled and turned."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..ir import Node, Value
from ..ops.shape import permutation
from ..rules.sweep import Sweep

Dims = tuple[int, ...]


def factor_of(node: Node) -> tuple[Value, float] | None:
    """(x, c) of a node that is x * c with one number c."""
    if node.op not in ("mul", "div") or len(node.inputs) != 2:
        return None
    x, c = node.inputs
    if x is not None and x.data is not None and node.op == "mul":
        x, c = c, x
    if x is None or c is None or c.data is None or c.data.size != 1 or x.type.shape != node.out.type.shape:
        return None
    number = float(c.data.item())
    if node.op == "div":
        number = 1 / number if number else float("inf")
    return (x, number) if np.isfinite(number) and x.data is None and x.type.dtype == node.out.type.dtype else None


class Operand(NamedTuple):
    """scale * x, where x has the elements [images, heads, rows, size], or (flat) [images, rows, heads, size]; each head
    is for `share` heads of queries.
    """

    x: Value
    flat: bool
    images: int
    heads: int
    rows: int
    size: int
    scale: float
    share: int

    def written(self, g: Sweep) -> Value:
        if self.flat:
            return g.shape(self.x, self.images, self.rows, self.heads * self.size)
        return g.shape(self.x, self.images, self.heads, self.rows, self.size)


def operand_of(g: Sweep, value: Value | None, number: int) -> Operand | None:
    """What the product's operand is made of: of q, of k that is turned (number 1) or of v."""
    assert value is not None
    best: Operand | None = None
    moves: list[Node] = []
    x, scale, share = value, 1.0, 1
    while True:
        found = _seen(x, moves, share, number == 1)
        if found is not None and (best is None or found.flat or not best.flat):
            best = found._replace(scale=scale)
        maker = g.maker.get(x)
        if maker is None or not maker.x.type.concrete:
            return best
        factor = factor_of(maker)
        if factor is not None:
            x, scale = factor[0], scale * factor[1]
        elif maker.op in ("transpose", "reshape"):
            moves.insert(0, maker)
            x = maker.x
        elif maker.op == "expand" and share == 1 and (often := _repeats(maker)) is not None:
            moves.insert(0, maker)
            x, share = maker.x, often
        else:
            return best


def _repeats(node: Node) -> int | None:
    """How often an expand repeats each head of [images, heads, 1, rows, size]."""
    dims, out = node.x.type.dims, node.out.type.dims
    fits = len(dims) == len(out) == 5 and dims[2] == 1 and dims == (*out[:2], 1, *out[3:])
    return out[2] if fits else None


def _seen(x: Value, moves: Sequence[Node], share: int, turned: bool) -> Operand | None:
    """How the operand lies in x when the moves are not done; None: not in an order that attention reads."""
    view: np.ndarray = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), x.type.dims, _dense(x.type.dims))
    repeated = False
    for node in moves:
        if node.op == "transpose":
            view = view.transpose(permutation(node))
        elif node.op == "expand":
            repeated = True
        else:
            dims = node.out.type.dims
            if repeated:
                images, heads, _, *rest = view.shape
                if dims != (images, heads * share, *rest):
                    return None
                dims, repeated = (images, heads, *rest), False
            found = _reshaped(view, dims)
            if found is None:
                return None
            view = found
    if repeated or view.ndim < 2:
        return None
    lead = view.shape[:-2]
    found = _reshaped(view, (prod(lead[:-1]), lead[-1] if lead else 1, *view.shape[-2:]))
    return None if found is None else _ordered(x, found, share, turned)


def _ordered(x: Value, view: np.ndarray, share: int, turned: bool) -> Operand | None:
    images, heads, rows, size = view.shape if not turned else (*view.shape[:2], view.shape[3], view.shape[2])
    steps = view.strides if not turned else (*view.strides[:2], view.strides[3], view.strides[2])
    made = Operand(x, True, images, heads, rows, size, 1.0, share)
    extents = (images, heads, rows, size)

    def lies(wanted: Dims) -> bool:
        return all(n == 1 or a == b for n, a, b in zip(extents, steps, wanted, strict=True))

    if lies((rows * heads * size, size, heads * size, 1)):
        return made
    if lies((heads * rows * size, rows * size, size, 1)):
        return made._replace(flat=False)
    return None


def _dense(dims: Dims) -> Dims:
    return tuple(prod(dims[i + 1 :]) for i in range(len(dims)))


def _reshaped(view: np.ndarray, dims: Dims) -> np.ndarray | None:
    """A view of the elements in another shape, without a copy."""
    moved = view[...]
    try:
        moved.shape = dims
    except (AttributeError, ValueError):
        return None
    return moved
