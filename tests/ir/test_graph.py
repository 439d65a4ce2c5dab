"""The graph: printing, copying, pruning, replacing, what sub-graphs capture, and what `check` refuses."""

from collections.abc import Callable

import numpy as np
import pytest

from fastgraph.errors import GraphError
from fastgraph.ir import Graph, Node, Quantization, TensorType, Value, captured, check, copy, read_by
from fastgraph.ops.evaluate import evaluate

F32 = np.dtype(np.float32)


def f32(name: str, *shape: int | str | None) -> Value:
    return Value(name, TensorType(F32, shape))


def chain() -> Graph:
    """y = relu(x) + c"""
    x, a, y = f32("x", 2, 3), f32("a", 2, 3), f32("y", 2, 3)
    c = Value.constant("c", np.arange(3, dtype=F32))
    return Graph("chain", [x], [y], [Node("relu", [x], [a], name="first"), Node("add", [a, c], [y])])


def branches() -> Graph:
    """y = if p: x + k else: relu(x), where the then branch also holds an if of its own that reads the outer a."""
    p, x = Value("p", TensorType(np.dtype(bool), ())), f32("x", 2)
    a, y, k = f32("a", 2), f32("y", 2), Value.constant("k", np.ones(2, F32))
    t, e, s = f32("t", 2), f32("e", 2), f32("s", 2)
    deep = [Graph("deep", [], [a]), Graph("flat", [], [s], [Node("neg", [x], [s])])]
    inner = Node("if", [p], [u := f32("u", 2)], {"then_branch": deep[0], "else_branch": deep[1]})
    then = Graph("then", [], [t], [inner, Node("add", [u, k], [t])])
    other = Graph("else", [], [e], [Node("relu", [x], [e])])
    node = Node("if", [p], [y], {"then_branch": then, "else_branch": other})
    return Graph("branches", [p, x], [y], [Node("abs", [x], [a]), node])


def run(graph: Graph, **feeds: np.ndarray) -> list[np.ndarray]:
    return evaluate(graph, feeds)


# -- text


def test_text_of_a_graph() -> None:
    assert str(chain()) == (
        "graph chain(%x: float32[2,3]) {\n"
        "  %a: float32[2,3] = relu(%x)\n"
        "  %y: float32[2,3] = add(%a, const float32[0.0, 1.0, 2.0])\n"
        "  return %y\n"
        "}"
    )


def test_text_of_a_sub_graph_is_indented() -> None:
    lines = str(branches()).splitlines()
    depths = [len(line) - len(line.lstrip()) for line in lines]
    assert max(depths) >= 6 and lines[0].startswith("graph branches(") and lines[-1] == "}"
    assert sum("graph " in line for line in lines) == 5


def test_text_of_a_node() -> None:
    weights = Value.constant("w", np.zeros((3, 4), F32))
    node = Node("conv", [f32("x", "n", None), weights, None], [Value("y")], {"pads": (1, 2), "alpha": 0.5})
    assert str(node) == "%y = conv(%x, const float32[3,4], _) {alpha=0.5, pads=(1, 2)}"


def test_text_of_attributes_and_types() -> None:
    small, large = np.arange(2), np.arange(9)
    text = str(Node("constant_of_shape", [], [Value("y")], {"small": small, "large": large, "kind": "s"}))
    assert text == "%y = constant_of_shape() {kind='s', large=array int64[9], small=[0, 1]}"
    assert str(TensorType(F32, (1, "n", None))) == "float32[1,n,?]"
    assert str(TensorType(np.dtype(np.int8), (), Quantization((0.5,), (0,)))) == "int8[] {0.5 * q}"


def test_text_of_numbers_that_have_no_short_form() -> None:
    value = Value.constant("c", np.array([np.nan, np.inf], F32))
    assert "nan, inf" in str(Node("neg", [value], [Value("y")]))


# -- types


def test_a_type_knows_its_size() -> None:
    assert TensorType(F32, (2, 3)).nbytes == 24
    assert TensorType(F32, ()).size == 1
    assert TensorType(F32, (4, 0)).nbytes == 0
    assert TensorType(F32, (2**40, 2**30)).size == 2**70, "extents must not wrap"


@pytest.mark.parametrize("shape", [None, (2, None), ("n",)])
def test_only_numbers_are_concrete(shape: tuple | None) -> None:
    type_ = TensorType(F32, shape)
    assert not type_.concrete
    with pytest.raises(AssertionError):
        _ = type_.dims
    assert not TensorType(None, (1,)).concrete


# -- editing


def test_uses_and_producers() -> None:
    graph = chain()
    x, (a, y) = graph.inputs[0], (node.out for node in graph.nodes)
    assert graph.uses()[x] == [graph.nodes[0]] and y not in graph.uses()
    assert graph.producers() == {a: graph.nodes[0], y: graph.nodes[1]}
    assert [v.name for v in graph.constants()] == ["c"]


def test_a_value_read_twice_by_a_node_is_one_use() -> None:
    x, y = f32("x", 2), f32("y", 2)
    graph = Graph("g", [x], [y], [Node("add", [x, x], [y])])
    assert graph.uses()[x] == graph.nodes


def test_what_a_sub_graph_reads_is_a_use() -> None:
    graph = branches()
    a = graph.nodes[0].out
    assert graph.uses()[a] == [graph.nodes[1]]
    assert [v.name for v in read_by(graph.nodes[1])][0] == "p"
    assert {v.name for v in read_by(graph.nodes[1])} == {"p", "x", "a"}


