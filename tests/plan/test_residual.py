"""Residual sums of bytes at the ends of layers on tiles: the bits of a layer and a sum, each rounded by itself."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from fastgraph.freedoms import thresholds, without
from fastgraph.ir import Graph, Node, Quantization, TensorType, Value, copy
from fastgraph.kernels.isa import tiers
from fastgraph.ops.chain import SUM
from fastgraph.ops.evaluate import infer_node
from fastgraph.runtime.executable import compile_graph
from tests.amx_trap import AMX, needs_amx, tiles
from tests.kernels.harness import drawn
from tests.plan.step_by_step import check_steps

U8, S8 = np.dtype(np.uint8), np.dtype(np.int8)


class Maps:
    """Builds a graph over maps of bytes [2, 9, 11, channels], each with its own scale and zero point."""

    def __init__(self, pick: Random, channels: int = 24) -> None:
        self.pick, self.rng = pick, np.random.default_rng(pick.randint(0, 1 << 30))
        self.graph = Graph("net", [Value("x", TensorType(U8, (2, 9, 11, channels), self.grid()))])

    @property
    def x(self) -> Value:
        return self.graph.inputs[0]

    def grid(self) -> Quantization:
        return Quantization((self.pick.uniform(0.02, 0.04),), (self.pick.randint(0, 255),))

    def node(self, op: str, *inputs: Value, kind: Any = U8, like: Value | None = None, **attrs: Any) -> Value:
        quant = self.grid() if like is None else like.type.quant
        if kind == S8:
            quant = quant._replace(zero_point=(quant.zero_point[0] - 128,))
        out = Value(f"v{len(self.graph.nodes)}", TensorType(kind, None, quant))
        self.graph.nodes.append(Node(op, list(inputs), [out], attrs))
        infer_node(self.graph.nodes[-1])
        return out

    def conv(self, x: Value, n: int, k: int = 1, groups: int = 1) -> Value:
        shape = (n, k, k, x.type.dims[-1] // groups)
        scales = self.rng.uniform(0.5, 1, n) / np.prod(shape[1:]) ** 0.5 / 40
        quant, name = Quantization(tuple(scales), (0,) * n, 0), f"w{len(self.graph.nodes)}"
        weights = Value.constant(name, self.rng.integers(-127, 128, shape).astype(np.int8), quant)
        assert x.type.quant is not None
        units = Quantization(tuple(scales * x.type.quant.scale[0]), (0,) * n, 0)
        bias = Value.constant(f"{name}.bias", self.rng.integers(-999, 999, n).astype(np.int32), units)
        window = {"strides": (1, 1), "dilations": (1, 1), "pads": (k // 2,) * 4, "auto_pad": "NOTSET"}
        return self.node("conv", x, weights, bias, groups=groups, **window)

    def relu(self, x: Value) -> Value:
        return self.node("relu", x, like=x)

    def whole(self, *outputs: Value) -> Graph:
        self.graph.outputs = list(outputs)
        return self.graph

    def feeds(self) -> dict[str, np.ndarray]:
        return {"x": self.rng.integers(0, 256, self.x.type.dims).astype(np.uint8)}


def results(graph: Graph, feeds: dict[str, np.ndarray], tier: Any = AMX, threads: int = 1) -> list[np.ndarray]:
    plan = compile_graph(copy(graph), {}, tier, threads)
    plan.fill(feeds)
    with tiles():
        plan.execute()
        return list(plan.results().values())


def sums(graph: Graph) -> int:
    """How many layers of a plan on tiles end in sums."""
    with thresholds(tiles_least=1):
        plan = compile_graph(copy(graph), {}, AMX, 1)
    return sum(SUM in node.attrs for node in plan.graph.nodes)


def same(maps: Maps, graph: Graph, expected: int) -> None:
    """As many sums are joined as expected, and all plans give the same bits."""
    assert sums(graph) == expected
    feeds = maps.feeds()
    apart = results(graph, feeds, tiers.BY_NAME["avx512vnni"])
    with thresholds(tiles_least=1):
        for threads in (1, 3):
            for found, wanted in zip(results(graph, feeds, threads=threads), apart, strict=True):
                np.testing.assert_array_equal(found, wanted)


def maps() -> Maps:
    return Maps(Random(0))


@needs_amx
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("kind", [U8, S8], ids=str)
def test_sum_of_a_layer_and_a_map(turned: bool, relu: bool, kind: Any) -> None:
    m = maps()
    both = [m.conv(m.x, 24), m.x]
    z = m.node("add", *both[:: -1 if turned else 1], kind=kind)
    same(m, m.whole(m.relu(z) if relu and kind == U8 else z), 1)


@needs_amx
@pytest.mark.parametrize("n, k", [(24, 3), (40, 1), (64, 3), (100, 1)])
def test_sum_of_two_layers(n: int, k: int) -> None:
    """The last one is joined; what it is clamped to is so before the sum."""
    m = maps()
    one, other = m.relu(m.conv(m.x, n, k)), m.conv(m.x, n)
    same(m, m.whole(m.node("add", other, one), m.node("add", m.conv(m.x, n), m.relu(m.conv(m.x, n, k)))), 2)


@needs_amx
def test_what_others_read_stays_a_step() -> None:
    m = maps()
    read, seen = m.conv(m.x, 24), m.conv(m.x, 24)
    same(m, m.whole(m.node("add", read, m.x), m.conv(read, 8, 3), m.node("add", seen, m.x), seen), 0)


@needs_amx
def test_operands_that_are_spread_or_the_same_are_not_joined() -> None:
    m = maps()
    y, z = m.conv(m.x, 24), m.conv(m.x, 24)
    row = Value.constant("row", m.rng.integers(0, 256, 24).astype(np.uint8), m.grid())
    same(m, m.whole(m.node("add", y, y), m.node("add", z, row)), 0)


@needs_amx
def test_parts_of_wider_maps() -> None:
    """Results, addends and operands lie in rows of others."""
    m = maps()
    wide = m.node("concat", m.conv(m.x, 16), m.conv(m.x, 16), axis=3, like=m.x)
    both = m.node("concat", *(m.conv(wide, 16, 3) for _ in range(2)), axis=3, like=m.x)
    same(m, m.whole(m.conv(m.node("add", m.conv(both, 32), wide), 8), wide), 1)


@needs_amx
def test_bands_of_an_inverted_residual_block() -> None:
    m = Maps(Random(1), 16)
    inner = m.conv(m.relu(m.conv(m.x, 64)), 64, 3, groups=64)
    graph = m.whole(m.node("add", m.conv(m.relu(inner), 16), m.x))
    with thresholds(bands_worth=1, bands_budget=1 << 13):
        same(m, graph, 1)


@needs_amx
def test_each_step_gives_what_its_reference_does() -> None:
    def close(found: np.ndarray, expected: np.ndarray, nodes: list[Node]) -> None:
        assert np.abs(found.astype(int) - expected).max() <= 1 and np.mean(found != expected) < 0.01, nodes

    m = maps()
    graph = m.whole(m.node("add", m.x, m.relu(m.conv(m.x, 24, 3))))
    with tiles(), thresholds(tiles_least=1):
        check_steps(compile_graph(graph, {}, AMX, 2), m.feeds(), close)


def drawn_graph(m: Maps) -> Graph:
    """Layers, sums in any order, some of them read again, joined, or results."""
    pick, found = m.pick, [m.x]
    for _ in range(pick.randint(3, 9)):
        x = pick.choice(found[-3:])
        y = m.conv(x, pick.choice((24, 24, 40)), pick.choice((1, 3)))
        y = m.relu(y) if pick.random() < 0.3 else y
        alike = [v for v in found if v.type.dims == y.type.dims]
        if alike and pick.random() < 0.8:
            both = [y, pick.choice(alike)]
            z = m.node("add", *pick.sample(both, 2))
            found += [y] * (pick.random() < 0.2)
            y = m.relu(z) if pick.random() < 0.5 else z
        elif pick.random() < 0.2:
            y = m.node("concat", y, pick.choice(found), axis=3, like=y)
        found.append(y)
    return m.whole(*dict.fromkeys([found[-1], *pick.sample(found[1:], min(2, len(found) - 1))]))


def without_each() -> Iterator[Sequence[str]]:
    yield from ((), ("residual",), ("views",), ("in_place",), ("reuse",))


@needs_amx
@drawn(25)
def test_any_network(pick: Random) -> None:
    m = Maps(pick)
    graph, feeds = drawn_graph(m), m.feeds()
    expected = results(graph, feeds, tiers.BY_NAME["avx512vnni"])
    for gone in without_each():
        with thresholds(tiles_least=1), without(*gone):
            for found, wanted in zip(results(graph, feeds, threads=pick.randint(1, 3)), expected, strict=True):
                np.testing.assert_array_equal(found, wanted)


def test_networks_have_sums_to_join() -> None:
    graphs = [drawn_graph(Maps(Random(seed))) for seed in range(12)]
    assert sum(map(sums, graphs)) > 12
