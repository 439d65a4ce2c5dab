"""Networks on the tier `amx`, with the CPU's tiles or in memory: right step by step, the bits of the tier without."""

from typing import Any

import numpy as np
import pytest

from fastgraph.freedoms import thresholds
from fastgraph.ir import Graph, Node, Quantization, TensorType, Value
from fastgraph.kernels.isa import tiers
from fastgraph.ops.evaluate import infer_node
from fastgraph.runtime.executable import compile_graph
from tests.amx_trap import AMX, needs_amx, tiles
from tests.nets import Net, by_reference, graph_of
from tests.plan.step_by_step import check_steps

U8, F32 = np.dtype(np.uint8), np.dtype(np.float32)
SCALE, ZERO = 0.02, 117


def network() -> Graph:
    """Strides, padding, groups, a sum, parts of a concatenation, and a result in f32."""
    rng = np.random.default_rng(0)
    given = Value("x", TensorType(U8, (2, 15, 15, 24), Quantization((SCALE,), (ZERO,))))
    graph = Graph("net", [given])

    def node(op: str, *inputs: Value, real: bool = False, **attrs: Any) -> Value:
        type_ = TensorType(F32) if real else TensorType(U8, None, Quantization((SCALE,), (ZERO,)))
        out = Value(f"v{len(graph.nodes)}", type_)
        graph.nodes.append(Node(op, list(inputs), [out], attrs))
        infer_node(graph.nodes[-1])
        return out

    def conv(x: Value, n: int, k: int, stride: int = 1, groups: int = 1, real: bool = False) -> Value:
        shape = (n, k, k, x.type.dims[-1] // groups)
        scales = rng.uniform(0.5, 1, n) / np.prod(shape[1:]) ** 0.5 / 40
        quant = Quantization(tuple(scales), (0,) * n, 0)
        weights = Value.constant(f"w{len(graph.nodes)}", rng.integers(-127, 128, shape).astype(np.int8), quant)
        units = Quantization(tuple(scales * SCALE), (0,) * n, 0)
        bias = Value.constant(f"b{len(graph.nodes)}", rng.integers(-999, 999, n).astype(np.int32), units)
        window = {"strides": (stride,) * 2, "dilations": (1, 1), "pads": (k // 2,) * 4, "auto_pad": "NOTSET"}
        return node("conv", x, weights, bias, groups=groups, real=real, **window)

    a = conv(given, 40, 3, 2)
    b = node("add", conv(a, 64, 1), conv(a, 64, 3, groups=2))
    c = node("concat", conv(b, 20, 1), node("relu", conv(b, 36, 3)), axis=3)
    graph.outputs = [conv(c, 33, 3, 2, real=True), c]
    return graph


@needs_amx
@pytest.mark.parametrize("threads", [1, 2])
def test_network(threads: int) -> None:
    x = {"x": np.random.default_rng(1).integers(0, 256, (2, 15, 15, 24)).astype(np.uint8)}
    with thresholds(tiles_least=1):
        plan, plain = (compile_graph(network(), {}, tier, threads) for tier in (AMX, tiers.BY_NAME["avx512vnni"]))
    assert sum(step.kernel.name == "amx_conv" for step in plan.program.steps) == 6
    for each in (plan, plain):
        each.fill(x)
    with tiles() as products:
        plan.execute()
        assert products()
        found = plan.results()
    plain.execute()
    for name, expected in plain.results().items():
        assert len(np.unique(expected)) > 50
        np.testing.assert_array_equal(found[name], expected)


@needs_amx
def test_steps_write_only_what_is_theirs() -> None:
    def close(found: np.ndarray, expected: np.ndarray, nodes: list[Node]) -> None:
        limit = 1 if found.dtype == np.uint8 else 0.5
        assert np.abs(found.astype(float) - expected.astype(float)).max() <= limit, nodes

    x = {"x": np.random.default_rng(2).integers(0, 256, (2, 15, 15, 24)).astype(np.uint8)}
    with thresholds(tiles_least=1), tiles():
        check_steps(compile_graph(network(), {}, AMX, 2), x, close)


@needs_amx
@pytest.mark.parametrize("zero", [None, 0, 130, 255])
@pytest.mark.parametrize("groups, kernel", [(1, 1), (1, 3), (2, 3)])
def test_sums_of_products_of_bytes(groups: int, kernel: int, zero: int | None) -> None:
    """zero: the zero point of u8 weights, without which they are s8."""
    net = Net()
    w, points = net.rng.integers(-128, 128, (96, 64 // groups, kernel, kernel)), [np.array(7, U8)]
    w, points = (w.astype(np.int8), points) if zero is None else ((w + 128).astype(U8), [*points, np.array(zero, U8)])
    net.output(net("ConvInteger", net.input("x", (1, 64, 9, 8), U8), w, *map(net.const, points),
                   pads=[kernel // 2] * 4, group=groups), dtype=np.int32)  # fmt: skip
    x = {"x": net.rng.integers(0, 256, (1, 64, 9, 8)).astype(np.uint8)}
    with thresholds(tiles_least=1):
        plan = compile_graph(graph_of(net.bytes()), {}, AMX, 2)
    assert "amx_conv" in {kernel.name for kernel in plan.kernels()}, str(plan)
    plan.fill(x)
    with tiles() as products:
        plan.execute()
        assert products()
        (found,) = plan.results().values()
    np.testing.assert_array_equal(found, *by_reference(graph_of(net.bytes()), x))
