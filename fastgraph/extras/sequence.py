"""Sequences (Python lists) and optionals (the value, or None): they live on the host. Semantics: ONNX."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..ir import BOOL, INT64, UNKNOWN, Node, TensorType
from ..ops import check
from ..ops.index import split_sizes
from ..ops.inference import Types, axis_of, ints, same_type
from ..ops.registry import REQUIRED, attr, define, fail


def _host(node: Node, types: Types) -> list[TensorType]:
    return [UNKNOWN]


def _infer_placed(node: Node, types: Types) -> list[TensorType]:
    check.operand(node, types[-1], "position iu one")
    return [UNKNOWN]


@check.takes("x, split? iu 0-1")
def _infer_split(node: Node, types: Types) -> list[TensorType]:
    x, sizes = types
    if x.shape is not None:
        axis_of(node, attr(node, "axis"), len(x.shape))
    if sizes is not None:
        given = node.const(1)
        if given is not None and given.ndim == 0 and given < 1:
            fail(node, f"split must be positive, found {given}")
    return [UNKNOWN]


@check.takes("x f 1-2")
def _infer_zipped(node: Node, types: Types) -> list[TensorType]:
    return [UNKNOWN]


def _zipped(node: Node, inputs: list[Any]) -> list[Any]:
    """For each row of scores, a dict of them by label."""
    labels = attr(node, "labels")
    rows = np.atleast_2d(inputs[0])
    if rows.shape[1] != len(labels):
        fail(node, f"expected {len(labels)} scores in a row, found {rows.shape[1]}")
    return [_by(labels)(rows.tolist())]


@lru_cache
def _by(labels: tuple[int | str, ...]) -> Callable[[list[list[float]]], list[dict[int | str, float]]]:
    """What makes a dict of each row: `[{label0: x0, label1: x1} for [x0, x1] in rows]`, in a third of the time of
    `dict(zip(labels, row))`.
    """
    items = ", ".join(f"label{i}: x{i}" for i in range(len(labels)))
    row = ", ".join(f"x{i}" for i in range(len(labels)))
    names = {f"label{i}": label for i, label in enumerate(labels)}
    made: Callable[[list[list[float]]], list[dict[int | str, float]]]
    # Labels come from a file: they are values of `names`, and never a part of what is evaluated.
    made = eval(f"lambda rows: [{{{items}}} for [{row}] in rows]", names)
    return made


def _place(node: Node, items: list[Any], position: Any, end: int) -> int:
    """A position of a sequence, negative from the back; `end` is the greatest allowed."""
    where = ints(position)[0]
    if not -len(items) <= where <= end:
        fail(node, f"position {where} is outside a sequence of {len(items)}")
    return where + len(items) if where < 0 else where


def _insert(node: Node, inputs: list[Any]) -> list[Any]:
    items, tensor, position = inputs
    at = len(items) if position is None else _place(node, items, position, len(items))
    return [[*items[:at], tensor, *items[at:]]]


def _erase(node: Node, inputs: list[Any]) -> list[Any]:
    items, position = inputs
    at = len(items) - 1 if position is None else _place(node, items, position, len(items) - 1)
    return [[*items[:at], *items[at + 1 :]]]


def _at(node: Node, inputs: list[Any]) -> list[Any]:
    items, position = inputs
    return [items[_place(node, items, position, len(items) - 1)]]


def _concat(node: Node, inputs: list[Any]) -> list[Any]:
    join = np.stack if attr(node, "new_axis") else np.concatenate
    return [join(inputs[0], axis=attr(node, "axis"))]


def _split(node: Node, inputs: list[Any]) -> list[Any]:
    """Parts along the axis: of given sizes, of one size (the last may be smaller), or of 1."""
    x, sizes = inputs
    axis = attr(node, "axis")
    extent = x.shape[axis]
    if sizes is None:
        parts = np.split(x, extent, axis) if extent else []
        return [parts if attr(node, "keepdims") else [np.squeeze(p, axis) for p in parts]]
    if np.ndim(sizes) == 0:
        return [np.split(x, range(int(sizes), extent, int(sizes)), axis)]
    extents = split_sizes(node, extent, sizes, np.size(sizes))
    return [np.split(x, np.cumsum(np.asarray(extents, np.int64))[:-1], axis)]


def _get_element(node: Node, inputs: list[Any]) -> list[Any]:
    if inputs[0] is None:
        fail(node, "the optional is empty")
    return [inputs[0]]


def _has_element(node: Node, inputs: list[Any]) -> list[Any]:
    return [np.array(inputs[0] is not None)]


def _copied(node: Node, inputs: list[Any]) -> list[Any]:
    return [inputs[0]]


define("sequence_construct", _host, lambda node, inputs: [list(inputs)], inputs=(0, None))
define("zip_map", _infer_zipped, _zipped, attrs={"labels": REQUIRED})
define("sequence_empty", _host, lambda node, inputs: [[]], inputs=(0, 0), attrs={"dtype": None})
define("sequence_insert", _infer_placed, _insert, inputs=(2, 3))
define("sequence_erase", _infer_placed, _erase, inputs=(1, 2))
define("sequence_at", _infer_placed, _at, inputs=(2, 2))
define(
    "sequence_length",
    lambda node, types: [TensorType(INT64, ())],
    lambda node, inputs: [np.array(len(inputs[0]), np.int64)],
    inputs=(1, 1),
)
define("concat_from_sequence", _host, _concat, inputs=(1, 1), attrs={"axis": 0, "new_axis": 0})
define("split_to_sequence", _infer_split, _split, attrs={"axis": 0, "keepdims": 1})
define("optional", _host, _copied, inputs=(0, 1), attrs={"type": None})
define("optional_get_element", same_type, _get_element, inputs=(1, 1))
define("optional_has_element", lambda node, types: [TensorType(BOOL, ())], _has_element, inputs=(0, 1))
