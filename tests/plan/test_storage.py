"""Where values lie is what the links say, and values that are said to lie apart have no byte in common."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given

from fastgraph.ir import Value
from fastgraph.kernels.isa.tiers import Tier
from fastgraph.passes.stages import optimize
from fastgraph.plan.lower import Matches
from fastgraph.plan.storage import Storage, Views, byte_strides, last
from tests.kernels.harness import each_tier
from tests.nets import Net, by_onnxruntime, feeds_for, graph_of
from tests.random_nets import Case, examples, networks
from tests.scaling import calls


def by_links(views: Views, value: Value) -> Storage:
    """The storage, link by link from the buffer down."""
    above = [value]
    while above[-1] in views.links:
        above.append(views.links[above[-1]].parent)
    outer = above.pop()
    found = Storage(outer, 0, last(outer))
    for inner in reversed(above):
        link, whole = views.links[inner], found.stride == last(outer) or outer.type.size == last(outer)
        offset = link.offset
        if not link.rows and not whole:
            offset = offset // max(last(inner), 1) * found.stride
        found = Storage(found.root, found.offset + offset, last(inner) if whole and not link.rows else found.stride)
        outer = inner
    return found


def bytes_of(views: Views, value: Value, size: int) -> np.ndarray:
    """The bytes of its buffer, of `size` bytes, that a value takes."""
    mask, at, item = np.zeros(size, bool), views.storage(value), value.type.dtype.itemsize
    strides = (*byte_strides(value.type.dims, item, at.stride), 1)
    np.ndarray((*value.type.dims, item), bool, mask, at.offset, strides)[...] = True
    return mask


@pytest.mark.slow
@examples(100)
@given(networks())
def test_storage_of_random_networks(case: Case) -> None:
    graph = graph_of(case.source)
    optimize(graph, Matches())
    views = Views(graph, Matches().abilities)
    values = [v for v in [*graph.inputs, *(v for n in graph.nodes for v in n.outputs)] if v.type.dtype.kind != "O"]
    parents = {link.parent for link in views.links.values()}
    for value in values:
        assert views.storage(value) == by_links(views, value)
        assert views.alone(value) == (value not in views.links and value not in parents)
    for one, other in combinations(values, 2):
        root = views.storage(one).root
        if root is not views.storage(other).root:
            assert not views.overlap(one, other)
        elif not views.overlap(one, other):
            size = root.type.nbytes + 64
            assert not (bytes_of(views, one, size) & bytes_of(views, other, size)).any()


def steps_with_results(n: int) -> Net:
    """A chain whose steps overwrite one another, each with a result that is made where it is read."""
    net = Net()
    v = net.input("x", (1, 16))
    for _ in range(n):
        inner = net("Cos", v)
        net.output(net("Softmax", inner), net("Sin", inner))
        v = net("Sin", v)
    return net


def test_finding_storage_takes_time_by_the_number_of_nodes() -> None:
    """Where values lie is not found anew for each that is made in a result's memory."""
    matches = Matches()
    graphs = [graph_of(steps_with_results(n).bytes()) for n in (100, 200)]
    for graph in graphs:
        optimize(graph, matches)
        Views(graph, matches.abilities)  # what nodes can do is found once
    few, many = (calls(lambda graph=graph: Views(graph, matches.abilities)) for graph in graphs)
    assert many <= 2.3 * few, f"{few} calls, then {many}"
    views = Views(graphs[1], matches.abilities)
    assert views.links and all(views.storage(v) == by_links(views, v) for n in graphs[1].nodes for v in n.outputs)


@pytest.mark.parametrize("shape", [(2, 1, 4), (4, 2), (8, 1)])
def test_reshapes_from_rows_of_one_tensor_to_rows_of_another(shape: tuple[int, ...]) -> None:
    net = Net()
    whole = net("Relu", net.input("x", (2, 6)))
    part = net("Slice", whole, [1], [5], [1])
    turned = net("Reshape", part, list(shape))
    net.output(net("Concat", turned, net("Relu", net.input("y", (*shape[:-1], 3))), axis=-1), whole)
    rng = np.random.default_rng(0)
    feeds = {"x": rng.random((2, 6), np.float32), "y": rng.random((*shape[:-1], 3), np.float32)}
    found = list(net.load().run(feeds).values())
    for got, want in zip(found, by_onnxruntime(net.bytes(), feeds), strict=True):
        np.testing.assert_array_equal(got, want)


@each_tier
def test_what_a_result_overwrites_is_made_in_its_memory(tier: Tier) -> None:
    """Group norm, whose factors are another step: also where the result is large, and in the caller's array."""
    net, shape = Net(), (1, 16, 72, 72)
    y = net("Reshape", net.input("x", shape), [1, 8, -1])
    y = net("InstanceNormalization", y, np.ones(8), np.zeros(8))
    y = net("Reshape", y, list(shape))
    net.output(net("Add", net("Mul", y, net.weight(16, 1, 1)), net.weight(16, 1, 1)))
    model = net.agrees_on_threads(isa=tier.name)
    graph = model.plan.graph
    views = Views(graph, Matches().abilities)
    _, *made = (views.storage(node.out).root for node in graph.nodes)  # first x is reshaped
    assert made == graph.outputs * 3
    feeds, (name,), out = feeds_for(model), model.run(feeds_for(model)), np.empty(shape, np.float32)
    model.run(feeds, out={name: out})
    np.testing.assert_array_equal(out, model.run(feeds)[name])
