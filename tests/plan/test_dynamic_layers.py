"""Layers that round f32 activations by their range: the pass that finds them, and their kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastgraph.ir import Graph, Node, Quantization, TensorType, Value
from fastgraph.kernels.isa import tiers
from fastgraph.ops.evaluate import evaluate, infer_graph
from fastgraph.plan.program import HostStep
from fastgraph.runtime.executable import compile_graph

TIERS = [tier for tier in tiers.usable() if tier.name != "generic"][:: max(len(tiers.usable()) - 2, 1)]
"""The narrowest that is quick to compile, and the widest."""
F32 = np.dtype(np.float32)
LAYER = {"extremes", "dynamic_round"}
"""Kernels that a layer begins with."""

Case = tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]
CASES: dict[str, Case] = {
    "3x3": ("conv", (2, 9, 9, 8), (20, 3, 3, 8), {"pads": (1, 1, 1, 1), "strides": (2, 2)}),
    "3x3, uneven padding": ("conv", (1, 10, 7, 3), (16, 3, 3, 3), {"pads": (0, 0, 2, 1), "grid": "symmetric"}),
    "one channel": ("conv", (1, 49, 10, 1), (64, 10, 4, 1), {"pads": (4, 1, 5, 1), "strides": (2, 2)}),
    "1x1": ("conv", (3, 7, 9, 12), (24, 1, 1, 12), {"relu": True}),
    "1d": ("conv", (1, 31, 3), (5, 4, 3), {"pads": (2, 0), "dilations": (2,)}),
    "one scale": ("conv", (2, 6, 6, 8), (16, 3, 3, 8), {"scales": 1}),
    "residual": ("conv", (2, 6, 6, 16), (16, 1, 1, 16), {"add": True, "relu": True}),
    "dense": ("gemm", (5, 17), (10, 17), {"relu": True}),
    "dense, symmetric": ("gemm", (1, 130), (40, 130), {"grid": "symmetric"}),
    "matrices": ("matmul", (2, 3, 20), (24, 20), {"grid": "symmetric"}),
    "one range": ("gemm", (6, 19), (33, 19), {"per": "tensor", "grid": "onnx"}),
    "zero points": ("gemm", (6, 19), (33, 19), {"per": "tensor", "grid": "onnx", "zeros": 33, "relu": True}),
    "one zero point": ("matmul", (2, 3, 130), (24, 130), {"per": "tensor", "grid": "onnx", "zeros": 1, "scales": 1}),
    "3x3, zero points": ("conv", (2, 9, 9, 8), (20, 3, 3, 8), {"pads": (1, 1, 1, 1), "strides": (2, 2), "zeros": 20}),
    "groups": ("conv", (2, 9, 8, 32), (24, 3, 3, 8), {"pads": (1, 1, 0, 2), "groups": 4, "zeros": 24}),
    "narrow groups": ("conv", (1, 9, 8, 12), (24, 3, 3, 2), {"groups": 6, "zeros": 24, "relu": True}),
    "a range for all images": (
        "conv",
        (3, 9, 8, 6),
        (8, 3, 3, 6),
        {"pads": (1, 1, 1, 1), "per": "tensor", "grid": "onnx", "add": False},
    ),
    "1x1, a range for all images": ("conv", (3, 9, 8, 6), (8, 1, 1, 6), {"per": "tensor", "grid": "onnx", "zeros": 8}),
    "1x1, zero points": ("conv", (3, 7, 9, 12), (24, 1, 1, 12), {"zeros": 24, "relu": True}),
}


def network(op: str, x: tuple[int, ...], w: tuple[int, ...], more: dict[str, Any]) -> Graph:
    """A layer of what dynamic_round makes of x, as frontends write it; perhaps x is added, and a relu ends it."""
    more = dict(more)
    rng = np.random.default_rng(sum(x) + sum(w))
    number = more.pop("scales", w[0])
    rounding = {"per": more.pop("per", "batch" if op == "conv" else "row"), "grid": more.pop("grid", "asymmetric")}
    add, relu = more.pop("add", False), more.pop("relu", False)
    scales, axis = tuple(rng.uniform(0.001, 0.01, number).tolist()), 0 if number > 1 else None
    stored, zeros = rng.integers(-127, 128, w).astype(np.int8), more.pop("zeros", 0)
    points = tuple(rng.integers(-128, 128, zeros).tolist()) or (0,) * number
    if op == "matmul":
        stored, axis = stored.T, None if axis is None else 1
    weights = Value.constant("w", stored, Quantization(scales, points, axis))
    bias = None if op == "matmul" else Value.constant("b", rng.normal(size=w[0]).astype(np.float32))
    if op == "conv":
        rank = len(x) - 2
        window = {"strides": (1,) * rank, "dilations": (1,) * rank, "pads": (0,) * 2 * rank, "groups": 1}
        more = {**window, "auto_pad": "NOTSET", **more}
    given, rounded, y = Value("x", TensorType(F32, x)), Value("r", TensorType(F32)), Value("y", TensorType(F32))
    inputs = [rounded, weights] if op == "matmul" else [rounded, weights, bias]
    attrs = {"trans_b": 1} if op == "gemm" else more
    nodes = [Node("dynamic_round", [given], [rounded], rounding), Node(op, inputs, [y], attrs)]
    for name, operands in [("add", [given])] * add + [("relu", [])] * relu:
        after = Value(name, TensorType(F32))
        nodes.append(Node(name, [y, *operands], [after], {}))
        y = after
    graph = Graph(op, [given], [y], nodes)
    infer_graph(graph)
    return graph


def draw(shape: tuple[int, ...]) -> np.ndarray:
    """Numbers whose range differs from row to row."""
    rng = np.random.default_rng(len(shape))
    return (rng.normal(0.3, 1, shape) * rng.uniform(0.1, 9, (shape[0], *[1] * (len(shape) - 1)))).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("tier", TIERS, ids=lambda tier: tier.name)
@pytest.mark.parametrize("case", CASES)
def test_layers_are_computed_on_integers(case: str, tier: Any, threads: int) -> None:
    x = draw(CASES[case][1])
    (expected,) = evaluate(network(*CASES[case]), {"x": x})
    plan = compile_graph(network(*CASES[case]), {}, tier, threads)
    assert {kernel.name for kernel in plan.kernels()} in (LAYER | {"dot_dynamic"}, LAYER | {"conv_dynamic"}), str(plan)
    plan.fill({"x": x})
    plan.execute()
    (found,) = plan.results().values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def quantize_dynamic(op: str, x: tuple[int, ...], w: tuple[int, ...], dtype: type, zero: int) -> Graph:
    """What onnxruntime's tool of that name makes of a product; a convolution's x is channels first."""
    rng = np.random.default_rng(len(w))
    weights = Value.constant("w", rng.integers(zero - 100, zero + 100, w).astype(dtype))
    factors = np.array(0.01) if op == "conv_integer" else rng.uniform(0.001, 0.01, w[1])
    scales = Value.constant("c", factors.astype(np.float32))
    given, values = Value("x", TensorType(F32, x)), [Value(name, TensorType(None)) for name in "qszptauvy"]
    q, s, z, p, t, a, u, v, y = values
    rank = len(x)
    window = {"strides": (1, 1), "dilations": (1, 1), "pads": (1, 1, 1, 1), "groups": 1, "auto_pad": "NOTSET"}
    turned, attrs = op == "conv_integer", window if op == "conv_integer" else {}
    nodes = [Node("dynamic_quantize_linear", [given], [q, s, z]), Node("mul", [s, scales], [p])]
    nodes += [Node("transpose", [q], [t], {"perm": (0, *range(2, rank), 1)})] * turned
    zeros = Value.constant("zero", np.array(zero, dtype))
    nodes.append(Node(op, [t if turned else q, weights, z, zeros], [a], attrs))
    nodes += [Node("transpose", [a], [u], {"perm": (0, rank - 1, *range(1, rank - 1))})] * turned
    nodes += [Node("cast", [u if turned else a], [v], {"to": F32}), Node("mul", [v, p], [y])]
    graph = Graph(op, [given], [y], nodes)
    infer_graph(graph)
    return graph


@pytest.mark.parametrize(("dtype", "zero"), [(np.int8, 0), (np.uint8, 128), (np.uint8, 120)])
@pytest.mark.parametrize(("op", "x", "w"), [
    ("matmul_integer", (2, 5, 20), (20, 12)), ("conv_integer", (1, 6, 9, 8), (10, 3, 3, 6)),
    ("conv_integer", (2, 6, 9, 8), (10, 3, 3, 6)),
])  # fmt: skip
def test_products_of_dynamically_quantized_activations(op: str, x: Any, w: Any, dtype: type, zero: int) -> None:
    """On integers, and never by NumPy."""
    given = draw(x)
    (expected,) = evaluate(quantize_dynamic(op, x, w, dtype, zero), {"x": given})
    plan = compile_graph(quantize_dynamic(op, x, w, dtype, zero), {}, TIERS[-1], 1)
    names = {kernel.name for kernel in plan.kernels()}
    assert not any(isinstance(step, HostStep) for step in plan.program.steps), str(plan)
    assert any(name.endswith("_dynamic") for name in names) and "dynamic_round" in names
    plan.fill({"x": given})
    plan.execute()
    np.testing.assert_allclose(plan.results()["y"], expected, rtol=1e-5, atol=2e-6 * np.abs(expected).max())
