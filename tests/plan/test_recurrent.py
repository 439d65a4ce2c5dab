"""Recurrent layers as kernels compute them, against the references, and onnxruntime where it has what is drawn."""

import re
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.freedoms import thresholds
from fastgraph.ir import Graph, Node, Quantization, TensorType, Value
from fastgraph.kernels.isa.tiers import Tier, usable
from fastgraph.ops.evaluate import evaluate, infer_graph
from fastgraph.ops.recurrent import ACTIVATIONS, DIRECTIONS, ROUNDS_INPUT
from fastgraph.plan import describe
from tests.kernels.harness import drawn, each_integer_tier
from tests.nets import F32, Net, assert_close, by_onnxruntime, by_reference, graph_of, numpy_steps
from tests.ops.test_node_cases import cases
from tests.plan.computed import compiled, results

OPS = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""How many gates they have."""
NAMES = "Tanh Sigmoid Relu Softsign Softplus LeakyRelu ThresholdedRelu Elu HardSigmoid ScaledTanh Affine".split()
USUAL = {"RNN": 1, "GRU": 2, "LSTM": 3}
"""How many activations a direction has."""


def layer(pick: Random, fixed: bool) -> tuple[Net, dict[str, np.ndarray], bool]:
    """A network of one layer, what to feed it, and whether onnxruntime has it. `fixed`: its weights are constants."""
    net, feeds, op = Net(seed=pick.randint(0, 9)), dict[str, np.ndarray](), pick.choice(sorted(OPS))
    gates, direction = OPS[op], pick.choice(sorted(DIRECTIONS))
    ways, steps, batch = DIRECTIONS[direction], pick.randint(1, 7), pick.randint(1, 6)
    layout = pick.choice((0, 0, 0, 1))
    width, hidden = (pick.choice((pick.randint(1, 9), pick.randint(1, 70))) for _ in range(2))

    def value(*shape: int, fixed: bool = fixed, scale: float = 0.5) -> str:
        if fixed:
            return net.weight(*shape, scale=scale)
        name = f"in{len(feeds)}"
        feeds[name] = (net.rng.standard_normal(shape) * scale).astype(F32)
        return net.input(name, shape)

    def maybe(name: str) -> str:
        return name if pick.choice((False, True)) else ""

    state = (batch, ways, hidden) if layout else (ways, batch, hidden)
    x = value(*((batch, steps) if layout else (steps, batch)), width, fixed=False, scale=1)
    operands = [x, value(ways, gates * hidden, width), value(ways, gates * hidden, hidden, scale=0.5 * hidden**-0.5)]
    operands.append(maybe(value(ways, 2 * gates * hidden, fixed=True)))
    lengths = np.array([pick.randint(0, steps) for _ in range(batch)], np.int32)
    given = pick.choice(("", "known", "fed"))
    operands.append(net.const(lengths) if given == "known" else "lengths" if given else "")
    if given == "fed":
        feeds["lengths"] = lengths
        net.input("lengths", lengths.shape, np.int32)
    operands += [maybe(net.weight(*state, scale=0.5)) for _ in range(1 + (op == "LSTM"))]
    attrs: dict[str, Any] = {"hidden_size": hidden, "direction": direction, **({"layout": 1} if layout else {})}
    if op == "LSTM":
        operands.append(maybe(value(ways, 3 * hidden, fixed=True)))
        attrs["input_forget"] = pick.choice((0, 0, 0, 1))
    if op == "GRU":
        attrs["linear_before_reset"] = pick.randint(0, 1)
    if pick.randint(0, 2) == 0:
        attrs["clip"] = 0.6
    if pick.randint(0, 2) == 0:
        attrs["activations"] = names = [pick.choice(NAMES) for _ in range(USUAL[op] * ways)]
        for at, attr in enumerate(("activation_alpha", "activation_beta")):
            numbers = [0.3 + 0.1 * i for i, name in enumerate(names) if len(ACTIVATIONS[name.lower()][1]) > at]
            attrs |= {attr: numbers} if numbers else {}
    net.output(*net(op, *operands, outputs=3 if op == "LSTM" else 2, **attrs))
    return net, feeds, not layout


def check(pick: Random, fixed: bool) -> None:
    net, feeds, known = layer(pick, fixed)
    model = net.load(isa=pick.choice(ISAS), threads=pick.randint(1, 3))
    assert not numpy_steps(model)
    found, wanted = list(model.run(feeds).values()), by_reference(graph_of(net.bytes()), feeds)
    # Activations without bounds grow from step to step, and differences with them: 4 of 300 draws.
    if not all((np.abs(y) < 1e6).all() for y in wanted):
        return
    assert_close(found, wanted, what="the reference")
    if known:
        assert_close(found, by_onnxruntime(net.bytes(), feeds), what="onnxruntime")


ISAS = [tier.name for tier in usable() if tier.name in ("avx2", "avx512")] or ["generic"]
"""Those with f32 kernels of their own that this CPU has."""
TIERS = [tier.name for tier in usable()]


@drawn(120)
def test_layers(pick: Random) -> None:
    check(pick, True)


@drawn(40)
def test_weights_known_at_run_time(pick: Random) -> None:
    check(pick, False)


@drawn(60)
def test_some_steps_at_a_time(pick: Random) -> None:
    """As layers are computed whose inputs are large."""
    with thresholds(steps_large=0, steps_part=pick.choice((1, 1 << 12, 1 << 15))):
        check(pick, pick.choice((False, True)))


@drawn(20)
def test_same_bits_on_any_number_of_threads(pick: Random) -> None:
    (net, feeds, _), isa = layer(pick, True), ISAS[-1]
    found = [net.load(isa=isa, threads=n).run(feeds).values() for n in (1, 2, 3)]
    assert len({tuple(y.tobytes() for y in each) for each in found}) == 1


def stacked(steps: Any, batch: Any, inputs: int, hidden: int, **attrs: Any) -> Net:
    """Two layers in both directions, with all that surrounds them in exported networks."""
    net, width = Net(), inputs
    x = net("Relu", net.input("x", (steps, batch, inputs)))
    for op, gates in (("LSTM", 4), ("GRU", 3)):
        w, r, b = net.weight(2, gates * hidden, width), net.weight(2, gates * hidden, hidden), net.weight(2, 8 * hidden)
        b = b if gates == 4 else net.weight(2, 6 * hidden)
        y, *last = net(op, x, w, r, b, outputs=2, hidden_size=hidden, direction="bidirectional", **attrs)
        x = net("Reshape", net("Transpose", y, perm=[0, 2, 1, 3]), [0, 0, -1])
        width = 2 * hidden
        net.output(*last)
    net.output(net("Add", net("MatMul", x, net.weight(width, 5)), net.weight(5)))
    return net


@pytest.mark.parametrize("hidden", [3, 16, 37])
def test_any_length_and_batch(hidden: int) -> None:
    source = stacked("t", "b", 6, hidden).bytes()
    model = fg.load(source, threads=2)
    for steps, batch in ((4, 1), (7, 3), (1, 1), (2, 9), (4, 1)):
        x = np.random.default_rng(steps).standard_normal((steps, batch, 6)).astype(F32)
        found = list(model.run({"x": x}).values())
        assert not numpy_steps(model)
        assert_close(found, by_onnxruntime(source, {"x": x}), what=f"{steps} steps of {batch}")


def test_no_steps() -> None:
    net, first = Net(), np.ones((1, 2, 3), F32)
    x, h = net.input("x", ("t", 2, 4)), net.const(first)
    net.output(*net("GRU", x, net.weight(1, 9, 4), net.weight(1, 9, 3), "", "", h, outputs=2, hidden_size=3))
    y, last = net.load(shapes={"x": (0, 2, 4)}).run({"x": np.zeros((0, 2, 4), F32)}).values()
    assert y.shape == (0, 1, 2, 3)
    np.testing.assert_array_equal(last, first)


@pytest.mark.parametrize("isa", ["generic", "numpy"])
@pytest.mark.parametrize("length", [-1, 4])
def test_lengths_out_of_range(isa: str, length: int) -> None:
    net = Net()
    x, lengths = net.input("x", (3, 2, 4)), net.input("lengths", (2,), np.int32)
    net.output(net("RNN", x, net.weight(1, 5, 4), net.weight(1, 5, 5), "", lengths, hidden_size=5))
    model = net.load(isa=isa)
    feeds = {"x": np.ones((3, 2, 4), F32), "lengths": np.array([2, length], np.int32)}
    with pytest.raises(fg.InputError, match=re.compile("sequence_lens .*0 to 3")):
        model.run(feeds)
    feeds["lengths"][1] = 3
    assert np.isfinite(model.run(feeds)["v0"]).all()


@pytest.mark.parametrize("isa", TIERS)
@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize("op", sorted(OPS))
def test_rows_without_steps(op: str, fed: bool, isa: str) -> None:
    """Their last states are zeros, as onnxruntime's and OpenVINO's are, whatever the states that they began with."""
    for lengths, direction, layout in product([(0, 3, 0), (0, 0, 0)], sorted(DIRECTIONS), (0, 1)):
        net, ways, data = Net(), DIRECTIONS[direction], np.array(lengths, np.int32)
        x = net.input("x", (3, 4, 5) if layout else (4, 3, 5))
        told = net.input("lengths", (3,), np.int32) if fed else net.const(data)
        state = [net.weight(*((3, ways, 6) if layout else (ways, 3, 6))) for _ in range(1 + (op == "LSTM"))]
        weights = [net.weight(ways, OPS[op] * 6, 5), net.weight(ways, OPS[op] * 6, 6)]
        attrs = {"hidden_size": 6, "direction": direction, **({"layout": 1} if layout else {})}
        net.output(*net(op, x, *weights, "", told, *state, outputs=2 + (op == "LSTM"), **attrs))
        feeds = {"x": net.rng.standard_normal((3, 4, 5) if layout else (4, 3, 5)).astype(F32)}
        feeds |= {"lengths": data} if fed else {}
        model = net.load(isa=isa, threads=1)
        assert not numpy_steps(model)
        found = list(model.run(feeds).values())
        for last in found[1:]:
            assert not (last if layout else last.swapaxes(0, 1))[data == 0].any()
            assert last.any() == data.any()
        if not layout:
            assert_close(found, by_onnxruntime(net.bytes(), feeds), what=f"{direction} {lengths}")


def test_rows_of_something_wider() -> None:
    """Inputs that are parts of rows, and results that are made in their place beside one another."""
    net = Net()
    x = net("Relu", net.input("x", (5, 3, 12)))
    parts = net("Split", x, [7, 5], outputs=2, axis=2)
    ys = []
    for part, width in zip(parts, (7, 5), strict=True):
        y = net("LSTM", part, net.weight(1, 36, width), net.weight(1, 36, 9), hidden_size=9)
        ys.append(net("Squeeze", y, [1]))
    net.output(net("Concat", *ys, axis=2))
    source, x = net.bytes(), np.random.default_rng(0).standard_normal((5, 3, 12)).astype(F32)
    model = fg.load(source, threads=1)
    assert not numpy_steps(model)
    assert_close(list(model.run({"x": x}).values()), by_onnxruntime(source, {"x": x}))


@pytest.mark.parametrize("op", sorted(OPS))
def test_node_cases(op: str) -> None:
    """The onnx package's, by kernels: their weights are inputs."""
    assert len(cases()[op]) >= 3
    for case in cases()[op]:
        model = fg.load(case.model.SerializeToString(), threads=1)
        assert not numpy_steps(model)
        for inputs, outputs in case.data_sets:
            names = [v.name for v in case.model.graph.input]
            found = model.run(dict(zip(names, inputs, strict=True)))
            assert_close(list(found.values()), outputs, what=case.name)


