"""Operators that ask for, or change, shapes: reshape, transpose, squeeze, expand ... Semantics: ONNX."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ..ir import INT64, Dim, Node, Shape, TensorType
from . import check
from .inference import Types, axes_of, broadcast, ints, length, product, shown, unknown_dims
from .registry import REQUIRED, Layout, attr, define, fail


def permutation(node: Node, rank: int | None = None) -> tuple[int, ...]:
    """A transpose's `perm` as numbers: None reverses, "to_last" moves axis 1 to the end, "to_first" back.

    `rank`: the operand's, unless told that of its concrete type.
    """
    perm, rank = attr(node, "perm"), len(node.x.type.dims) if rank is None else rank
    if perm is None:
        return tuple(reversed(range(rank)))
    if perm in ("to_last", "to_first"):
        if rank < 2:
            fail(node, f"perm {perm} needs rank 2 or more, found {rank}")
        return (0, *range(2, rank), 1) if perm == "to_last" else (0, rank - 1, *range(1, rank - 1))
    perm = tuple(perm)
    if not _permutes(perm, rank):
        fail(node, f"perm {perm} does not permute the axes of a tensor of rank {rank}")
    return perm


@lru_cache(4096)
def _permutes(perm: tuple[int, ...], rank: int) -> bool:
    return sorted(perm) == list(range(rank))


def _infer_transpose(node: Node, types: Types) -> list[TensorType]:
    shape = types[0].shape
    if shape is None:
        perm = attr(node, "perm")
        return [TensorType(types[0].dtype, (None,) * len(perm) if isinstance(perm, tuple | list) else None)]
    return [TensorType(types[0].dtype, tuple(shape[i] for i in permutation(node, len(shape))))]


def _transpose(node: Node, inputs: list[Any]) -> list[Any]:
    return [np.asarray(inputs[0].transpose(permutation(node, inputs[0].ndim)), order="C")]


def reshaped(node: Node, shape: Shape | None, target: list[int]) -> Shape:
    """The shape that `target` asks for: 0 keeps the extent (unless allowzero), one -1 takes what is left."""
    allow_zero = attr(node, "allowzero")
    if target.count(-1) > 1 or min(target, default=0) < -1 or (allow_zero and -1 in target and 0 in target):
        fail(node, f"shape {target} is not allowed: at most one -1, no other negative number")
    out: list[Dim] = list(target)
    left: list[Dim] | None = None if shape is None else list(shape)
    if not allow_zero:
        for i in (i for i, n in enumerate(target) if n == 0):
            if shape is not None and i >= len(shape):
                fail(node, f"shape {target} keeps extent {i}, which {shown(shape)} does not have")
            out[i] = None if shape is None else shape[i]
            if left is not None:
                left.remove(shape[i])  # type: ignore[index]
    if -1 in target:
        given = math.prod(n for n in target if n > 0)
        out[target.index(-1)] = _remainder(node, shape, left, given, target)
    wanted, found = product(out), None if shape is None else product(shape)
    if wanted is not None and found is not None and wanted != found:
        fail(node, f"cannot reshape {shown(shape)} to {target}")
    return tuple(out)


def _remainder(node: Node, shape: Shape | None, left: list[Dim] | None, given: int, target: list[int]) -> Dim:
    """The extent of -1: the product of the extents that are not kept over that of the given ones."""
    if left is None:
        return None
    numbers = math.prod(d for d in left if isinstance(d, int))
    symbols = [d for d in left if not isinstance(d, int)]
    if len(symbols) == 1 and numbers == given:
        return symbols[0]
    if symbols:
        return None
    if numbers % given:
        fail(node, f"cannot reshape {shown(shape)} to {target}: {numbers} elements do not divide by {given}")
    return numbers // given


@check.takes("x, shape iu 0-1")
def _infer_reshape(node: Node, types: Types) -> list[TensorType]:
    target = node.const(1)
    if target is None and length(types[1]) != 0:
        return [TensorType(types[0].dtype, unknown_dims(types[1]))]
    shape = reshaped(node, types[0].shape, [] if target is None else ints(target))
    return [TensorType(types[0].dtype, shape)]


def _reshape(node: Node, inputs: list[Any]) -> list[Any]:
    return [inputs[0].reshape(reshaped(node, inputs[0].shape, ints(inputs[1])))]


def _infer_flatten(node: Node, types: Types) -> list[TensorType]:
    shape = types[0].shape
    if shape is None:
        return [TensorType(types[0].dtype, (None, None))]
    axis = attr(node, "axis")
    if not -len(shape) <= axis <= len(shape):
        fail(node, f"axis {axis} does not exist in a tensor of rank {len(shape)}")
    axis = axis + len(shape) if axis < 0 else axis
    sides = [shape[:axis], shape[axis:]]
    return [TensorType(types[0].dtype, tuple(s[0] if len(s) == 1 else product(s) for s in sides))]


def _flatten(node: Node, inputs: list[Any]) -> list[Any]:
    x, axis = inputs[0], attr(node, "axis")
    axis = axis + x.ndim if axis < 0 else axis
    return [x.reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))]


@check.takes("x, axes? iu 0-1")
def _infer_squeeze(node: Node, types: Types) -> list[TensorType]:
    x, given = types[0], node.const(1)
    if x.shape is None or (types[1] is not None and given is None):
        return [TensorType(x.dtype, None)]
    if given is None:
        known = all(isinstance(d, int) for d in x.shape)
        return [TensorType(x.dtype, tuple(d for d in x.shape if d != 1) if known else None)]
    axes = axes_of(node, ints(given), len(x.shape))
    for axis in axes:
        if isinstance(x.shape[axis], int) and x.shape[axis] != 1:
            fail(node, f"axis {axis} of {shown(x.shape)} has more than one entry")
    return [TensorType(x.dtype, tuple(d for i, d in enumerate(x.shape) if i not in axes))]


def _squeeze(node: Node, inputs: list[Any]) -> list[Any]:
    x, axes = inputs
    return [np.squeeze(x, None if axes is None else axes_of(node, ints(axes), x.ndim))]


@check.takes("x, axes iu 0-1")
def _infer_unsqueeze(node: Node, types: Types) -> list[TensorType]:
    x, given = types[0], node.const(1)
    if x.shape is None or given is None:
        n = length(types[1])
        return [TensorType(x.dtype, None if x.shape is None or n is None else (None,) * (len(x.shape) + n))]
    rank = len(x.shape) + given.size
    axes, rest = axes_of(node, ints(given), rank), iter(x.shape)
    return [TensorType(x.dtype, tuple(1 if i in axes else next(rest) for i in range(rank)))]


def _unsqueeze(node: Node, inputs: list[Any]) -> list[Any]:
    x, axes = inputs
    return [np.expand_dims(x, axes_of(node, ints(axes), x.ndim + axes.size))]


@check.takes("x, shape iu 0-1")
def _infer_expand(node: Node, types: Types) -> list[TensorType]:
    x, target = types[0], node.const(1)
    shape = unknown_dims(types[1]) if target is None else tuple(ints(target))
    if target is None and shape is not None and x.shape is not None:
        return [TensorType(x.dtype, (None,) * max(len(shape), len(x.shape)))]
    return [TensorType(x.dtype, broadcast(node, [x.shape, shape]))]


def _expand(node: Node, inputs: list[Any]) -> list[Any]:
    x, target = inputs
    return [np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(ints(target)))).copy()]


@check.takes("x, repeats iu 1")
def _infer_tile(node: Node, types: Types) -> list[TensorType]:
    x, repeats = types[0], node.const(1)
    if x.shape is not None:
        check.shape(node, types[1], "repeats", len(x.shape))
    if x.shape is None or repeats is None:
        return [TensorType(x.dtype, unknown_dims(types[1]) if x.shape is None else (None,) * len(x.shape))]
    if min(ints(repeats), default=0) < 0:
        fail(node, f"repeats must not be negative, found {repeats.tolist()}")
    pairs = zip(x.shape, ints(repeats), strict=True)
    return [TensorType(x.dtype, tuple(d * n if isinstance(d, int) else d if n == 1 else None for d, n in pairs))]


def _span(node: Node, rank: int) -> slice:
    """The range of axes whose extents a shape node gives."""
    return slice(*slice(attr(node, "start"), attr(node, "end")).indices(rank)[:2])


def _infer_shape(node: Node, types: Types) -> list[TensorType]:
    shape = types[0].shape
    return [TensorType(INT64, (None,) if shape is None else (len(shape[_span(node, len(shape))]),))]


def _shape(node: Node, inputs: list[Any]) -> list[Any]:
    return [np.array(inputs[0].shape[_span(node, inputs[0].ndim)], np.int64)]


@check.takes("shape iu 0-1")
def _infer_constant_of_shape(node: Node, types: Types) -> list[TensorType]:
    value, shape = np.asarray(attr(node, "value")), node.const(0)
    return [TensorType(value.dtype, unknown_dims(types[0]) if shape is None else tuple(ints(shape)))]


def _constant_of_shape(node: Node, inputs: list[Any]) -> list[Any]:
    value = np.asarray(attr(node, "value"))
    return [np.full(ints(inputs[0]), value.reshape(-1)[0], value.dtype)]


def _infer_depth(node: Node, types: Types) -> list[TensorType]:
    """depth_to_space and space_to_depth of x [N, spatial..., C]."""
    block, shape = attr(node, "blocksize"), types[0].shape
    if not 1 <= block < 2**31:
        fail(node, f"blocksize must be positive, found {block}")
    check.one_of(node, "mode", attr(node, "mode"), ("DCR", "CRD"))
    if shape is None:
        return [TensorType(types[0].dtype, None)]
    if len(shape) < 3:
        fail(node, f"input must have rank 3 or more, found shape {shown(shape)}")
    area = block ** (len(shape) - 2)
    spread = node.op == "depth_to_space"
    spatial = [_scaled(node, d, block, spread) for d in shape[1:-1]]
    return [TensorType(types[0].dtype, (shape[0], *spatial, _scaled(node, shape[-1], area, not spread)))]


def _scaled(node: Node, extent: Dim, factor: int, up: bool) -> Dim:
    if not isinstance(extent, int):
        return extent if factor == 1 else None
    if not up and extent % factor:
        fail(node, f"extent {extent} does not divide by {factor}")
    return extent * factor if up else extent // factor


def _infer_size(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(INT64, ())]


_ORDER: dict[str, Any] = {"moves": True, "layout": Layout.ORDER, "shaped_by": (1,)}
define("transpose", _infer_transpose, _transpose, inputs=(1, 1), attrs={"perm": None}, moves=True)
define("reshape", _infer_reshape, _reshape, attrs={"allowzero": 0}, **_ORDER)
define("flatten", _infer_flatten, _flatten, inputs=(1, 1), attrs={"axis": 1}, moves=True, layout=Layout.ORDER)
define("squeeze", _infer_squeeze, _squeeze, **_ORDER)
define("unsqueeze", _infer_unsqueeze, _unsqueeze, **_ORDER)
define("expand", _infer_expand, _expand, moves=True, shaped_by=(1,))
define("tile", _infer_tile, lambda node, inputs: [np.tile(inputs[0], ints(inputs[1]))], moves=True, shaped_by=(1,))
define("shape", _infer_shape, _shape, inputs=(1, 1), attrs={"start": 0, "end": None})
define("size", _infer_size, lambda node, inputs: [np.array(inputs[0].size, np.int64)], inputs=(1, 1))
define(
    "constant_of_shape",
    _infer_constant_of_shape,
    _constant_of_shape,
    attrs={"value": np.zeros(1, np.float32)},
    shaped_by=(0,),
)
_DEPTH = {"blocksize": REQUIRED, "mode": "DCR"}
define("depth_to_space", _infer_depth, inputs=(1, 1), attrs=_DEPTH, moves=True)
define("space_to_depth", _infer_depth, inputs=(1, 1), attrs=_DEPTH, moves=True)
