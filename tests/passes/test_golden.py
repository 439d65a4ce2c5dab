"""What the stages make of well-known blocks, as text; a stage that changes nothing is left out.

`pytest --golden` rewrites the files; read the diff before you commit it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastgraph.frontends.circle.load import load
from fastgraph.ir import Graph, Node, TensorType, Value, check
from fastgraph.passes.specialize import specialize
from fastgraph.passes.stages import LISTS, stages
from fastgraph.plan.lower import Matches
from fastgraph.shared import share
from tests.blocks import BLOCKS, NEWEST, RARE, conv
from tests.circle.write import Model, litert
from tests.compositions.coverage import Coverage, known_rules, watching
from tests.nets import F32, Net, assert_close, by_onnxruntime, by_reference, graph_of
from tests.plan.test_row_loops import fed, listed
from tests.quantized_blocks import QDQ, TFLITE
from tests.uncommon_nodes import GRAPHS

FOLDER = Path(__file__).parent / "golden"
FLOATS = {**BLOCKS, **RARE}

Check = Callable[[Graph, str], None]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, Graph, Check], None]:
    """golden("residual", graph, check): compares with residual.txt; `check` gets the graph after each stage."""

    def compare(name: str, graph: Graph, check: Check) -> None:
        graph.source = ""
        texts, last = [f"-- import\n{graph}\n"], str(graph)
        for stage, after in stages(graph, Matches()):
            check(after, stage)
            if str(after) != last:
                texts.append(f"-- {stage}\n{after}\n")
            last = str(after)
        path = FOLDER / f"{name}.txt"
        if request.config.getoption("--golden"):
            path.write_text("\n".join(texts))
        assert "\n".join(texts) == path.read_text(), f"{path.name} differs; if the new form is better: pytest --golden"

    return compare


def feeds_of(graph: Graph) -> dict[str, np.ndarray]:
    """Random reals, or any bytes."""
    rng = np.random.default_rng(0)
    return {
        v.name: rng.standard_normal(v.type.dims).astype(F32) if v.type.dtype == F32
        else rng.integers(-128, 128, v.type.dims).astype(v.type.dtype)
        for v in graph.inputs
    }  # fmt: skip


@pytest.mark.parametrize("name", FLOATS)
def test_block(name: str, golden: Callable[..., None]) -> None:
    net = Net()
    FLOATS[name](net)
    graph = graph_of(net.bytes())
    feeds = feeds_of(graph)
    expected = by_onnxruntime(net.bytes(), feeds)
    golden(name, graph, lambda after, stage: assert_close(by_reference(after, feeds), expected, 1e-5, stage))


def unchanged(graph: Graph, feeds: Mapping[str, Any]) -> Check:
    """Each stage leaves results as they are: integers exactly, floats but for the order of sums."""
    before = by_reference(graph, feeds)
    return lambda after, stage: assert_close(by_reference(after, feeds), before, 1e-6, stage)


@pytest.mark.parametrize("name", NEWEST)
def test_newest_block(name: str, golden: Callable[..., None]) -> None:
    net = Net()
    NEWEST[name](net)
    graph = graph_of(net.bytes())
    golden(name, graph, unchanged(graph, feeds_of(graph)))


@pytest.mark.parametrize("name", TFLITE)
def test_tflite_block(name: str, golden: Callable[..., None]) -> None:
    m = Model()
    data = m.bytes(TFLITE[name](m))
    graph = tflite_graph(data)
    feeds = feeds_of(graph)
    for found, expected in zip(by_reference(graph, feeds), litert(data, [list(feeds.values())])[0], strict=True):
        assert found.dtype == expected.dtype and len(np.unique(found)) > 3
        apart = np.abs(found.astype(float) - expected)
        if found.dtype == F32:
            assert apart.max() <= 1e-6 * np.abs(expected).max()
        else:  # LiteRT rounds some products down: each operator may be a step off
            assert apart.mean() < 1 and apart.max() <= len(m.now["operators"])
    golden(name, graph, unchanged(graph, feeds))


@pytest.mark.parametrize("name", QDQ)
def test_qdq_block(name: str, golden: Callable[..., None]) -> None:
    net = Net()
    QDQ[name](net)
    graph = graph_of(net.bytes())
    feeds = feeds_of(graph)
    assert_close(by_reference(graph, feeds), by_onnxruntime(net.bytes(), feeds), 1e-5)
    golden(name, graph, unchanged(graph, feeds))


@pytest.mark.parametrize("name", GRAPHS)
def test_uncommon_nodes(name: str, golden: Callable[..., None]) -> None:
    """Sums in another order, and transforms by other steps: to 1e-5 of the largest result."""
    graph = GRAPHS[name]()
    feeds = feeds_of(graph)
    before = by_reference(graph, feeds)

    def check(after: Graph, stage: str) -> None:
        for found, right in zip(by_reference(after, feeds), before, strict=True):
            np.testing.assert_allclose(found, right, 1e-5, 1e-5 * np.abs(right).max(), err_msg=stage)

    golden(name, graph, check)


def tflite_graph(data: bytes) -> Graph:
    """The imported graph, made concrete."""
    graph = load(data, "")
    check(graph)
    specialize(graph, {})
    return graph


def written_slice() -> Graph:
    """A slice that is written over at a place which is fed, as Core ML's programs have it."""
    x, update, begin = (Value(name, TensorType(np.dtype(kind), shape)) for name, kind, shape in (
        ("x", "f4", (2, 6, 4)), ("update", "f4", (2, 4)), ("begin", "i8", (3,))))  # fmt: skip
    end, y = Value("end"), Value("y")
    one = Value.constant("one", np.ones(3, np.int64))
    masks = {"shrink_axis_mask": 2, "begin_mask": 5, "end_mask": 5}
    nodes = [Node("add", [begin, one], [end]), Node("slice_update", [x, update, begin, end, one], [y], masks)]
    graph = Graph("written_slice", [x, update, begin], [y], nodes)
    specialize(graph, {})
    return graph


