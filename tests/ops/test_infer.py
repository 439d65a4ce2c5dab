"""Inference against the references: random nodes get one shape from both; unknown extents mislead nobody."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.errors import ModelError
from fastgraph.ir import Node, TensorType, Value
from fastgraph.ops.evaluate import infer_node, run_node

FEW = settings(max_examples=60, deadline=None)
dims = st.integers(1, 6)


def node_of(op: str, arrays: list[Any], outputs: int = 1, given_from: int = 1, **attrs: Any) -> Node:
    """A node whose inputs from `given_from` on are constants."""
    values: list[Value | None] = []
    for i, a in enumerate(arrays):
        value = None if a is None else Value(f"x{i}", TensorType.of(a), a if i >= given_from else None)
        values.append(value)
    return Node(op, values, [Value(f"y{i}") for i in range(outputs)], attrs)


def agrees(data: Any, op: str, arrays: list[Any], outputs: int = 1, given_from: int = 1, **attrs: Any) -> None:
    """Either both inference and reference run and agree, or inference refuses the node."""
    node = node_of(op, arrays, outputs, given_from, **attrs)
    try:
        infer_node(node)
    except ModelError:
        return
    results = run_node(node, arrays)
    assert [v.type for v in node.outputs] == [TensorType.of(r) for r in results]
    hide(data, node)
    infer_node(node)
    for value, result in zip(node.outputs, results, strict=True):
        if value.type.shape is not None:
            assert len(value.type.shape) == result.ndim
            assert all(d in (None, n) for d, n in zip(value.type.shape, result.shape, strict=True) if d != "n")


def hide(data: Any, node: Node) -> None:
    """Make extents of the first input unknown, and some parameters no constants."""
    shape = node.x.type.dims
    unknown = data.draw(st.lists(st.sampled_from([None, "n", 0]), min_size=len(shape), max_size=len(shape)))
    node.x.type = node.x.type.with_shape(tuple(d if u == 0 else u for d, u in zip(shape, unknown, strict=True)))
    if data.draw(st.integers(0, 4)) == 0:
        node.x.type = node.x.type.with_shape(None)
    for value in node.inputs[1:]:
        if value is not None and data.draw(st.booleans()):
            value.data = None


def floats(*shape: int) -> np.ndarray:
    return np.linspace(-2, 3, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def window(data: Any, rank: int) -> dict[str, Any]:
    def some(low: int, high: int, count: int = rank) -> tuple[int, ...]:
        return tuple(data.draw(st.integers(low, high)) for _ in range(count))

    auto_pad = data.draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    return {
        "strides": some(1, 3),
        "dilations": some(1, 2),
        "pads": some(0, 2, 2 * rank),
        "auto_pad": auto_pad,
    }


@FEW
@given(st.data(), st.sampled_from(["conv", "conv_transpose"]), st.integers(1, 3))
def test_convolutions(data: Any, op: str, rank: int) -> None:
    spatial = [data.draw(dims) for _ in range(rank)]
    kernel = [data.draw(st.integers(1, 3)) for _ in range(rank)]
    groups = data.draw(st.integers(1, 3))
    inner, outer = data.draw(st.integers(1, 2)), groups * data.draw(st.integers(1, 2))
    x, w = floats(data.draw(st.integers(0, 2)), *spatial, groups * inner), floats(outer, *kernel, inner)
    b = floats(outer) if data.draw(st.booleans()) else None
    agrees(data, op, [x, w, b], groups=groups, **window(data, rank))


@FEW
@given(st.data(), st.sampled_from(["max_pool", "average_pool", "lp_pool"]), st.integers(1, 3), st.booleans())
def test_pools(data: Any, op: str, rank: int, two: bool) -> None:
    x = floats(1, *(data.draw(dims) for _ in range(rank)), 2)
    kernel = tuple(data.draw(st.integers(1, 3)) for _ in range(rank))
    attrs = {"kernel_shape": kernel, "ceil_mode": data.draw(st.integers(0, 1)), **window(data, rank)}
    outputs = 2 if two and op == "max_pool" else 1
    agrees(data, op, [x], outputs, **attrs)


@FEW
@given(st.data())
def test_slice(data: Any) -> None:
    x = floats(*data.draw(st.lists(dims, min_size=1, max_size=3)))
    axes = data.draw(st.lists(st.integers(-x.ndim, x.ndim - 1), max_size=x.ndim))
    bounds = st.one_of(st.integers(-8, 8), st.sampled_from([2**31 - 1, 2**63 - 1, -(2**63)]))
    starts, ends = ([data.draw(bounds) for _ in axes] for _ in range(2))
    steps = [data.draw(st.sampled_from([-2, -1, 1, 3])) for _ in axes]
    agrees(data, "slice", [x, *(np.array(v, np.int64) for v in (starts, ends, axes, steps))])


@FEW
@given(st.data(), st.sampled_from(["constant", "edge", "reflect", "wrap"]))
def test_pad(data: Any, mode: str) -> None:
    x = floats(*data.draw(st.lists(st.integers(3, 5), min_size=1, max_size=3)))
    pads = [data.draw(st.integers(-1, 4)) for _ in range(2 * x.ndim)]
    agrees(data, "pad", [x, np.array(pads)], mode=mode)


@FEW
@given(st.data(), st.sampled_from(["nearest", "linear", "cubic"]))
def test_resize(data: Any, mode: str) -> None:
    x = floats(*data.draw(st.lists(dims, min_size=1, max_size=3)))
    attrs = {
        "mode": mode,
        "coordinate_transformation_mode": data.draw(st.sampled_from(["half_pixel", "align_corners", "asymmetric"])),
        "antialias": data.draw(st.integers(0, 1)),
        "keep_aspect_ratio_policy": data.draw(st.sampled_from(["stretch", "not_larger", "not_smaller"])),
    }
    if data.draw(st.booleans()):
        scales = [data.draw(st.sampled_from([0.3, 0.5, 1.0, 1.7, 2.0])) for _ in range(x.ndim)]
        agrees(data, "resize", [x, None, np.array(scales, np.float32)], **attrs)
    else:
        sizes = [data.draw(st.integers(1, 9)) for _ in range(x.ndim)]
        agrees(data, "resize", [x, None, None, np.array(sizes)], **attrs)


@FEW
@given(st.data(), st.sampled_from(["reduce_sum", "reduce_max", "reduce_mean", "reduce_log_sum_exp", "reduce_l2"]))
def test_reduce(data: Any, op: str) -> None:
    x = floats(*data.draw(st.lists(st.integers(0, 3), max_size=4)))
    axes = data.draw(st.lists(st.integers(-4, 3), max_size=3))
    given_axes = np.array(axes, np.int64) if data.draw(st.booleans()) else None
    flags = {"keepdims": data.draw(st.integers(0, 1)), "noop_with_empty_axes": data.draw(st.integers(0, 1))}
    agrees(data, op, [x, given_axes], **flags)


@FEW
@given(st.data())
def test_reshape(data: Any) -> None:
    x = floats(*data.draw(st.lists(st.integers(0, 4), max_size=4)))
    target = data.draw(st.lists(st.sampled_from([-1, 0, 1, 2, 3, 4, 6, 12]), max_size=4))
    agrees(data, "reshape", [x, np.array(target, np.int64)], allowzero=data.draw(st.integers(0, 1)))


@FEW
@given(st.data())
def test_gather_and_concat(data: Any) -> None:
    x = floats(*data.draw(st.lists(dims, min_size=1, max_size=3)))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    shape = data.draw(st.lists(st.integers(0, 3), max_size=2))
    indices = np.array([data.draw(st.integers(-6, 6)) for _ in range(int(np.prod(shape)))], np.int64).reshape(shape)
    agrees(data, "gather", [x, indices], axis=axis)
    agrees(data, "concat", [x, x, x], axis=axis)


@FEW
@given(st.data(), st.lists(dims, min_size=2, max_size=4), st.lists(dims, min_size=1, max_size=4))
def test_matmul_and_broadcast(data: Any, a: list[int], b: list[int]) -> None:
    agrees(data, "add", [floats(*a), floats(*b)])
    agrees(data, "matmul", [floats(*a), floats(*b[:-1], a[-1], 3)])
    agrees(data, "matmul", [floats(*a), floats(a[-1])])
