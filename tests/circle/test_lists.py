"""Loops over lists of tensors as TensorFlow's converter writes them: native, and to the bit as LiteRT runs them."""

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.errors import InputError
from fastgraph.plan.program import HostStep
from tests.circle.test_control import begin, end, same
from tests.circle.write import Model, ours

F32, I32 = np.float32, np.int32


def running_sum(n: int, next_after: int = 1, first_sizes: int = -1) -> bytes:
    """For i from the input on, while below n: the sum so far takes in x[i] and becomes row i of a list.

    The second part of the list begins at i + next_after.
    """
    m = Model()

    def some() -> int:
        """Rows of a number that the file leaves open."""
        return m.tensor((1, 1, 3), shape_signature=[-1, 1, 3])

    def whole(*numbers: int) -> int:
        return m.const(np.array(numbers, I32))

    condition = m.graph()
    i, *_ = m.input((), I32), m.input((n, 1, 3)), m.input((n, 1, 3)), m.input((1, 3))
    m.now["outputs"] = m.op("LESS", [i, m.const(np.array(n, I32))], [((), bool)])
    body = m.graph()
    i, x, found, total = m.input((), I32), m.input((n, 1, 3)), m.input((n, 1, 3)), m.input((1, 3))
    (row,) = m.op("GATHER", [x, i], [(1, 3)], axis=0)
    (total,) = m.op("ADD", [row, total], [(1, 3)])
    (after,) = m.op("ADD", [i, m.const(np.array(next_after, I32))], [((), I32)])
    (later,) = m.op("ADD", [i, m.const(np.array(1, I32))], [((), I32)])
    (here,) = m.op("RESHAPE", [i, whole(1)], [((1,), I32)], new_shape=[1])
    (size,) = m.op("CONCATENATION", [here, whole(first_sizes, -1)], [((3,), I32)], axis=0)
    (before,) = m.op("SLICE", [found, whole(0, 0, 0), size], [some()])
    (there,) = m.op("RESHAPE", [after, whole(1)], [((1,), I32)], new_shape=[1])
    (start,) = m.op("CONCATENATION", [there, whole(0, 0)], [((3,), I32)], axis=0)
    (behind,) = m.op("SLICE", [found, start, whole(-1, -1, -1)], [some()])
    (lifted,) = m.op("RESHAPE", [total, whole(1, 1, 3)], [(1, 1, 3)], new_shape=[1, 1, 3])
    made = m.op("CONCATENATION", [before, lifted, behind], [some()], axis=0)
    m.now["outputs"] = [later, x, *made, total]
    begin(m)
    inputs = [m.input((), I32), m.input((n, 1, 3))]
    kinds = [((), I32), (n, 1, 3), (n, 1, 3), (1, 3)]
    start_list, nothing = m.const(np.full((n, 1, 3), 7, F32)), m.const(np.zeros((1, 3), F32))
    results = m.op(
        "WHILE", [*inputs, start_list, nothing], kinds, cond_subgraph_index=condition, body_subgraph_index=body
    )
    m.now["outputs"] = [results[2], results[3]]
    return end(m)


def native(data: bytes) -> bool:
    model = fg.load(data, threads=1)
    steps = model.plan.program.steps
    return model.plan.tail is None and not any(isinstance(step, HostStep) for step in steps)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_one_row_anew_each_round(n: int) -> None:
    data = running_sum(n)
    assert native(data)
    x = np.random.default_rng(n).standard_normal((n, 1, 3)).astype(F32)
    runs = [[np.array(first, I32), x] for first in (0, n - 1, n, n + 3)]
    wanted = same(data, runs)
    for threads in (1, 2):
        model = fg.load(data, threads=threads)
        for run, results in zip(runs, wanted, strict=True):
            found = model.run(dict(zip((spec.name for spec in model.inputs), run, strict=True)))
            for a, b in zip(found.values(), results, strict=True):
                np.testing.assert_array_equal(a, b)


def test_a_row_that_the_list_does_not_have() -> None:
    model = fg.load(running_sum(5))
    feeds = np.array(-2, I32), np.zeros((5, 1, 3), F32)
    with pytest.raises(InputError, match="0 to 4"):
        model.run(dict(zip((spec.name for spec in model.inputs), feeds, strict=True)))


@pytest.mark.parametrize("kind", [{"next_after": 2}, {"next_after": 0}, {"first_sizes": 1}], ids=str)
def test_what_is_no_row_anew_stays_three_parts(kind: dict[str, int]) -> None:
    """Its length changes, or fewer elements are taken."""
    data = running_sum(4, **kind)
    x = np.random.default_rng(0).standard_normal((4, 1, 3)).astype(F32)
    assert not native(data)
    if "next_after" in kind:
        found = ours(data, [[np.array(3, I32), x]])[0] if kind["next_after"] == 0 else None
        assert found is None or found[0].shape == (5, 1, 3)
