"""The builder of graphs: what it writes computes what NumPy computes from the same expression."""

import numpy as np
import pytest

from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.ops.evaluate import evaluate
from fastgraph.rules.sweep import Sweep

RNG = np.random.default_rng(20)
X = RNG.uniform(0.5, 2, (3, 4)).astype(np.float32)
Y = RNG.uniform(0.5, 2, (4,)).astype(np.float32)

EXPRESSIONS = {
    "decay": (lambda g, x, y: 0.25 * x + (1 - y) * x, lambda x, y: 0.25 * x + (1 - y) * x),
    "quotients": (lambda g, x, y: 1 / x - x / y, lambda x, y: 1 / x - x / y),
    "signs": (lambda g, x, y: abs(-x) ** 2.0, lambda x, y: abs(-x) ** 2.0),
    "array beside": (lambda g, x, y: Y * x + np.ones(4, np.float32), lambda x, y: Y * x + np.ones(4, np.float32)),
    "product": (lambda g, x, y: x @ g.shape(y, 4, 1), lambda x, y: x @ y.reshape(4, 1)),
    "chosen": (
        lambda g, x, y: g.choose((x < y) | ~(x <= 1.0) & (y > 1.0), x, 0.5),
        lambda x, y: np.where((x < y) | ~(x <= 1.0) & (y > 1.0), x, np.float32(0.5)),
    ),
    "normalized": (
        lambda g, x, y: (x - g.mean(x, [1], keep=True)) / g.sqrt(g.sum(x * x, [1], keep=True)),
        lambda x, y: (x - x.mean(1, keepdims=True)) / np.sqrt((x * x).sum(1, keepdims=True)),
    ),
    "softmax": (
        lambda g, x, y: g.exp(x - g.largest(x, [0])) / g.sum(g.exp(x - g.largest(x, [0])), [0]),
        lambda x, y: np.exp(x - x.max(0)) / np.exp(x - x.max(0)).sum(0),
    ),
    "places": (
        lambda g, x, y: g.join([g.cut(x, 1, 0, 4, 2), g.pick(x, np.array([3, 0]), axis=1)], axis=1),
        lambda x, y: np.concatenate([x[:, ::2], x[:, [3, 0]]], axis=1),
    ),
    "turned": (lambda g, x, y: g.transpose(x, 1, 0) + g.broadcast(y, 3, 4).type.dims[0], lambda x, y: x.T + 3),
    "whole": (lambda g, x, y: g.cast(g.floor(x * 8), np.int32) % 3, lambda x, y: np.floor(x * 8).astype(np.int32) % 3),
}


def built(expression: object) -> tuple[Graph, Value]:
    x, y = Value("x", TensorType.of(X)), Value("y", TensorType.of(Y))
    graph = Graph("built", [x, y])
    g = Sweep(graph)
    g.node = Node("identity", [x], [Value("out")], name="here")
    with g:
        result = expression(g, x, y)  # type: ignore[operator]
    graph.nodes, graph.outputs = g.written(), [result]
    return graph, result


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_compute_what_they_say(name: str) -> None:
    write, meaning = EXPRESSIONS[name]
    graph, result = built(write)
    (found,) = evaluate(graph, {"x": X, "y": Y})
    wanted = np.asarray(meaning(X, Y))
    assert result.type == TensorType.of(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)  # sums in another order


def test_nodes_are_named_after_the_node_in_whose_place_they_stand() -> None:
    graph, _ = built(lambda g, x, y: x + y)
    assert [(node.name, node.out.name) for node in graph.nodes] == [("here", "out.add")]


def test_what_is_known_is_a_constant() -> None:
    graph, result = built(lambda g, x, y: g.vector(1, 2) + 3)
    assert not graph.nodes
    np.testing.assert_array_equal(result.data, [4, 5])


def test_operators_want_a_builder_at_work() -> None:
    x = Value("x", TensorType.of(X))
    with pytest.raises(TypeError, match="a builder is at work"):
        x + x
