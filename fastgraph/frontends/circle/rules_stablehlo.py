"""StableHLO's operators, as far as TensorFlow Lite has kernels of them or they are others under another name.

Semantics: StableHLO's specification; tflite/kernels/{stablehlo_*, rfft2d}.cc.
"""

from __future__ import annotations

from typing import Any

from ...ir import BOOL, Value
from .call import Call

REDUCTIONS = ("add", "mul", "min", "max", "and", "or")
"""Bodies of one operator, by what they reduce with."""


def bits(c: Call, x: Value, y: Value) -> Value:
    """An operation on bools, or on the bits of integers."""
    return c(c.canonical if x.type.dtype == BOOL else f"bitwise_{c.canonical}", x, y)


def reshape(c: Call, x: Value) -> Value:
    """The shape is the one that the file declares."""
    shape = c.outputs[0].type
    if not shape.concrete:
        c.unsupported("to a shape that the file leaves open")
    return c("reshape", x, c.vector(*shape.dims), allowzero=1)


def convert(c: Call, x: Value) -> Value:
    if x.type.quant is not None or c.outputs[0].type.quant is not None:
        c.unsupported("from or to quantized values")
    return c("cast", x, to=c.outputs[0].type.dtype)


def slice(c: Call, x: Value, start: tuple[int, ...], end: tuple[int, ...], strides: tuple[int, ...]) -> Value:
    return c("slice", x, *(c.vector(*v) for v in (start, end, range(len(start)), strides)))


def _reduction(c: Call, index: int, allow_last: bool = False) -> str:
    """What a body of two arguments computes: one of REDUCTIONS, or "none" when it gives the last one."""
    graph = c.subgraph(index)
    pair = set(graph.inputs)
    if allow_last and not graph.nodes and len(pair) == 2 and graph.outputs == [graph.inputs[1]]:
        return "none"
    if len(graph.nodes) == 1 and len(pair) == 2 and set(graph.nodes[0].inputs) == pair:
        node, op = graph.nodes[0], graph.nodes[0].op.removeprefix("bitwise_")
        if node.outputs == graph.outputs and op in REDUCTIONS:
            return op
    c.unsupported("with a body other than one of add, multiply, minimum, maximum, and, or")


def reduce_window(c: Call, x: Value, initial: Value, **window: Any) -> Value:
    pads = tuple(c.options.padding)
    if len(pads) % 2:
        c.fail(f"expected pads before and after each axis, found {pads}")
    pairs = tuple(zip(pads[::2], pads[1::2], strict=True))
    reduction = _reduction(c, c.options.body_subgraph_index)
    return c("reduce_window", x, initial, reduction=reduction, pads=pairs, **window)


def scatter(c: Call, x: Value, indices: Value, updates: Value, **dims: Any) -> Value:
    reduction = _reduction(c, c.options.update_computation_subgraph_index, allow_last=True)
    return c("scatter_slices", x, indices, updates, reduction=reduction, **dims)


def rfft2d(c: Call, x: Value, lengths: Value) -> Value:
    sizes = [1, 1] if lengths.data is None else lengths.data.tolist()
    if len(sizes) != 2 or any(n < 1 or n & (n - 1) for n in sizes):
        c.fail(f"expected two lengths that are powers of two, found {sizes}")
    return c("rfft2d", x, lengths)
