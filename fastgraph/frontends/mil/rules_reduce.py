"""Reductions over axes, places of extremes, running sums.

Semantics: coremltools/converters/mil/mil/ops/defs/{iOS15,iOS17}/reduction.py and iOS15/tensor_operation.py.
"""

from __future__ import annotations

from ..core.common import axis_in, ints
from .call import Call, Rule, rule
from .common import axes_in

REDUCTIONS = {
    "reduce_sum": "reduce_sum", "reduce_mean": "reduce_mean", "reduce_max": "reduce_max", "reduce_min": "reduce_min",
    "reduce_prod": "reduce_prod", "reduce_l1_norm": "reduce_l1", "reduce_l2_norm": "reduce_l2",
    "reduce_log_sum": "reduce_log_sum", "reduce_log_sum_exp": "reduce_log_sum_exp",
    "reduce_sum_square": "reduce_sum_square",
}  # fmt: skip


def _reduction(op: str) -> Rule:
    def translate(c: Call) -> None:
        """Over all axes where none are given."""
        x, axes = c.x(), c.ints("axes", None)
        kept = {"keepdims": int(bool(c.known("keep_dims", False)))}
        if axes is None:
            c.finish(op, [x], **kept, noop_with_empty_axes=0)
        else:
            axes = axes_in(c, axes, c.rank(x))
            c.finish(op, [x, ints(c, axes)], **kept, noop_with_empty_axes=1)

    return translate


for _name, _op in REDUCTIONS.items():
    rule(_name)(_reduction(_op))


def _extreme(op: str) -> Rule:
    def translate(c: Call) -> None:
        """The first place of the extreme; `output_dtype` is what the output is declared as."""
        axis = axis_in(c, int(c.known("axis", -1)), c.rank(c.x()))
        c.finish(op, [c.x()], axis=axis, keepdims=int(bool(c.known("keep_dims", False))))

    return translate


rule("reduce_argmax")(_extreme("arg_max"))
rule("reduce_argmin")(_extreme("arg_min"))


@rule("cumsum")
def cumsum(c: Call) -> None:
    axis = axis_in(c, int(c.known("axis", 0)), c.rank(c.x()))
    flags = {key: int(bool(c.known(key, False))) for key in ("exclusive", "reverse")}
    c.finish("cum_sum", [c.x(), ints(c, [axis])], **flags)
