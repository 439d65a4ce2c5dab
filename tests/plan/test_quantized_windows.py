"""Quantized depthwise convolutions, pools and means as kernels, within one step of their references on reals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastgraph.ir import Graph, Node, Quantization, TensorType, Value
from fastgraph.kernels.isa import tiers
from fastgraph.ops.evaluate import evaluate, infer_graph
from fastgraph.plan.lower import depth_first
from fastgraph.plan.lower.registry import matched
from fastgraph.plan.program import HostStep
from fastgraph.runtime.executable import compile_graph

TIERS = [tier for tier in tiers.usable() if tier.name != "generic"]
U8 = np.dtype(np.uint8)


def activation(name: str, shape: Any, scale: float, zero: int) -> Value:
    return Value(name, TensorType(U8, shape, Quantization((scale,), (zero,))))


def depthwise(shape: tuple[int, ...], kernel: tuple[int, ...], more: dict[str, Any]) -> Graph:
    """A depthwise layer; `more`: attributes, and zero (of weights) and multiplier."""
    more = dict(more)
    zero, c, rank = more.pop("zero", 0), shape[-1], len(shape) - 2
    n = c * more.pop("multiplier", 1)
    rng = np.random.default_rng(n)
    scales = np.full(1, 0.01) if zero else rng.uniform(0.005, 0.02, n)
    axis, units = None if zero else 0, np.broadcast_to(0.02 * scales, n)
    quant = Quantization(tuple(scales.tolist()), (zero,) * len(scales), axis)
    weights = Value.constant("w", rng.integers(-127, 128, (n, *kernel, 1)).astype(np.int8), quant)
    quant = Quantization(tuple(units.tolist()), (0,) * n, 0)
    bias = Value.constant("b", rng.integers(-3000, 3000, n).astype(np.int32), quant)
    x, y = activation("x", shape, 0.02, 117), activation("y", None, 0.1, 30)
    window = {"strides": (1,) * rank, "dilations": (1,) * rank, "pads": (0,) * 2 * rank, "auto_pad": "NOTSET"}
    node = Node("conv", [x, weights, bias], [y], {**window, "groups": c, **more})
    return Graph("depthwise", [x], [y], [node])


def reduction(op: str, shape: tuple[int, ...], attrs: dict[str, Any], axes: Any = None, same: bool = False) -> Graph:
    x, y = activation("x", shape, 0.02, 117), activation("y", None, *((0.02, 117) if same else (0.013, 90)))
    operands = [x] if axes is None else [x, Value.constant("axes", np.array(axes, np.int64))]
    return Graph(op, [x], [y], [Node(op, operands, [y], attrs)])


POOL = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
CASES: dict[str, Any] = {
    "3x3": lambda: depthwise((1, 14, 14, 128), (3, 3), {"pads": (1,) * 4, "chain": (("clip", 0, 0.0, 6.0),)}),
    "3x3 of few channels": lambda: depthwise((2, 9, 9, 24), (3, 3), {"pads": (0, 0, 1, 1), "strides": (2, 2)}),
    "5x5": lambda: depthwise((1, 7, 7, 80), (5, 5), {"pads": (2,) * 4, "chain": (("relu", 0),)}),
    "shifted weights": lambda: depthwise((1, 6, 5, 64), (3, 3), {"pads": (1,) * 4, "zero": 23}),
    "1d": lambda: depthwise((1, 31, 8), (4,), {"pads": (2, 1), "dilations": (1,)}),
    "several outputs of a channel": lambda: depthwise((1, 6, 6, 5), (3, 3), {"multiplier": 3}),
    "max_pool": lambda: reduction("max_pool", (1, 9, 9, 40), POOL, same=True),
    "max_pool with chain": lambda: reduction("max_pool", (1, 9, 9, 40), {**POOL, "chain": (("relu", 0),)}, same=True),
    "average_pool": lambda: reduction("average_pool", (2, 9, 9, 40), POOL),
    "average_pool with padding": lambda: reduction("average_pool", (1, 8, 8, 5), {**POOL, "count_include_pad": 1}),
    "global mean": lambda: reduction("reduce_mean", (2, 7, 7, 96), {"keepdims": 1}, (1, 2)),
    "mean of the last axis": lambda: reduction("reduce_mean", (3, 4, 50), {"keepdims": 0}, (-1,)),
    "sum": lambda: reduction("reduce_sum", (2, 3, 17), {"keepdims": 0}, (1,)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_window(name: str) -> None:
    graph = CASES[name]()
    infer_graph(graph)
    stored = np.random.default_rng(1).integers(0, 256, graph.inputs[0].type.dims).astype(np.uint8)
    (wanted,) = evaluate(graph, {"x": stored})
    assert len(np.unique(wanted)) > 5
    for tier in TIERS:
        plan = compile_graph(CASES[name](), {}, tier, 2)
        assert not any(isinstance(step, HostStep) for step in plan.program.steps), str(plan)
        plan.fill({"x": stored})
        plan.execute()
        off = np.abs(plan.results()["y"].astype(int) - wanted.astype(int))
        assert off.max() <= 1 and np.mean(off > 0) < 0.02, (tier.name, off.max(), np.mean(off > 0))


@pytest.mark.parametrize("ratio", [1e12, 1e37, 1e60, 1e-12, 1e-60])
@pytest.mark.parametrize("name", ["average_pool", "average_pool with padding", "global mean", "sum"])
def test_averages_saturate(name: str, ratio: float) -> None:
    """Whatever the scales are, and at both ends of the zero points."""
    for zero in (0, 255):

        def graph(zero: int = zero) -> Graph:
            made = CASES[name]()
            # A power of two, so that the reference's sums of reals are exact.
            made.inputs[0].type = TensorType(U8, made.inputs[0].type.shape, Quantization((2.0**-6,), (117,)))
            made.outputs[0].type = TensorType(U8, None, Quantization((2.0**-6 / ratio,), (zero,)))
            return made

        reference = graph()
        infer_graph(reference)
        stored = np.random.default_rng(1).integers(0, 256, reference.inputs[0].type.dims).astype(np.uint8)
        stored[..., 0] = 117
        (wanted,) = evaluate(reference, {"x": stored})
        for tier in tiers.usable():
            plan = compile_graph(graph(), {}, tier, 1)
            assert not any(isinstance(step, HostStep) for step in plan.program.steps), str(plan)
            plan.fill({"x": stored})
            plan.execute()
            np.testing.assert_array_equal(plan.results()["y"], wanted)


@pytest.mark.parametrize(("op", "attrs"), [("reduce_sum", {}), ("average_pool", {"strides": (1, 1), "pads": (0,) * 4})])
def test_sums_of_bytes_fit_int32(op: str, attrs: dict[str, Any]) -> None:
    """2**23 bytes may be summed; more are left to the references."""
    for n, accepted in ((1 << 23, True), ((1 << 23) + 1, False)):
        shape = (1, n, 1, 1)
        made = reduction(op, shape, {**attrs, "kernel_shape": (n, 1)} if attrs else {}, None if attrs else (1,))
        infer_graph(made)
        assert (matched(made.nodes[0]) is not None) == accepted
    ties = reduction("average_pool", (1, 200, 200, 1), {**attrs, "kernel_shape": (150, 150), "ties": 0.0}, same=True)
    if attrs:
        infer_graph(ties)
        assert matched(ties.nodes[0]) is None


def layer(x: Value, name: str, weights: tuple[int, ...], attrs: dict[str, Any]) -> Node:
    """A convolution of x by random weights, held between 0 and 6."""
    rng, n = np.random.default_rng(len(name)), weights[0]
    w = Value.constant(f"{name}.w", rng.integers(-127, 128, weights).astype(np.int8), Quantization((0.01,), (0,)))
    y = activation(name, None, 0.05, 0)
    window = {"strides": (1, 1), "dilations": (1, 1), "pads": (0,) * 4, "auto_pad": "NOTSET", "groups": 1}
    bias = Value.constant(f"{name}.b", np.arange(n, dtype=np.int32) * 100, Quantization((0.0005,), (0,)))
    return Node("conv", [x, w, bias], [y], {**window, **attrs, "chain": (("clip", 0, 0.0, 6.0),)})


def inverted_residual(kernel: int, stride: int) -> Graph:
    x = activation("x", (1, 11, 9, 8), 0.05, 3)
    expand = layer(x, "expand", (32, 1, 1, 8), {})
    pads = (kernel // 2,) * 4
    window = {"strides": (stride,) * 2, "pads": pads, "groups": 32}
    middle = layer(expand.out, "middle", (32, kernel, kernel, 1), window)
    project = layer(middle.out, "project", (16, 1, 1, 32), {})
    return Graph("block", [x], [project.out], [expand, middle, project])


@pytest.mark.parametrize("budget", [1, 1 << 14, 1 << 30], ids=["single rows", "some rows", "one band"])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1)])
def test_blocks_in_bands(budget: int, kernel: int, stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = np.random.default_rng(1).integers(0, 256, (1, 11, 9, 8)).astype(np.uint8)
    results, steps = [], []
    for worth, threads in ((1 << 40, 1), (1, 1), (1, 2)):
        monkeypatch.setattr(depth_first, "WORTH", worth)
        monkeypatch.setattr(depth_first, "BUDGET", budget)
        plan = compile_graph(inverted_residual(kernel, stride), {}, TIERS[-1], threads)
        plan.fill({"x": stored})
        plan.execute()
        results.append(plan.results()["project"].copy())
        steps.append(len(plan.program.steps))
    assert steps[0] == 3 and (steps[1] > 3 or budget == 1 << 30)
    assert len(np.unique(results[0])) > 5
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