def test_work_is_told() -> None:
    """Multiply-adds by the weights of the input and of the state, at each step and row."""
    net = Net()
    x = net.input("x", (5, 3, 7))
    net.output(net("GRU", x, net.weight(2, 27, 7), net.weight(2, 27, 9), hidden_size=9, direction="bidirectional"))
    model = net.load()
    assert model.plan is not None
    assert sum(row["macs"] for row in describe.steps(model.plan.program)) == 5 * 3 * 2 * 27 * (7 + 9)


def of_bytes(steps: int, ways: int, batch: int, hidden: int, scales: int = 1, dynamic: int = 1, **attrs: Any) -> Graph:
    """An lstm with recurrent weights of 8 bits, which rounds its state; dynamic: its attribute."""
    rng = np.random.default_rng(hidden)

    def reals(name: str, *shape: int) -> Value:
        return Value.constant(name, rng.standard_normal(shape).astype(F32))

    quant = Quantization(tuple(rng.uniform(0.001, 0.004, scales).tolist()), (0,) * scales, 1 if scales > 1 else None)
    r = Value.constant("r", rng.integers(-127, 128, (ways, 4 * hidden, hidden)).astype(np.int8), quant)
    w = reals("w", ways, 4 * hidden, 3)
    if dynamic == ROUNDS_INPUT:
        w = Value.constant("w", rng.integers(-127, 128, (ways, 4 * hidden, 3)).astype(np.int8), quant)
    x = Value("x", TensorType(np.dtype(F32), (steps, batch, 3)))
    outputs = [Value(name, TensorType(np.dtype(F32))) for name in ("y", "h", "c")]
    inputs = [x, w, r, reals("b", ways, 8 * hidden), None,
              reals("h0", ways, batch, hidden), reals("c0", ways, batch, hidden)]  # fmt: skip
    direction = "bidirectional" if ways == 2 else "reverse"
    attrs = {"direction": direction, "dynamic": dynamic, **attrs}
    graph = Graph("g", [x], outputs, [Node("lstm", inputs, outputs, attrs)])
    infer_graph(graph)
    return graph


