"""Slices of what lies outside of a loop by the number of the round: native, as onnxruntime computes them."""

from typing import Any

import numpy as np
import pytest

from tests.nets import I64, Net, numpy_steps
from tests.plan.control_nets import body


def windows(first: Any, last: Any, rounds: int, extent: int = 6) -> Net:
    """For each of `rounds` rows of x, from first(i) to last(i): the sum so far, which is also what a round gives."""
    net = Net()
    x, start = net.input("x", (extent, 3)), net.input("s", (1, 3))
    inner = body("b", True, ("t", (1, 3)))
    rows = inner("Slice", x, first(inner), last(inner), [0])
    total = inner("Add", "t", inner("ReduceSum", rows, [0]))
    inner.output(inner("Identity", "bgo"), dtype=np.bool_)
    inner.output(total)
    inner.output(inner("Squeeze", total, [0]))
    outs = net("Loop", np.array(rounds, I64), "", start, outputs=2, body=inner.graph())
    net.output(*outs)
    return net


def at(plus: int) -> Any:
    """The number of the round, and so many."""

    def write(net: Net) -> str:
        number = net("Add", "bi", np.array(plus, I64)) if plus else "bi"
        return net("Unsqueeze", number, [0])

    return write


CASES = [(at(0), at(1), 6), (at(0), at(3), 4), (at(2), at(4), 3), (at(1), at(2), 1)]


@pytest.mark.parametrize(("first", "last", "rounds"), CASES)
def test_parts_of_known_length(first: Any, last: Any, rounds: int) -> None:
    model = windows(first, last, rounds).agrees_on_threads(1e-4, (1, 2))
    assert model.plan.tail is None and not numpy_steps(model)


@pytest.mark.parametrize("first, last, rounds", [(0, 1, 7), (0, 3, 5), (-1, 1, 3)])
def test_parts_that_meet_the_end_are_shorter_there(first: int, last: int, rounds: int) -> None:
    """Slices are cut to what there is: their length isn't known."""
    windows(at(first), at(last), rounds).agrees()
