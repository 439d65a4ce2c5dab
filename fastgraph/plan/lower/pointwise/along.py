"""Operators along axes: reductions, arg max and arg min, running sums, softmax, normalizations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from ....freedoms import threshold
from ....ir import Node, TensorType, Value
from ....kernels.pointwise.rows import RUNS
from ....ops.reduce import reduced_axes
from ....ops.registry import attr
from ...quantized import f32_bits, per_tensor
from ..elements import number
from ..registry import Emit, Narrow, Slot, is_f32, last, lowers
from ..walk import table, walker

Axis = tuple[int, int, int]
"""(outer, n, inner): the number of elements before, along and after the kernel's axis."""


def axis(dims: Sequence[int], first: int, end: int) -> Axis:
    """The axes first..end of a tensor as one."""
    return prod(dims[:first]), prod(dims[first:end]), prod(dims[end:])


def is_wide(x: TensorType) -> bool:
    """Whether elements are numbers of 4 or 8 bytes that are not quantized."""
    return x.concrete and x.quant is None and x.dtype is not None and x.dtype.kind in "iuf" and x.dtype.itemsize >= 4


def element(value: Value) -> str:
    """The kernels' name of a value's element type."""
    return number(value.type.element)


def signed(value: Value) -> int:
    """The slot `signed` for the numbers of a value."""
    return int(value.type.dtype is not None and value.type.dtype.kind == "i")


def call_along(e: Emit, node: Node, kernel: str, params: Mapping[str, Any], along: Axis, **more: Slot) -> None:
    """Call a kernel whose record is AXIS, then `more`."""
    outer, n, inner = along
    args: dict[str, Slot] = {"y": node.out, "x": node.x, "outer": outer, "n": n, "inner": inner}
    e.kernel(kernel, params, args | more)


CHUNKS = range(8, 65)
"""How many parts of an axis may be reduced apart; shapes alone decide it, so that threads change no bits."""
CHUNKED = 1 << 16
"""Least bytes of x for which that pays."""

Chain = tuple[tuple[Any, ...], ...]
NO_WALK: dict[str, Slot] = {"walk": 0, "table": 0}

REDUCTIONS: dict[str, tuple[str, Chain]] = {
    "reduce_mean": ("sum", ()), "reduce_sum": ("sum", ()), "reduce_max": ("max", ()), "reduce_min": ("min", ()),
    "reduce_prod": ("prod", ()), "reduce_l1": ("sum_abs", ()), "reduce_l2": ("sum_square", (("sqrt", 0),)),
    "reduce_sum_square": ("sum_square", ()), "reduce_log_sum": ("sum", (("log", 0),)),
    "reduce_log_sum_exp": ("log_sum_exp", ()),
}  # fmt: skip
"""Operator -> the kernel's reduction and the chain that ends it."""


def reduced(node: Node) -> Axis | None:
    """The (outer, n, inner) of a reduction whose axes are known and adjacent, up to extents of 1; else None."""
    if node.has(1) and node.const(1) is None:
        return None
    dims = node.x.type.dims
    axes = reduced_axes(node, len(dims), node.const(1))
    if axes is None:
        return None
    chosen = [a for a in axes if dims[a] != 1]
    first, end = (min(chosen), max(chosen) + 1) if chosen else (0, 0)
    if any(dims[a] != 1 and a not in chosen for a in range(first, end)):
        return None
    return axis(dims, first, end)


def _reduces(node: Node) -> Axis | None:
    plain = all(v.type.concrete and v.type.dtype == np.float32 and v.type.size for v in (node.x, node.out))
    return reduced(node) if plain and len(node.inputs) <= 2 else None


def _narrow(e: Emit, node: Node, along: Axis) -> Narrow:
    """Sums are f32."""
    return Narrow(frozenset({0})) if REDUCTIONS[node.op][0] == "sum" else Narrow()


