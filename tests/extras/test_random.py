"""Random numbers by kernels: the streams of the references, and the moments of what no seed fixes."""

from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.extras.random_words import words
from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.kernels.isa.tiers import usable
from fastgraph.ops.evaluate import evaluate, infer_graph
from fastgraph.runtime.model import Model
from tests.kernels.harness import each_tier
from tests.nets import Net, numpy_steps

F32, F64, I64, U64 = np.float32, np.float64, np.int64, np.uint64


def graph_of(op: str, arrays: list[np.ndarray], constants: Any = (), outputs: int = 1, **attrs: Any) -> Graph:
    """A node of constants, then inputs x0, x1, ..."""
    inputs = [Value(f"x{i}", TensorType.of(array)) for i, array in enumerate(arrays)]
    fixed = [Value.constant(f"c{i}", np.asarray(data)) for i, data in enumerate(constants)]
    results = [Value(f"y{i}") for i in range(outputs)]
    operands: list[Value | None] = [*inputs, *fixed] if op == "bernoulli" else [*fixed, *inputs]
    graph = Graph("g", inputs, results, [Node(op, operands, results, attrs, "n")])
    infer_graph(graph)
    return graph


def both(graph: Graph, arrays: list[np.ndarray], tier: Any = None) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(what a native model gives, what the references do)."""
    feeds = {f"x{i}": array for i, array in enumerate(arrays)}
    wanted = evaluate(graph, feeds)
    model = Model(graph, tier or usable()[-1], 2)
    assert numpy_steps(model) == []
    return list(model.run(feeds).values()), wanted


@each_tier
@pytest.mark.parametrize("blocks", [1, 3, 8, 100, 5003])
def test_words(blocks: int, tier: Any) -> None:
    """To the bit, for counters that overflow 64 bits on the way."""
    key, high, first = (np.array(n, U64) for n in (0x123456789ABCDEF0, 0xFEDCBA9876543210, 2**64 - 3))
    for fry in (0, 1):
        ((found,), _) = both(
            graph_of("random_words", [key, high, first], blocks=blocks, threefry=fry), [key, high, first], tier
        )
        np.testing.assert_array_equal(found, words(int(key), int(high), int(first), blocks, bool(fry)))


@pytest.mark.parametrize("shape", [(1,), (3, 5), (257, 9)])
@pytest.mark.parametrize("op", ["philox_uniform", "philox_normal"])
def test_streams_with_seeds(op: str, shape: tuple[int, ...]) -> None:
    """Uniform numbers to the bit; normal ones as far as sine and logarithm of f32 are."""
    before = np.array(2**33 + 5, I64)
    found, wanted = both(graph_of(op, [before], [np.array(shape)], 2, seeds=(11, 2**40 + 3)), [before])
    assert found[1] == wanted[1]
    if op == "philox_uniform":
        np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_allclose(found[0], wanted[0], 2e-6, 1e-6)


def test_classes_of_a_stream() -> None:
    logits = np.random.default_rng(0).standard_normal((3, 20)).astype(F32)
    logits[0, 3], logits[1] = np.nan, -np.inf
    logits[1, 7] = 0
    before = np.array(77, I64)
    arrays = [before]
    found, wanted = both(graph_of("philox_multinomial", arrays, [logits, np.array([500])], 2, seeds=(5, 6)), arrays)
    np.testing.assert_array_equal(found[0], wanted[0])
    assert found[1] == wanted[1] and (found[0][1] == 7).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.int32, np.uint64, np.int64])
@pytest.mark.parametrize("algorithm, state", [("PHILOX", [3, 2**64 - 1]), ("PHILOX", [3, 4, 5]), ("THREEFRY", [9, 7])])
def test_bits_of_a_state(algorithm: str, state: list[int], dtype: Any) -> None:
    x = np.array(state, U64)
    found, wanted = both(
        graph_of("random_bits", [x], (), 2, algorithm=algorithm, dtype=np.dtype(dtype), shape=(5, 7)), [x]
    )
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


NODES: list[tuple[str, dict[str, Any], float, float]] = [
    ("RandomUniform", {"low": -2.0, "high": 4.0}, 1.0, 3**0.5),
    ("RandomNormal", {"mean": 3.0, "scale": 2.0}, 3.0, 2.0),
]


@pytest.mark.parametrize("dtype", [1, 10, 11])
@pytest.mark.parametrize("op, attrs, mean, deviation", NODES)
@pytest.mark.parametrize("like", [False, True])
def test_numbers_without_a_seed(
    like: bool, op: str, attrs: dict[str, Any], mean: float, deviation: float, dtype: int
) -> None:
    """Others in each run, with the moments of the distribution: 5 deviations of theirs are off once in a million."""
    net, count = Net(17), 200_001
    x = net.input("x", (count,))
    y = net(f"{op}Like", x, dtype=dtype, **attrs) if like else net(op, shape=[count], dtype=dtype, **attrs)
    net.output(net("Add", net("Cast", y, to=1), x))
    model = net.load(threads=2)
    assert numpy_steps(model) == []
    zero = np.zeros(count, F32)
    first, second = model(zero), model(zero)
    assert not np.array_equal(first, second)
    for found in (first, second):
        assert abs(found.mean() - mean) < 5 * deviation / count**0.5
        assert abs(found.std() / deviation - 1) < 5 / count**0.5
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / count**0.5
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 5 / count**0.5


@pytest.mark.parametrize("op, attrs", [("RandomUniform", {}), ("RandomNormal", {"mean": 1.0})])
def test_numbers_with_a_seed_are_those_of_the_reference(op: str, attrs: dict[str, Any]) -> None:
    net = Net(17)
    net.output(net("Add", net(op, shape=[3, 50], seed=7.0, **attrs), net.input("x", (3, 50))))
    model, zero = net.load(), np.zeros((3, 50), F32)
    assert numpy_steps(model) == []
    np.testing.assert_array_equal(model(zero), net.load(isa="numpy")(zero))
    np.testing.assert_array_equal(model(zero), model(zero))


@pytest.mark.parametrize("seed", [None, 5.0])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_bernoulli(dtype: Any, seed: float | None) -> None:
    net, told = Net(17), {} if seed is None else {"seed": seed}
    net.output(net("Bernoulli", net.input("x", (4, 20_000), dtype), dtype=7, **told), dtype=I64)
    model, x = net.load(), np.repeat(np.array([[0.0], [0.2], [0.7], [1.0]], dtype), 20_000, 1)
    assert numpy_steps(model) == []
    found = model(x)
    assert not found[0].any() and found[3].all()
    np.testing.assert_allclose(found.mean(1), x[:, 0], 0, 5 * (0.25 / 20_000) ** 0.5)
    assert np.array_equal(found, model(x)) == (seed is not None)
    if seed is not None:
        np.testing.assert_array_equal(found, net.load(isa="numpy")(x))


@pytest.mark.parametrize("seed", [None, 5.0])
def test_multinomial(seed: float | None) -> None:
    net, told = Net(17), {} if seed is None else {"seed": seed}
    net.output(net("Multinomial", net.input("x", (2, 4)), sample_size=20_000, **told), dtype=np.int32)
    model, share = net.load(), np.array([[0.1, 0.2, 0.3, 0.4], [0.0, 0.5, 0.0, 0.5]])
    assert numpy_steps(model) == []
    with np.errstate(divide="ignore"):
        x = np.log(share).astype(F32) + 3
    found = model(x)
    parts = np.array([np.bincount(row, minlength=4) for row in found]) / 20_000
    np.testing.assert_allclose(parts, share, 0, 5 * (0.25 / 20_000) ** 0.5)
    if seed is not None:
        np.testing.assert_array_equal(found, net.load(isa="numpy")(x))


@pytest.mark.parametrize("seed", [None, 5])
def test_dropout_in_training(seed: int | None) -> None:
    net, told = Net(17), {} if seed is None else {"seed": seed}
    operands = net.input("x", (50_000,)), net.const(np.float32(0.3)), net.const(np.array(True))
    y, mask = net("Dropout", *operands, outputs=2, **told)
    net.output(y)
    net.output(mask, dtype=bool)
    model, x = net.load(), np.full(50_000, 2, F32)
    assert numpy_steps(model) == []
    found, kept = model.run({"x": x}).values()
    np.testing.assert_array_equal(found, np.where(kept, np.float32(2) * np.float32(1 / 0.7), 0))
    assert abs(kept.mean() - 0.7) < 5 * (0.25 / 50_000) ** 0.5


def test_numbers_of_a_seed_that_are_too_many_are_drawn_in_the_run() -> None:
    """A file of few bytes may ask for any number."""
    net = Net(17)
    net.output(net("ReduceSum", net("RandomUniform", shape=[5000, 1000], seed=1.0)))
    model = fg.load(net.bytes(), limits=fg.Limits(constants=1 << 20))
    assert numpy_steps(model)[:1] == ["random_uniform"]
