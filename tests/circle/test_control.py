"""Sub-graphs, variables, tables and seeded random numbers: against LiteRT, or against plain arithmetic."""

from typing import Any

import numpy as np
import pytest
from flatbuffers.flexbuffers import Dumps

import fastgraph as fg
from fastgraph.errors import UnsupportedError
from fastgraph.plan.program import HostStep, Jump
from tests.circle.write import Model, litert, ours

F32 = np.float32


def same(data: bytes, runs: list[list[Any]]) -> list[list[np.ndarray]]:
    """What both give, to the bit."""
    pytest.importorskip("ai_edge_litert")
    found, wanted = ours(data, runs), litert(data, runs)
    for a, b in zip(found, wanted, strict=True):
        for x, y in zip(a, b, strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)
    return found


def one_op(m: Model, op: str, constant: Any, shape: tuple[int, ...], dtype: Any = F32) -> int:
    """A sub-graph x -> op(x, constant)."""
    index = m.graph()
    x = m.input(shape, dtype)
    m.now["outputs"] = m.op(op, [x, m.const(np.asarray(constant, dtype))], [(shape, dtype)])
    return index


def begin(m: Model) -> None:
    """Go on with the main graph after sub-graphs."""
    m.graphs.append(m.graphs.pop(0))


def end(m: Model) -> bytes:
    m.graphs.insert(0, m.graphs.pop())
    return m.bytes()


def test_loops_and_branches_are_native() -> None:
    """A WHILE that calls, in a branch of an IF; a variable is what it was when the run is stopped within."""
    m = Model()
    condition = m.graph()
    x, _ = m.input((4,)), m.input((4,))
    (largest,) = m.op("REDUCE_MAX", [x, m.const(np.array([0], np.int32))], [(1,)], keep_dims=True)
    m.now["outputs"] = m.op("LESS", [largest, m.const(np.array([100], F32))], [((1,), np.bool_)])
    twice, body = one_op(m, "MUL", 2, (4,)), m.graph()
    x, y = m.input((4,)), m.input((4,))
    (doubled,) = m.op("CALL", [y], [(4,)], subgraph=twice)
    m.now["outputs"] = [doubled, x]
    loop = m.graph()
    x = m.input((4,))
    m.now["outputs"] = m.op("WHILE", [x, x], [(4,), (4,)], cond_subgraph_index=condition, body_subgraph_index=body)[:1]
    other = one_op(m, "SUB", [1, 2, 3, 4], (4,))
    start = m.graph()
    m.op("ASSIGN_VARIABLE", [variable(m), m.const(np.zeros(4, F32))], [])
    begin(m)
    flag, x = m.input((), bool), m.input((4,))
    m.op("CALL_ONCE", [], [], init_subgraph_index=start)
    handle = variable(m)
    (before,) = m.op("READ_VARIABLE", [handle], [(4,)])
    (sum_,) = m.op("ADD", [before, x], [(4,)])
    m.now["outputs"] = m.op("IF", [flag, sum_], [(4,)], then_subgraph_index=loop, else_subgraph_index=other)
    m.op("ASSIGN_VARIABLE", [handle, m.now["outputs"][0]], [])
    data = end(m)
    runs = [[np.array(f), np.array([3, 1, n, 2], F32)] for n, f in enumerate((True, False, True, False))]
    for threads in (1, 2):
        model = fg.load(data, threads=threads)
        steps = model.plan.program.steps
        assert not any(isinstance(step, HostStep) for step in steps)
        assert sum(isinstance(step, Jump) for step in steps) == 4
    expected = np.zeros(4, F32)
    for (taken, added), (found,) in zip(runs, ours(data, runs), strict=True):
        expected = expected + added
        one, two = expected, expected
        while taken and one.max() < 100:
            one, two = two * 2, one
        expected = one if taken else expected - np.array([1, 2, 3, 4], F32)
        np.testing.assert_array_equal(found, expected)
    model = fg.load(data)
    names = [spec.name for spec in model.inputs]
    with pytest.raises(fg.RunTimeout):
        model.run(dict(zip(names, (np.array(True), np.full(4, -1, F32)), strict=True)), timeout=0.05)
    (found,) = model.run(dict(zip(names, runs[1], strict=True))).values()
    np.testing.assert_array_equal(found, runs[1][1] - np.array([1, 2, 3, 4], F32))


