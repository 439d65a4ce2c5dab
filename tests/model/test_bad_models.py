"""Models that ask for the impossible: an error that says so, at once, and the process goes on."""

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import fastgraph as fg
from tests.nets import F32, I64, Net

HUGE = 10**18


def built(write: Callable[[Net], str], *shape: int | str | None) -> Net:
    net = Net()
    net.input("x", shape or (2, 3))
    net.output(write(net))
    return net


def ints(net: Net, *values: int) -> str:
    return net.const(np.array(values, I64))


ABSURD: dict[str, Net] = {
    "expand": built(lambda n: n("Expand", "x", ints(n, HUGE, 2, 3))),
    "tile": built(lambda n: n("Tile", "x", ints(n, 2**40, 2**40))),
    "constant of shape": built(lambda n: n("Add", n("ReduceMax", "x"), n("ConstantOfShape", ints(n, HUGE)))),
    "pad": built(lambda n: n("Pad", "x", ints(n, 0, HUGE, 0, HUGE))),
    "resize": built(lambda n: n("Resize", "x", "", [1e12, 1e12], mode="nearest")),
    "range": built(lambda n: n("Range", 0, HUGE, 1)),
    "one hot": built(lambda n: n("OneHot", ints(n, 1, 2), HUGE, [0.0, 1.0])),
    "input": built(lambda n: n("Relu", "x"), HUGE, 3),
    "input, no node": built(lambda n: "x", HUGE, 3),
    "outer product": built(lambda n: n("MatMul", "x", n("Transpose", "x")), 2**32, 1),
    "negative input": built(lambda n: n("Relu", "x"), -5, 3),
    "negative shape": built(lambda n: n("ConstantOfShape", ints(n, -3))),
    "pads that eat all": built(lambda n: n("Pad", "x", ints(n, -5, 0, 0, 0))),
    "reshape": built(lambda n: n("Reshape", "x", ints(n, 4, 4))),
    "two unknowns": built(lambda n: n("Reshape", "x", ints(n, -1, -1))),
    "broadcast": built(lambda n: n("Add", "x", np.ones(5, F32))),
    "axis": built(lambda n: n("Softmax", "x", axis=7)),
    "perm": built(lambda n: n("Transpose", "x", perm=[0, 0])),
    "kernel": built(lambda n: n("Conv", "x", n.weight(4, 3, 9, 9)), 1, 3, 4, 4),
    "channels": built(lambda n: n("Conv", "x", n.weight(4, 5, 3, 3)), 1, 3, 4, 4),
    "groups": built(lambda n: n("Conv", "x", n.weight(4, 3, 3, 3), group=0), 1, 3, 4, 4),
    "stride": built(lambda n: n("MaxPool", "x", kernel_shape=[2, 2], strides=[0, 1]), 1, 3, 4, 4),
    "index": built(lambda n: n("Gather", "x", ints(n, 7))),
    "split": built(lambda n: n("Split", "x", ints(n, 1, 5), outputs=2)[0]),
    "scale": built(lambda n: n("Resize", "x", "", np.array([np.nan, 1], F32), mode="nearest")),
    "k": built(lambda n: n("TopK", "x", ints(n, 9), outputs=2)[0]),
}


@pytest.mark.parametrize("name", ABSURD)
def test_absurd_models_are_refused_at_once(name: str) -> None:
    source = ABSURD[name].bytes()
    tracemalloc.start()
    started = time.perf_counter()
    try:
        with pytest.raises(fg.FastgraphError) as caught:
            model = fg.load(source, threads=1)
            model.run({s.name: np.zeros(s.shape, s.dtype) for s in model.inputs})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - started < 2
    assert peak < 64 << 20, f"{peak} bytes were allocated on the way"
    assert len(str(caught.value)) > 20, "the message says something"
    test_the_process_lives()


def test_the_process_lives() -> None:
    assert built(lambda n: n("Relu", "x")).load()(np.full((2, 3), -1, F32)).tolist() == [[0] * 3] * 2


def test_all_unknown_operators_are_named_with_counts() -> None:
    net = Net()
    x = net.input("x", (2,))
    for op in ("Frobnicate", "Relu", "Quux", "Frobnicate"):
        x = net(op, x)
    net.output(x)
    with pytest.raises(fg.UnsupportedError) as caught:
        net.load()
    said = str(caught.value)
    assert "Frobnicate" in said and "Quux" in said and "2" in said and "Relu" not in said


def test_custom_domains_are_named() -> None:
    net = Net()
    net.output(net("Relu", net.input("x", (2,)), domain="com.example"))
    with pytest.raises(fg.FastgraphError, match="com.example"):
        net.load()


def test_an_unknown_operator_in_a_branch_is_found() -> None:
    net = Net()
    x, p = net.input("x", (2,)), net.input("p", (), bool)
    outs = [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)]
    branch = helper.make_graph([helper.make_node("Frobnicate", [x], ["t"])], "then", [], outs)
    net.output(net("If", p, then_branch=branch, else_branch=branch))
    with pytest.raises(fg.UnsupportedError, match="Frobnicate"):
        net.load()


def test_a_node_that_reads_what_nobody_makes() -> None:
    net = Net()
    net.input("x", (2,))
    net.output(net("Relu", "ghost"))
    with pytest.raises(fg.ModelError, match="ghost"):
        net.load()


def test_a_cycle() -> None:
    net = Net()
    net.input("x", (2,))
    net.output(net("Add", "x", "v1"))
    net("Relu", "v0")
    with pytest.raises(fg.ModelError):
        net.load()


def test_an_output_that_nobody_makes() -> None:
    net = Net()
    net("Relu", net.input("x", (2,)))
    net.output("ghost")
    with pytest.raises(fg.ModelError, match="ghost"):
        net.load()


def test_messages_name_node_and_operator() -> None:
    with pytest.raises(fg.FastgraphError) as caught:
        ABSURD["kernel"].load()
    assert "conv" in str(caught.value).lower() and "node" in str(caught.value)


def test_a_long_chain_and_a_wide_fan() -> None:
    """Nothing recurses over the length of the graph."""
    net = Net()
    x = net.input("x", (4,))
    for i in range(3000):
        x = net("Neg", x) if i % 3 else net("Softmax", x, axis=0)
    net.output(x)
    assert np.isfinite(net.load()(np.ones(4, F32))).all()


def test_nested_branches() -> None:
    def named(name: str) -> onnx.ValueInfoProto:
        return helper.make_empty_tensor_value_info(name)

    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["leaf"])], "leaf", [], [named("leaf")])
    for i in range(5):
        node = helper.make_node("If", ["p"], [f"o{i}"], then_branch=graph, else_branch=graph)
        graph = helper.make_graph([node], f"g{i}", [], [named(f"o{i}")])
    net = Net()
    net.input("x", (2,))
    p = net.input("p", (), bool)
    net.output(net("If", p, then_branch=graph, else_branch=graph))
    found = net.load().run({"x": np.array([-1, 1], F32), "p": np.array(True)})
    assert next(iter(found.values())).tolist() == [0, 1]
