"""Quantized operators without integer kernels run on f32 ones, with changes of quantization around them."""

from __future__ import annotations

import numpy as np

from fastgraph.ir import Graph, Node, Quantization, TensorType, Value
from fastgraph.kernels.isa.tiers import choose
from fastgraph.ops.evaluate import evaluate, infer_graph
from fastgraph.plan.program import HostStep
from fastgraph.runtime.model import Model

I16 = np.dtype(np.int16)


def test_sixteen_bits_run_on_f32_kernels_and_give_what_the_reference_gives() -> None:
    rng = np.random.default_rng(3)
    kind = TensorType(I16, (1, 7, 5, 6), Quantization((3e-4,), (0,)))
    x, y, z = Value("x", kind), Value("y", TensorType(I16, None, Quantization((2e-3,), (0,)))), Value("z", kind)
    scales = Quantization(tuple(rng.uniform(0.004, 0.006, 6)), (0,) * 6, 0)
    w = Value.constant("w", rng.integers(-127, 128, (6, 3, 3, 6)).astype(np.int8), scales)
    attrs = {"strides": (1, 1), "dilations": (1, 1), "pads": (1, 1, 1, 1), "groups": 1, "auto_pad": "NOTSET"}
    z.type = TensorType(I16, None, Quantization((1e-4,), (0,)))
    graph = Graph("g", [x], [z], [Node("conv", [x, w, None], [y], attrs), Node("tanh", [y], [z])])
    infer_graph(graph)
    model = Model(graph, choose(None), 1)
    steps = model.plan.program.steps
    assert not [step.node.op for step in steps if isinstance(step, HostStep)]
    stored = rng.integers(-(2**15), 2**15, kind.dims).astype(I16)
    expected = evaluate(graph, {"x": stored})[0].astype(int)
    found = model(stored).astype(int)
    assert np.abs(found - expected).max() <= 1 and (found == expected).mean() > 0.99


def test_a_value_that_is_both_operands_is_made_real_once() -> None:
    kind = TensorType(np.dtype(np.uint8), (5, 5), Quantization((0.1,), (3,)))
    x, y = Value("x", kind), Value("y", TensorType(np.dtype(np.float32), None))
    graph = Graph("g", [x], [y], [Node("matmul", [x, x], [y], {})])
    infer_graph(graph)
    stored = np.random.default_rng(4).integers(0, 256, kind.dims).astype(np.uint8)
    model = Model(graph, choose(None), 1)
    assert [step.node.op for step in model.plan.program.steps].count("requantize") == 1
    np.testing.assert_allclose(model(stored), evaluate(graph, {"x": stored})[0], rtol=1e-6)


def test_a_pool_that_rounds_halves_away_still_does() -> None:
    kind = TensorType(I16, (1, 2, 2, 1), Quantization((1.0,), (0,)))
    x, y = Value("x", kind), Value("y", TensorType(I16, None, kind.quant))
    attrs = {"kernel_shape": (2, 2), "strides": (2, 2), "count_include_pad": 0, "auto_pad": "VALID", "ties": 0.0}
    graph = Graph("g", [x], [y], [Node("average_pool", [x], [y], attrs)])
    infer_graph(graph)
    assert Model(graph, choose(None), 1)(np.array([1, 0, 0, 1], I16).reshape(kind.dims)) == 1
