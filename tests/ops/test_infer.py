"""Inference against the references: random nodes get one shape from both; unknown extents mislead nobody."""

from random import Random
from typing import Any

import numpy as np

from fastgraph.errors import ModelError
from fastgraph.ir import Node, TensorType, Value
from fastgraph.ops.evaluate import infer_node, run_node
from tests.kernels.harness import drawn

FAR = (2**31 - 1, 2**63 - 1, -(2**63))


def node_of(op: str, arrays: list[Any], outputs: int = 1, given_from: int = 1, **attrs: Any) -> Node:
    """A node whose inputs from `given_from` on are constants."""
    values: list[Value | None] = []
    for i, a in enumerate(arrays):
        value = None if a is None else Value(f"x{i}", TensorType.of(a), a if i >= given_from else None)
        values.append(value)
    return Node(op, values, [Value(f"y{i}") for i in range(outputs)], attrs)


def agrees(pick: Random, op: str, arrays: list[Any], outputs: int = 1, given_from: int = 1, **attrs: Any) -> None:
    """Either both inference and reference run and agree, or inference refuses the node."""
    node = node_of(op, arrays, outputs, given_from, **attrs)
    try:
        infer_node(node)
    except ModelError:
        return
    results = run_node(node, arrays)
    assert [v.type for v in node.outputs] == [TensorType.of(r) for r in results]
    hide(pick, node)
    infer_node(node)
    for value, result in zip(node.outputs, results, strict=True):
        if value.type.shape is not None:
            assert len(value.type.shape) == result.ndim
            assert all(d in (None, n) for d, n in zip(value.type.shape, result.shape, strict=True) if d != "n")


def hide(pick: Random, node: Node) -> None:
    """Make extents of the first input unknown, and some parameters no constants."""
    shape = node.x.type.dims
    unknown = [pick.choice((None, "n", 0)) for _ in shape]
    node.x.type = node.x.type.with_shape(tuple(d if u == 0 else u for d, u in zip(shape, unknown, strict=True)))
    if pick.randint(0, 4) == 0:
        node.x.type = node.x.type.with_shape(None)
    for value in node.inputs[1:]:
        if value is not None and pick.choice((False, True)):
            value.data = None


