"""What lives from run to run, and sub-graphs: which take it as inputs and give it back as outputs."""

from __future__ import annotations

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.errors import ModelError, UnsupportedError
from fastgraph.frontends.circle import read, rules_control
from fastgraph.ir import Value, check
from fastgraph.limits import Limits, spending
from tests.circle.write import Model


def counter():
    """A model that adds its input to a variable, and gives the sum."""
    m = Model()
    v = m.variable((2,))
    m.op("ADD", [m.input((2,), name="x"), v], [v])
    return m.bytes(m.op("RELU", [v], [(2,)]))


def test_a_variable_tensor_is_a_state():
    graph = read(counter())
    check(graph)
    (state,) = graph.states
    assert state.initial.tolist() == [0, 0] and state.input.type.shape == (2,)
    assert state.output is graph.nodes[0].out and graph.nodes[1].x is state.output


def test_the_model_keeps_and_resets_it():
    model = fg.load(counter(), threads=1)
    for total in (1, 2, 3):
        assert model(np.ones(2, np.float32)).tolist() == [total, total]
    model.reset_states()
    assert model(np.ones(2, np.float32)).tolist() == [1, 1]


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


@pytest.mark.parametrize("fields,message", [
    ({"shape": [1 << 30]}, "at most"), ({"shape": [1], "shape_signature": [-1]}, "expected a shape"),
    ({"buffer": 1}, "expected no stored numbers"),
])  # fmt: skip
def test_variables_that_can_not_be(fields, message):
    m = Model()
    v = m.variable((2,))
    m.now["tensors"][v].update(fields)
    m.op("RELU", [v], [v])
    m.buffers.append({"data": np.zeros(8, np.uint8)})
    with pytest.raises(ModelError, match=message):
        read(m.bytes([v]))


@pytest.fixture
def calls(monkeypatch):
    """Sub-graphs stay sub-graphs where they are called."""

    def call(c, *args, index):
        keys = c.touched(index, args=args)
        body = c.subgraph(index, args, keys)
        after = [Value(c.unique(f"{key} after")) for key in keys]
        c.add("call", [*args, *map(c.scope.present, keys)], [*c.outputs, *after], body=body)
        for key, value in zip(keys, after, strict=True):
            c.scope.assign(key, value)

    monkeypatch.setattr(rules_control, "call", call)


def test_sub_graphs_take_and_give_what_they_touch(calls):
    m = Model()
    x = m.input((2,), name="x")
    (y,) = m.op("CALL", [x], [(2,)], subgraph=1)
    (y,) = m.op("CALL", [y], [(2,)], subgraph=1)
    m.now["outputs"] = [y]
    m.graph()
    a, v = m.input((2,)), m.variable((2,))
    m.op("ADD", [a, v], [v])
    graph = read(m.bytes([v]))
    check(graph)
    first, second = graph.nodes
    (state,) = graph.states
    assert first.inputs[1] is state.input and second.inputs[1] is first.outputs[1]
    assert state.output is second.outputs[1] and state.initial.tolist() == [0, 0]
    body = first.attrs["body"]
    assert len(body.inputs) == len(body.outputs) == 2 and body is not second.attrs["body"]
    assert body.outputs[0] is body.outputs[1] is body.nodes[0].out and body.nodes[0].inputs == body.inputs


def test_handles_are_known_within_sub_graphs(calls):
    m = Model()
    (h,) = m.op("VAR_HANDLE", [], [((), "resource")], container="c", shared_name="v")
    x = m.input((2,), name="x")
    m.op("ASSIGN_VARIABLE", [h, x], [])
    (y,) = m.op("CALL", [h], [(2,)], subgraph=1)
    m.now["outputs"] = [y]
    m.graph()
    inner = m.tensor((), "resource")
    m.now["inputs"].append(inner)
    (z,) = m.op("READ_VARIABLE", [inner], [(2,)])
    graph = read(m.bytes([z]))
    check(graph)
    call = graph.nodes[-1]
    assert call.inputs[1] is graph.inputs[0]
    assert call.attrs["body"].nodes[0].x is call.attrs["body"].inputs[1]


def test_a_variable_is_read_before_it_has_a_value(calls):
    m = Model()
    (h,) = m.op("VAR_HANDLE", [], [((), "resource")], container="", shared_name="v")
    (y,) = m.op("READ_VARIABLE", [h], [(2,)])
    with pytest.raises(ModelError, match="'variable /v' is read before anything gave it a value"):
        read(m.bytes([y]))


def test_recursion_is_refused(calls):
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


def test_what_is_unsupported_in_sub_graphs_is_named_too(calls):
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
def test_calls_that_would_double_without_end_are_refused(calls):
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
