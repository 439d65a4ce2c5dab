"""Each freedom that a plan has can be taken from it: the plan is another one, and gives the same."""

from __future__ import annotations

import pytest
from blocks import conv
from nets import Net, assert_close, by_onnxruntime, feeds_for

import fastgraph as fg
from fastgraph.passes.pipeline import STAGES
from fastgraph.plan.freedoms import free, without
from fastgraph.plan.lower import bands


def network() -> Net:
    """With a use for every freedom but the rewriting of quantised nodes."""
    net = Net()
    x = net("Relu", conv(net, net.input("x", (1, 16, 24, 24)), 16, 32, 1))
    y = conv(net, net("Relu", conv(net, x, 32, 32, 3, group=32)), 32, 64, 1)
    z = net("Concat", conv(net, y, 64, 64, 3), net("Softmax", y, axis=1), axis=1)
    net.output(net("Add", net("Sigmoid", z), net("GlobalAveragePool", z)))
    return net


FREEDOMS = ("bands", "winograd", "views", "in_place", "reuse", "layout", "fuse", "as_chain", "sink")


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_a_plan_without(freedom: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bands, "WORTH", 1)
    source = network().bytes()
    usual = fg.load(source, threads=1)
    with without(freedom):
        other = fg.load(source, threads=1)
    assert str(other) != str(usual)
    feeds = feeds_for(usual)
    assert_close(list(other.run(feeds).values()), by_onnxruntime(source, feeds), 1e-5)


def test_freedoms_come_back() -> None:
    with without("bands"):
        with without("views"):
            assert not free("bands") and not free("views") and free("fuse")
        assert not free("bands") and free("views")
    assert free("bands") and set(FREEDOMS) & {name for name, _ in STAGES}
