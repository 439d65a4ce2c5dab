"""Outputs of a convolution whose taps lie in its map are read without a band, strips along the edges with one."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fastgraph.freedoms import thresholds
from fastgraph.kernels.gemm import pick_conv
from fastgraph.kernels.gemm.pick_conv import Geometry, inner_and_edges
from fastgraph.kernels.isa import tiers
from fastgraph.plan.program import Step
from tests.nets import Net


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Edges are apart whatever that costs."""
    monkeypatch.setattr(pick_conv, "SHARE", -1.0)
    with thresholds(edges_call=-(10**9)):
        yield


ISAS = [tier.name for tier in tiers.usable()]


def steps(model: Any) -> int:
    found = (step for step in model.plan.program.steps if isinstance(step, Step))
    return sum(step.kernel.name == "conv" for step in found)


def layer(c: int, n: int, size: tuple[int, int], side: tuple[int, int], images: int = 1, **attrs: Any) -> Net:
    net = Net()
    x = net.input("x", (images, c, *side))
    net.output(net("Relu", net("Conv", x, net.weight(n, c, *size), net.weight(n), **attrs)))
    return net


LAYERS = {
    "3x3/2": (layer(3, 16, (3, 3), (130, 140), strides=[2, 2], pads=[1] * 4), 3),
    "3x3/2, odd": (layer(3, 16, (3, 3), (171, 181), strides=[2, 2], pads=[1] * 4), 5),
    "3x3": (layer(3, 16, (3, 3), (140, 150), pads=[1] * 4), 5),
    "5x5/2, few outputs": (layer(4, 8, (5, 5), (160, 200), strides=[2, 2], pads=[2] * 4), 5),
    "pads below": (layer(2, 24, (3, 4), (150, 210), strides=[2, 2], pads=[0, 0, 2, 1]), 2),
    "channels last": (layer(16, 16, (3, 3), (72, 80), strides=[2, 2], pads=[1] * 4), 3),
    "dilated": (layer(3, 16, (3, 3), (150, 160), dilations=[2, 3], pads=[2, 3, 2, 3]), 5),
}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", LAYERS)
def test_edges_are_apart(name: str, isa: str) -> None:
    net, parts = LAYERS[name]
    model = net.agrees_on_threads(counts=(1, 2, 5), isa=isa)
    if isa in ("avx512", "avx512vnni", "amx"):
        assert steps(model) == parts


@pytest.mark.parametrize(
    "net",
    [
        layer(3, 16, (3, 3), (40, 40), pads=[1] * 4),
        layer(3, 16, (3, 3), (130, 140), strides=[2, 2]),
        layer(3, 16, (3, 3), (130, 140), images=2, strides=[2, 2], pads=[1] * 4),
        layer(3, 20, (7, 7), (130, 140), pads=[3] * 4),
        layer(64, 24, (1, 5), (1, 8000), pads=[0, 2, 0, 2], strides=[1, 2]),
    ],
    ids=["small", "no padding", "images", "many products", "a row"],
)
def test_what_is_one_call(net: Net) -> None:
    assert steps(net.agrees(isa="avx2")) == 1


def test_parts_cover_all_outputs_once() -> None:
    tier = tiers.usable()[0]
    g = Geometry(1, 1, 3, 8, (1, 200, 201), (1, 3, 5), (1, 100, 67), (0, 0, 603, 3), (1, 2, 3), pads=(0, 1, 2))
    parts = inner_and_edges(tier, g, 6)
    count = np.zeros(g.out[1:], int)
    for part in parts:
        count[part.row : part.row + part.g.out[1], part.column : part.column + part.g.out[2]] += 1
    assert len(parts) > 1
    assert parts[-1].g.direct
    assert (count == 1).all()


BEYOND = {
    "rows and columns": layer(16, 20, (1, 1), (16, 40), pads=[0, 0, 3, 3], strides=[3, 3]),
    "a vector's worth": layer(300, 20, (1, 2), (17, 41), pads=[2, 2, 5, 5], strides=[3, 3]),
    "a row between padding": layer(64, 24, (1, 5), (1, 2000), pads=[1, 2, 1, 2], strides=[1, 2]),
}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", BEYOND)
@pytest.mark.usefixtures("always")
def test_outputs_that_see_padding_only(name: str, isa: str) -> None:
    """A strip may begin further behind the map than its end."""
    BEYOND[name].agrees_without("edges", 0.0, counts=(1, 2), isa=isa)


@pytest.mark.usefixtures("always")
def test_parts_begin_in_the_map_or_at_its_end() -> None:
    g = Geometry(1, 1, 16, 20, (1, 16, 40), (1, 1, 1), (1, 7, 15), (0, 0, 640, 16), (1, 3, 3))
    parts = inner_and_edges(tiers.usable()[0], g, 2, call=-1e9)
    assert len(parts) > 1
    assert all(min(part.g.size) >= 0 for part in parts)


def test_an_operand_that_is_added() -> None:
    net = Net()
    x = net.input("x", (1, 3, 130, 140))
    y = net("Conv", x, net.weight(16, 3, 3, 3), pads=[1] * 4, strides=[2, 2])
    net.output(net("Add", y, net.input("z", (1, 16, 65, 70))))
    net.agrees()


def drawn(seed: int) -> Net:
    rng = np.random.default_rng(seed)
    net, c, n = Net(), int(rng.integers(1, 20)), int(rng.integers(1, 50))
    size, pads = [int(k) for k in rng.integers(1, 6, 2)], [int(p) for p in rng.integers(0, 4, 4)]
    where = {name: [int(v) for v in rng.integers(1, 4, 2)] for name in ("strides", "dilations")}
    y = net.input("x", (1, c, int(rng.integers(16, 40)), int(rng.integers(16, 120))))
    y = net("Conv", y, net.weight(n, c, *size), net.weight(n), pads=pads, **where)
    for op in rng.choice(["Relu", "Sigmoid", "Sin", "Tanh"], int(rng.integers(0, 3))):
        y = net(str(op), y)
    net.output(y)
    return net


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.usefixtures("always")
def test_random_layers_have_the_bits_of_one_call(seed: int) -> None:
    """By tiers in turn; a product with padding, which is 0, may be left out."""
    drawn(seed).agrees_without("edges", 0.0, isa=ISAS[seed % len(ISAS)])


@pytest.mark.usefixtures("always")
def test_random_layers_have_edges() -> None:
    assert sum(steps(drawn(seed).load(isa="avx2")) > 2 for seed in range(40)) >= 10
