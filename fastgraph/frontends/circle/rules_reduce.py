"""Reductions over axes, positions of extremes, running sums, segments. Semantics: TFLite's kernels."""

from __future__ import annotations

from ...ir import TensorType
from ..core.common import BOOL, INT64, axis_in, ints
from .call import Call, Rule, rule
from .common import as_declared, known, matched, narrowed, same_dtype, vector, whole

REDUCTIONS = {
    "MEAN": "reduce_mean", "SUM": "reduce_sum", "REDUCE_PROD": "reduce_prod", "REDUCE_MAX": "reduce_max",
    "REDUCE_MIN": "reduce_min", "REDUCE_ANY": "reduce_max", "REDUCE_ALL": "reduce_min",
}  # fmt: skip
SEGMENTS = {
    "UNSORTED_SEGMENT_SUM": "sum", "UNSORTED_SEGMENT_PROD": "prod", "UNSORTED_SEGMENT_MAX": "max",
    "UNSORTED_SEGMENT_MIN": "min",
}  # fmt: skip


def _reduction(op: str) -> Rule:
    def translate(c: Call) -> None:
        c.count(2)
        same_dtype(c, c.x(), c.outputs[0])
        if c.op in ("REDUCE_ANY", "REDUCE_ALL") and c.x().type.dtype != BOOL:
            c.fail(f"expected bools, found {c.x().type}")
        axes = vector(c, 1)
        shape = c.x().type.shape
        if axes.data is not None and shape is not None:
            rank = len(shape)
            # TFLite lets an axis be named more than once; a scalar has axis 0 and -1, of one element.
            named = dict.fromkeys(axis_in(c, int(a), max(rank, 1)) for a in axes.data)
            axes = ints(c, [*named] if rank else [])
        c.write(op, [c.x(), axes], keepdims=int(c.options.keep_dims), noop_with_empty_axes=1)

    return translate


for _name, _op in REDUCTIONS.items():
    rule(_name)(_reduction(_op))


@rule("ARG_MAX", "ARG_MIN")
def _arg(c: Call) -> None:
    """The place of the first extreme along an axis."""
    c.count(2)
    axis = known(c, 1, "axes")
    if len(axis) != 1:
        c.fail(f"expected one axis, found {axis}")
    as_declared(c, 0, c.op.lower(), [c.x()], axis=axis[0], keepdims=0)


@rule("CUMSUM")
def _cumsum(c: Call) -> None:
    c.count(2)
    same_dtype(c, c.x(), c.outputs[0])
    whole(c, 1)
    c.write("cum_sum", exclusive=int(c.options.exclusive), reverse=int(c.options.reverse))


@rule("SEGMENT_SUM")
def _segment_sum(c: Call) -> None:
    c.count(2)
    same_dtype(c, c.x(), c.outputs[0])
    c.write("segment_reduce", [c.x(), whole(c, 1)], reduction="sum")


def _segments(reduction: str) -> Rule:
    def translate(c: Call) -> None:
        c.count(3)
        same_dtype(c, c.x(), c.outputs[0])
        c.write("segment_reduce", [c.x(), whole(c, 1), whole(c, 2)], reduction=reduction)

    return translate


for _name, _op in SEGMENTS.items():
    rule(_name)(_segments(_op))


@rule("TOPK_V2")
def _top_k(c: Call) -> None:
    """The k greatest along the last axis, sorted, and their places."""
    c.count(2, 2)
    values, places = c.outputs
    x = matched(c, c.x(), values, both=True)
    same_dtype(c, x, values)
    wide = c.fresh(TensorType(INT64))
    c.add("top_k", [x, vector(c, 1, "int16")], [values, wide], axis=-1)
    narrowed(c, wide, places)
