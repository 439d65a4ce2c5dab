"""What lives from run to run: variables and seeded numbers; and sub-graphs."""

from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.errors import ModelError, UnsupportedError
from fastgraph.frontends.circle import read
from fastgraph.limits import Limits, spending
from tests.circle.test_control import begin, end, one_op, variable
from tests.circle.write import Model, litert, ours

F32 = np.float32


def test_an_int8_variable_begins_at_its_zero_point():
    m = Model()
    x = m.input((2,), np.int8, (0.5, 3))
    v = m.variable((2,), np.int8, (0.5, 3))
    m.op("ADD", [x, v], [v])
    (state,) = read(m.bytes([v])).states
    assert state.initial.tolist() == [3, 3] and state.initial.dtype == np.int8


def test_a_variable_that_nobody_writes_is_a_constant():
    m = Model()
    (y,) = m.op("ADD", [m.input((2,)), m.variable((2,))], [(2,)])
    graph = read(m.bytes([y]))
    assert not graph.states and graph.nodes[0].inputs[1].data.tolist() == [0, 0]


HUGE, OPEN, STORED = {"shape": [1 << 30]}, {"shape": [1], "shape_signature": [-1]}, {"buffer": 1}


@pytest.mark.parametrize(
    "fields,message", [(HUGE, "at most"), (OPEN, "expected a shape"), (STORED, "expected no stored numbers")]
)
def test_variables_that_can_not_be(fields, message):
    m = Model()
    v = m.variable((2,))
    m.now["tensors"][v].update(fields)
    m.op("RELU", [v], [v])
    m.buffers.append({"data": np.zeros(8, np.uint8)})
    with pytest.raises(ModelError, match=message):
        read(m.bytes([v]))


def test_a_variable_is_read_before_it_has_a_value():
    m = Model()
    (h,) = m.op("VAR_HANDLE", [], [((), "resource")], container="", shared_name="v")
    (y,) = m.op("READ_VARIABLE", [h], [(2,)])
    with pytest.raises(ModelError, match="'variable /v' is read before anything gave it a value"):
        read(m.bytes([y]))


def test_recursion_is_refused():
    m = Model()
    (y,) = m.op("CALL", [m.input((2,))], [(2,)], subgraph=1)
    m.now["outputs"] = [y]
    for callee in (2, 1):
        m.graph()
        (y,) = m.op("CALL", [m.input((2,))], [(2,)], subgraph=callee)
        m.now["outputs"] = [y]
    with pytest.raises(ModelError, match="sub-graph 1 calls itself"):
        read(m.bytes())
    m.graphs[2]["operators"][0]["builtin_options"] = ("CallOptions", {"subgraph": 5})
    with pytest.raises(ModelError, match="expected a sub-graph from 0 to 2, found 5"):
        read(m.bytes())


def test_what_is_unsupported_in_sub_graphs_is_named_too():
    m = Model()
    x = m.input((2,))
    made = [m.op("CALL", [x], [(2,)], subgraph=i)[0] for i in (1, 1, 2)]
    m.now["outputs"] = made
    m.graph()
    m.op("Nobody", [m.input((2,))], [(2,)], custom=b"")
    m.now["outputs"] = [1]
    m.graph()
    m.input((2,))
    m.now["tensors"][0]["type"] = "FLOAT8_E5M2"
    said = r"custom operator 'Nobody' \(2 times, first at operator 0 of sub-graph 1, .*\); tensors of type FLOAT8_E5M2"
    with pytest.raises(UnsupportedError, match=said):
        read(m.bytes([0]))


@pytest.mark.slow
def test_calls_that_would_double_without_end_are_refused():
    m = Model()
    for level in range(40):
        if level:
            m.graph()
        (y,) = m.op("CALL", [m.input((2,))], [(2,)], subgraph=level + 1)
        (y,) = m.op("CALL", [y], [(2,)], subgraph=level + 1)
        m.now["outputs"] = [y]
    m.graph()
    (y,) = m.op("RELU", [m.input((2,))], [(2,)])
    with pytest.raises(ModelError, match="more operators and operands than any model has"):
        read(m.bytes([y]))