def variable(m: Model, name: str = "v") -> int:
    return m.op("VAR_HANDLE", [], [((), "resource")], container="", shared_name=name)[0]


def test_a_loop_that_changes_a_variable() -> None:
    m = Model()
    start = m.graph()
    m.op("ASSIGN_VARIABLE", [variable(m), m.const(np.array([1], F32))], [])
    condition = m.graph()
    i = m.input((1,), np.int32)
    m.now["outputs"] = m.op("LESS", [i, m.const(np.array([3], np.int32))], [((1,), np.bool_)])
    body = m.graph()
    i = m.input((1,), np.int32)
    handle = variable(m)
    (v,) = m.op("READ_VARIABLE", [handle], [(1,)])
    (twice,) = m.op("MUL", [v, m.const(np.array([2], F32))], [(1,)])
    m.op("ASSIGN_VARIABLE", [handle, twice], [])
    m.now["outputs"] = m.op("ADD", [i, m.const(np.array([1], np.int32))], [((1,), np.int32)])
    begin(m)
    x = m.input((1,), np.int32)
    m.op("CALL_ONCE", [], [], init_subgraph_index=start)
    (n,) = m.op("WHILE", [x], [((1,), np.int32)], cond_subgraph_index=condition, body_subgraph_index=body)
    (v,) = m.op("READ_VARIABLE", [variable(m)], [(1,)])
    m.now["outputs"] = [n, v]
    found = same(end(m), [[np.array([n], np.int32)] for n in (0, 2, 5)])
    assert [float(r[1][0]) for r in found] == [8, 16, 16]


def test_composite_runs_its_decomposition() -> None:
    m = Model()
    inner = one_op(m, "ADD", 2, (3,))
    begin(m)
    x = m.input((3,))
    told = {"table": "StableHLOCompositeOptions", "name": "odml.add", "composite_attributes": Dumps({})}
    m.now["outputs"] = m.op("STABLEHLO_COMPOSITE", [x], [(3,)], decomposition_subgraph_index=inner, **told)
    same(end(m), [[np.array([1, 2, 3], F32)]])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_case(count: int) -> None:
    """The last branch is also for numbers that are none of a branch."""
    m = Model()
    branches = [one_op(m, "MUL", 10**i, (2,)) for i in range(count)]
    begin(m)
    inputs = [m.input((), np.int32), m.input((2,))]
    m.now["outputs"] = m.op("STABLEHLO_CASE", inputs, [(2,)], branch_subgraph_indices=branches)
    numbers = [-1, 0, 1, 2, 9]
    found = ours(end(m), [[np.array(i, np.int32), np.ones(2, F32)] for i in numbers])
    assert [f[0][0] for f in found] == [10 ** (i if 0 <= i < count else count - 1) for i in numbers]


def test_an_initial_loop_is_refused_since_it_may_never_end() -> None:
    m = Model()
    condition = m.graph()
    i = m.input((1,))
    m.now["outputs"] = [m.const(np.array([True]))]
    body = one_op(m, "ADD", 1, (1,))
    start = m.graph()
    one = m.const(np.array([1], F32))
    (i,) = m.op("WHILE", [one], [(1,)], cond_subgraph_index=condition, body_subgraph_index=body)
    m.op("ASSIGN_VARIABLE", [variable(m), i], [])
    begin(m)
    x = m.input((1,))
    m.op("CALL_ONCE", [], [], init_subgraph_index=start)
    m.now["outputs"] = m.op("ADD", [x, m.op("READ_VARIABLE", [variable(m)], [(1,)])[0]], [(1,)])
    with pytest.raises(UnsupportedError, match="CALL_ONCE"):
        ours(end(m), [[np.zeros(1, F32)]])


