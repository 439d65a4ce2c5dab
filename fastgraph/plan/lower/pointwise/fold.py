"""Along an axis, of whole numbers and floats of 4 and 8 bytes: sums, extremes and their places, running sums."""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....kernels.pointwise.rows import ARGS, FOLDS, RUNS
from ....ops.registry import attr
from ..registry import Arg, Emit, lowers
from .calls import Axis, axis
from .cast import number
from .reduce import reduced


def _wide(node: Node, f32: bool) -> bool:
    """Whether the kernels have the elements of the input, which are not quantized."""
    x, out = node.x.type, node.out.type
    if not x.concrete or not out.concrete or not x.size or x.quant is not None or x.dtype is None:
        return False
    return x.dtype.kind in "iuf" and x.dtype.itemsize >= 4 and (f32 or x.dtype != np.float32)


def _call(e: Emit, node: Node, kernel: str, along: Axis, operation: int, **more: Arg) -> None:
    outer, n, inner = along
    args: dict[str, Arg] = {"y": e.address(node.out), "x": e.address(node.x), "outer": outer, "n": n, "inner": inner}
    assert node.x.type.dtype is not None
    e.kernel(kernel, {"element": number(node.x.type.dtype)}, {**args, "operation": operation, **more})


def _unsigned(node: Node) -> str:
    return "_u" if node.x.type.dtype is not None and node.x.type.dtype.kind == "u" else ""


def _match_fold(node: Node) -> Axis | None:
    return reduced(node) if _wide(node, f32=False) and len(node.inputs) <= 2 and "chain" not in node.attrs else None


@lowers("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", match=_match_fold)
def fold(e: Emit, node: Node, along: Axis) -> None:
    name = node.op.removeprefix("reduce_")
    found = f"{name}{_unsigned(node)}"
    _call(e, node, "fold", along, FOLDS.index(found if found in FOLDS else name))


def _match_arg(node: Node) -> Axis | None:
    dims = node.x.type.dims if _wide(node, f32=bool(attr(node, "select_last_index"))) else ()
    at = attr(node, "axis")
    return axis(dims, at % len(dims), at % len(dims) + 1) if dims and node.out.type.dtype == np.int64 else None


@lowers("arg_max", "arg_min", match=_match_arg)
def place(e: Emit, node: Node, along: Axis) -> None:
    last = "_last" if attr(node, "select_last_index") else ""
    _call(e, node, "arg", along, ARGS.index(f"{node.op[4:]}{last}{_unsigned(node)}"))


def _match_running(node: Node) -> Axis | None:
    dims, at = node.x.type.dims if _wide(node, f32=True) else (), node.const(1)
    if not dims or at is None:
        return None
    first = int(at.reshape(-1)[0]) % len(dims)
    return axis(dims, first, first + 1)


@lowers("cum_sum", "cum_prod", match=_match_running)
def running(e: Emit, node: Node, along: Axis) -> None:
    flags: dict[str, Arg] = {name: int(attr(node, name)) for name in ("exclusive", "reverse")}
    _call(e, node, "running", along, RUNS.index(node.op[4:]), **flags)