def test_written_slice(golden: Callable[..., None]) -> None:
    graph = written_slice()
    golden("written_slice", graph, unchanged(graph, feeds_of(graph) | {"begin": np.array([0, 3, 0])}))


def listed_parts() -> Graph:
    """A loop that ends itself and lists what becomes of parts of unknown lengths, with its rounds counted."""
    graph = graph_of(listed().bytes())
    LISTS(graph)
    return graph


def test_listed_parts(golden: Callable[..., None]) -> None:
    graph = listed_parts()
    golden("listed_parts", graph, unchanged(graph, fed([0, 3, 3, 12])))


def open_layers() -> Graph:
    """Layers over images of any size, as plans share them: without transposes between layers."""
    net = Net()
    x = net("Relu", conv(net, net.input("x", (1, 4, "h", "w")), 4, 8, 3))
    gate = net("Sigmoid", conv(net, net("ReduceMean", x, [2, 3]), 8, 8, 1))
    y = conv(net, net("Add", net("Mul", x, gate), net.weight(8, 1, 1)), 8, 8, 3)
    wide = net("Resize", y, "", [1.0, 1.0, 2.0, 2.0], mode="nearest")
    net.output(conv(net, net("Softmax", net("Concat", wide, wide, axis=1), axis=1), 16, 4, 1))
    graph = share(graph_of(net.bytes())).short
    specialize(graph, {"x": (1, 4, 6, 8)})
    return graph


def test_open_layers(golden: Callable[..., None]) -> None:
    graph = open_layers()
    golden("open_layers", graph, unchanged(graph, feeds_of(graph)))


def test_every_rule_applies_in_one_of_them() -> None:
    """And so is seen in a golden text."""
    seen = Coverage()
    with watching(seen):
        for build in TFLITE.values():
            m = Model()
            list(stages(tflite_graph(m.bytes(build(m))), Matches()))
        for write in (*FLOATS.values(), *NEWEST.values(), *QDQ.values()):
            net = Net()
            write(net)
            list(stages(graph_of(net.bytes()), Matches()))
        for make in (written_slice, listed_parts, open_layers, *GRAPHS.values()):
            list(stages(make(), Matches()))
    assert not known_rules() - set(seen.rules)


def test_every_file_belongs_to_a_block() -> None:
    known = {*FLOATS, *NEWEST, *TFLITE, *QDQ, *GRAPHS, "written_slice", "listed_parts", "open_layers"}
    assert {path.stem for path in FOLDER.glob("*.txt")} == known