@pytest.mark.parametrize(
    "keys, values",
    [(np.array([5, -7, 11]), np.array(["a", "bc", ""], object)), (np.array(["x", "yz"], object), np.array([3, 4]))],
    ids=["text of numbers", "numbers of text"],
)
def test_hash_table(keys: np.ndarray, values: np.ndarray) -> None:
    def table() -> int:
        kinds = ("INT64", "STRING") if keys.dtype != object else ("STRING", "INT64")
        return m.op("HASHTABLE", [], [((1,), "resource")], table_id=1, key_dtype=kinds[0], value_dtype=kinds[1])[0]

    m = Model()
    start = m.graph()
    m.op("HASHTABLE_IMPORT", [table(), m.const(keys), m.const(values)], [])
    begin(m)
    m.op("CALL_ONCE", [], [], init_subgraph_index=start)
    handle, query = table(), m.input((2,), keys.dtype)
    missing = "none" if values.dtype == object else -1
    default = m.const(np.array([missing], values.dtype))
    outs = m.op("HASHTABLE_FIND", [handle, query, default], [((2,), values.dtype)])
    outs += m.op("HASHTABLE_SIZE", [handle], [((1,), np.int64)])
    m.now["outputs"] = outs
    unknown = np.array([keys[1], 8 if keys.dtype != object else "q"], keys.dtype)
    ((found, size),) = ours(end(m), [[unknown]])
    assert found.tolist() == [values[1], missing]
    assert size.tolist() == [len(keys)]


def test_multinomial() -> None:
    m = Model()
    x = m.input((3, 5))
    m.now["outputs"] = m.op("MULTINOMIAL", [x, m.const(np.array(9, np.int32))], [((3, 9), np.int64)], seed=7, seed2=9)
    logits = np.random.default_rng(0).standard_normal((3, 5)).astype(F32)
    logits[1, 2] = -np.inf
    same(m.bytes(), [[logits]] * 2)


def test_numbers_drawn_in_a_loop_differ_from_round_to_round() -> None:
    pytest.importorskip("ai_edge_litert")
    m = Model()
    condition = m.graph()
    i, _ = m.input((1,), np.int32), m.input((4,))
    m.now["outputs"] = m.op("LESS", [i, m.const(np.array([3], np.int32))], [((1,), np.bool_)])
    body = m.graph()
    i, total = m.input((1,), np.int32), m.input((4,))
    (r,) = m.op("RANDOM_UNIFORM", [m.const(np.array([4], np.int32))], [(4,)], seed=1, seed2=2)
    (sum_,) = m.op("ADD", [total, r], [(4,)])
    (next_,) = m.op("ADD", [i, m.const(np.array([1], np.int32))], [((1,), np.int32)])
    m.now["outputs"] = [next_, sum_]
    begin(m)
    inputs = [m.input((1,), np.int32), m.input((4,))]
    m.now["outputs"] = m.op(
        "WHILE", inputs, [((1,), np.int32), (4,)], cond_subgraph_index=condition, body_subgraph_index=body
    )
    data, run = end(m), [np.array([0], np.int32), np.zeros(4, F32)]
    (first, second), (wanted,) = ours(data, [run, run]), litert(data, [run])
    np.testing.assert_allclose(first[1], wanted[1], rtol=1e-6)
    assert not np.array_equal(first[1], second[1])  # LiteRT begins anew here, as it prepares the body once more


def test_a_loop_that_carries_quantized_values() -> None:
    m, q = Model(), (0.05, 3)
    condition = m.graph()
    i, _ = m.input((1,), np.int32), m.input((4,), np.int8, q)
    m.now["outputs"] = m.op("LESS", [i, m.const(np.array([3], np.int32))], [((1,), np.bool_)])
    body = m.graph()
    i, x = m.input((1,), np.int32), m.input((4,), np.int8, q)
    (next_,) = m.op("ADD", [i, m.const(np.array([1], np.int32))], [((1,), np.int32)])
    twice = m.const(np.array([50], np.int8), quant=(0.04, 0))
    m.now["outputs"] = [next_, *m.op("MUL", [x, twice], [((4,), np.int8, q)])]
    begin(m)
    i, x = m.input((1,), np.int32), m.input((4,), np.int8, q)
    (doubled,) = m.op("ADD", [x, x], [((4,), np.int8, q)])
    kinds = [((1,), np.int32), ((4,), np.int8, q)]
    m.now["outputs"] = m.op("WHILE", [i, doubled], kinds, cond_subgraph_index=condition, body_subgraph_index=body)
    same(end(m), [[np.array([n], np.int32), np.array([-9, 7, 3, 5], np.int8)] for n in (0, 2, 4)])
