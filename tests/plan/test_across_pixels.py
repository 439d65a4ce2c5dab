"""Depthwise layers of few channels, whose vectors run across pixels, against onnxruntime: bands, gaps, threads."""

from random import Random
from typing import Any

import pytest

import fastgraph as fg
from fastgraph.freedoms import without
from fastgraph.plan.program import Step, record_of
from tests.kernels.harness import drawn
from tests.nets import Net
from tests.plan.computed import ENDS


def depthwise(net: Net, x: str, c: int, k: int) -> str:
    return net("Relu", net("Conv", x, net.weight(c, 1, k, k), net.weight(c), group=c, pads=[k // 2] * 4))


@drawn(20)
def test_any(pick: Random) -> None:
    """In a row, and with gaps between pixels; the last layer may end with an operand."""
    net, c = Net(seed=pick.randint(0, 99)), pick.randint(1, 40)
    x = y = net.input("x", (pick.randint(1, 2), c, pick.randint(1, 30), pick.randint(1, 30)))
    for k in pick.choices((3, 5, 7, 9, 11), k=pick.randint(1, 3)):
        y = depthwise(net, y, c, k)
    if pick.choice((False, True)):
        y = net("Concat", depthwise(net, net("Concat", x, y, axis=1), 2 * c, 7), y, axis=1)
    elif pick.choice((False, True)):
        y = net("Add", y, x)
    net.output(y)
    how: dict[str, Any] = {"isa": pick.choice(ENDS).name, "threads": pick.randint(1, 2)}
    net.agrees(**how)
    with without("depthwise_across"):
        assert not any(_across_pixels(net.agrees(**how)))


def test_bits_of_bands() -> None:
    """Whatever the number of threads, which decides what runs in bands."""
    net = Net()
    x = net("Conv", net.input("x", (1, 8, 96, 96)), net.weight(20, 8, 1, 1))
    for k in (5, 3, 9):
        x = depthwise(net, x, 20, k)
    net.output(net("Conv", x, net.weight(8, 20, 1, 1)))
    net.agrees_on_threads(isa=ENDS[-1].name)


def test_sign_of_zeros() -> None:
    """Where a bias is -0 and a window sees nothing but padding, whatever the channels that a thread does."""
    net, c = Net(), 114
    y = net("Conv", net.input("x", (2, c, 17, 1)), net.weight(c, 1, 9, 5), group=c, pads=[4, 2, 4, 5])
    net.output(net("Mul", y, net.weight(1, c, 1, 1)))
    net.agrees_on_threads(isa=ENDS[-1].name)


@pytest.mark.skipif(ENDS[-1].lanes < 8, reason="no loads under masks")
def test_it_is_chosen() -> None:
    net = Net()
    net.output(depthwise(net, net.input("x", (1, 5, 20, 20)), 5, 7))
    assert _across_pixels(net.agrees(isa=ENDS[-1].name)) == [True]


def _across_pixels(model: fg.Model) -> list[bool]:
    """For each step of the kernel for any window, whether its vectors run across pixels."""
    steps = [step for step in model.plan.program.steps if isinstance(step, Step)]
    records = [dict(zip(record_of(s.kernel), s.args, strict=True)) for s in steps if s.kernel.name == "depthwise_any"]
    return [record["across"] > 0 for record in records]
