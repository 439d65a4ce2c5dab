"""Single layers on one thread, against the time that the multiply-adds, or moving the data, take at least."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import rivals

from fastgraph.ir import Graph, Node, Quantization, TensorType, Value
from fastgraph.kernels.isa.tiers import choose
from fastgraph.plan.describe import macs
from fastgraph.plan.program import Step
from fastgraph.runtime.executable import Executable, compile_graph
from fastgraph.tools.bench import pinned
from fastgraph.tools.peaks import bandwidth, peak_macs, peak_macs_int8

F32 = np.dtype(np.float32)


def weights(*shape: int) -> Value:
    data = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 0.05
    return Value.constant("w", data)


def conv(channels: int, size: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> Graph:
    """A convolution with bias and relu, channels last, padded to keep the size."""
    x, y, z = image(channels, size), Value("y"), Value("z")
    w, b = weights(out, kernel, kernel, channels // groups), weights(out)
    attrs = {
        "strides": (stride, stride), "dilations": (1, 1), "pads": (kernel // 2,) * 4, "groups": groups,
        "auto_pad": "NOTSET",
    }  # fmt: skip
    nodes = [Node("conv", [x, w, b], [y], attrs), Node("relu", [y], [z])]
    return Graph("conv", [x], [z], nodes)


def conv_int8(channels: int, size: int, out: int, kernel: int, stride: int = 1) -> Graph:
    """The same of u8 by s8, one scale per output channel."""
    rng = np.random.default_rng(0)
    graph = conv(channels, size, out, kernel, stride)
    scales, bias = rng.uniform(0.001, 0.01, out), rng.integers(-999, 999, out).astype(np.int32)
    stored = rng.integers(-127, 128, (out, kernel, kernel, channels)).astype(np.int8)
    w = Value.constant("w", stored, Quantization(tuple(scales), (0,) * out, 0))
    b = Value.constant("b", bias, Quantization(tuple(0.02 * scales), (0,) * out, 0))
    x, y = (u8(name, dims) for name, dims in (("x", graph.inputs[0].type.shape), ("y", None)))
    return Graph("conv_int8", [x], [y], [Node("conv", [x, w, b], [y], graph.nodes[0].attrs)])


def u8(name: str, dims: Any) -> Value:
    return Value(name, TensorType(np.dtype(np.uint8), dims, Quantization((0.02,), (117,))))


def pool(op: str, channels: int, size: int, kernel: int, stride: int) -> Graph:
    x, y = image(channels, size), Value("y")
    attrs: dict[str, Any] = {
        "kernel_shape": (kernel, kernel), "strides": (stride, stride), "pads": (kernel // 2,) * 4,
        "dilations": (1, 1), "ceil_mode": 0, "auto_pad": "NOTSET",
    }  # fmt: skip
    attrs |= {"storage_order": 0} if op == "max_pool" else {"count_include_pad": 0}
    return Graph(op, [x], [y], [Node(op, [x], [y], attrs)])


def dense(k: int, n: int) -> Graph:
    x, y = Value("x", TensorType(F32, (1, k))), Value("y")
    return Graph("dense", [x], [y], [Node("matmul", [x, weights(k, n)], [y])])


def add(channels: int, size: int) -> Graph:
    x, other, y = image(channels, size), image(channels, size, "other"), Value("y")
    return Graph("add", [x, other], [y], [Node("add", [x, other], [y])])


def mean(channels: int, size: int) -> Graph:
    x, y = image(channels, size), Value("y")
    axes = Value.constant("axes", np.array([1, 2]))
    attrs = {"keepdims": 1, "noop_with_empty_axes": 0}
    return Graph("mean", [x], [y], [Node("reduce_mean", [x, axes], [y], attrs)])


def image(channels: int, size: int, name: str = "x") -> Value:
    return Value(name, TensorType(F32, (1, size, size, channels)))


LAYERS: dict[str, Callable[[], Graph]] = {
    "conv 7x7/2 3>64 at 224": lambda: conv(3, 224, 64, 7, 2),
    "conv 3x3 64>64 at 56": lambda: conv(64, 56, 64, 3),
    "conv 3x3 256>256 at 14": lambda: conv(256, 14, 256, 3),
    "conv 3x3 512>512 at 7": lambda: conv(512, 7, 512, 3),
    "conv 1x1 256>64 at 56": lambda: conv(256, 56, 64, 1),
    "conv 1x1 256>1024 at 14": lambda: conv(256, 14, 1024, 1),
    "conv 1x1 960>320 at 7": lambda: conv(960, 7, 320, 1),
    "depthwise 3x3 144 at 56": lambda: conv(144, 56, 144, 3, groups=144),
    "depthwise 3x3/2 144 at 56": lambda: conv(144, 56, 144, 3, 2, groups=144),
    "depthwise 5x5 480 at 14": lambda: conv(480, 14, 480, 5, groups=480),
    "max_pool 3x3/2 64 at 112": lambda: pool("max_pool", 64, 112, 3, 2),
    "average_pool 3x3 192 at 28": lambda: pool("average_pool", 192, 28, 3, 1),
    "mean 1280 at 7": lambda: mean(1280, 7),
    "dense 2048>1000": lambda: dense(2048, 1000),
    "add 256 at 56": lambda: add(256, 56),
    "int8 conv 7x7/2 3>64 at 224": lambda: conv_int8(3, 224, 64, 7, 2),
    "int8 conv 3x3 64>64 at 56": lambda: conv_int8(64, 56, 64, 3),
    "int8 conv 3x3 512>512 at 7": lambda: conv_int8(512, 7, 512, 3),
    "int8 conv 3x3 16>16 at 32": lambda: conv_int8(16, 32, 16, 3),
    "int8 conv 1x1 16>96 at 112": lambda: conv_int8(16, 112, 96, 1),
    "int8 conv 1x1 256>64 at 56": lambda: conv_int8(256, 56, 64, 1),
    "int8 conv 1x1 960>320 at 7": lambda: conv_int8(960, 7, 320, 1),
}


def fed(graph: Graph) -> Executable:
    """The plan of a graph on one thread, with random numbers in its inputs."""
    plan, rng = compile_graph(graph, {}, choose(), 1), np.random.default_rng(1)
    noise = rng.standard_normal if graph.inputs[0].type.dtype == np.float32 else partial(rng.integers, 0, 256)
    plan.fill({v.name: noise(size=v.type.dims).astype(v.type.dtype) for v in graph.inputs})
    return plan


@pytest.mark.parametrize("name", LAYERS)
def test_layer(benchmark: Any, goal: Any, name: str) -> None:
    plan = fed(LAYERS[name]())
    with pinned(1):
        bytes_summed = name.startswith("int8") and plan.tier.byte_dot
        least = floor(plan, peak_macs_int8(plan.tier) if bytes_summed else peak_macs(plan.tier))
    median = rivals.typical(benchmark, plan.execute)
    kernels = ", ".join(dict.fromkeys(kernel.name for kernel in plan.kernels()))
    benchmark.extra_info.update(kernels=kernels, roofline_us=least * 1e6, share=least / median)
    assert all(isinstance(step, Step) for step in plan.program.steps)
    goal(f"{name} ({kernels}): {median * 1e6:.1f} us, of the roofline", least / median, "x")


def floor(plan: Executable, peak: float) -> float:
    """Seconds that no kernel can beat: the multiply-adds at the peak, or inputs, weights and results moved once."""
    counts = sum(macs(step) for step in plan.program.steps if isinstance(step, Step))
    values = [*plan.graph.inputs, *plan.graph.outputs]
    moved = sum(v.type.nbytes for v in values) + sum(array.nbytes for array in plan.program.constants)
    return max(counts / peak, moved / bandwidth(moved, plan.tier))
