"""Rows brought together: sums, products and extremes over segments. Semantics: TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Node, TensorType
from ..ops import check
from ..ops.inference import Types, ints, whole
from ..ops.registry import REQUIRED, attr, define, fail


def _start(kind: str, dtype: np.dtype) -> Any:
    """The content of an empty segment."""
    if kind in ("sum", "prod"):
        return int(kind == "prod")
    if dtype.kind == "f":
        limits: Any = np.finfo(dtype)
    else:
        limits = np.iinfo(dtype)
    return limits.min if kind == "max" else limits.max


STEPS: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


@check.takes("data iuf, segment_ids iu, segments? iu one")
def _infer_segments(node: Node, types: Types) -> list[TensorType]:
    x, ids, count = types
    check.one_of(node, "reduction", attr(node, "reduction"), STEPS)
    check.operand(node, ids, f"segment_ids {1 if count is None else '0+'}")
    if x.shape is None or ids.shape is None:
        return [TensorType(x.dtype, None)]
    if len(ids.shape) > len(x.shape):
        fail(node, f"segment ids of rank {len(ids.shape)} do not fit data of rank {len(x.shape)}")
    check.shape(node, TensorType(None, x.shape[: len(ids.shape)]), "the rows of data", *ids.shape)
    given, known = whole(node, 2), node.const(1)
    check.at_least(node, "the number of segments", given or 0, 0)
    rows = given
    if known is not None:
        _check_ids(node, known, count is None, given)
        rows = given if count is not None else int(known[-1]) + 1 if known.size else 0
    return [TensorType(x.dtype, (rows, *x.shape[len(ids.shape) :]))]


def _check_ids(node: Node, ids: np.ndarray, ascend: bool, rows: int | None) -> None:
    if ascend and ids.size and (ids[0] < 0 or (np.diff(ids) < 0).any()):
        fail(node, f"segment ids must not be negative and must ascend, found {ids.tolist()[:20]}")
    if rows is not None and ids.size and ids.max() >= rows:
        fail(node, f"segment id {ids.max()} is outside {rows} segments")


def _segments(node: Node, inputs: list[Any]) -> list[Any]:
    """Row i of the result reduces the rows of x whose id is i; negative ids are left out.

    Without a count there are as many as the last id says, and ids ascend.
    """
    x, ids, count = inputs
    rows = (int(ids[-1]) + 1 if ids.size else 0) if count is None else ints(count)[0]
    kind, flat = attr(node, "reduction"), ids.reshape(-1)
    y = np.full((rows, *x.shape[ids.ndim :]), _start(kind, x.dtype), x.dtype)
    STEPS[kind].at(y, flat[flat >= 0], x.reshape(flat.size, *x.shape[ids.ndim :])[flat >= 0])
    return [y]


define("segment_reduce", _infer_segments, _segments, attrs={"reduction": REQUIRED}, shaped_by=(2,))
