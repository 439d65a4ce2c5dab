"""Reductions over windows of any rank, and pads that also go between elements (or cut them off).

Semantics: StableHLO's reduce_window and pad; tflite/kernels/{reduce_window, dilate, stablehlo_pad,
stablehlo_reduce_window}.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir import Node, TensorType, Value
from ..ops import check
from ..ops.inference import Types
from ..ops.registry import REQUIRED, attr, define, fail
from ..ops.slices import REDUCTIONS
from ..ops.work import squares
from ..rules.rule import rule
from ..rules.sweep import Sweep


def _spread(extent: Any, low: int, high: int, interior: int) -> Any:
    """An extent after padding."""
    return max(extent, 0) + max(extent - 1, 0) * interior + low + high if isinstance(extent, int) else None


def _pads(node: Node, rank: int) -> list[tuple[int, int, int]]:
    parts = [tuple(attr(node, name)) for name in ("low", "high", "interior")]
    if any(len(part) != rank for part in parts):
        fail(node, f"low, high and interior must have {rank} numbers each, found {parts}")
    check.at_least(node, "interior", min(parts[2], default=0), 0)
    return list(zip(*parts, strict=True))


@check.takes("x, padding biufc one")
def _infer_pad(node: Node, types: Types) -> list[TensorType]:
    x = types[0]
    check.one_dtype(node, types)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    shape = [_spread(d, *p) for d, p in zip(x.shape, _pads(node, len(x.shape)), strict=True)]
    return [TensorType(x.dtype, tuple(max(d, 0) if isinstance(d, int) else d for d in shape))]


define("interior_pad", _infer_pad, attrs={"low": REQUIRED, "high": REQUIRED, "interior": REQUIRED})


def _filled(node: Node) -> bool:
    """Whether the result has elements; the operand may have none."""
    return node.x.type.concrete and node.out.type.concrete and node.out.type.size > 0


@rule("rare", "interior_pad")
def interior_pad(g: Sweep, node: Node) -> bool:
    """Given ``y = interior_pad(x, value)``; result pads of an axis beside each axis of x, then a pad and a slice."""
    value = node.inputs[1]
    if value is None or not _filled(node):
        return False
    return g.becomes(_padded(g, node.x, value, _pads(node, len(node.x.type.dims))))


def _padded(g: Sweep, x: Value, value: Value, pads: Sequence[tuple[int, int, int]]) -> Value:
    """x with `value` before, after and between its elements: (low, high, interior) by axis; negative low, high cut."""
    for axis, (_, _, interior) in enumerate(pads):
        before, n, after = x.type.dims[:axis], x.type.dims[axis], x.type.dims[axis + 1 :]
        if interior and n:
            y = _around(g, g.shape(x, *before, n, 1, *after), value, axis + 1, 0, interior)
            x = g.cut(g.shape(y, *before, n * (interior + 1), *after), axis, 0, n * (interior + 1) - interior)
    for axis, (low, high, _) in enumerate(pads):
        x = _around(g, x, value, axis, max(low, 0), max(high, 0))
        extent = x.type.dims[axis]
        x = g.cut(x, axis, min(max(-low, 0), extent), max(extent - max(-high, 0), 0))
    return x


def _around(g: Sweep, x: Value, value: Value, axis: int, before: int, after: int) -> Value:
    """x with `value` before and after it along an axis."""
    return g("pad", x, g.vector(before, after), value, g.vector(axis), mode="constant") if before or after else x


def _setting(node: Node, name: str, rank: int, default: Any) -> tuple[Any, ...]:
    found = tuple(attr(node, name)) or (default,) * rank
    if len(found) != rank:
        fail(node, f"{name} must have {rank} entries, found {len(found)}")
    return found


def _window(node: Node, rank: int) -> tuple[tuple[int, ...], ...]:
    """Window, strides, dilations of the base and of the window."""
    found = tuple(_setting(node, name, rank, 1) for name in ("window", "strides", "base_dilations", "dilations"))
    if any(v < 1 for part in found for v in part):
        fail(node, f"window, strides and dilations must be positive, found {found}")
    return found


@check.takes("x, initial_value biuf one")
def _infer_window(node: Node, types: Types) -> list[TensorType]:
    x = types[0]
    check.one_of(node, "reduction", attr(node, "reduction"), REDUCTIONS)
    check.operand(node, x, f"x {'b' if attr(node, 'reduction') in ('and', 'or') else 'biuf'}")
    check.one_dtype(node, types)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    rank = len(x.shape)
    window, strides, base, dilations = _window(node, rank)
    pads = _setting(node, "pads", rank, (0, 0))
    shape: list[int | None] = []
    for d, k, s, b, w, (low, high) in zip(x.shape, window, strides, base, dilations, pads, strict=True):
        total = _spread(d, low, high, b - 1)
        shape.append(None if total is None else max((total - (k - 1) * w - 1) // s + 1, 0))
    return [TensorType(x.dtype, tuple(shape))]


_ATTRS = {"window": REQUIRED, "strides": (), "base_dilations": (), "dilations": (), "pads": ()}
define("reduce_window", _infer_window, attrs={"reduction": REQUIRED, **_ATTRS}, work=squares)


@rule("rare", "reduce_window")
def reduce_window(g: Sweep, node: Node) -> bool:
    """Each window's elements and the initial value, reduced axis by axis; pads are the initial value, too."""
    x, first = node.x, node.inputs[1]
    if first is None or not _filled(node):
        return False
    rank, op = len(x.type.dims), attr(node, "reduction")
    window, strides, base, dilations = _window(node, rank)
    y = _padded(g, x, first, [(*p, b - 1) for p, b in zip(_setting(node, "pads", rank, (0, 0)), base, strict=True)])
    for axis, (count, step, dilation) in enumerate(zip(window, strides, dilations, strict=True)):
        y = _running(g, op, y, axis, count, dilation)
        y = g.cut(y, axis, 0, y.type.dims[axis], step)
    return g.becomes(g(op, y, g.shape(first)))


def _running(g: Sweep, op: str, x: Value, axis: int, count: int, dilation: int) -> Value:
    """The reductions of `count` elements from each place on: by those of half as many, and the last one."""
    if count == 1:
        return x
    half, places = count // 2, x.type.dims[axis] - (count - 1) * dilation
    halves = _running(g, op, x, axis, half, dilation)
    y = g(op, g.cut(halves, axis, 0, places), g.cut(halves, axis, half * dilation, half * dilation + places))
    if count % 2:
        y = g(op, y, g.cut(x, axis, (count - 1) * dilation, (count - 1) * dilation + places))
    return y
