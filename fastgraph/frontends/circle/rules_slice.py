"""Taking tensors apart and joining them: slices, pads, concat, split, windows. Semantics: TFLite's kernels."""

from __future__ import annotations

import numpy as np

from ...ir import TensorType, Value
from ..core.common import BOOL, FARTHEST, INT64, axis_in, ints
from .call import Call, rule
from .common import known, matched, moved, same_dtype, vector, whole
from .lists import item_set

NEAREST = np.iinfo(np.int64).min
REDUCTIONS = {"ADD": "add", "MUL": "mul", "MINIMUM": "min", "MAXIMUM": "max", "ALL": "and", "ANY": "or"}


@rule("SLICE")
def _slice(c: Call) -> None:
    """Inputs: x, begin, size; a size of -1 goes to the end."""
    c.count(3)
    begin, size = vector(c, 1), vector(c, 2)
    if begin.data is not None and size.data is not None:
        _check_slice(c, begin.data, size.data)
        ends = np.where(size.data == -1, FARTHEST, begin.data + np.maximum(size.data, 0))
        moved(c, "slice", [c.x(), begin, ints(c, ends)])
        return
    if size.data is not None and (size.data >= 0).all():
        axes = tuple(range(size.data.size))
        moved(c, "gather_slices", [c.x(), begin], offset_dims=axes, collapsed_dims=(), start_map=axes,
              index_vector_dim=0, slice_sizes=tuple(size.data.reshape(-1).tolist()), checked=1)  # fmt: skip
        return
    c.scope.cut[c.outputs[0]] = c.x(), begin, size
    rest = c.add("equal", [size, ints(c, [-1])], type=TensorType(BOOL))
    stop = c.add("add", [begin, size], type=TensorType(INT64))
    moved(c, "slice", [c.x(), begin, c.add("where", [rest, ints(c, [FARTHEST]), stop], type=TensorType(INT64))])


def _check_slice(c: Call, begin: np.ndarray, size: np.ndarray) -> None:
    shape = c.x().type.shape
    fits = begin.size == size.size and bool((begin >= 0).all() and (size >= -1).all())
    if fits and shape is not None:
        fits = len(shape) == begin.size and all(
            b + max(n, 0) <= d for b, n, d in zip(begin, size, shape, strict=True) if isinstance(d, int)
        )
    if not fits:
        c.fail(f"expected a part of {c.x().type}, found begin {begin.tolist()} and size {size.tolist()}")


@rule("STRIDED_SLICE")
def _strided_slice(c: Call) -> None:
    """Python's x[begin:end:step, ...]: bits of the masks say which entries are left out, new axes, single places ..."""
    c.count(4)
    o = c.options
    masks = {
        "begin_mask": o.begin_mask, "end_mask": o.end_mask, "ellipsis_mask": o.ellipsis_mask,
        "new_axis_mask": o.new_axis_mask, "shrink_axis_mask": o.shrink_axis_mask,
    }  # fmt: skip
    begin, end, steps = (vector(c, i) for i in (1, 2, 3))
    if o.offset:
        end = c.add("add", [begin, end], type=TensorType(INT64))
    moved(c, "strided_slice", [c.x(), begin, end, steps], **masks)


@rule("DYNAMIC_UPDATE_SLICE")
def _dynamic_update_slice(c: Call) -> None:
    """Inputs: x, what to write into it, and where; the place is moved so that all of it fits."""
    c.count(3)
    same_dtype(c, c.x(0), c.x(1))
    moved(c, "dynamic_update_slice", [c.x(0), c.x(1), vector(c, 2)])


@rule("PAD", "PADV2", "MIRROR_PAD")
def _pad(c: Call) -> None:
    """Paddings are a (before, after) of each axis; a pad without a value puts in what stands for 0."""
    c.count(3 if c.op == "PADV2" else (2, 3))
    mode = c.options.mode.lower() if c.op == "MIRROR_PAD" else "constant"
    value, x = c.input(2) if c.op == "PADV2" else None, c.x()
    # Of plain int8 LiteRT puts in plain zeros, whatever the result's zero point is.
    if value is None and mode == "constant" and (x.type.quant is not None or x.type.dtype != np.int8):
        x = matched(c, x, c.outputs[0], both=True)
    inputs = [x, _pads(c)]
    if value is not None:
        value = matched(c, value, x, both=True)
        same_dtype(c, value, x)
        inputs.append(value)
    moved(c, "pad", inputs, mode=mode)


def _pads(c: Call) -> Value:
    """All befores, then all afters."""
    pairs = whole(c, 1)
    if pairs.data is not None:
        if pairs.data.ndim != 2 or pairs.data.shape[1] != 2 or (pairs.data < 0).any():
            c.fail(f"expected paddings of shape [rank, 2] that are not negative, found {pairs.data.tolist()}")
        return ints(c, pairs.data.T.reshape(-1))
    columns = c.add("transpose", [pairs], type=pairs.type.with_shape(None), perm=(1, 0))
    flat = c.add("reshape", [columns, ints(c, [-1])], type=pairs.type.with_shape(None))
    return c.add("cast", [flat], type=TensorType(INT64), to=INT64)


