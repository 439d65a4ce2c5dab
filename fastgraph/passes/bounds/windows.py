"""Rules for convolutions, pools and recurrent layers on maps and sequences of bounded extents."""

from __future__ import annotations

import numpy as np

from ...ir import Node, Value
from ...ops.registry import attr
from ...ops.window import resolve_pads, window_attrs
from .numbers import parts, product, total
from .state import Bounds, follows
from .values import Bounded, Dim, Extent, Unbounded, refuse, same

FILLS = {"conv": 0.0, "conv_transpose": 0.0, "max_pool": -np.inf, "average_pool": 0.0, "lp_pool": 0.0}
"""What stands behind the real elements of a map, so that results are as with the padding of the operator."""

LENGTHS, INITIAL = 4, 5
"""Inputs of a recurrent layer: the steps of each sequence, and the first of its initial states."""


@follows(*FILLS)
def window(g: Bounds, node: Node) -> list[Bounded]:
    """Each image of a batch is computed on its own; a window over an axis of bounded extent meets its padding there."""
    x, others = g.take(node.x), [None if v is None else g.fixed(v) for v in node.inputs[1:]]
    slid = {axis: n for axis, n in x.extents.items() if axis}
    if not slid:
        return [Bounded(v, x.extents) for v in g.again(node, x.value, *others)]
    channels, fill = len(x.dims) - 1, FILLS[node.op]
    refuse(channels in slid or len(node.outputs) > 1 or node.attrs.get("ceil_mode"))
    refuse(node.op != "conv" and (x.value.type.dtype is None or x.value.type.dtype.kind != "f"))
    sizes = {axis: _window_count(g, node, x, others, axis) for axis in slid}
    beyond = [axis for axis, (_, reaches) in sizes.items() if reaches]
    refuse(beyond and others and not _finite(others[0]))
    y = g.again(node, g.masked(x, fill, slid if _is_shared(node, others) else beyond), *others)[0]
    if node.op == "average_pool" and not attr(node, "count_include_pad"):
        y = y / _real_shares(g, node, x, slid)
    return [Bounded(y, {**x.extents, **{axis: n for axis, (n, _) in sizes.items()}})]


def _is_shared(node: Node, others: list[Value | None]) -> bool:
    """Whether kernels may compute neighboring results from shared sums, so that a NaN reaches those which don't read
    it: Winograd's, and outputs of few channels that are computed together."""
    if node.op != "conv":
        return False
    strides = attr(node, "strides") or ()
    return others[0] is None or any(n != 1 for n in (*others[0].type.dims[1:-1], *strides))


def _finite(weights: Value | None) -> bool:
    """Whether constant weights times what stands behind a map's real elements are 0, as in its padding."""
    data = None if weights is None else weights.data
    return data is None or data.dtype.kind != "f" or bool(np.isfinite(data).all())


def _real_shares(g: Bounds, node: Node, x: Bounded, slid: dict[int, Extent]) -> Value:
    """The part of each window's elements within the map that is real."""
    kind, dims = x.value.type, x.value.type.dims
    ones = g.held(np.ones((1, *dims[1:-1], 1), kind.dtype))
    return g.max(g.again(node, g.masked(Bounded(ones, slid), 0))[0], 1e-6)


def _window_count(g: Bounds, node: Node, x: Bounded, others: list[Value | None], axis: int) -> tuple[Extent, bool]:
    """The number of windows along an axis, and whether they read beyond the real elements. Unbounded where a map may be
    too small for one.
    """
    kernel = others[0].type.dims[1:-1] if others and others[0] is not None else attr(node, "kernel_shape")
    a, at = window_attrs(node, len(kernel), kernel), axis - 1
    spatial = [None if i + 1 in x.extents else n for i, n in enumerate(x.value.type.dims[1:-1])]
    begin, end = resolve_pads(spatial, kernel, a["strides"], a["dilations"], a["auto_pad"], a["pads"])
    refuse(begin[at] is None or end[at] is None)
    stride, reach = a["strides"][at], (kernel[at] - 1) * a["dilations"][at] + 1
    if node.op == "conv_transpose":
        refuse(attr(node, "output_shape") or a["auto_pad"].startswith("SAME"))
        more = reach - begin[at] - end[at] - stride + (attr(node, "output_padding") or (0,) * len(kernel))[at]
        return _never_empty(total(g, product(g, x.extents[axis], stride), more)), True
    covered = total(g, x.extents[axis], begin[at] + end[at] - reach + stride)
    return _never_empty(parts(g, covered, stride)), end[at] > 0


def _never_empty(n: Dim) -> Extent:
    """The extent, unless it may be 0. Unbounded for others."""
    if not isinstance(n, Extent) or not n.least:
        raise Unbounded
    return n


@follows("lstm", "gru", "rnn")
def recurrent(g: Bounds, node: Node) -> list[Bounded]:
    """Each sequence of a batch is computed on its own, for as many steps as are real."""
    x, (time, batch) = g.take(node.x), (1, 0) if attr(node, "layout") else (0, 1)
    refuse(2 in x.extents)
    inputs = [x.value, *(None if v is None else g.take(v).value for v in node.inputs[1:]), None, None][: _inputs(node)]
    for i, v in enumerate(node.inputs[1:], 1):
        axis = {LENGTHS: 0, INITIAL: batch, INITIAL + 1: batch}.get(i)
        refuse(v is not None and not _has_extent(g.take(v), axis, x.extents.get(batch)))
    if x.extents and node.attrs.get("dynamic"):
        inputs[0] = g.masked(x, 0)  # its range is that of all
    if time in x.extents or node.has(LENGTHS):
        inputs[LENGTHS] = _step_counts(g, x, g.take(node.inputs[LENGTHS]) if node.has(LENGTHS) else None, time, batch)
    y, *last = g.again(node, *inputs)
    extents = {time: x.extents.get(time), 0 if batch == 0 else 2: x.extents.get(batch)}
    states = {batch: x.extents[batch]} if batch in x.extents else {}
    found = {axis: n for axis, n in extents.items() if n is not None}
    return [Bounded(y, found), *(Bounded(v, states) for v in last)]


def _inputs(node: Node) -> int:
    return max(len(node.inputs), LENGTHS + 1)


def _has_extent(operand: Bounded, axis: int | None, extent: Extent | None) -> bool:
    """Whether a recurrent layer's operand has this extent along `axis`, and no other that depends on data."""
    wanted = {} if axis is None or extent is None else {axis: extent}
    return [*operand.extents] == [*wanted] and all(same(n, wanted[a]) for a, n in operand.extents.items())


def _step_counts(g: Bounds, x: Bounded, given: Bounded | None, time: int, batch: int) -> Value:
    """The number of steps of each sequence; one out of range becomes more than all steps, so that the run fails."""
    steps = x.extents[time].count if time in x.extents else g.ints(x.value.type.dims[time])
    if given is None:
        return g.broadcast(g.shape(g.cast(steps, np.int32), 1), x.value.type.dims[batch])
    n = g.cast(given.value, np.int64)
    n = g.choose((n >= 0) & (n <= steps), n, x.value.type.dims[time] + 1)
    return g.masked(given._replace(value=g.cast(n, np.int32), clean=False), 0)