def floats(*shape: int) -> np.ndarray:
    return np.linspace(-2, 3, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def some(pick: Random, low: int, high: int, count: int) -> tuple[int, ...]:
    return tuple(pick.randint(low, high) for _ in range(count))


def window(pick: Random, rank: int) -> dict[str, Any]:
    auto_pad = pick.choice(("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"))
    each = {"strides": some(pick, 1, 3, rank), "dilations": some(pick, 1, 2, rank), "pads": some(pick, 0, 2, 2 * rank)}
    return {**each, "auto_pad": auto_pad}


@drawn(60)
def test_convolutions(pick: Random) -> None:
    op, rank = pick.choice(("conv", "conv_transpose")), pick.randint(1, 3)
    spatial = [pick.randint(1, 6) for _ in range(rank)]
    kernel = [pick.randint(1, 3) for _ in range(rank)]
    groups = pick.randint(1, 3)
    inner, outer = pick.randint(1, 2), groups * pick.randint(1, 2)
    x, w = floats(pick.randint(0, 2), *spatial, groups * inner), floats(outer, *kernel, inner)
    b = floats(outer) if pick.choice((False, True)) else None
    agrees(pick, op, [x, w, b], groups=groups, **window(pick, rank))


@drawn(60)
def test_pools(pick: Random) -> None:
    op, rank = pick.choice(("max_pool", "average_pool", "lp_pool")), pick.randint(1, 3)
    x = floats(1, *(pick.randint(1, 6) for _ in range(rank)), 2)
    kernel = tuple(pick.randint(1, 3) for _ in range(rank))
    attrs = {"kernel_shape": kernel, "ceil_mode": pick.randint(0, 1), **window(pick, rank)}
    outputs = pick.randint(1, 2) if op == "max_pool" else 1
    agrees(pick, op, [x], outputs, **attrs)


@drawn(60)
def test_slice(pick: Random) -> None:
    x = floats(*some(pick, 1, 6, pick.randint(1, 3)))
    axes = some(pick, -x.ndim, x.ndim - 1, pick.randint(0, x.ndim))
    starts, ends = ([pick.choice((pick.randint(-8, 8), *FAR)) for _ in axes] for _ in range(2))
    steps = [pick.choice([-2, -1, 1, 3]) for _ in axes]
    agrees(pick, "slice", [x, *(np.array(v, np.int64) for v in (starts, ends, axes, steps))])


@drawn(200)
def test_strided_slice(pick: Random) -> None:
    shape = some(pick, 1, 5, pick.randint(1, 6))
    count = pick.randint(1, len(shape) + 1)
    parts = [np.array([pick.choice((*FAR, -2, -1, 0, 1, 3)) for _ in range(count)], np.int64) for _ in range(2)]
    steps = np.array([pick.choice((1, 1, 2, -1)) for _ in range(count)], np.int64)
    masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    attrs = {name: sum(pick.choice((0, 0, 0, 1)) << i for i in range(count)) for name in masks}
    agrees(pick, "strided_slice", [floats(*shape), *parts, steps], **attrs)


def test_what_a_slice_takes_of_open_axes() -> None:
    """All of one, some of one, of which there may be fewer, and one of it; more axes than an array has elements for."""
    parts = [np.array(ends, np.int64) for ends in ((0, 0, 0), (FAR[0], 2, 1), (1, 1, 1))]
    node = node_of("strided_slice", [floats(1, 1, 1, 1, 1), *parts], shrink_axis_mask=4)
    node.x.type = node.x.type.with_shape(("n", "m", None, None, 3))
    infer_node(node)
    assert node.outputs[0].type.shape == ("n", None, None, 3)


@drawn(60)
def test_pad(pick: Random) -> None:
    x = floats(*some(pick, 3, 5, pick.randint(1, 3)))
    pads = [pick.randint(-1, 4) for _ in range(2 * x.ndim)]
    agrees(pick, "pad", [x, np.array(pads)], mode=pick.choice(("constant", "edge", "reflect", "wrap")))


@drawn(60)
def test_resize(pick: Random) -> None:
    x = floats(*some(pick, 1, 6, pick.randint(1, 3)))
    attrs = {
        "mode": pick.choice(("nearest", "linear", "cubic")),
        "coordinate_transformation_mode": pick.choice(["half_pixel", "align_corners", "asymmetric"]),
        "antialias": pick.randint(0, 1),
        "keep_aspect_ratio_policy": pick.choice(["stretch", "not_larger", "not_smaller"]),
    }
    if pick.choice((False, True)):
        scales = [pick.choice([0.3, 0.5, 1.0, 1.7, 2.0]) for _ in range(x.ndim)]
        agrees(pick, "resize", [x, None, np.array(scales, np.float32)], **attrs)
    else:
        sizes = [pick.randint(1, 9) for _ in range(x.ndim)]
        agrees(pick, "resize", [x, None, None, np.array(sizes)], **attrs)


@drawn(60)
def test_reduce(pick: Random) -> None:
    op = pick.choice([f"reduce_{name}" for name in ("sum", "max", "mean", "log_sum_exp", "l2")])
    x = floats(*some(pick, 0, 3, pick.randint(0, 4)))
    axes = some(pick, -4, 3, pick.randint(0, 3))
    given_axes = np.array(axes, np.int64) if pick.choice((False, True)) else None
    flags = {"keepdims": pick.randint(0, 1), "noop_with_empty_axes": pick.randint(0, 1)}
    agrees(pick, op, [x, given_axes], **flags)


@drawn(60)
def test_reshape(pick: Random) -> None:
    x = floats(*some(pick, 0, 4, pick.randint(0, 4)))
    target = [pick.choice((-1, 0, 1, 2, 3, 4, 6, 12)) for _ in range(pick.randint(0, 4))]
    agrees(pick, "reshape", [x, np.array(target, np.int64)], allowzero=pick.randint(0, 1))


@drawn(60)
def test_gather_and_concat(pick: Random) -> None:
    x = floats(*some(pick, 1, 6, pick.randint(1, 3)))
    axis = pick.randint(-x.ndim, x.ndim - 1)
    shape = some(pick, 0, 3, pick.randint(0, 2))
    indices = np.array([pick.randint(-6, 6) for _ in range(int(np.prod(shape)))], np.int64).reshape(shape)
    agrees(pick, "gather", [x, indices], axis=axis)
    agrees(pick, "concat", [x, x, x], axis=axis)


@drawn(60)
def test_matmul_and_broadcast(pick: Random) -> None:
    a, b = some(pick, 1, 6, pick.randint(2, 4)), some(pick, 1, 6, pick.randint(1, 4))
    agrees(pick, "add", [floats(*a), floats(*b)])
    agrees(pick, "matmul", [floats(*a), floats(*b[:-1], a[-1], 3)])
    agrees(pick, "matmul", [floats(*a), floats(a[-1])])
