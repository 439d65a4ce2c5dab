"""Slices, reversals, paddings, bands of matrices, and tensors made of one number.

Semantics: coremltools/converters/mil/mil/ops/defs/{iOS15, iOS17, iOS18}/tensor_transformation.py,
{iOS15, iOS16}/tensor_operation.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from ..core.common import FARTHEST, axis_in, extents, ints, scalar
from .call import Call, rule
from .common import alike, axes_in

MASKS = {"begin_mask": "begin_mask", "end_mask": "end_mask", "squeeze_mask": "shrink_axis_mask"}


def _places(c: Call, rank: int) -> tuple[list[Value], dict[str, Any]]:
    """begin, end and steps of a slice as Python has it, and its masks as bits."""
    steps = c.ints("stride", None) or (1,) * rank
    if len(steps) != rank or 0 in steps:
        c.fail(f"expected its parameter 'stride' as {rank} numbers other than 0, found {list(steps)}")
    masks = {}
    for key, attribute in MASKS.items():
        bits = c.ints(key, None) or (0,) * rank
        if len(bits) != rank:
            c.fail(f"expected its parameter {key!r} as {rank} truth values, found {len(bits)}")
        masks[attribute] = sum(1 << i for i, bit in enumerate(bits) if bit)
    inputs = [c.int64(c.x("begin")), c.int64(c.x("end"))]
    for key, value in zip(("begin", "end"), inputs, strict=True):
        if value.type.shape not in ((rank,), (None,), None):
            c.fail(f"expected its parameter {key!r} as {rank} numbers, found {value.type}")
    return [*inputs, ints(c, steps)], masks


@rule("slice_by_index")
def slice_by_index(c: Call) -> None:
    x = c.x()
    inputs, masks = _places(c, c.rank(x))
    c.finish("strided_slice", [x, *inputs], **masks)


@rule("slice_update")
def slice_update(c: Call) -> None:
    """x with `update` written over what slice_by_index would take."""
    x, update = c.x(), c.x("update")
    inputs, masks = _places(c, c.rank(x))
    c.finish("slice_update", [*alike(c, x, update), *inputs], **masks)


@rule("slice_by_size")
def slice_by_size(c: Call) -> None:
    """From `begin` on, which counts from the end where it is negative, `size` elements; -1: all that follow."""
    x, begin, size = c.x(), c.int64(c.x("begin")), c.int64(c.x("size"))
    if begin.data is not None and size.data is not None:
        stops = begin.data + size.data
        stops[(size.data < 0) | ((begin.data < 0) & (stops >= 0))] = FARTHEST
        c.finish("slice", [x, begin, ints(c, stops), ints(c, range(c.rank(x)))])
        return
    zero, last = c.const(np.int64(0)), c.const(np.int64(FARTHEST))
    total = c.add("add", [begin, size])
    wraps = c.add("and", [c.add("less", [begin, zero]), c.add("greater_or_equal", [total, zero])])
    to_end = c.add("or", [c.add("less", [size, zero]), wraps])
    c.finish("slice", [x, begin, c.add("where", [to_end, last, total]), ints(c, range(c.rank(x)))])


@rule("reverse")
def reverse(c: Call) -> None:
    x = c.x()
    axes = axes_in(c, c.ints("axes", tuple(range(c.rank(x)))), c.rank(x))
    if not axes:
        c.give(x)
        return
    parts = ([-1] * len(axes), [-FARTHEST] * len(axes), axes, [-1] * len(axes))
    c.finish("slice", [x, *(ints(c, part) for part in parts)])


@rule("reverse_sequence")
def reverse_sequence(c: Call) -> None:
    """The first lengths[i] elements of row i are reversed."""
    rank = c.rank(c.x())
    time, batch = (axis_in(c, int(c.known(key, 0)), rank) for key in ("seq_axis", "batch_axis"))
    c.finish("reverse_sequence", [c.x(), c.int64(c.x("lengths"))], time_axis=time, batch_axis=batch)


@rule("pad")
def pad(c: Call) -> None:
    """`pad` has before and after of each of the last axes."""
    x, pads = c.x(), c.int64(c.x("pad"))
    mode = c.text("mode", "constant", "reflect", "replicate", default="constant")
    rank = c.rank(x)
    count = 2 * rank if pads.data is None else pads.data.size
    if count % 2 or count > 2 * rank:
        c.fail(f"expected its parameter 'pad' as up to {rank} pairs, found {count} numbers")
    order = [*range(0, count, 2), *range(1, count, 2)]
    if pads.data is not None:
        pads = ints(c, pads.data.reshape(-1)[order])
    else:
        pads = c.add("gather", [pads, ints(c, order)], axis=0)
    fill = scalar(c, c.known("constant_val", 0), x) if mode == "constant" else None
    axes = ints(c, range(rank - count // 2, rank))
    c.finish("pad", [x, pads, fill, axes], mode="edge" if mode == "replicate" else mode)


@rule("band_part")
def band_part(c: Call) -> None:
    """Matrices with zeros outside a band around the diagonal; a negative number leaves its side whole."""
    y, lower, upper = c.x(), int(c.known("lower", -1)), int(c.known("upper", -1))
    if lower >= 0:
        y = c.add("trilu", [y, c.const(np.int64(-lower))], upper=1)
    if upper >= 0:
        y = c.add("trilu", [y, c.const(np.int64(upper))], upper=0)
    c.give(y)


def _filled(c: Call, shape: Value) -> None:
    dtype = c.declared[0].held.dtype
    c.finish("expand", [c.const(np.asarray(c.known("value", 0.0)).astype(dtype)), shape])


@rule("fill")
def fill(c: Call) -> None:
    _filled(c, c.int64(c.x("shape")))


@rule("fill_like")
def fill_like(c: Call) -> None:
    _filled(c, extents(c, c.x("ref_tensor")))


@rule("range_1d")
def range_1d(c: Call) -> None:
    c.finish("range", alike(c, c.x("start"), c.x("end"), c.x("step")))
