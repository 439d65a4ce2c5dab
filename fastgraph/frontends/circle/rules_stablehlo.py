"""StableHLO's operators, as far as TensorFlow Lite has kernels of them or they are others under another name.

Semantics: StableHLO's specification; tflite/kernels/{stablehlo_*, fake_quant, rfft2d}.cc.
"""

from __future__ import annotations

import numpy as np

from ..core.common import BOOL, ints
from .call import Call, rule
from .common import inputs_alike, known, one_to_one, same_dtype, whole

REDUCTIONS = {"add": "add", "mul": "mul", "min": "min", "max": "max", "and": "and", "or": "or",
              "bitwise_and": "and", "bitwise_or": "or"}  # fmt: skip
"""Bodies of one operator, by what they reduce with."""

one_to_one({
    "STABLEHLO_ABS": "abs", "STABLEHLO_COSINE": "cos", "STABLEHLO_EXPONENTIAL": "exp",
    "STABLEHLO_FLOOR": "floor", "STABLEHLO_LOG": "log", "STABLEHLO_LOGISTIC": "sigmoid", "STABLEHLO_NEGATE": "neg",
    "STABLEHLO_TANH": "tanh",
})  # fmt: skip
one_to_one({
    "STABLEHLO_ADD": "add", "STABLEHLO_SUBTRACT": "sub", "STABLEHLO_MULTIPLY": "mul", "STABLEHLO_DIVIDE": "div",
    "STABLEHLO_MAXIMUM": "max", "STABLEHLO_MINIMUM": "min", "STABLEHLO_POWER": "pow",
}, 2, inputs_alike)  # fmt: skip


@rule("STABLEHLO_AND", "STABLEHLO_OR")
def _bitwise(c: Call) -> None:
    """Of bools, or of the bits of integers."""
    c.count(2)
    same_dtype(c, c.x(0), c.x(1))
    op = c.op.removeprefix("STABLEHLO_").lower()
    c.write(op if c.x().type.dtype == BOOL else f"bitwise_{op}")


@rule("STABLEHLO_SHIFT_LEFT")
def _shift_left(c: Call) -> None:
    c.count(2)
    same_dtype(c, c.x(0), c.x(1))
    c.write("bit_shift", direction="LEFT")


@rule("STABLEHLO_RSQRT")
def _rsqrt(c: Call) -> None:
    c.count(1)
    c.write("reciprocal", [c.add("sqrt", [c.x()])])


@rule("STABLEHLO_SELECT")
def _select(c: Call) -> None:
    c.count(3)
    c.write("where")


@rule("STABLEHLO_RESHAPE")
def _reshape(c: Call) -> None:
    """To the shape that the file declares."""
    c.count(1)
    shape = c.outputs[0].type
    if not shape.concrete:
        c.unsupported("to a shape that the file leaves open")
    c.write("reshape", [c.x(), ints(c, list(shape.dims))])


@rule("STABLEHLO_TRANSPOSE")
def _transpose(c: Call) -> None:
    c.count(1)
    c.write("transpose", perm=tuple(c.options.permutation))


@rule("STABLEHLO_CONCATENATE")
def _concatenate(c: Call) -> None:
    c.write("concat", axis=c.options.dimension)


@rule("STABLEHLO_CONVERT")
def _convert(c: Call) -> None:
    c.count(1)
    if c.x().type.quant is not None or c.outputs[0].type.quant is not None:
        c.unsupported("from or to quantized values")
    c.write("cast", to=c.outputs[0].type.dtype)


@rule("STABLEHLO_SLICE")
def _slice(c: Call) -> None:
    c.count(1)
    o = c.options
    axes = list(range(len(o.start_indices)))
    c.write("slice", [c.x(), *(ints(c, list(v)) for v in (o.start_indices, o.limit_indices, axes, o.strides))])


@rule("STABLEHLO_PAD")
def _pad(c: Call) -> None:
    c.count(2)
    same_dtype(c, c.x(0), c.x(1))
    o = c.options
    c.write("interior_pad", low=tuple(o.edge_padding_low), high=tuple(o.edge_padding_high),
            interior=tuple(o.interior_padding))  # fmt: skip


