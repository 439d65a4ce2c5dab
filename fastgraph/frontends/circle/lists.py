"""Lists of tensors, which TensorFlow's converter turns into tensors: an element anew is a concatenation of three parts.

Source: the converter's lowering of TensorListSetItem (tensorflow/compiler/mlir/lite/transforms).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir import Node, TensorType, Value
from ..core.common import INT64
from .call import Call
from .common import stored


def item_set(c: Call, inputs: Sequence[Value | None]) -> Value | None:
    """Given ``concat(slice(x, 0, [i, -1...]), y, slice(x, [i + 1, 0...], -1))`` with y of one row: the stored numbers
    of x with row i anew, which has x's shape, however open those of the slices are. None of other concatenations.
    """
    if len(inputs) != 3 or c.options.axis != 0:
        return None
    y = inputs[1]
    before, after = (_slice(c, inputs[i]) for i in (0, 2))
    if before is None or after is None or y is None or before[0] is not after[0]:
        return None
    (x, begin, size), (_, next_begin, rest) = before, after
    i, following = _leading(c, size, -1), _leading(c, next_begin, 0)
    if i is None or following is None or not _all(begin, 0) or not _all(rest, -1):
        return None
    added = c.scope.maker(following)
    if added is None or added.op != "add" or not _is_next(added, i):
        return None
    row = c.cast(c("reshape", i, c.vector(1, 1), allowzero=0), INT64)
    at = c("checked_indices", row, x, type=TensorType(INT64), axis=0)
    return c("scatter_nd", stored(c, x), at, stored(c, y), reduction="none")


def _slice(c: Call, value: Value | None) -> tuple[Value, Value, Value] | None:
    """(x, begin, size) of a part that is taken at a place known at run time only."""
    return None if value is None else c.scope.cut.get(value)


def _leading(c: Call, value: Value, others: int) -> Value | None:
    """The whole number that begins a vector, all others of which are `others`; None of any other vector."""
    node = c.scope.maker(value)
    while node is not None and node.op in ("cast", "reshape"):
        node = c.scope.maker(node.x)
    if node is None or node.op != "concat" or len(node.inputs) != 2 or not _all(node.inputs[1], others):
        return None
    row = c.scope.maker(node.x)
    return row.x if row is not None and row.op == "reshape" else None


def _all(value: Value | None, number: int) -> bool:
    return value is not None and value.data is not None and bool((value.data == number).all())


def _is_next(added: Node, i: Value) -> bool:
    """Whether an addition gives i + 1."""
    for one, other in (added.inputs, added.inputs[::-1]):
        if one is i and other is not None and other.data is not None and np.size(other.data) == 1 and _all(other, 1):
            return True
    return False
