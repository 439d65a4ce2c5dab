"""Slices, reversals, paddings, bands of matrices, and tensors made of one number.

Semantics: coremltools/converters/mil/mil/ops/defs/{iOS15, iOS17, iOS18}/tensor_transformation.py,
{iOS15, iOS16}/tensor_operation.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import FLOAT32, Value
from ..core.common import FARTHEST, band, extents
from .call import Call
from .common import axes_in
from .signatures import Formulas, formulas, rule

MASKS = {"begin_mask": "begin_mask", "end_mask": "end_mask", "squeeze_mask": "shrink_axis_mask"}


def _sliced(c: Call, op: str, x: list[Value], begin: Value, end: Value) -> Value:
    """An operator that takes begin, end and steps of a slice as Python has it, and its masks as bits."""
    rank = c.rank(x[0])
    steps = c.ints("stride", None) or (1,) * rank
    if len(steps) != rank or 0 in steps:
        c.fail(f"expected its parameter 'stride' as {rank} numbers other than 0, found {list(steps)}")
    masks: dict[str, Any] = {}
    for key, attribute in MASKS.items():
        bits = c.ints(key, None) or (0,) * rank
        if len(bits) != rank:
            c.fail(f"expected its parameter {key!r} as {rank} truth values, found {len(bits)}")
        masks[attribute] = sum(1 << i for i, bit in enumerate(bits) if bit)
    for key, value in (("begin", begin), ("end", end)):
        if value.type.shape not in ((rank,), (None,), None):
            c.fail(f"expected its parameter {key!r} as {rank} numbers, found {value.type}")
    return c(op, *x, begin, end, c.vector(*steps), **masks)


@rule("slice_by_size: x begin:Int64 size:Int64")
def slice_by_size(c: Call, x: Value, begin: Value, size: Value) -> Value:
    """`size` elements (-1: all that follow) from `begin` on, which counts from the end where it is negative."""
    axes = range(c.rank(x))
    if begin.data is not None and size.data is not None:
        ends = begin.data + size.data
        ends[(size.data < 0) | ((begin.data < 0) & (ends >= 0))] = FARTHEST
        return c("slice", x, begin, c.vector(*ends), c.vector(*axes))
    end = begin + size
    to_end = (size < 0) | ((begin < 0) & (end >= 0))
    return c("slice", x, begin, c.choose(to_end, FARTHEST, end), c.vector(*axes))


@rule("reverse: x axes:Ints?")
def reverse(c: Call, x: Value, axes: tuple[int, ...] | None) -> Value:
    over = range(c.rank(x)) if axes is None else axes_in(c, axes, c.rank(x))
    back = [-1] * len(over)
    return c("slice", x, *(c.vector(*part) for part in (back, [-FARTHEST] * len(over), over, back))) if over else x


@rule("pad: x pad:Int64 mode:PadMode=constant constant_val:Any=0")
def pad(c: Call, x: Value, pad: Value, mode: str, constant_val: Any) -> Value:
    """`pad` has before and after of each of the last axes."""
    rank = c.rank(x)
    count = 2 * rank if pad.data is None else pad.data.size
    if count % 2 or count > 2 * rank:
        c.fail(f"expected its parameter 'pad' as up to {rank} pairs, found {count} numbers")
    order = np.array([*range(0, count, 2), *range(1, count, 2)])
    pads = c.pick(pad, order) if pad.data is None else c.number(pad.data.reshape(-1)[order])
    dtype = FLOAT32 if x.type.quant is not None or x.type.dtype is None else x.type.dtype
    fill = np.asarray(constant_val).astype(dtype) if mode == "constant" else None
    axes = c.vector(*range(rank - count // 2, rank))
    return c("pad", x, pads, fill, axes, mode=mode)


def _filled(c: Call, shape: Value, value: Any) -> Value:
    return c("expand", np.asarray(value).astype(c.declared[0].held.dtype), shape)


FORMULAS: Formulas = {
    "band_part: x lower:int=-1 upper:int=-1": band,
    "slice_by_index: x begin:Int64 end:Int64": lambda c, x, begin, end: _sliced(c, "strided_slice", [x], begin, end),
    # x with `update` written over what slice_by_index would take
    "slice_update: x:Alike update:Alike begin:Int64 end:Int64": lambda c, x, update, begin, end: _sliced(
        c, "slice_update", [x, update], begin, end
    ),
    "fill: shape:Int64 value:Any=0.0": _filled,
    "fill_like: ref_tensor value:Any=0.0": lambda c, x, value: _filled(c, extents(c, x), value),
}
formulas(FORMULAS)
