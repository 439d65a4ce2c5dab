"""Lists: one tensor each, whose axis 0 counts the elements. Semantics: .../ops/defs/iOS15/control_flow.py."""

from __future__ import annotations

import numpy as np

from ...ir import Value
from ..core.common import ints
from .call import Call, rule
from .common import reals


@rule("make_list")
def _make(c: Call) -> None:
    """Zeros. Extents of the elements that only a run knows (text) are 0 until something is written."""
    extents: list[int] = []
    for value in c.values("elem_shape"):
        extents += [int(n) if not isinstance(n, str) else 0 for n in reals(c, value).reshape(-1).tolist()]
    dtype = c.declared[0].held.dtype
    if dtype is None or any(n < 0 for n in extents):
        c.unsupported(f"of elements {c.declared[0]} {extents}")
    count = c.value("init_length") or c.const(np.int64(1))
    grows = int(c.known("dynamic_length", True))
    c.give(c.add("list_make", [count], element=tuple(extents), dtype=dtype, grows=grows))


@rule("list_length")
def _length(c: Call) -> None:
    count = c.add("shape", [c.x("ls")], start=0, end=1)
    c.finish("reshape", [count, ints(c, [])])


@rule("list_read")
def _read(c: Call) -> None:
    c.give(c.add("gather", [c.x("ls"), _index(c, "index")], type=c.outputs[0].type, axis=0))


@rule("list_gather")
def _gather(c: Call) -> None:
    c.give(c.add("gather", [c.x("ls"), _index(c, "indices")], type=c.outputs[0].type, axis=0))


@rule("list_write")
def _write(c: Call) -> None:
    _written(c, "index")


@rule("list_scatter")
def _scatter(c: Call) -> None:
    _written(c, "indices")


def _index(c: Call, key: str) -> Value:
    return c.add("checked_indices", [c.int64(c.x(key)), c.x("ls")], axis=0)


def _written(c: Call, key: str) -> None:
    """Lists grow unless their length is known here, which it is of those that were made so."""
    shape = c.x("ls").type.shape
    fixed = shape is not None and isinstance(shape[0], int)
    items = [c.x("ls"), c.int64(c.x(key)), c.x("value")]
    c.give(c.add("list_write", items, type=c.outputs[0].type, grows=int(not fixed)))