def test_what_runs_at_load_is_limited():
    """A sub-graph of CALL_ONCE that multiplies matrices of ones."""
    m = Model()
    m.op("CALL_ONCE", [], [], init_subgraph_index=1)
    (y,) = m.op("RELU", [m.input((2,))], [(2,)])
    m.now["outputs"] = [y]
    m.graph()
    side = 512
    (a,) = m.op("FILL", [m.const(np.array([side, side], np.int32)), m.const(np.float32(1 / side))], [(side, side)])
    for _ in range(4):
        (a,) = m.op("BATCH_MATMUL", [a, a], [(side, side)])
    data = m.bytes([])
    read(data)
    with pytest.raises(UnsupportedError, match=r"computes more than Limits\(work=100\)"), spending(Limits(work=100)):
        read(data)


def runs_of(model: Any, runs: list[list[Any]]) -> list[list[np.ndarray]]:
    names = [spec.name for spec in model.inputs]
    return [list(model.run(dict(zip(names, feeds, strict=True))).values()) for feeds in runs]


def counter() -> tuple[bytes, list[list[np.ndarray]]]:
    """A variable, initialized to 10, to which a branch adds x or takes 1 from."""
    m = Model()
    start = m.graph()
    m.op("ASSIGN_VARIABLE", [variable(m), m.const(np.array([10], F32))], [])
    less = one_op(m, "SUB", 1, (1,))
    more = one_op(m, "ADD", 5, (1,))
    begin(m)
    flag = m.input((), bool)
    m.op("CALL_ONCE", [], [], init_subgraph_index=start)
    handle = variable(m)
    (before,) = m.op("READ_VARIABLE", [handle], [(1,)])
    (after,) = m.op("IF", [flag, before], [(1,)], then_subgraph_index=more, else_subgraph_index=less)
    m.op("ASSIGN_VARIABLE", [handle, after], [])
    m.now["outputs"] = [after]
    return end(m), [[np.array(b)] for b in (True, False, False, True)]


def test_a_variable_tensor_lives_on_until_it_is_reset():
    m = Model()
    v = m.variable((2,))
    m.op("ADD", [m.input((2,)), v], [v])
    data, x = m.bytes(m.op("RELU", [v], [(2,)])), np.ones(2, np.float32)
    model = fg.load(data, threads=1)
    assert [model(x).tolist() for _ in range(3)] == [[1, 1], [2, 2], [3, 3]]
    model.reset_states()
    assert model(x).tolist() == [1, 1]


def test_seeded_numbers_are_litert_s_and_begin_anew_after_a_reset():
    for op in ("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"):
        m = Model()
        data = m.bytes(m.op(op, [m.const(np.array([3, 7], np.int32))], [(3, 7)], seed=123, seed2=-45))
        model = fg.load(data, threads=1)
        found, wanted = runs_of(model, [[]] * 3), litert(data, [[]] * 3)
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)
        model.reset_states()
        np.testing.assert_array_equal(runs_of(model, [[]])[0], found[0])


def test_unseeded_numbers_differ_and_lie_where_they_should():
    m = Model()
    m.now["outputs"] = m.op("RANDOM_UNIFORM", [m.const(np.array([1000], np.int32))], [(1000,)])
    (a,), (b,) = ours(m.bytes(), [[], []])
    assert not np.array_equal(a, b) and 0 <= a.min() and a.max() < 1 and abs(a.mean() - 0.5) < 0.1


def test_variables_live_on_until_they_are_reset():
    data, runs = counter()
    model = fg.load(data, threads=1)
    first = runs_of(model, runs)
    np.testing.assert_array_equal(first, litert(data, runs))
    model.reset_states()
    np.testing.assert_array_equal(runs_of(model, runs), first)
