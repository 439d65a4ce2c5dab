"""Recurrent layers as kernels compute them, against the references, and onnxruntime where it has what is drawn."""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastgraph as fg
from fastgraph.ir import Graph, Node, Quantization, TensorType, Value
from fastgraph.kernels.isa.tiers import Tier, choose, usable
from fastgraph.ops.evaluate import evaluate, infer_graph
from fastgraph.ops.recurrent import ACTIVATIONS, DEFAULT, DIRECTIONS, GATES
from fastgraph.plan import describe
from fastgraph.plan.lower.recurrent import layer
from fastgraph.plan.program import HostStep
from fastgraph.runtime.executable import compile_graph
from fastgraph.runtime.model import Model
from tests.kernels.harness import each_integer_tier
from tests.nets import F32, Net, assert_close, by_onnxruntime, by_reference, graph_of, numpy_steps
from tests.ops.test_node_cases import cases

OPS = {"rnn": "RNN", "gru": "GRU", "lstm": "LSTM"}
NAMES = {name.lower(): name for name in (
    "Tanh", "Sigmoid", "Relu", "Softsign", "Softplus", "LeakyRelu", "ThresholdedRelu", "Elu", "HardSigmoid",
    "ScaledTanh", "Affine",
)}  # fmt: skip
"""As onnxruntime calls them."""


def native(model: Model) -> bool:
    assert model.plan is not None
    return not numpy_steps(model)


