"""What com.microsoft had before ai.onnx did, or has for a few networks: each is an operator of the graph."""

from __future__ import annotations

import numpy as np

from ...ir import Value
from .call import Call
from .contrib import Attrs, contrib
from .linear import CAST


@contrib("Trilu: X k? -> Y | upper=1")
def trilu(call: Call, attrs: Attrs) -> Value:
    return call.add("trilu", call.inputs, upper=attrs["upper"])


@contrib("Pad: data pads value? -> output | mode=constant")
def pad(call: Call, attrs: Attrs) -> Value:
    """The pads may be one row of a matrix."""
    pads = call.add("reshape", [call.x(1), call.const([-1])], allowzero=0)
    return call.add("pad", [call.x(0), pads, call.input(2), None], mode=attrs["mode"])


@contrib("Unique: x -> y idx counts")
def unique(call: Call, attrs: Attrs) -> list[Value]:
    """[values by first appearance, the place of each element's among them, how often each appears]."""
    values, _, places, counts = call.add_many("unique", [call.x(0)], {"axis": None, "sorted": 0}, 4)
    return [values, places, counts]


@contrib("ExpandDims: X axis -> Y")
def expand_dims(call: Call, attrs: Attrs) -> Value:
    axis = call.add("cast", [call.x(1)], **CAST, to=np.dtype(np.int64))
    return call.add("unsqueeze", [call.x(0), call.add("reshape", [axis, call.const([-1])], allowzero=0)])


@contrib("Range: start limit delta? -> Y")
def range_(call: Call, attrs: Attrs) -> Value:
    """Numbers, or vectors of one."""
    delta = call.input(2) or call.add("cast_like", [call.const(1), call.x(0)], **CAST)
    none = call.const(np.zeros(0, np.int64))
    ends = [call.add("reshape", [v, none], allowzero=0) for v in (call.x(0), call.x(1), delta)]
    return call.add("range", ends)


@contrib("GatherND: data indices -> output")
def gather_nd(call: Call, attrs: Attrs) -> Value:
    return call.add("gather_nd", call.inputs, batch_dims=0)


@contrib("GridSample: X Grid -> Y | align_corners=0 mode=bilinear padding_mode=zeros")
def grid_sample(call: Call, attrs: Attrs) -> Value:
    modes = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}
    if attrs["mode"] not in modes:
        call.fail(f"expected mode as one of {sorted(modes)}, found {attrs['mode']!r}")
    return call.add("grid_sample", call.inputs, **attrs | {"mode": modes[attrs["mode"]]})


@contrib("SampleOp: X -> Y")
def sample(call: Call, attrs: Attrs) -> Value:
    return call.x(0)


@contrib("Inverse: X -> Y")
def inverse(call: Call, attrs: Attrs) -> Value:
    return call.add("inverse", call.inputs)


@contrib("CDist: A B -> C | metric=sqeuclidean")
def distances(call: Call, attrs: Attrs) -> Value:
    """Of each row of A and each of B: |a|^2 - 2 a b + |b|^2, or its root."""
    if attrs["metric"] not in ("sqeuclidean", "euclidean"):
        call.fail(f"expected metric as 'euclidean' or 'sqeuclidean', found {attrs['metric']!r}")
    a, b = call.x(0), call.x(1)
    last = call.const([-1])
    kept: Attrs = {"keepdims": 1, "noop_with_empty_axes": 0}
    squares = [call.add("reduce_sum", [call.add("mul", [x, x]), last], **kept) for x in (a, b)]
    product = call.add("matmul", [a, call.add("transpose", [b], perm=(1, 0))])
    both = call.add("add", [squares[0], call.add("transpose", [squares[1]], perm=(1, 0))])
    away = call.add("relu", [call.add("sub", [both, call.add("add", [product, product])])])
    return call.add("sqrt", [away]) if attrs["metric"] == "euclidean" else away
