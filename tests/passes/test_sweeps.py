"""Passes say whether they changed a graph, and what they leave out would have changed nothing."""

import numpy as np
import pytest
from hypothesis import given

from fastgraph.ir import Graph, Quantization, TensorType, copy
from fastgraph.ops import OPS
from fastgraph.passes.canonicalize import canonicalize
from fastgraph.passes.layout import layout, share, sink_transposes, split_reductions
from fastgraph.passes.stages import STAGES
from fastgraph.plan.lower import Matches
from fastgraph.rules.catalog import CATALOG
from fastgraph.rules.operands import transposed_data
from fastgraph.rules.rule import ANY, rule, rules_of
from fastgraph.rules.sweep import Sweep, sweep
from tests.nets import F32, Net, graph_of
from tests.random_nets import Case, examples, networks


def chain() -> Graph:
    net = Net()
    x = net.input("x", (2, 3))
    net.output(net("Relu", net("Neg", net("Relu", x))))
    return graph_of(net.bytes())


def test_no_rule_applies() -> None:
    graph = chain()
    before, nodes = str(graph), list(graph.nodes)

    @rule("", "neg")
    def look(state: Sweep, node: object) -> bool:
        return False

    @rule("", "conv")
    def never(state: Sweep, node: object) -> bool:
        raise AssertionError("there is no convolution")

    assert not sweep(graph, look) and not sweep(graph, never)
    assert str(graph) == before and graph.nodes == nodes


def test_readers_are_those_before_the_first_change() -> None:
    """A rule that asks late, after others applied, finds what one finds that asks at once."""
    counts = []
    for at_once in (True, False):
        graph, found = chain(), []

        def skip(state: Sweep, node: object, at_once: bool = at_once, found: list[int] = found) -> bool:
            if at_once:
                assert state.reads
            if node.op == "neg":  # type: ignore[attr-defined]
                state.replace(node.out, node.x)  # type: ignore[attr-defined]
                return True
            if state.nodes:
                found.extend(state.reads[v] for v in (node.x, node.out))  # type: ignore[attr-defined]
            return False

        assert sweep(graph, skip)
        assert [node.op for node in graph.nodes] == ["relu", "relu"]
        counts.append(found)
    assert counts[0] == counts[1] and counts[0]


def test_a_sweep_drops_what_is_dead_by_it() -> None:
    graph = chain()

    def first(state: Sweep, node: object) -> bool:
        if node is not graph.nodes[-1]:
            return False
        state.replace(graph.nodes[-1].out, graph.inputs[0])
        return True

    assert sweep(graph, first)
    assert not graph.nodes and graph.outputs == graph.inputs


@pytest.mark.slow
@examples(100)
@given(networks())
def test_stages_say_whether_they_changed_anything(case: Case) -> None:
    graph = graph_of(case.source)
    before = [(node, list(node.inputs)) for node in graph.nodes]
    for name, run in STAGES:
        changed = run(graph, Matches()) if name in ("control", "widen") else run(graph)
        after = [(node, list(node.inputs)) for node in graph.nodes]
        assert changed or after == before, name
        before = after


@pytest.mark.slow
@examples(150)
@given(networks())
def test_layout_leaves_out_nothing(case: Case) -> None:
    """As if all of its passes ran in both rounds."""
    graph = graph_of(case.source)
    canonicalize(graph)
    full = copy(graph)
    layout(graph)
    for _ in range(2):
        sink_transposes(full)
        canonicalize(full)
        share(full)
    split_reductions(full)
    assert str(graph) == str(full)


def test_types_are_told_apart() -> None:
    """By what they say, whatever they were made from; an extent is a number only as an int."""
    f32, quant = np.dtype(F32), Quantization((0.5,), (0,))
    kinds = [TensorType(None), TensorType(f32), TensorType(f32, ()), TensorType(f32, (2, None)),
             TensorType(f32, (2, "n")), TensorType(f32, (2, 3)), TensorType(f32, (2, 3), quant),
             TensorType(np.dtype("i4"), (2, 3))]  # fmt: skip
    for i, one in enumerate(kinds):
        for j, other in enumerate(kinds):
            assert (one == other) == (i == j)
            twin = TensorType(other.dtype, other.shape, other.quant)
            assert twin == other and hash(twin) == hash(other) and not twin != other
    assert [kind.concrete for kind in kinds] == [False, False, True, False, False, True, True, True]
    assert TensorType(f32, (np.int64(2),)).concrete is False  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="not concrete"):
        kinds[3].dims  # noqa: B018


@pytest.mark.parametrize("phase", CATALOG)
def test_rules_are_found_for_the_operators_that_they_see(phase: str) -> None:
    for name, seen in CATALOG[phase].items():
        if seen == ANY:
            continue
        assert set(seen.split()) <= set(OPS), name
        for op in seen.split():
            assert name.rpartition(".")[2] in [rule.__name__ for rule in rules_of(phase, {op})]
        assert name.rpartition(".")[2] not in [rule.__name__ for rule in rules_of(phase, {"no operator"})]


@pytest.mark.parametrize("shape", [(4, 7), (40, 33), (33, 300), (47, 16), (32, 0)])
def test_matrices_are_transposed_into_memory_of_their_own(shape: tuple[int, int]) -> None:
    data = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
    made = transposed_data(data, (1, 0))
    assert made.flags.c_contiguous and np.array_equal(made, data.T) and not np.shares_memory(made, data)
