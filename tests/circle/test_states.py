"""What lives from run to run, in a loaded model: LSTM states, variables, seeded numbers, and how they are reset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.circle.test_control import begin, end, one_op, variable
from tests.circle.write import Model, litert

F32 = np.float32


def runs_of(model: Any, runs: list[list[Any]]) -> list[list[np.ndarray]]:
    names = [spec.name for spec in model.inputs]
    return [list(model.run(dict(zip(names, feeds, strict=True))).values()) for feeds in runs]


def lstm() -> tuple[bytes, list[list[np.ndarray]]]:
    rng = np.random.default_rng(3)
    m, units, features = Model(), 4, 3
    draw = lambda *shape: m.const((rng.standard_normal(shape) * 0.4).astype(F32))  # noqa: E731
    inputs: list[int | None] = [m.input((1, 5, features))]
    inputs += [draw(units, features) for _ in range(4)] + [draw(units, units) for _ in range(4)]
    inputs += [None] * 3 + [draw(units) for _ in range(4)] + [None] * 2 + [m.variable((1, units)) for _ in range(2)]
    (y,) = m.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [(1, 5, units)], fused_activation_function="TANH")
    (z,) = m.op("ADD", [y, m.const(np.array(1, F32))], [(1, 5, units)])
    return m.bytes([z]), [[rng.standard_normal((1, 5, features)).astype(F32)] for _ in range(4)]


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


@pytest.mark.parametrize("made", [lstm, counter])
def test_states_live_on_until_they_are_reset(made: Any) -> None:
    pytest.importorskip("ai_edge_litert")
    data, runs = made()
    model = fg.load(data, threads=1)
    first = runs_of(model, runs)
    for found, wanted in zip(first, litert(data, runs), strict=True):
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5, atol=1e-6)
    model.reset_states()
    for found, wanted in zip(runs_of(model, runs), first, strict=True):
        np.testing.assert_array_equal(found[0], wanted[0])


def test_seeded_numbers_begin_anew_after_a_reset() -> None:
    m = Model()
    m.now["outputs"] = m.op("RANDOM_UNIFORM", [m.const(np.array([5], np.int32))], [(5,)], seed=3, seed2=4)
    model = fg.load(m.bytes(), threads=1)
    first, second = runs_of(model, [[], []])
    model.reset_states()
    (again,) = runs_of(model, [[]])
    assert not np.array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[0], again[0])
