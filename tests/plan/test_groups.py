"""Convolutions in groups of few channels, by the kernel of such groups and as ones of fewer groups: the same bits."""

from random import Random

import pytest

from fastgraph.freedoms import without
from fastgraph.kernels.isa.tiers import TIERS, Tier, usable
from fastgraph.runtime.executable import Executable, compile_graph
from tests.kernels.harness import drawn
from tests.nets import Net, feeds_for, graph_of


def planned(source: bytes, tier: Tier, threads: int) -> Executable:
    return compile_graph(graph_of(source), {}, tier, threads)


@drawn(30)
def test_any(pick: Random) -> None:
    net, each = Net(seed=pick.randint(0, 99)), pick.choice((2, 4, 8, 16))
    c, k, wide = each * pick.randint(2, 12), pick.choice((1, 3, 5)), pick.randint(9, 30)
    pads, dilations = [pick.randint(0, k - 1) for _ in range(4)], [pick.choice((1, 1, 2))] * 2
    attrs = {"strides": [pick.randint(1, 2)] * 2, "pads": pads, "dilations": dilations, "group": c // each}
    x = net.input("x", (pick.randint(1, 2), c, 11, wide))
    y = net("Conv", x, net.weight(c, each, k, k), net.weight(c), **attrs)
    ending = pick.choice(("", "Relu", "Sigmoid", "Add"))
    net.output(net("Add", y, net.weight(c, 1, 1)) if ending == "Add" else net(ending, y) if ending else y)
    tier, threads = pick.choice(usable()), pick.randint(1, 2)
    net.agrees(isa=tier.name, threads=threads)
    with without("winograd"):
        model = net.agrees(isa=tier.name, threads=threads)
    with without("winograd", "grouped"):
        merged = net.load(isa=tier.name, threads=1)
    feeds = feeds_for(model)
    for found, same in zip(model.run(feeds).values(), merged.run(feeds).values(), strict=True):
        assert found.tobytes() == same.tobytes()


@pytest.mark.parametrize("tier", TIERS, ids=lambda tier: tier.name)
@pytest.mark.parametrize("each", (2, 4, 8, 16))
def test_which_groups(tier: Tier, each: int) -> None:
    """Those of which a vector has several."""
    net = Net()
    net.output(net("Conv", net.input("x", (1, 64, 9, 9)), net.weight(64, each, 3, 3), group=64 // each))
    (name,) = {k.name for k in planned(net.bytes(), tier, 1).kernels()} - {"transpose"}
    assert (name == "grouped") == (each < tier.lanes)
