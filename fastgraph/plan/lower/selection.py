"""Comparisons, logic and selection on f32, bool and quantised operands; casts; extremes of bytes, and their places."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...ir import Node, Value
from ...ops.registry import attr
from .elementwise import reduced
from .quantized import per_tensor
from .quantized_elementwise import Chain, as_read, call, limits_of, operand, real, result
from .registry import Arg, Emit, lowers
from .walks import ELEMENTS, element, loops_of, walk

BOOL = np.dtype(np.bool_)
COMPARISONS = ("equal", "less", "less_or_equal", "greater", "greater_or_equal")
LOGIC = ("and", "or", "xor", "not")


def _compares(node: Node) -> bool:
    values = [v for v in node.inputs if v is not None]
    return all(map(operand, values)) and _gives(node, BOOL) and loops_of(None, node, values) is not None


def _logical(node: Node) -> bool:
    values = [v for v in node.inputs if v is not None]
    return all(map(_truth, values)) and _gives(node, BOOL) and loops_of(None, node, values) is not None


def _truth(value: Value) -> bool:
    return value.type.concrete and value.type.dtype == BOOL


def _gives(node: Node, dtype: np.dtype) -> bool:
    return node.out.type.concrete and node.out.type.dtype == dtype and node.out.type.size > 0


@lowers(*COMPARISONS, match=_compares, strided_in=True, strided_out=True)
@lowers(*LOGIC, match=_logical, strided_in=True, strided_out=True)
def truth(e: Emit, node: Node, _: Any) -> None:
    """1 or 0, from reals or from other truths."""
    chain = Chain()
    chain.step(node.op, *(real(chain, as_read(v)) for v in node.inputs if v is not None))
    call(e, node, chain, "type", (0, 0, 0))


def _selects(node: Node) -> bool:
    condition, *both = node.inputs
    if condition is None or not _truth(condition) or not all(v is not None and operand(v) for v in both):
        return False
    return result(node.out) and loops_of(None, node, [condition, *(v for v in both if v is not None)]) is not None


@lowers("where", match=_selects, strided_in=True, strided_out=True)
def where(e: Emit, node: Node, _: Any) -> None:
    chain = Chain()
    chosen = chain.step("where", *(real(chain, as_read(v)) for v in node.inputs if v is not None))
    if node.out.type.quant is not None:
        chain.step("mul", chosen, chain.number(1 / node.out.type.quant.scale[0]))
    call(e, node, chain, *limits_of(Node("where", [], node.outputs), np.inf))


# -- casts

CASTS = {**ELEMENTS, np.dtype(np.float64): "f64", np.dtype(np.int64): "i64", np.dtype(np.uint64): "u64",
         np.dtype(np.uint32): "u32", np.dtype(np.float16): "f16"}  # fmt: skip


def _casts(node: Node) -> bool:
    types = node.x.type, node.out.type
    if not all(t.concrete and t.dtype in CASTS and t.quant is None and t.size for t in types):
        return False
    # What NumPy makes of a float that the integer can't hold is the processor's choice, and ours may be another.
    x, out = types[0].dtype, types[1].dtype
    assert x is not None and out is not None
    narrow = x.kind == "f" and out.kind in "iu" and out not in (np.int32, np.int64)
    halves = np.float16 in (x, out) and np.float32 not in (x, out)
    return attr(node, "format") == "" and not narrow and not halves and loops_of(None, node, [node.x]) is not None


@lowers("cast", match=_casts, strided_in=True, strided_out=True)
def cast(e: Emit, node: Node, _: Any) -> None:
    x, out = node.x.type.dtype, node.out.type.dtype
    assert x is not None and out is not None
    walk(e, node, "cast", {"source": CASTS[x], "target": CASTS[out]}, [node.x])


# -- extremes and their places


def _reduces(node: Node) -> bool:
    x, out = node.x.type, node.out.type
    same = (x.dtype, x.quant) == (out.dtype, out.quant)
    stored = per_tensor(node.x, np.uint8, np.int8) if x.quant is not None else x.dtype in (BOOL, np.uint8, np.int8)
    plain = x.concrete and out.concrete and x.size > 0 and "chain" not in node.attrs
    return plain and same and stored and len(node.inputs) <= 2 and reduced(node) is not None


@lowers("reduce_max", "reduce_min", match=_reduces)
def reduce_bytes(e: Emit, node: Node, _: Any) -> None:
    """Bytes are compared as they are stored; bools give any and all."""
    shape = reduced(node)
    assert shape is not None
    outer, n, inner = shape
    args: dict[str, Arg] = {
        "y": e.address(node.out), "x": e.address(node.x), "outer": outer, "n": n, "inner": inner,
        "y_outer": inner, "x_outer": n * inner, "x_axis": inner,
    }  # fmt: skip
    kind = "s8" if node.x.type.dtype == np.int8 else "u8"
    e.kernel("reduce_bytes", {"op": node.op.removeprefix("reduce_"), "element": kind, "last": inner == 1}, args)


def _finds(node: Node) -> bool:
    x = node.x.type
    if not x.concrete or not x.dims or x.dtype not in (np.float32, np.uint8, np.int8) or not x.size:
        return False
    return not attr(node, "select_last_index") and _gives(node, np.dtype(np.int64))


@lowers("arg_max", "arg_min", match=_finds)
def arg_extreme(e: Emit, node: Node, _: Any) -> None:
    """The first of the largest (smallest) along an axis; a NaN is both."""
    dims, axis = node.x.type.dims, attr(node, "axis") % len(node.x.type.dims)
    outer, n, inner = prod(dims[:axis]), dims[axis], prod(dims[axis + 1 :])
    args: dict[str, Arg] = {
        "y": e.address(node.out), "x": e.address(node.x), "outer": outer, "n": n, "inner": inner,
        "x_outer": n * inner, "x_axis": inner,
    }  # fmt: skip
    params = {"least": node.op == "arg_min", "element": element(node.x), "last": inner == 1}
    e.kernel("arg_extreme", params, args)
