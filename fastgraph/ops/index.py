"""Taking tensors apart and joining them: slice, pad, concat, split, gather, top_k. Semantics: ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir import INT64, Dim, Node, Shape, TensorType
from . import check
from .inference import Types, axes_of, axis_of, ints, join, length, shown, whole
from .registry import REQUIRED, Layout, attr, define, fail


def slices(node: Node, rank: int, starts: Any, ends: Any, axes: Any, steps: Any) -> dict[int, slice]:
    """Axis -> Python slice, to be clamped by `slice_range`. An axis may be cut only once."""
    first, last = ints(starts), ints(ends)
    where = axes_of(node, range(len(first)) if axes is None else ints(axes), rank)
    by = [1] * len(first) if steps is None else ints(steps)
    if not len(first) == len(last) == len(where) == len(by):
        fail(node, f"starts, ends, axes, steps differ in length: {[*map(len, (first, last, where, by))]}")
    if 0 in by:
        fail(node, "steps must not be 0")
    return {a: slice(s, e, b) for a, s, e, b in zip(where, first, last, by, strict=True)}


def slice_range(cut: slice, extent: int) -> range:
    """The indices that a slice reads of an axis: Python's, but a start before the axis is clamped to its first element,
    as ONNX has it."""
    start = max(cut.start, -extent) if cut.step < 0 else cut.start
    return range(*slice(start, cut.stop, cut.step).indices(extent))


@check.takes("x, starts iu 1, ends iu 1, axes? iu 1, steps? iu 1")
def _infer_slice(node: Node, types: Types) -> list[TensorType]:
    x = types[0]
    for t, what in zip(types[1:], ("starts", "ends", "axes", "steps"), strict=True):
        check.shape(node, t, what, length(types[1]))
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    given = [node.const(i) for i in range(1, 5)]
    if any(t is not None and c is None for t, c in zip(types[1:], given, strict=True)):
        return [TensorType(x.dtype, _unknown_slice(node, x.shape, types[1], types[3], given[2]))]
    out: list[Dim] = list(x.shape)
    for axis, cut in slices(node, len(x.shape), *given).items():
        extent = out[axis]
        if isinstance(extent, int):
            out[axis] = len(slice_range(cut, extent))
        elif not (cut.start == 0 and cut.stop >= 2**31 - 1 and cut.step == 1):
            out[axis] = None
    return [TensorType(x.dtype, tuple(out))]


def _unknown_slice(node: Node, shape: Shape, starts: TensorType, axes_type: Any, axes: Any) -> Shape:
    """The shape of a slice whose starts or ends are not known: only extents of axes that are surely not cut stay."""
    cut = axes_of(node, ints(axes), len(shape)) if axes is not None else None
    if cut is None and axes_type is None:
        n = length(starts)
        cut = None if n is None else tuple(range(n))
    return tuple(d if cut is not None and i not in cut else None for i, d in enumerate(shape))


def slice_index(node: Node, dims: Sequence[int], *cuts: Any) -> tuple[slice, ...]:
    """The NumPy index for starts, ends, axes and steps."""
    index = [slice(None)] * len(dims)
    for axis, cut in slices(node, len(dims), *cuts).items():
        taken = slice_range(cut, dims[axis])
        stop = taken.stop if taken.stop >= 0 else None
        index[axis] = slice(taken.start, stop, taken.step) if taken else slice(0, 0)
    return tuple(index)


def _slice(node: Node, inputs: list[Any]) -> list[Any]:
    x, *cuts = inputs
    return [x[slice_index(node, x.shape, *cuts)]]


PAD_MODES = ("constant", "reflect", "symmetric", "edge", "wrap")


def pad_amounts(node: Node, rank: int, pads: Any, axes: Any) -> list[tuple[int, int]]:
    """(before, after) of every axis; negative numbers crop."""
    where = tuple(range(rank)) if axes is None else axes_of(node, ints(axes), rank)
    amounts = ints(pads)
    if len(amounts) != 2 * len(where):
        fail(node, f"pads must have {2 * len(where)} numbers (befores, then afters), found {amounts}")
    found = [(0, 0)] * rank
    for i, axis in enumerate(where):
        found[axis] = (amounts[i], amounts[len(where) + i])
    return found


@check.takes("x, pads iu 1, constant? one, axes? iu 1")
def _infer_pad(node: Node, types: Types) -> list[TensorType]:
    x, mode = types[0], attr(node, "mode")
    check.one_of(node, "mode", mode, PAD_MODES)
    check.one_dtype(node, [x, types[2]])
    pads, axes = node.const(1), node.const(3)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    if pads is None or (types[3] is not None and axes is None):
        return [TensorType(x.dtype, (None,) * len(x.shape))]
    amounts = pad_amounts(node, len(x.shape), pads, axes)
    pairs = list(zip(x.shape, amounts, strict=True))
    out = tuple(d if p == (0, 0) else d + sum(p) if isinstance(d, int) else None for d, p in pairs)
    for d, (before, after) in pairs:
        if isinstance(d, int):
            _check_growth(node, d, before, after)
    return [TensorType(x.dtype, out)]


def _check_growth(node: Node, extent: int, before: int, after: int) -> None:
    """ModelError when pads crop more than there is, or repeat elements that do not exist."""
    left, mode = extent - max(-before, 0) - max(-after, 0), attr(node, "mode")
    if left < 0:
        fail(node, f"pads {before} and {after} crop more than the extent {extent}")
    grown = max(before, after)
    if grown <= 0 or mode == "constant":
        return
    if not left:
        fail(node, f"mode {mode} has nothing to repeat along an empty axis")
    if mode in ("reflect", "symmetric") and grown > left - (mode == "reflect"):
        fail(node, f"mode {mode} can't pad an extent of {left} by {grown}")


def _pad(node: Node, inputs: list[Any]) -> list[Any]:
    x, pads, value, axes = inputs
    amounts = pad_amounts(node, x.ndim, pads, axes)
    crop = tuple(slice(max(-b, 0), n - max(-e, 0)) for n, (b, e) in zip(x.shape, amounts, strict=True))
    grow = [(max(b, 0), max(e, 0)) for b, e in amounts]
    mode = attr(node, "mode")
    if mode != "constant":
        return [np.pad(x[crop], grow, mode=mode)]
    fill = x.dtype.type(0) if value is None else np.asarray(value).reshape(-1)[0]
    return [np.pad(x[crop], grow, constant_values=fill)]


def _infer_concat(node: Node, types: Types) -> list[TensorType]:
    dtype = check.one_dtype(node, types)
    shapes = [t.shape for t in types if t.shape is not None]
    if not shapes:
        return [TensorType(dtype, None)]
    rank = len(shapes[0])
    axis = axis_of(node, attr(node, "axis"), rank)
    out: list[Dim] = list(shapes[0])
    for shape in shapes[1:]:
        if len(shape) != rank:
            fail(node, f"inputs must have one rank, found {shown(shapes[0])} and {shown(shape)}")
        out = [d if i == axis else join(node, d, e) for i, (d, e) in enumerate(zip(out, shape, strict=True))]
    along = [s[axis] for s in shapes]
    whole = len(shapes) == len(types) and all(isinstance(d, int) for d in along)
    out[axis] = sum(d for d in along if isinstance(d, int)) if whole else along[0] if len(types) == 1 else None
    return [TensorType(dtype, tuple(out))]


def _concat(node: Node, inputs: list[Any]) -> list[Any]:
    return [np.concatenate(inputs, attr(node, "axis"))]


def split_sizes(node: Node, extent: Dim, sizes: Any, count: int) -> list[Dim]:
    """The extents of the parts: as given, or `count` equal ones of which the last may be smaller."""
    if sizes is not None:
        parts = ints(sizes)
        if len(parts) != count or min(parts, default=0) < 0 or (isinstance(extent, int) and sum(parts) != extent):
            fail(node, f"split {parts} must be {count} numbers that add up to the extent {extent}")
        return list(parts)
    if attr(node, "num_outputs") not in (None, count):
        fail(node, f"num_outputs {attr(node, 'num_outputs')} but {count} outputs")
    if not isinstance(extent, int):
        return [None] * count
    if attr(node, "num_outputs") is None and extent % count:
        fail(node, f"the extent {extent} does not divide into {count} equal parts")
    part = -(-extent // count)
    if part * (count - 1) > extent:
        fail(node, f"the extent {extent} does not divide into {count} parts of {part}, the last one smaller")
    return [max(min(part, extent - i * part), 0) for i in range(count)]


@check.takes("x, split? iu 1")
def _infer_split(node: Node, types: Types) -> list[TensorType]:
    x, count = types[0], len(node.outputs)
    check.shape(node, types[1], "split", count)
    if types[1] is not None and attr(node, "num_outputs") is not None:
        fail(node, "has both split and num_outputs")
    if x.shape is None:
        return [TensorType(x.dtype, None)] * count
    axis = axis_of(node, attr(node, "axis"), len(x.shape))
    unknown = types[1] is not None and node.const(1) is None
    parts: list[Dim] = [None] * count if unknown else split_sizes(node, x.shape[axis], node.const(1), count)
    return [TensorType(x.dtype, (*x.shape[:axis], n, *x.shape[axis + 1 :])) for n in parts]


def _split(node: Node, inputs: list[Any]) -> list[Any]:
    x, axis = inputs[0], attr(node, "axis")
    sizes = split_sizes(node, x.shape[axis], inputs[1], len(node.outputs))
    return np.split(x, np.cumsum(np.asarray(sizes, np.int64))[:-1], axis)


@check.takes("x, indices iu")
def _infer_gather(node: Node, types: Types) -> list[TensorType]:
    x, indices = types[0].shape, types[1].shape
    if x is None:
        return [TensorType(types[0].dtype, None)]
    axis = axis_of(node, attr(node, "axis"), len(x))
    check.indices(node, x[axis], node.const(1))
    return [TensorType(types[0].dtype, None if indices is None else (*x[:axis], *indices, *x[axis + 1 :]))]


def _gather(node: Node, inputs: list[Any]) -> list[Any]:
    x, indices = inputs
    return [np.asarray(np.take(x, indices, attr(node, "axis")), x.dtype)]  # an element of an array of objects is none


@check.takes("x iuf, k iu one, count? iu one")
def _infer_top_k(node: Node, types: Types) -> list[TensorType]:
    x, count = types[0], whole(node, 1)
    count = count if attr(node, "most") is None else attr(node, "most")
    if x.shape is None:
        return [TensorType(x.dtype, None), TensorType(INT64, None)]
    axis = axis_of(node, attr(node, "axis"), len(x.shape))
    extent = x.shape[axis]
    if count is not None and (count < 0 or (isinstance(extent, int) and count > extent)):
        fail(node, f"k {count} must be from 0 to the extent {extent}")
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return [TensorType(x.dtype, shape), TensorType(INT64, shape)]


def _top_k(node: Node, inputs: list[Any]) -> list[Any]:
    """The k greatest (or least), sorted; of equal ones the lower index first.

    Input 2 is the number of real elements along the axis. The attribute `most`, where given, is the extent of the
    result in every run; zeros fill it up.
    """
    x, axis, k, most = inputs[0], attr(node, "axis"), ints(inputs[1])[0], attr(node, "most")
    if inputs[2] is not None:
        x = np.take(x, range(min(max(ints(inputs[2])[0], 0), x.shape[axis])), axis)
        most = k if most is None else most
    k = k if most is None else max(min(k, most, x.shape[axis]), 0)
    if attr(node, "largest"):
        back = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        order = x.shape[axis] - 1 - np.flip(back, axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    best = np.take(order, range(k), axis)
    found = [np.take_along_axis(x, best, axis), best.astype(np.int64)]
    if most is None:
        return found
    return [np.pad(v, [(0, most - k if a == axis % v.ndim else 0) for a in range(v.ndim)]) for v in found]


define("slice", _infer_slice, _slice, moves=True, shaped_by=(1, 2, 3, 4))
define("pad", _infer_pad, _pad, attrs={"mode": "constant"}, moves=True, shaped_by=(1, 3))
define("concat", _infer_concat, _concat, inputs=(1, None), attrs={"axis": REQUIRED}, moves=True)
define(
    "split", _infer_split, _split, attrs={"axis": 0, "num_outputs": None},
    moves=True, layout=Layout.AXIS, shaped_by=(1,),
)  # fmt: skip
define("gather", _infer_gather, _gather, attrs={"axis": 0}, moves=True)
_TOP_K = {"axis": -1, "largest": 1, "sorted": 1, "most": None}
define("top_k", _infer_top_k, _top_k, attrs=_TOP_K, layout=Layout.AXIS, shaped_by=(1,))
