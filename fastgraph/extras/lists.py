"""Lists of tensors of one shape, held as one tensor [length, element...]. Semantics: Core ML's MIL, list_*."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Node, TensorType
from ..ops import check
from ..ops.inference import Types, ints, whole
from ..ops.registry import REQUIRED, attr, define, fail

LONGEST = 1 << 24
"""No list grows longer: a greater index is taken for a mistake."""


@check.takes("length iu one")
def _infer_make(node: Node, types: Types) -> list[TensorType]:
    count = whole(node, 0)
    if count is not None and not 0 <= count <= LONGEST:
        fail(node, f"a list can't have {count} elements")
    count = None if attr(node, "grows") else count
    return [TensorType(np.dtype(attr(node, "dtype")), (count, *attr(node, "element")))]


@check.takes("items, indices iu 0-1, values")
def _infer_write(node: Node, types: Types) -> list[TensorType]:
    items, indices, values = types
    dtype = values.dtype if items.dtype is None else items.dtype
    if items.dtype is not None and values.dtype is not None and items.dtype != values.dtype:
        fail(node, f"a list of {items.dtype} can't take {values.dtype}")
    if values.shape is None or indices.shape is None:
        return [TensorType(dtype, None)]
    check.shape(node, TensorType(None, values.shape[: len(indices.shape)]), "the values' places", *indices.shape)
    element = values.shape[len(indices.shape) :]
    length = None if attr(node, "grows") or not items.shape else items.shape[0]
    return [TensorType(dtype, (length, *element))]


def _write(node: Node, inputs: list[Any]) -> list[Any]:
    """The list with `values` at `indices` (one, or a vector of them). One that `grows` has zeros in between.

    A list without any elements, because their shape was not known, takes the shape of the values.
    """
    items, indices, values = inputs
    at = indices.reshape(-1)
    parts = values.reshape(len(at), *values.shape[indices.ndim :])
    most = LONGEST if attr(node, "grows") else len(items)
    if at.size and not 0 <= int(at.min()) <= int(at.max()) < most:
        raise IndexError(f"index {int(at.min())} to {int(at.max())} is outside a list of {len(items)}")
    length = max(len(items), int(at.max(initial=-1)) + 1)
    if items.size and items.shape[1:] != parts.shape[1:]:
        fail(node, f"a list of {list(items.shape[1:])} can't take {list(parts.shape[1:])}")
    found = np.zeros((length, *parts.shape[1:]), parts.dtype)
    if items.size:
        found[: len(items)] = items
    found[at] = parts
    return [found]


define(
    "list_make",
    _infer_make,
    lambda node, inputs: [np.zeros((ints(inputs[0])[0], *attr(node, "element")), attr(node, "dtype"))],
    attrs={"element": REQUIRED, "dtype": REQUIRED, "grows": 0},
    shaped_by=(0,),
)
define("list_write", _infer_write, _write, attrs={"grows": 0})