@each_integer_tier
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (3, 2, 1, 16), (4, 1, 5, 17), (2, 2, 4, 33), (3, 1, 2, 64)], ids=str)
def test_weights_of_bytes(tier: Tier, sizes: tuple[int, int, int, int]) -> None:
    each = 4 * sizes[3] if sizes[1] == 1 else 1
    clips: dict[str, Any] = {"clip": 0.7, "cell_clip": 0.9}
    for scales, attrs in ((1, {}), (each, clips), (each, {"dynamic": ROUNDS_INPUT})):
        graph = of_bytes(*sizes, scales=scales, **attrs)
        x = np.random.default_rng(1).standard_normal(graph.inputs[0].type.dims).astype(F32)
        wanted = evaluate(graph, {"x": x})
        assert_close(
            results(compiled(graph, tier), {"x": x}), wanted, 2e-3
        )  # a state that is rounded the other way is a step off


def test_a_state_of_nothing_but_zeros_is_rounded() -> None:
    graph = of_bytes(2, 1, 1, 5)
    for at in (5, 6):
        value = graph.nodes[0].inputs[at]
        assert value is not None and value.data is not None
        graph.nodes[0].inputs[at] = Value.constant(value.name, np.zeros_like(value.data))
    x = np.ones((2, 1, 3), F32)
    assert_close(results(compiled(graph), {"x": x}), evaluate(graph, {"x": x}), 2e-3)


def test_an_rnn_of_one_direction_may_have_the_activations_of_two() -> None:
    """As the schema's default is, which onnxruntime's optimizer writes out."""
    net = Net()
    weights = net.weight(1, 3, 4), net.weight(1, 3, 3)
    net.output(*net("RNN", net.input("x", (2, 1, 4)), *weights, outputs=2, hidden_size=3, activations=["Relu", "Tanh"]))
    feeds = {"x": net.rng.standard_normal((2, 1, 4)).astype(F32)}
    net.agrees(feeds=feeds)
