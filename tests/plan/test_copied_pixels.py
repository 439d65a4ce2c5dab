"""Depthwise layers that read a copy of a line or two of each pixel: in bands, of gaps, on threads; bits as without."""

from __future__ import annotations

from random import Random

import fastgraph as fg
from fastgraph.freedoms import thresholds
from fastgraph.plan.program import Step, record_of
from tests.kernels.harness import drawn
from tests.nets import Net, feeds_for
from tests.plan.computed import ENDS

EVERYWHERE, NOWHERE = {"lines_apart": 0}, {"lines_apart": 1 << 20}
BANDS = {"bands_worth": 1, "bands_budget": 1 << 13, "bands_kept": 0, "bands_rows": 1}


def layer(net: Net, pick: Random, x: str, c: int) -> str:
    """With any pads that are less than the window, so that none is of padding alone."""
    k, dilation = pick.choice((3, 3, 5, 7)), pick.choice((1, 1, 2))
    reach = (k - 1) * dilation
    pads = [reach // 2, pick.randint(0, reach), -(-reach // 2), pick.randint(0, reach)]
    how = {"group": c, "pads": pads, "dilations": [dilation] * 2, "strides": [pick.choice((1, 1, 2)) for _ in "yx"]}
    bias = [net.weight(c)] if pick.choice((False, True)) else []
    return net("Conv", x, net.weight(c, 1, k, k), *bias, **how)


def copies(model: fg.Model) -> int:
    """Steps that copy."""
    steps = [step for step in model.plan.program.steps if isinstance(step, Step) and step.kernel.name == "depthwise"]
    return sum(dict(zip(record_of(s.kernel), s.args, strict=True))["copied"] > 0 for s in steps)


@drawn(40)
def test_random_layers(pick: Random) -> None:
    net, c = Net(seed=pick.randint(0, 99)), pick.choice((1, 8, 31, 32, 33, 40, 64, 72, 128, 130, 256))
    size = [pick.randint(9, 24) for _ in "yx"]
    y = net.input("x", (pick.randint(1, 2), c, *size))
    if pick.choice((False, True)):
        y = net("Split", net("Relu", net("Concat", y, y, axis=1)), axis=1, outputs=2)[pick.randint(0, 1)]
    y = layer(net, pick, y, c)
    y = net(pick.choice(("Relu", "HardSwish", "Identity")), y)
    if pick.choice((False, True)):
        y = net("Conv", layer(net, pick, y, c), net.weight(8, c, 1, 1))
    net.output(y)
    isa, threads = pick.choice(ENDS).name, [pick.randint(1, 3) for _ in range(2)]
    with thresholds(**BANDS if pick.choice((False, True)) else {}):
        with thresholds(**NOWHERE):
            plain = net.agrees(isa=isa, threads=threads[0])
        with thresholds(**EVERYWHERE):
            copied = net.agrees(isa=isa, threads=threads[1])
    assert not copies(plain)
    feeds = feeds_for(plain)
    for found, want in zip(copied.run(feeds).values(), plain.run(feeds).values(), strict=True):
        assert found.tobytes() == want.tobytes()


def test_they_are_copied() -> None:
    net = Net()
    net.output(net("Conv", net.input("x", (1, 16, 14, 14)), net.weight(16, 1, 5, 5), group=16, pads=[2] * 4))
    with thresholds(**EVERYWHERE):
        assert copies(net.load(isa="generic")) == 1
    assert copies(net.load(isa="generic")) == 0