@rule("CONCATENATION")
def _concatenation(c: Call) -> None:
    c.count((1, 1 << 20))
    if c.outputs[0].type.dtype == np.int16:  # of bytes LiteRT computes with scales that are not there
        c.inputs = [v if v is None else matched(c, v, c.outputs[0]) for v in c.inputs]
    same_dtype(c, *c.inputs, c.outputs[0])
    if c.options.fused_activation_function != "NONE":
        c.fail(f"expected no fused activation, found {c.options.fused_activation_function}")
    if not item_set(c):
        c.write("concat", axis=c.options.axis)


@rule("PACK")
def _pack(c: Call) -> None:
    """Inputs of one shape, side by side along a new axis."""
    c.count((1, 1 << 20))
    same_dtype(c, *c.inputs, c.outputs[0])
    if c.options.values_count != len(c.inputs):
        c.fail(f"expected {c.options.values_count} inputs as its values_count says, found {len(c.inputs)}")
    axis, values = c.options.axis, [c.x(i) for i in range(len(c.inputs))]
    lifted = [c.add("unsqueeze", [v, ints(c, [axis])], type=v.type.with_shape(None)) for v in values]
    c.write("concat", lifted, axis=axis)


@rule("UNPACK")
def _unpack(c: Call) -> None:
    c.count(1, (1, 1 << 20))
    x, axis, count = c.x(), c.options.axis, len(c.outputs)
    if c.options.num != count:
        c.fail(f"expected {c.options.num} outputs as its num says, found {count}")
    parts = [c.fresh(x.type.with_shape(None)) for _ in range(count)]
    c.add("split", [x, ints(c, [1] * count)], parts, axis=axis)
    for part, out in zip(parts, c.outputs, strict=True):
        moved(c, "squeeze", [part, ints(c, [axis])], [out])


@rule("SPLIT")
def _split(c: Call) -> None:
    """Inputs: axis, x. Equal parts."""
    c.count(2, (1, 1 << 20))
    (axis,), x, count = known(c, 0, "axes"), c.x(1), len(c.outputs)
    shape = x.type.shape
    if shape is not None:
        extent = shape[axis_in(c, axis, len(shape))]
        if isinstance(extent, int) and extent % count:
            c.fail(f"expected an axis that {count} parts divide, found extent {extent} on axis {axis}")
    moved(c, "split", [x], axis=axis)


@rule("SPLIT_V")
def _split_v(c: Call) -> None:
    """Inputs: x, sizes, axis. One size may be -1: what the others leave."""
    c.count(3, (1, 1 << 20))
    x, sizes, (axis,) = c.x(0), vector(c, 1), known(c, 2, "axes")
    if sizes.data is not None and (sizes.data == -1).any():
        shape = x.type.shape
        extent = None if shape is None else shape[axis_in(c, axis, len(shape))]
        if not isinstance(extent, int) or (sizes.data == -1).sum() > 1:
            c.unsupported(f"into sizes {sizes.data.tolist()} of an extent that is open")
        left = extent - int(sizes.data[sizes.data != -1].sum())
        sizes = ints(c, np.where(sizes.data == -1, left, sizes.data))
    moved(c, "split", [x, sizes], axis=axis)


@rule("REVERSE_V2")
def _reverse(c: Call) -> None:
    c.count(2)
    axes = vector(c, 1)
    count = None if axes.type.shape is None else axes.type.shape[0]
    if not isinstance(count, int):
        c.unsupported("along axes whose number the file leaves open")
    ends = [ints(c, [n] * count) for n in (-1, NEAREST, -1)]
    moved(c, "slice", [c.x(), ends[0], ends[1], axes, ends[2]])


@rule("DILATE")
def _dilate(c: Call) -> None:
    """Inputs: x, dilations of each axis, what goes between the elements."""
    c.count(3)
    same_dtype(c, c.x(0), c.x(2))
    gaps = [d - 1 for d in known(c, 1, "dilations")]
    zeros = (0,) * len(gaps)
    moved(c, "interior_pad", [c.x(0), c.x(2)], low=zeros, high=zeros, interior=tuple(gaps))


@rule("REDUCE_WINDOW")
def _reduce_window(c: Call) -> None:
    """Inputs: x, initial value, and extents, strides and dilations of windows over all axes."""
    c.count(5)
    same_dtype(c, c.x(0), c.x(1), c.outputs[0])
    kind = c.options.reduce_function
    if kind not in REDUCTIONS:
        c.fail(f"expected one of {', '.join(REDUCTIONS)} as its reduce function, found {kind}")
    window, strides, dilations = (tuple(known(c, i, "windows")) for i in (2, 3, 4))
    c.write(
        "reduce_window", c.inputs[:2], reduction=REDUCTIONS[kind], window=window, strides=strides, dilations=dilations
    )
