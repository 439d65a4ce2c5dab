"""Windows that end in a chain: an operand in whose memory the result is written is read before it is gone."""

import numpy as np
import onnxruntime
import pytest

import fastgraph as fg
from fastgraph.kernels.isa.tiers import usable
from fastgraph.plan.program import Step
from fastgraph.runtime.executable import compile_graph
from tests.nets import Net, graph_of


def network(pool: bool) -> bytes:
    net, channels = Net(), 24
    x, other = (net("Conv", net.input(name, (1, 8, 9, 9)), net.weight(channels, 8, 1, 1)) for name in "xz")
    other = net("MaxPool", other, kernel_shape=[3, 3], pads=[1] * 4)
    if pool:
        window = net("AveragePool", net("Relu", x), kernel_shape=[3, 3], pads=[1] * 4)
    else:
        window = net("Conv", net("Relu", x), net.weight(channels, 1, 3, 3), group=channels, pads=[1] * 4)
    net.output(net("Conv", net("Mul", net("Sigmoid", window), other), net.weight(4, channels, 1, 1)))
    return net.bytes()


@pytest.mark.parametrize("isa", [tier.name for tier in usable()])
@pytest.mark.parametrize("pool", [False, True])
def test_an_operand_that_the_result_replaces(pool: bool, isa: str) -> None:
    model, rng = network(pool), np.random.default_rng(0)
    feeds = {name: np.asarray(rng.standard_normal((1, 8, 9, 9)), np.float32) for name in "xz"}
    (want,) = onnxruntime.InferenceSession(model).run(None, feeds)
    for got in fg.load(model, isa=isa).run(feeds).values():
        assert np.allclose(got, want, rtol=1e-4, atol=1e-5)
    steps = compile_graph(graph_of(model), {}, usable()[0], 1).program.steps
    assert any(isinstance(step, Step) and step.kernel.name == "copy" for step in steps), "it is no longer replaced"


def test_gated_windows_have_no_table() -> None:
    """x * sigmoid(x) behind a depthwise convolution is done with its sums where there are registers for it."""
    net = Net()
    window = net("Conv", net.input("x", (1, 24, 9, 9)), net.weight(24, 1, 3, 3), group=24, pads=[1] * 4)
    net.output(net("Mul", window, net("Sigmoid", window)))
    x = np.random.default_rng(0).standard_normal((1, 24, 9, 9)).astype(np.float32)
    (want,) = onnxruntime.InferenceSession(net.bytes()).run(None, {"x": x})
    (got,) = fg.load(net.bytes()).run({"x": x}).values()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    tier = usable()[0]
    kernels = compile_graph(graph_of(net.bytes()), {}, tier, 1).program.kernels()
    assert {"chain", "vector_op"}.isdisjoint(kernel.name for kernel in kernels) == (tier.registers >= 32)
