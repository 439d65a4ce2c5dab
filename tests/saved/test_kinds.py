"""Models of all kinds, saved: open shapes, values that decide shapes, states, lists, text, images, labels, edges."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper

import fastgraph as fg
from fastgraph.ir import Graph, Node, State, Value
from fastgraph.kernels.isa.tiers import choose
from fastgraph.runtime.model import Model
from tests.circle.write import Model as File
from tests.mil.test_description import PIXELS, classifier, identity, picture, ranged
from tests.model.test_kinds_of_feeds import LISTS, NARROW, OPTIONAL, SEQUENCE, tensor
from tests.model.test_kinds_of_feeds import model as of_kinds
from tests.model.test_model_states import value
from tests.nets import F32, I64, Net
from tests.quantized_blocks import TFLITE
from tests.saved.round_trip import again, check, drawn, is_stored, same


def ones(*shape: int, by: float = 1) -> np.ndarray:
    return (np.arange(np.prod(shape)) * by % 7 - 2).reshape(shape).astype(F32)


# -- open shapes


def opened(seed: int = 0) -> Net:
    net = Net(seed=seed)
    y = net("Relu", net("MatMul", net.input("x", ("n", 8)), net.weight(8, 300)))
    net.output(net("Softmax", net("MatMul", y, net.weight(300, 6))))
    return net


SIZES = (1, 3, 5, 2, 5, 1, 9)


@pytest.mark.parametrize("threads", [1, 2])
def test_open_shapes(threads: int, tmp_path: Path) -> None:
    """Some are stored, others are planned later, and come and go as `plans` allows."""
    model = opened().load(threads=threads)
    made = again(model, tmp_path, shapes=[{"x": (n, 8)} for n in (3, 5)])
    assert (made.inputs, made.outputs) == (model.inputs, model.outputs)
    for plans in (None, 1):
        made = fg.load(tmp_path / "model.fgm", threads=threads, plans=plans)
        for n in SIZES:
            same(model, made, [{"x": ones(n, 8)}], n)
            assert plans or is_stored(made) == (n in (3, 5))
    made.prepare([{"x": (5, 8)}])
    made.resize({"x": (3, 8)})
    made.input("x")[...] = ones(3, 8)
    made.execute()
    np.testing.assert_array_equal(made.output(made.outputs[0].name), model(ones(3, 8)))


def test_plans_beside_those_of_the_file_are_within_the_limits_of_the_load(tmp_path: Path) -> None:
    net, path = Net(), tmp_path / "net.fgm"
    net.output(net("Relu", net("MatMul", net.input("x", ("n", 8)), net.weight(8, 16))))
    model = net.load()
    model.resize({"x": (2, 8)})
    model.save(path)
    model = fg.load(path, limits=fg.Limits(nodes=1))
    assert model(np.ones((2, 8), np.float32)).shape == (2, 16) and model.graph.limits.nodes == 1
    with pytest.raises(fg.FastgraphError, match=r"net\.fgm.*more operators and operands.*limits="):
        model(np.ones((3, 8), np.float32))
    assert fg.load(path)(np.ones((3, 8), np.float32)).shape == (3, 16)


def test_a_model_of_the_shapes_that_a_load_says(tmp_path: Path) -> None:
    model = opened().load()
    again(model, tmp_path, shapes=[{"x": (3, 8)}, {"x": (5, 8)}])
    for n, stored in ((5, True), (4, False)):
        made = fg.load(tmp_path / "model.fgm", shapes={"x": (n, 8)}, threads=1)
        same(opened().load(shapes={"x": (n, 8)}), made, [{"x": ones(n, 8)}])
        assert is_stored(made) == stored and made.inputs[0].shape == (n, 8)
    with pytest.raises(fg.InputError, match="shapes names 'y'"):
        fg.load(tmp_path / "model.fgm", shapes={"y": (1,)})
    with pytest.raises(fg.InputError, match="has shape"):
        fg.load(tmp_path / "model.fgm", shapes={"x": (1, 9)})


def test_without_its_graph_it_runs_what_is_stored(tmp_path: Path) -> None:
    model = opened().load()
    made = again(model, tmp_path, shapes=[{"x": (3, 8)}, {"x": (5, 8)}], graph=False)
    for n in (3, 5, 3):
        same(model, made, [{"x": ones(n, 8)}])
    for act in (
        lambda: made(ones(4, 8)),
        lambda: made.resize({"x": (4, 8)}),
        lambda: made.prepare([{"x": (4, 8)}]),
        lambda: fg.load(tmp_path / "model.fgm", shapes={"x": (4, 8)})(ones(4, 8)),
        lambda: made.graph,
        lambda: made.save(tmp_path / "other.fgm"),
    ):
        with pytest.raises(fg.InputError, match=r"without its graph, and runs .*\(3, 8\).* or .*\(5, 8\)"):
            act()
    same(model, made, [{"x": ones(3, 8)}])


def test_values_that_decide_shapes(tmp_path: Path) -> None:
    net = Net()
    net.output(net("Relu", net("Reshape", net.input("x", (4, 6)), net.input("shape", (2,), I64))))
    model, x = net.load(threads=2), ones(4, 6)
    stored = [[8, 3], [3, -1]]
    made = again(model, tmp_path, shapes=[{"shape": np.array(each)} for each in stored])
    for shape in (*stored, [2, 12], [8, 3], [24, 1], [3, -1]):
        same(model, made, [{"x": x, "shape": np.array(shape)}], shape)
        assert is_stored(made) == (shape in stored)
    made = again(model, tmp_path, shapes=[{"shape": np.array(each)} for each in stored], graph=False)
    same(model, made, [{"x": x, "shape": np.array(each)} for each in (stored[1], stored[0])])
    with pytest.raises(fg.InputError, match="without its graph"):
        made.run({"x": x, "shape": np.array([2, 12])})


# -- states


def test_states_go_on_through_plans_of_the_file_and_new_ones(tmp_path: Path) -> None:
    """The sum of all that was fed, whatever its rows."""
    x, total, row, new = value("x", ("n", 2)), value("total"), value("row"), value("new")
    axes = Value.constant("axes", np.array([0]))
    sums = Node("reduce_sum", [x, axes], [row], {"keepdims": 0})
    graph = Graph("sum", [x], [new], [sums, Node("add", [row, total], [new])])
    graph.states = [State(total, new, np.array([10, 20], F32))]
    model = Model(graph, choose(None), 1)
    model(ones(3, 2))
    made = again(model, tmp_path, shapes=[{"x": (3, 2)}, {"x": (5, 2)}])
    same(model, made, [{"x": ones(n, 2)} for n in (3, 5, 4, 3, 4, 5)])


def test_states_that_swap(tmp_path: Path) -> None:
    x, a, b, y = value("x"), value("a"), value("b"), value("y")
    graph = Graph("swap", [x], [y], [Node("add", [x, a], [y])])
    graph.states = [State(a, b, np.full(2, 1, F32)), State(b, a, np.full(2, 2, F32))]
    made = check(Model(graph, choose(None), 1), tmp_path, [{"x": np.zeros(2, F32)}] * 5)
    assert is_stored(made)


@pytest.mark.parametrize("name", ["filters_that_remember", "projected_lstm"])
def test_states_of_files(name: str, tmp_path: Path) -> None:
    file = File()
    model = fg.load(file.bytes(TFLITE[name](file)), threads=2)
    check(model, tmp_path, [drawn(model, seed) for seed in range(4)])


# -- lists, optionals, text, element types


@pytest.mark.parametrize("kind, fed", [
    (SEQUENCE, [[], [ones(2)], [ones(2), ones(2, by=2)]]), (OPTIONAL, [None, ones(2), None]),
    (LISTS, [None, [ones(2)], []]),
], ids=["sequence", "optional", "lists"])  # fmt: skip
def test_lists_and_optionals(kind: Any, fed: list[Any], tmp_path: Path) -> None:
    model = of_kinds({"x": kind}, kind, helper.make_node("Identity", ["x"], ["y"]))
    made = check(model, tmp_path, [{"x": each} for each in fed])
    assert not is_stored(made)
    for wrong in ([None], 5, [ones(3)]):
        errors = []
        for each in (model, made):
            with pytest.raises(fg.InputError) as found:
                each.run({"x": wrong})
            errors.append(str(found.value))
        assert errors[0] == errors[1]


@pytest.mark.parametrize("code", NARROW, ids=NARROW.get)
def test_element_types_that_numpy_lacks(code: int, tmp_path: Path) -> None:
    kind = tensor(code, "n")
    model = of_kinds({"x": kind}, kind, helper.make_node("Identity", ["x"], ["y"]))
    feeds = [{"x": np.array([0, 1, 1, 0], np.uint8 if "uint" in NARROW[code] else np.int8)}]
    if "int" not in NARROW[code]:
        feeds = [{"x": np.array([1, 2, 1, 2], F32)}]
    model.run(feeds[0])
    assert is_stored(check(model, tmp_path, feeds))


def test_text(tmp_path: Path) -> None:
    kind = tensor(T.STRING, "n")
    nodes = helper.make_node("StringConcat", ["x", "x"], ["y"])
    model = of_kinds({"x": kind}, kind, nodes)
    fed = [{"x": np.array(["a", "ä", ""], object)}, {"x": np.array([], object)}]
    model.run(fed[0])
    made = check(model, tmp_path, fed)
    assert made.run(fed[0])["y"].tolist() == ["aa", "ää", ""]


# -- Core ML


def test_images(tmp_path: Path) -> None:
    for layout in ("RGB", "BGR", "GRAYSCALE"):
        model = fg.load(picture(layout).zip(), threads=1)
        fed = PIXELS[:, :, 0] if layout == "GRAYSCALE" else PIXELS
        made = check(model, tmp_path, [{"x": fed}, {"x": model.run({"x": fed})["y"]}], layout)
        assert is_stored(made)
        with pytest.raises(fg.InputError):
            made.run({"x": fed[:1]})


@pytest.mark.parametrize(
    "labels", [["cat", "dog", "eel"], [np.int64(7), np.int64(5), np.int64(9)]], ids=["text", "int"]
)
def test_labels(labels: Any, tmp_path: Path) -> None:
    model = fg.load(classifier(labels).zip(), threads=1)
    made = again(model, tmp_path)
    for scores in ([0, 3, 1], [9, 0, 0]):
        assert made.run({"x": F32.type([scores])}) == model.run({"x": F32.type([scores])})


def test_ranges_and_defaults(tmp_path: Path) -> None:
    model = fg.load(ranged().zip(), threads=1)
    made = check(model, tmp_path, [{"x": ones(1, n)} for n in (4, 3, 8)])
    with pytest.raises(fg.InputError, match=r"the model allows \[1, 3..8\]"):
        made.run({"x": ones(1, 9)})
    with pytest.raises(fg.InputError, match="allows"):
        fg.load(tmp_path / "model.fgm", shapes={"x": (1, 9)})
    p = identity((2,), "FLOAT16")
    model = fg.load(p.zip(), threads=1)
    assert model.inputs[0].dtype == np.float16
    check(model, tmp_path, [{"x": np.float16([1, -2])}])


# -- edges


def test_results_that_are_constants_or_inputs_and_inputs_that_nothing_reads(tmp_path: Path) -> None:
    net = Net()
    x, _ = net.input("x", (2, 3)), net.input("unread", (4,))
    y, constant = net("Relu", x), net("Identity", ones(5))
    net.output(y, constant, x, net("Identity", y))
    model = net.load()
    made = check(model, tmp_path)
    assert is_stored(made)
    for array in made.run(drawn(made, 0)).values():
        array += 1
    same(model, made, [drawn(model, 1)])
    with pytest.raises(fg.InputError, match="input 'unread' was not fed"):
        made.run({"x": ones(2, 3)})
    with pytest.raises(fg.InputError, match="'unread' has shape"):
        made.run({"x": ones(2, 3), "unread": ones(5)})


def test_a_network_without_steps_or_inputs(tmp_path: Path) -> None:
    net = Net()
    net.output(net.input("x", (3,)))
    check(net.load(), tmp_path)
    net = Net()
    net.output(net("Identity", ones(3)))
    check(net.load(), tmp_path)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_values_without_elements(shape: tuple[int, int], tmp_path: Path) -> None:
    net = Net()
    y = net("Relu", net.input("x", shape))
    net.output(y, net("Concat", y, np.ones((2, shape[1]), F32), axis=0), net("ReduceSum", y, keepdims=0))
    check(net.load(), tmp_path)
    net = Net()
    net.output(net("Relu", net.input("x", ("n", 4))))
    made = again(net.load(), tmp_path, shapes=[{"x": (0, 4)}, {"x": (2, 4)}])
    same(net.load(), made, [{"x": ones(n, 4)} for n in (0, 2, 0, 3)])


def test_a_run_in_time_and_one_that_is_too_late(tmp_path: Path) -> None:
    net = Net()
    y = net.input("x", (200, 200))
    for _ in range(20):
        y = net("Softmax", net("MatMul", y, net.weight(200, 200)))
    net.output(y)
    model = net.load(threads=2)
    made = again(model, tmp_path)
    with pytest.raises(fg.RunTimeout):
        made.run({"x": ones(200, 200)}, timeout=1e-9)
    assert made.run({"x": ones(200, 200)}, timeout=600)
    same(model, made, [{"x": ones(200, 200)}])