@lowers(*REDUCTIONS, match=_reduces, narrow=_narrow)
def reduce(e: Emit, node: Node, along: Axis) -> None:
    op, chain = REDUCTIONS[node.op]
    joined = join(chain, node.attrs.get("chain", ()))
    walk: dict[str, Slot] = {"walk": walker(e), "table": table(e, joined, [None])} if joined else NO_WALK
    divisor = f32_bits(along[1] if node.op == "reduce_mean" else 1)
    outer, n, inner = along
    kind, x = element(node.x), cast(Slot, node.x)
    if (count := _chunks(op, along)) > 1:
        x = e.scratch(4 * outer * count * inner)
        _call(e, node, (outer * count, n // count, inner), (kind, op), y=x, divisor=f32_bits(1), **NO_WALK)
        along, kind, op = (outer, count, inner), "f32", "sum" if op.startswith("sum") else op
    _call(e, node, along, (kind, op), x=x, divisor=divisor, **walk)


def _chunks(op: str, along: Axis) -> int:
    """How many parts of the axis are reduced apart, before their results are: threads share neighboring elements then,
    as they do in the steps before and after, and not the columns of all.
    """
    outer, n, inner = along
    if op == "log_sum_exp" or outer >= CHUNKS.start or 4 * outer * n * inner < threshold("reduced_large", CHUNKED):
        return 1
    return max((count for count in CHUNKS if n % count == 0 and n // count >= CHUNKS.start), default=1)


def _call(e: Emit, node: Node, along: Axis, of: tuple[str, str], **more: Slot) -> None:
    """Call the kernel; of: its element and operation."""
    call_along(e, node, "reduce", dict(zip(("element", "op"), of, strict=True)), along, signed=signed(node.x), **more)


def join(first: Chain, then: Chain) -> Chain:
    """The chain of one value that applies `first`, then `then`."""
    count = len(first)
    moved = ((s[0], *(o if isinstance(o, float) else o + count for o in s[1:])) for s in then)
    return (*first, *moved)


def _match_others(node: Node) -> Axis | None:
    x, out = node.x.type, node.out.type
    same = (x.dtype, x.quant) == (out.dtype, out.quant)
    if not x.concrete or not out.concrete or not x.size or not same or "chain" in node.attrs or len(node.inputs) > 2:
        return None
    stored = per_tensor(node.x, np.uint8, np.int8) if x.quant is not None else x.dtype in (np.bool_, np.uint8, np.int8)
    extremes = stored and node.op in ("reduce_max", "reduce_min")
    return reduced(node) if extremes or is_wide(x) and x.dtype != np.float32 else None


@lowers("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", match=_match_others)
def reduce_others(e: Emit, node: Node, along: Axis) -> None:
    """Reductions of other types: bytes are compared as stored numbers; bools give any and all."""
    _call(e, node, along, (element(node.x), REDUCTIONS[node.op][0]), divisor=0, **NO_WALK)


def _has_extremes(node: Node) -> Axis | None:
    x, out = node.x.type, node.out.type
    if not x.concrete or not x.dims or not x.size or not out.concrete or out.dtype != np.int64 or not out.size:
        return None
    if x.dtype not in (np.uint8, np.int8) and not is_wide(x):
        return None
    at = attr(node, "axis") % len(x.dims)
    return axis(x.dims, at, at + 1)


@lowers("arg_max", "arg_min", match=_has_extremes)
def arg_extreme(e: Emit, node: Node, along: Axis) -> None:
    """The first, or last, index of the greatest (least) element along an axis; NaN counts as both."""
    least, last = node.op == "arg_min", int(bool(attr(node, "select_last_index")))
    params = {"element": element(node.x)}
    call_along(e, node, "arg_extreme", params, along, signed=signed(node.x), least=int(least), last=last)


def _runs(node: Node) -> Axis | None:
    x, at = node.x.type, node.const(1)
    if not is_wide(x) or not node.out.type.concrete or not x.size or not x.dims or at is None:
        return None
    first = int(at.reshape(-1)[0]) % len(x.dims)
    return axis(x.dims, first, first + 1)


@lowers("cum_sum", "cum_prod", match=_runs)
def running(e: Emit, node: Node, along: Axis) -> None:
    flags: dict[str, Slot] = {name: int(attr(node, name)) for name in ("exclusive", "reverse")}
    call_along(e, node, "running", {"element": element(node.x)}, along, operation=RUNS.index(node.op[4:]), **flags)


def _is_soft(node: Node) -> Axis | None:
    dims = node.x.type.dims if is_f32(node) else ()
    if not dims or not node.out.type.size:
        return None
    at = node.attrs.get("axis", -1) % len(dims)
    return axis(dims, at, at + 1)


@lowers("softmax", "log_softmax", match=_is_soft)
def softmax(e: Emit, node: Node, along: Axis) -> None:
    call_along(e, node, "softmax", {"log": node.op == "log_softmax"}, along)


def _row(node: Node) -> int | None:
    """The length of a row: the last axis of x, or all its axes from `axis` on."""
    if not is_f32(node) or not node.x.type.size or len(node.outputs) > 1:
        return None
    dims = node.x.type.dims
    row = dims[attr(node, "axis") % len(dims) :]
    return prod(row) if all(v is None or _spread(v, row) for v in node.inputs[1:]) else None


def _spread(value: Value, row: tuple[int, ...]) -> bool:
    """Whether a value has a number for each element of a row."""
    dims = value.type.dims
    ahead = len(dims) - len(row)
    return ahead >= 0 and dims[ahead:] == row and set(dims[:ahead]) <= {1}


def _narrow_norm(e: Emit, node: Node, n: int) -> Narrow:
    """Means of f32, which residuals add up to; and results that layers multiply and no one adds."""
    return Narrow(gives=True, follows=True, late=True)


@lowers("layer_normalization", "rms_normalization", match=_row, strided_in=True, strided_out=True, narrow=_narrow_norm)
def norm(e: Emit, node: Node, n: int) -> None:
    x, scale, bias = node.x, node.y, node.input(2)
    whole = n == last(x)
    y_row, x_row = (v.type.itemsize * (e.stride(v) if whole else n) for v in (node.out, x))
    numbers = {"inverse": f32_bits(float(np.float32(1 / n))), "epsilon": f32_bits(attr(node, "epsilon"))}
    how = {
        "y_row": y_row,
        "x_row": x_row,
        **numbers,
        "rows": x.type.size // n,
        "n": n,
        "centered": node.op == "layer_normalization",
    }
    e.kernel("norm", {"out": element(node.out)}, {"y": node.out, "x": x, "scale": scale, "bias": bias, **how})
