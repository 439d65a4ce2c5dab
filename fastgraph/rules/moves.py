"""Transposes, reshapes, casts and changes of quantization, written in their simplest form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..ir import Node, Quantization, TensorType, Value
from ..ir.build import constant
from ..ir.weights import once
from ..limits import current
from ..ops.evaluate import only_result
from ..ops.shape import permutation

if TYPE_CHECKING:
    from .sweep import Sweep


def only_moves_ones(dims: tuple[int, ...], perm: tuple[int, ...]) -> bool:
    """Whether a transpose keeps the order of the data, because it moves extents of 1 only."""
    kept = [p for p in perm if dims[p] != 1]
    return kept == sorted(kept)


def turned_quant(quant: Quantization | None, perm: tuple[int, ...]) -> Quantization | None:
    """The quantization of a transposed value."""
    if quant is None or quant.axis is None:
        return quant
    return Quantization(quant.scale, quant.zero_point, perm.index(quant.axis))


def turned_data(data: np.ndarray, perm: tuple[int, ...]) -> np.ndarray:
    """The array transposed, in memory of its own."""
    return once(_transposed, data, perm)


def _transposed(data: np.ndarray, perm: tuple[int, ...]) -> np.ndarray:
    return np.ascontiguousarray(data.transpose(perm))


def turn(state: Sweep, like: Node, x: Value, perm: tuple[int, ...]) -> Value:
    """transpose(x, perm) in its simplest form, written for the node `like`."""
    before = state.maker.get(x)
    if before is not None and before.op == "transpose":
        first = permutation(before)
        perm, x = tuple(first[p] for p in perm), before.x
    dims = x.type.dims
    turned = tuple(dims[p] for p in perm)
    if x.data is not None:
        if (x, perm) not in state.turned:
            data = turned_data(x.data, perm)
            state.turned[x, perm] = constant(x, data, "turned", turned_quant(x.type.quant, perm))
        return state.turned[x, perm]
    if perm == tuple(range(len(perm))):
        return x
    if only_moves_ones(dims, perm):
        return shaped(state, like, x, turned)
    return state.add("transpose", [x], x.type.with_shape(turned), like, perm=perm)


def shaped(state: Sweep, like: Node, x: Value, dims: tuple[int, ...]) -> Value:
    """reshape(x, dims) in its simplest form, written for the node `like`."""
    before = state.maker.get(x)
    if before is not None and before.op == "reshape":
        x = before.x
    if x.data is not None:
        return constant(x, x.data.reshape(dims), "reshaped", x.type.quant)
    if x.type.shape == dims:
        return x
    shape = constant(like.out, np.array(dims, np.int64), "shape")
    return state.add("reshape", [x, shape], x.type.with_shape(dims), like, allowzero=1)


def cast(state: Sweep, node: Node, value: Value, dtype: np.dtype) -> Value:
    """The value in another element type, at once where it is constant."""
    if value.type.dtype == dtype:
        return value
    if value.data is not None:
        return constant(value, once(_converted, value.data, dtype), dtype.name)
    return state.add("cast", [value], TensorType(dtype, value.type.shape), node, to=dtype.name)


def _converted(data: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return data.astype(dtype)


def requantized(state: Sweep, value: Value, type_: TensorType, like: Node) -> Value:
    """`value` in another type: a node, or for a constant its numbers."""
    if value.data is None:
        return state.add("requantize", [value], type_, like)
    out = Value(f"{value.name}.requantized", type_)
    current().hold(type_.nbytes, out.name)
    node = Node("requantize", [value], [out])
    return Value.constant(out.name, once(only_result, node, (value.data,)), type_.quant)
