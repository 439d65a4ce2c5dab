"""Every stage keeps the meaning: on random networks the graph after it gives what the graph before it gave."""

import numpy as np
import pytest
from hypothesis import given

from fastgraph.ir import copy
from fastgraph.passes.dynamic import cut_dynamic
from fastgraph.passes.stages import STAGES, stages
from fastgraph.plan.lower import Matches
from tests.nets import F32, Net, assert_close, by_onnxruntime, by_reference, graph_of
from tests.random_nets import Case, examples, networks


@pytest.mark.parametrize("shape", [(0, 4, 6, 6), (2, 0, 6, 6), (2, 4, 0, 6)])
def test_values_without_elements(shape: tuple[int, ...]) -> None:
    """Which no composition has: pads, repeats and joins alone make elements of them."""
    net = Net()
    x = net.input("x", shape)
    y = net("Relu", net("Mul", net("Transpose", x, perm=[0, 2, 1, 3]), 2.0))
    flat = net("Reshape", y, [shape[0], shape[1] * shape[2], 6], allowzero=1)
    parts = net("Split", net("Slice", y, *map(net.const, ([1], [9], [3]))), [2, 3], outputs=2, axis=3)
    full = net("Pad", x, [1, 1, 1, 0, 0, 0, 0, 0])
    tiled = net("Tile", net("Expand", net("Unsqueeze", flat, [1]), [1, 2, 1, 1]), [1] * 4)
    net.output(
        net("Concat", *parts[::-1], axis=3), net("Sub", full, net("Neg", full)), net("Gather", tiled, [5, 0], axis=3)
    )
    feeds = {"x": np.zeros(shape, F32)}
    expected = by_onnxruntime(net.bytes(), feeds)
    assert_close(by_reference(graph_of(net.bytes()), feeds), expected)
    assert_close(list(net.load().run(feeds).values()), expected)


@pytest.mark.slow
@examples(300)
@given(networks())
def test_stages_keep_the_meaning(case: Case) -> None:
    source, feeds = case.source, case.feeds
    graph = graph_of(source)
    rtol = 2e-5 * case.scale
    expected = by_reference(graph, feeds)
    assert_close(expected, by_onnxruntime(source, feeds), rtol, "import")
    types = [(v.type.dtype, v.type.shape) for v in graph.outputs]
    assert cut_dynamic(graph) is None
    seen = []
    for name, after in stages(graph, Matches()):
        assert_close(by_reference(after, feeds), expected, rtol, name)
        assert [(v.type.dtype, v.type.shape) for v in after.outputs] == types, name
        for value in (v for node in after.nodes for v in node.outputs):
            assert value.type.concrete, f"{name}: {value}"
        seen.append(name)
    assert seen == [name for name, _ in STAGES]


@pytest.mark.slow
@examples(50)
@given(networks())
def test_a_second_round_changes_nothing_but_form(case: Case) -> None:
    source, feeds = case.source, case.feeds
    graph = graph_of(source)
    for _ in stages(graph, Matches()):
        pass
    before = by_reference(copy(graph), feeds)
    for _ in stages(graph, Matches()):
        pass
    assert_close(by_reference(graph, feeds), before, 2e-5 * case.scale)