def test_captured_values_are_the_outer_ones() -> None:
    then, other = branches().nodes[1].graphs
    assert [v.name for v in captured(then)] == ["p", "a", "x"]
    assert [v.name for v in captured(other)] == ["x"]
    assert captured(branches()) == []


def test_replace_reaches_readers_sub_graphs_and_outputs() -> None:
    graph = branches()
    x, a = graph.inputs[1], graph.nodes[0].out
    graph.outputs.append(a)
    graph.replace({a: x})
    assert graph.outputs[1] is x
    assert {v.name for v in read_by(graph.nodes[1])} == {"p", "x"}
    check(graph)


def test_replace_changes_every_place_of_a_node() -> None:
    x, y, z = f32("x", 2), f32("y", 2), f32("z", 2)
    graph = Graph("g", [x, z], [y], [Node("add", [x, x], [y])])
    graph.replace({x: z})
    assert graph.nodes[0].inputs == [z, z]


def test_prune_drops_what_nobody_reads() -> None:
    graph = chain()
    x, dead, deader = graph.inputs[0], f32("dead", 2, 3), f32("deader", 2, 3)
    graph.nodes[1:1] = [Node("neg", [x], [dead]), Node("neg", [dead], [deader])]
    assert graph.prune() == 2
    assert [node.op for node in graph.nodes] == ["relu", "add"]
    assert graph.prune() == 0


def test_prune_keeps_what_a_sub_graph_reads_and_nodes_with_one_live_output() -> None:
    graph = branches()
    x, live, dead = graph.inputs[1], f32("live", 1), f32("dead", 1)
    graph.nodes.append(Node("split", [x], [live, dead], {"axis": 0}))
    graph.outputs.append(live)
    assert graph.prune() == 0 and len(graph.nodes) == 3


# -- copying


def test_a_copy_is_apart_but_shares_constants() -> None:
    graph = chain()
    twin = copy(graph)
    assert str(twin) == str(graph)
    twin.inputs[0].type = TensorType(F32, (9, 3))
    twin.nodes[0].attrs["changed"] = 1
    twin.nodes.pop()
    assert str(graph) == str(chain())
    assert twin.constants() == [] and copy(graph).constants()[0].data is graph.constants()[0].data


@pytest.mark.parametrize("p", [True, False])
def test_a_copy_of_sub_graphs_reads_the_copys_values(p: bool) -> None:
    graph = branches()
    twin = copy(graph)
    check(twin)
    x = np.array([-1, 2], F32)
    expected = run(graph, p=np.array(p), x=x)
    own = {id(v) for v in [*graph.inputs, *(v for n in graph.nodes for v in n.outputs)]}
    assert not own & {id(v) for node in twin.nodes for v in read_by(node)}
    graph.nodes.clear()
    for inner in twin.nodes[1].graphs:
        assert captured(inner)
    np.testing.assert_array_equal(run(twin, p=np.array(p), x=x), expected)


def test_a_copied_sub_graph_may_give_an_outer_value() -> None:
    twin = copy(branches())
    deep = twin.nodes[1].graphs[0].nodes[0].graphs[0]
    assert deep.outputs == [twin.nodes[0].out]


def test_a_copied_sub_graph_alone_still_reads_the_outer_values() -> None:
    graph = branches()
    then = graph.nodes[1].graphs[0]
    assert captured(copy(then)) == captured(then)


# -- check


def test_check_takes_good_graphs() -> None:
    x = f32("x")
    for graph in (chain(), branches(), Graph("empty"), Graph("through", [x], [x, x])):
        check(graph)


def made_constant(graph: Graph) -> None:
    graph.nodes[0].out.data = np.zeros((2, 3), F32)


def retyped(type_: TensorType) -> Callable[[Graph], None]:
    """What gives the constant another type."""
    return lambda graph: setattr(graph.constants()[0], "type", type_)


BROKEN: dict[str, tuple[Callable[[Graph], None], str]] = {
    "the order of nodes": (lambda g: g.nodes.reverse(), "%a is read before it is made"),
    "an output that nobody makes": (lambda g: g.outputs.append(f32("lost")), "%lost is read before"),
    "a value made by two nodes": (
        lambda g: g.nodes.append(Node("neg", g.inputs, [g.nodes[0].out])),
        "%a is made twice",
    ),
    "a value made twice": (lambda g: g.nodes.append(Node("split", g.inputs, [g.nodes[0].out] * 2)), "%a is made twice"),
    "an input made by a node": (lambda g: g.nodes.append(Node("neg", g.inputs[:], g.inputs[:])), "%x is made twice"),
    "a constant made by a node": (made_constant, "constant"),
    "another shape": (retyped(TensorType(F32, (4,))), "type says"),
    "another element type": (retyped(TensorType(np.dtype(np.float64), (3,))), "type says"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_check_refuses(name: str) -> None:
    """With the stage, the graph and the value."""
    (change, says), graph = BROKEN[name], chain()
    change(graph)
    with pytest.raises(GraphError, match=f"chain: after fuse: .*{says}"):
        check(graph, "fuse")


def test_check_looks_into_sub_graphs() -> None:
    graph = branches()
    graph.nodes.reverse()
    with pytest.raises(GraphError, match="%a is read before"):
        check(graph)
    graph = branches()
    then = graph.nodes[1].graphs[0]
    then.nodes.reverse()
    with pytest.raises(GraphError, match="%u is read before"):
        check(graph)


def test_check_refuses_a_sub_graph_that_makes_an_outer_value() -> None:
    graph = branches()
    then = graph.nodes[1].graphs[0]
    then.nodes.append(Node("neg", [graph.inputs[1]], [graph.nodes[0].out]))
    with pytest.raises(GraphError, match="made twice"):
        check(graph)