class Drawn:
    """A network of one layer, and what to feed it. `fixed`: its weights are constants."""

    def __init__(self, data: Any, fixed: bool = True) -> None:
        self.data, self.net = data, Net(seed=data.draw(st.integers(0, 9)))
        self.feeds: dict[str, np.ndarray] = {}
        self.empty = False
        self.op = data.draw(st.sampled_from(sorted(OPS)))
        self.direction = data.draw(st.sampled_from(sorted(DIRECTIONS)))
        size = st.one_of(st.integers(1, 9), st.integers(1, 70))
        self.steps, self.batch = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 6))
        self.inputs, self.hidden = data.draw(size), data.draw(size)
        self.layout, self.fixed = int(data.draw(st.integers(0, 3)) == 0), fixed
        self._write(GATES[self.op], DIRECTIONS[self.direction])

    def maybe(self, make: Any, chance: int = 2) -> Any:
        return make() if self.data.draw(st.integers(0, chance - 1)) == 0 else ""

    def value(self, *shape: int, fixed: bool = True, scale: float = 0.5) -> str:
        """A constant, or an input."""
        if fixed:
            return self.net.weight(*shape, scale=scale)
        name = f"in{len(self.feeds)}"
        self.feeds[name] = (self.net.rng.standard_normal(shape) * scale).astype(F32)
        return self.net.input(name, shape)

    def _lengths(self) -> str:
        found = np.array([self.data.draw(st.integers(0, self.steps)) for _ in range(self.batch)], np.int32)
        self.empty = bool(np.any(found == 0))
        if self.data.draw(st.booleans()):
            return self.net.const(found)
        self.feeds["lengths"] = found
        return self.net.input("lengths", found.shape, np.int32)

    def _write(self, gates: int, ways: int) -> None:
        hidden, draw = self.hidden, self.data.draw
        shape = (self.batch, self.steps) if self.layout else (self.steps, self.batch)
        state = (self.batch, ways, hidden) if self.layout else (ways, self.batch, hidden)
        x = self.value(*shape, self.inputs, fixed=False, scale=1)
        w = self.value(ways, gates * hidden, self.inputs, fixed=self.fixed)
        r = self.value(ways, gates * hidden, hidden, fixed=self.fixed, scale=0.5 * hidden**-0.5)
        more = [self.maybe(lambda: self.value(ways, 2 * gates * hidden, fixed=self.fixed)), self.maybe(self._lengths)]
        more += [self.maybe(lambda: self.value(*state, fixed=draw(st.booleans()))) for _ in range(gates // 2 or 1)]
        more = more[: 4 if self.op == "lstm" else 3]
        self.attrs: dict[str, Any] = {"hidden_size": hidden, "direction": self.direction}
        if self.layout:
            self.attrs["layout"] = 1
        if self.op == "lstm":
            more.append(self.maybe(lambda: self.value(ways, 3 * hidden, fixed=self.fixed), 3))
            self.attrs["input_forget"] = int(draw(st.integers(0, 3)) == 0)
        if self.op == "gru":
            self.attrs["linear_before_reset"] = draw(st.integers(0, 1))
        if draw(st.integers(0, 2)) == 0:
            self.attrs["clip"] = 0.6
        if draw(st.integers(0, 2)) == 0:
            self._activations(len(DEFAULT[self.op]) * ways)
        outputs = self.net(OPS[self.op], x, w, r, *more, outputs=3 if self.op == "lstm" else 2, **self.attrs)
        self.net.output(*outputs)

    def _activations(self, count: int) -> None:
        names = [self.data.draw(st.sampled_from(sorted(NAMES))) for _ in range(count)]
        self.attrs["activations"] = [NAMES[name] for name in names]
        for at, attr in enumerate(("activation_alpha", "activation_beta")):
            numbers = [0.3 + 0.1 * i for i, name in enumerate(names) if len(ACTIVATIONS[name][1]) > at]
            if numbers:
                self.attrs[attr] = numbers


def check(drawn: Drawn, isa: str, threads: int) -> None:
    source = drawn.net.bytes()
    model = fg.load(source, isa=isa, threads=threads)
    assert native(model)
    found = list(model.run(drawn.feeds).values())
    assert_close(found, by_reference(graph_of(source), drawn.feeds), what="the reference")
    if not drawn.layout and not drawn.empty:  # of an empty sequence, onnxruntime forgets the initial state
        assert_close(found, by_onnxruntime(source, drawn.feeds), what="onnxruntime")


ISAS = [tier.name for tier in usable() if tier.name in ("generic", "avx2", "avx512")]
"""Those with f32 kernels of their own that this CPU has."""


@given(st.data(), st.sampled_from(ISAS), st.integers(1, 3))
@settings(max_examples=120)
def test_layers(data: Any, isa: str, threads: int) -> None:
    check(Drawn(data), isa, threads)


@given(st.data(), st.sampled_from(ISAS), st.integers(1, 2))
@settings(max_examples=40)
def test_weights_known_at_run_time(data: Any, isa: str, threads: int) -> None:
    check(Drawn(data, fixed=False), isa, threads)


@given(st.data(), st.sampled_from(ISAS), st.integers(1, 2))
@settings(max_examples=60)
def test_some_steps_at_a_time(data: Any, isa: str, threads: int) -> None:
    """As layers are computed whose inputs are large."""
    with patch.multiple(layer, LARGE=0, PART=data.draw(st.sampled_from([1, 1 << 12, 1 << 15]))):
        check(Drawn(data, fixed=data.draw(st.booleans())), isa, threads)


@given(st.data(), st.sampled_from(ISAS[-2:]))
@settings(max_examples=20)
def test_bits_hang_on_no_thread(data: Any, isa: str) -> None:
    drawn = Drawn(data)
    alone, *others = (fg.load(drawn.net.bytes(), isa=isa, threads=n).run(drawn.feeds) for n in (1, 2, 3))
    for other in others:
        for name, value in alone.items():
            np.testing.assert_array_equal(value, other[name])


def stacked(steps: Any, batch: Any, inputs: int, hidden: int, **attrs: Any) -> Net:
    """Two layers in both directions, with all that surrounds them in exported networks."""
    net, width = Net(), inputs
    x = net("Relu", net.input("x", (steps, batch, inputs)))
    for op, gates in (("LSTM", 4), ("GRU", 3)):
        w, r, b = net.weight(2, gates * hidden, width), net.weight(2, gates * hidden, hidden), net.weight(2, 8 * hidden)
        b = b if gates == 4 else net.weight(2, 6 * hidden)
        y, *last = net(op, x, w, r, b, outputs=2, hidden_size=hidden, direction="bidirectional", **attrs)
        x = net("Reshape", net("Transpose", y, perm=[0, 2, 1, 3]), net.const([0, 0, -1], np.int64))
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
        assert native(model)
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
def test_lengths_that_there_are_not(isa: str, length: int) -> None:
    net = Net()
    x, lengths = net.input("x", (3, 2, 4)), net.input("lengths", (2,), np.int32)
    net.output(net("RNN", x, net.weight(1, 5, 4), net.weight(1, 5, 5), "", lengths, hidden_size=5))
    model = net.load(isa=isa)
    feeds = {"x": np.ones((3, 2, 4), F32), "lengths": np.array([2, length], np.int32)}
    with pytest.raises(fg.InputError, match=re.compile("sequence_lens .*0 to 3")):
        model.run(feeds)
    feeds["lengths"][1] = 3
    assert np.isfinite(model.run(feeds)["v0"]).all()


def test_rows_of_something_wider() -> None:
    """Inputs that are parts of rows, and results that are made in their place beside one another."""
    net = Net()
    x = net("Relu", net.input("x", (5, 3, 12)))
    parts = net("Split", x, net.const([7, 5], np.int64), outputs=2, axis=2)
    ys = []
    for part, width in zip(parts, (7, 5), strict=True):
        y = net("LSTM", part, net.weight(1, 36, width), net.weight(1, 36, 9), hidden_size=9)
        ys.append(net("Squeeze", y, net.const([1], np.int64)))
    net.output(net("Concat", *ys, axis=2))
    source, x = net.bytes(), np.random.default_rng(0).standard_normal((5, 3, 12)).astype(F32)
    model = fg.load(source, threads=1)
    assert native(model)
    assert_close(list(model.run({"x": x}).values()), by_onnxruntime(source, {"x": x}))


@pytest.mark.parametrize("op", sorted(OPS.values()))
def test_node_cases(op: str) -> None:
    """The onnx package's, by kernels: their weights are inputs."""
    assert len(cases()[op]) >= 3
    for case in cases()[op]:
        model = fg.load(case.model.SerializeToString())
        assert native(model)
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


def of_bytes(steps: int, ways: int, batch: int, hidden: int, scales: int = 1, **attrs: Any) -> Graph:
    """An lstm with recurrent weights of 8 bits, which rounds its state."""
    rng = np.random.default_rng(hidden)

    def reals(name: str, *shape: int) -> Value:
        return Value.constant(name, rng.standard_normal(shape).astype(F32))

    quant = Quantization(tuple(rng.uniform(0.001, 0.004, scales).tolist()), (0,) * scales, 1 if scales > 1 else None)
    r = Value.constant("r", rng.integers(-127, 128, (ways, 4 * hidden, hidden)).astype(np.int8), quant)
    x = Value("x", TensorType(np.dtype(F32), (steps, batch, 3)))
    outputs = [Value(name, TensorType(np.dtype(F32))) for name in ("y", "h", "c")]
    inputs = [x, reals("w", ways, 4 * hidden, 3), r, reals("b", ways, 8 * hidden), None,
              reals("h0", ways, batch, hidden), reals("c0", ways, batch, hidden)]  # fmt: skip
    direction = "bidirectional" if ways == 2 else "reverse"
    graph = Graph("g", [x], outputs, [Node("lstm", inputs, outputs, {"direction": direction, "dynamic": 1, **attrs})])
    infer_graph(graph)
    return graph


def computed(graph: Graph, tier: Tier, x: np.ndarray) -> list[np.ndarray]:
    """By kernels alone."""
    plan = compile_graph(graph, {}, tier, 1)
    assert not any(isinstance(step, HostStep) for step in plan.program.steps)
    plan.fill({"x": x})
    plan.execute()
    return list(plan.results().values())


@each_integer_tier
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (3, 2, 1, 16), (4, 1, 5, 17), (2, 2, 4, 33), (3, 1, 2, 64)], ids=str)
def test_weights_of_bytes(tier: Tier, sizes: tuple[int, int, int, int]) -> None:
    for scales, attrs in ((1, {}), (4 * sizes[3] if sizes[1] == 1 else 1, {"clip": 0.7, "cell_clip": 0.9})):
        graph = of_bytes(*sizes, scales=scales, **attrs)
        x = np.random.default_rng(1).standard_normal(graph.inputs[0].type.dims).astype(F32)
        wanted = evaluate(graph, {"x": x})
        assert_close(computed(graph, tier, x), wanted, 2e-3)  # a state that is rounded the other way is a step off


def test_a_state_of_nothing_but_zeros_is_rounded() -> None:
    graph = of_bytes(2, 1, 1, 5)
    for at in (5, 6):
        value = graph.nodes[0].inputs[at]
        assert value is not None and value.data is not None
        graph.nodes[0].inputs[at] = Value.constant(value.name, np.zeros_like(value.data))
    x = np.ones((2, 1, 3), F32)
    assert_close(computed(graph, choose(), x), evaluate(graph, {"x": x}), 2e-3)


def test_an_rnn_of_one_direction_may_have_the_activations_of_two() -> None:
    """As the schema's default is, which onnxruntime's optimizer writes out."""
    net = Net()
    weights = net.weight(1, 3, 4), net.weight(1, 3, 3)
    net.output(*net("RNN", net.input("x", (2, 1, 4)), *weights, outputs=2, hidden_size=3, activations=["Relu", "Tanh"]))
    feeds = {"x": net.rng.standard_normal((2, 1, 4)).astype(F32)}
    assert_close(list(net.load().run(feeds).values()), by_onnxruntime(net.bytes(), feeds))
