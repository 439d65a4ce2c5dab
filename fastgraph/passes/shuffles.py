"""Channels of a convolution in the order in which a transpose behind it wants them, as of a pixel shuffle."""

from __future__ import annotations

import numpy as np

from ..ir import Node, Quantization, Value
from ..ir.build import constant
from ..ir.weights import once
from ..ops.shape import permutation
from ..rules.rule import rule
from ..rules.sweep import Sweep, note


@rule("shuffles", "transpose", quantized=True)
def ordered_channels(g: Sweep, node: Node) -> bool:
    """Channels that a transpose takes apart are computed in its order, so that it moves as many as there are together.

    Given ``y = transpose(reshape(conv(x, w), n, h, w, c, 2, 2), 0, 1, 4, 2, 5, 3)``; result
    ``y = transpose(reshape(conv(x, w[order]), n, h, w, 2, 2, c), 0, 1, 3, 2, 4, 5)``.
    """
    split = g.sole_maker(node.x)
    layer = g.sole_maker(split.x) if split is not None and split.op == "reshape" else None
    if split is None or layer is None or layer.op != "conv" or layer.attrs["groups"] != 1 or not node.x.type.concrete:
        return False
    dims, parts = node.x.type.dims, node.x.type.dims[len(layer.out.type.dims) - 1 :]
    first = len(dims) - len(parts)
    perm = permutation(node)
    inner = [axis - first for axis in perm if axis >= first]
    if dims[:first] != layer.out.type.dims[:-1] or inner == sorted(inner) or not _by_channel(layer):
        return False
    order = np.arange(layer.out.type.dims[-1]).reshape(parts).transpose(inner).reshape(-1)
    g.drop(split)
    g.drop(layer)
    operands = [layer.x, *(_taken(value, order) for value in layer.inputs[1:3]), *layer.inputs[3:]]
    y = g("conv", *operands, type=layer.out.type, **layer.attrs)
    note(layer.out, y, lambda array: array[..., np.argsort(order)])
    places = [axis if axis < first else first + inner.index(axis - first) for axis in perm]
    return g.becomes(g.transpose(g.shape(y, *dims[:first], *(parts[i] for i in inner)), *places))


def _by_channel(layer: Node) -> bool:
    """Whether all operands behind x are constants, and a chain's are single numbers."""
    constants = all(value is None or value.data is not None for value in layer.inputs[1:])
    return constants and all(value is not None and value.type.size == 1 for value in layer.inputs[3:])


def _taken(value: Value | None, order: np.ndarray) -> Value | None:
    """A constant with the elements of its first axis in an order."""
    if value is None or value.data is None:
        return None
    quant = value.type.quant
    if quant is not None and quant.axis == 0:
        scales, zeros = (np.resize(spread, len(order))[order].tolist() for spread in quant[:2])
        quant = Quantization(tuple(scales), tuple(zeros), quant.axis)
    return constant(value, once(_rows, value.data, order), "ordered", quant)


def _rows(data: np.ndarray, order: np.ndarray) -> np.ndarray:
    return data[order]
