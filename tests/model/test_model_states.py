"""States: what a graph keeps from run to run."""

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.errors import InputError, ModelError
from fastgraph.ir import Graph, Node, State, TensorType, Value
from fastgraph.kernels.isa.tiers import Tier, choose
from fastgraph.runtime.model import Model
from tests.circle.write import Model as File

F32 = np.dtype(np.float32)


@pytest.fixture(params=[None, "numpy"], ids=["kernels", "numpy"])
def tier(request: pytest.FixtureRequest) -> Tier:
    return choose(request.param)


def value(name: str, shape: tuple = (2,), dtype: np.dtype = F32) -> Value:
    return Value(name, TensorType(dtype, shape))


def test_a_sum_goes_on_from_run_to_run_and_starts_again_when_reset(tier: Tier) -> None:
    x, total, new = value("x"), value("total"), value("new")
    graph = Graph("sum", [x], [new], [Node("add", [x, total], [new])])
    graph.states = [State(total, new, np.array([10, 20], np.float32))]
    model = Model(graph, tier, 1)
    ones = np.ones(2, np.float32)
    assert [spec.name for spec in model.inputs] == ["x"] and list(model.run({"x": ones})) == ["new"]
    assert model.run({"x": ones})["new"].tolist() == [12, 22]
    model.execute()
    assert model.output("new").tolist() == [13, 23]
    model.reset_states()
    assert model(ones).tolist() == [11, 21]
    assert "state %total" in str(graph)


def test_states_that_become_one_another_swap(tier: Tier) -> None:
    x, a, b, y = value("x"), value("a"), value("b"), value("y")
    graph = Graph("swap", [x], [y], [Node("add", [x, a], [y])])
    graph.states = [State(a, b, np.full(2, 1, np.float32)), State(b, a, np.full(2, 2, np.float32))]
    model = Model(graph, tier, 1)
    zeros = np.zeros(2, np.float32)
    assert [model(zeros)[0] for _ in range(4)] == [1, 2, 1, 2]


def test_a_state_lives_on_when_the_input_shape_changes(tier: Tier) -> None:
    x, count, new, y = value("x", ("n",)), value("count", ()), value("new", ()), value("y", ("n",))
    one = Value.constant("one", np.float32(1))
    graph = Graph("count", [x], [y], [Node("add", [count, one], [new]), Node("add", [x, new], [y])])
    graph.states = [State(count, new, np.array(0, np.float32))]
    model = Model(graph, tier, 1)
    assert [model(np.zeros(n, np.float32)).tolist() for n in (1, 2, 1)] == [[1], [2, 2], [3]]


def test_a_run_whose_lookup_fails_leaves_states_as_they_were(tier: Tier) -> None:
    index, count, new = value("index", (1,), np.dtype(np.int64)), value("count"), value("new")
    row, rows = value("row", (1, 2)), Value.constant("rows", np.ones((3, 2), np.float32))
    graph = Graph("count", [index], [new, row], [Node("gather", [rows, index], [row], {"axis": 0})])
    graph.nodes.append(Node("add", [count, Value.constant("one", np.float32(1))], [new]))
    graph.states = [State(count, new, np.zeros(2, np.float32))]
    model = Model(graph, tier, 1)
    for place, total in ((0, 1), (2, 2), (3, 2), (-4, 2), (-3, 3)):
        if -3 <= place < 3:
            assert model.run({"index": np.array([place])})["new"].tolist() == [total, total]
        else:
            with pytest.raises(InputError, match="out of range|outside extent"):
                model.run({"index": np.array([place])})


def test_a_state_that_changes_its_type_is_refused(tier: Tier) -> None:
    x, state, new = value("x", (3,)), value("state"), value("new", (3,))
    graph = Graph("bad", [x], [new], [Node("relu", [x], [new])], states=[State(state, new, np.zeros(2, np.float32))])
    with pytest.raises(ModelError, match="state 'state' is float32"):
        Model(graph, tier, 1)


@pytest.mark.parametrize("isa", ["numpy", None])
@pytest.mark.parametrize("op", ["reshape", "transpose", "slice"])
def test_an_output_is_what_a_variable_was_before_it_was_written(op: str, isa: str | None) -> None:
    """Though it is a view of the variable's memory."""
    m = File()
    v, x = m.variable((1, 2)), m.input((1, 2), name="x")
    ends = [m.const(np.array(a, np.int32)) for a in ([0, 0], [1, 1], [1, 1])]
    (y,) = {"reshape": lambda: m.op("RESHAPE", [v], [(2, 1)], new_shape=[2, 1]),
            "transpose": lambda: m.op("TRANSPOSE", [v, m.const(np.array([1, 0], np.int32))], [(2, 1)]),
            "slice": lambda: m.op("STRIDED_SLICE", [v, *ends], [(1, 1)])}[op]()  # fmt: skip
    m.op("ADD", [x, v], [v])
    model = fg.load(m.bytes([y]), threads=1, isa=isa)
    for n in range(3):
        assert set(model(np.ones((1, 2), np.float32)).ravel()) == {n}
    model.execute()
    assert set(model.output(model.outputs[0].name).ravel()) == {3}
    assert fg.verify(model).ok
