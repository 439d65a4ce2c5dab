"""Every stage keeps the meaning: on random networks the graph after it gives what the graph before it gave."""

from __future__ import annotations

import pytest
from hypothesis import given

from fastgraph.ir import copy
from fastgraph.passes.dynamic import cut_dynamic
from fastgraph.passes.stages import STAGES, stages
from fastgraph.plan.lower import Matches
from tests.nets import assert_close, by_onnxruntime, by_reference, graph_of
from tests.random_nets import Case, examples, magnitude, networks

pytestmark = pytest.mark.slow


@examples(300)
@given(networks())
def test_stages_keep_the_meaning(case: Case) -> None:
    source, feeds = case.source, case.feeds
    graph = graph_of(source)
    rtol = 2e-5 * magnitude(source, feeds)
    if not rtol < 1e3:
        return
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
    assert_close(by_reference(graph, feeds), before, 2e-5 * magnitude(source, feeds))