def _reduction(c: Call, index: int, allow_last: bool = False) -> str:
    """What a body of two arguments computes: one of REDUCTIONS, or "none" when it gives the last one."""
    graph = c.subgraph(index)
    pair = set(graph.inputs)
    if allow_last and not graph.nodes and len(pair) == 2 and graph.outputs == [graph.inputs[1]]:
        return "none"
    if len(graph.nodes) == 1 and len(pair) == 2 and set(graph.nodes[0].inputs) == pair:
        node = graph.nodes[0]
        if node.outputs == graph.outputs and node.op in REDUCTIONS:
            return REDUCTIONS[node.op]
    c.unsupported("with a body other than one of add, multiply, minimum, maximum, and, or")


@rule("STABLEHLO_REDUCE_WINDOW")
def _reduce_window(c: Call) -> None:
    c.count(2)
    same_dtype(c, c.x(0), c.x(1))
    o = c.options
    pads = tuple(o.padding)
    if len(pads) % 2:
        c.fail(f"expected pads before and after each axis, found {pads}")
    c.write(
        "reduce_window", reduction=_reduction(c, o.body_subgraph_index), window=tuple(o.window_dimensions),
        strides=tuple(o.window_strides), base_dilations=tuple(o.base_dilations), dilations=tuple(o.window_dilations),
        pads=tuple(zip(pads[::2], pads[1::2], strict=True)),
    )  # fmt: skip


@rule("STABLEHLO_GATHER")
def _gather(c: Call) -> None:
    c.count(2)
    o = c.options
    c.write(
        "gather_slices", [c.x(0), whole(c, 1)], offset_dims=tuple(o.offset_dims),
        collapsed_dims=tuple(o.collapsed_slice_dims), start_map=tuple(o.start_index_map),
        index_vector_dim=o.index_vector_dim, slice_sizes=tuple(o.slice_sizes),
    )  # fmt: skip


@rule("STABLEHLO_SCATTER")
def _scatter(c: Call) -> None:
    c.count(3)
    same_dtype(c, c.x(0), c.x(2))
    o = c.options
    c.write(
        "scatter_slices", [c.x(0), whole(c, 1), c.x(2)], offset_dims=tuple(o.update_window_dims),
        collapsed_dims=tuple(o.inserted_window_dims), start_map=tuple(o.scatter_dims_to_operand_dims),
        index_vector_dim=o.index_vector_dim,
        reduction=_reduction(c, o.update_computation_subgraph_index, allow_last=True),
    )  # fmt: skip


@rule("FAKE_QUANT")
def _fake_quant(c: Call) -> None:
    c.count(1)
    o = c.options
    c.write("fake_quant", min=o.min, max=o.max, num_bits=o.num_bits, narrow_range=int(o.narrow_range))


@rule("RFFT2D")
def _rfft(c: Call) -> None:
    c.count(2)
    lengths = known(c, 1, "lengths") if c.x(1).data is not None else [1, 1]
    if len(lengths) != 2 or any(n < 1 or n & (n - 1) for n in lengths):
        c.fail(f"expected two lengths that are powers of two, found {lengths}")
    c.write("rfft2d", [c.x(0), c.const(np.array(lengths, np.int64)) if c.x(1).data is not None else c.x(1)])


def _refused(*names: str) -> None:
    def refuse(c: Call) -> None:
        c.unsupported("has no kernel in TensorFlow Lite: legalize StableHLO when converting")

    rule(*names)(refuse)


_refused(*(f"STABLEHLO_{name}" for name in (
    "CBRT", "CLAMP", "BROADCAST_IN_DIM", "CONVOLUTION", "CUSTOM_CALL", "REDUCE", "REMAINDER", "COMPARE",
    "DYNAMIC_SLICE", "DYNAMIC_UPDATE_SLICE", "IOTA", "DOT_GENERAL", "SORT",
)))  # fmt: skip
