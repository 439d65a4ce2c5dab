"""Shapes that depend on data, control flow, and values that are no tensors: after or between native work."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

import fastgraph as fg
from tests.nets import F32, I64, Net, assert_close, by_onnxruntime

X = np.array([[1, 0, -3, 4], [0, 5, 0, 2]], F32)


def agree(net: Net, **feeds: np.ndarray) -> fg.Model:
    """Load, run twice, and hold against onnxruntime."""
    model = net.load()
    for _ in range(2):
        found = model.run(feeds)
        assert_close(list(found.values()), by_onnxruntime(net.bytes(), feeds))
    return model


def test_nonzero() -> None:
    net = Net()
    x = net.input("x", (2, 4))
    found = net("NonZero", net("Relu", x))
    net.output(net("Transpose", found), dtype=I64)
    net.output(net("Cast", net("Shape", found), to=1))
    net.output(net("Relu", x))
    model = agree(net, x=X)
    agree(net, x=np.zeros_like(X))
    assert model.plan.tail is None
    with pytest.raises(fg.FastgraphError, match="use run"):
        model.output(model.outputs[0].name)


def test_execute_of_a_model_with_a_dynamic_end_says_what_to_do() -> None:
    net = Net()
    net.output(net("NonZero", net.input("x", (2, 4))), dtype=I64)
    model = net.load()
    model.input("x")[...] = X
    model.execute()
    with pytest.raises(fg.FastgraphError, match="use run"):
        model.output(model.outputs[0].name)


def branch(op: str, x: str) -> onnx.GraphProto:
    """A branch of an If that applies one operator to an outer value."""
    out = f"{op}.out"
    return helper.make_graph([helper.make_node(op, [x], [out])], op, [], [helper.make_empty_tensor_value_info(out)])


def from_text(body: str, opset: int = 17) -> bytes:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{body}').SerializeToString()


def check_text(source: bytes, **feeds: Any) -> list[Any]:
    model = fg.load(source, threads=1)
    found = list(model.run(feeds).values())
    expected = by_onnxruntime(source, feeds)
    for a, e in zip(found, expected, strict=True):
        if isinstance(e, list):
            assert len(a) == len(e)
            assert_close(a, e)
        else:
            assert_close([a], [e])
    return found


def test_if_with_branches_of_different_shapes() -> None:
    source = from_text("""
    g (float[2,4] x, bool p) => (float[m,n] y, float[2,4] z) {
      z = Relu(x)
      r = If(p) <
        then_branch = t () => (float[2,4] yt) { yt = Neg(z) },
        else_branch = e () => (float[4,2] ye) { ye = Transpose(z) }
      >
      y = Abs(r)
    }""")
    for p in (True, False):
        check_text(source, x=X, p=np.array(p))


def test_a_constant_if_between_convolutions() -> None:
    net = Net()
    x = net("Conv", net.input("x", (1, 3, 6, 6)), net.weight(8, 3, 3, 3))
    y = net("If", True, then_branch=branch("Relu", x), else_branch=branch("Neg", x))
    net.output(net("Conv", y, net.weight(4, 8, 3, 3)))
    model = agree(net, x=np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(F32))
    assert model.outputs[0].shape == (1, 4, 2, 2)


def test_a_sub_graph_that_captures_what_a_pass_rewrites() -> None:
    """The captured value is a batch normalized convolution, which becomes another node with another layout."""
    net = Net()
    y = net("Conv", net.input("x", (1, 3, 6, 6)), net.weight(8, 3, 3, 3))
    y = net("BatchNormalization", y, *(net.weight(8) for _ in range(3)), np.ones(8, F32))
    p = net.input("p", (), bool)
    net.output(net("If", p, then_branch=branch("Relu", y), else_branch=branch("Identity", y)), y)
    for chosen in (True, False):
        agree(net, x=np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(F32), p=np.array(chosen))


def test_sequences_between_tensors() -> None:
    net = Net()
    x = net("Relu", net.input("x", (2, 4)))
    pieces = net("SplitToSequence", x, axis=1, keepdims=1)
    one = net("SequenceAt", pieces, 2)
    more = net("SequenceInsert", pieces, one)
    net.output(net("ConcatFromSequence", more, axis=1), net("Neg", one))
    agree(net, x=X)


def test_a_layer_after_a_sequence_that_is_put_together() -> None:
    """As the exporter of PyTorch writes EmbeddingBag: what reads a list has a shape after the list is there."""
    net = Net()
    more = net("SequenceInsert", net("SequenceEmpty"), net.input("x", (2, 4)))
    net.output(net("MatMul", net("ConcatFromSequence", more, axis=0), net.weight(4, 512)))
    agree(net, x=X)


def test_a_sequence_as_output() -> None:
    source = from_text("g (float[2,4] x) => (seq(float[k,4]) y) { a = Relu(x) y = SplitToSequence <axis = 0> (a) }")
    found = check_text(source, x=X)[0]
    assert isinstance(found, list) and [a.tolist() for a in found] == [[[1, 0, 0, 4]], [[0, 5, 0, 2]]]


def test_strings() -> None:
    words = helper.make_tensor_value_info("words", TensorProto.STRING, [3])
    out = helper.make_tensor_value_info("y", TensorProto.STRING, [3])
    graph = helper.make_graph([helper.make_node("Identity", ["words"], ["y"])], "g", [words], [out])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    model = fg.load(source)
    for given in (["one", "two", "größer"], ["a", "b", ""]):
        for feed in (np.array(given, object), np.array(given), given):
            assert model.run({"words": feed})["y"].tolist() == given


def test_string_results_beside_native_ones() -> None:
    texts = [helper.make_tensor_value_info(n, TensorProto.STRING, [2]) for n in ("a", "b")]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y, c = (helper.make_tensor_value_info(n, k, [2]) for n, k in (("y", TensorProto.FLOAT), ("c", TensorProto.STRING)))
    nodes = [helper.make_node("StringConcat", ["a", "b"], ["c"]), helper.make_node("Relu", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "g", [*texts, x], [c, y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    feeds = {"a": np.array(["x", "y"], object), "b": np.array(["1", "2"], object), "x": np.array([-1, 1], F32)}
    found = fg.load(model.SerializeToString()).run(feeds)
    assert found["c"].tolist() == ["x1", "y2"] and found["y"].tolist() == [0, 1]


def test_random_numbers_differ_from_run_to_run() -> None:
    net = Net()
    net.output(net("Add", net.input("x", (1000,)), net("RandomNormal", shape=[1000], mean=0.0, scale=1.0)))
    model = net.load()
    x = np.zeros(1000, F32)
    first, second = model(x), model(x)
    assert not np.array_equal(first, second) and abs(first.mean()) < 0.3 and abs(first.std() - 1) < 0.2


def test_one_value_under_two_output_names() -> None:
    net = Net()
    y = net("Relu", net.input("x", (4,)))
    net.output(net("Identity", y), net("Identity", y), y)
    model = agree(net, x=X[0])
    a, b, c = model(X[0])
    a[...] = 9
    assert not np.shares_memory(b, c) and b.tolist() == c.tolist() == [1, 0, 0, 4]


def test_an_output_named_twice_is_refused_or_given_once() -> None:
    net = Net()
    y = net("Relu", net.input("x", (4,)))
    net.output(y, y)
    try:
        model = net.load()
    except fg.ModelError as error:
        assert y in str(error)
        return
    assert list(model.run({"x": X[0]})) == [y]


def test_constants_among_dynamic_results_are_the_callers_own() -> None:
    net = Net()
    net.output(net("NonZero", net.input("x", (2, 4))), dtype=I64)
    net.output(net.const(np.ones(3, F32)))
    model = net.load()
    for _ in range(2):
        places, ones = model(X)
        assert ones.tolist() == [1, 1, 1]
        ones[...] = 9


def test_masks_written_back() -> None:
    """y[mask] = f(x[mask]) and y[..., -1] = v, as the exporter of PyTorch writes these: one native program."""
    net = Net()
    x, low = net.input("x", (3, 7)), net.const(0.0, F32)
    mask = net("Greater", x, low)
    rows = net("Unsqueeze", net("GatherND", x, net("Transpose", net("NonZero", mask), perm=[1, 0])), [1])
    wide = net("Mul", net("Softplus", rows), net.const(np.arange(1, 6), F32))
    count = net("Squeeze", net("Slice", net("Shape", wide), [0], [1]))
    places = net("Unsqueeze", net("Range", 0, count, 1), [1])
    last = net("Expand", [[-1]], net("Shape", places))
    wide = net("ScatterND", wide, net("Concat", places, last, axis=1), net("Squeeze", rows, [1]))
    values = net("ReduceSum", wide, [1], keepdims=0)
    again = net("Transpose", net("NonZero", net("Expand", mask, net("Shape", x))), perm=[1, 0])
    count = net("Slice", net("Shape", again), [0], [1])
    part = net("Slice", net("Reshape", values, [-1]), [0], count, [0])
    net.output(net("ScatterND", net("Neg", x), again, part))
    rng = np.random.default_rng(0)
    for lift in (0, -9, 9, 0.5):
        model = agree(net, x=(rng.standard_normal((3, 7)) + lift).astype(F32))
    assert model.plan.tail is None


def test_parts_of_a_split_that_are_transposed_are_told_apart() -> None:
    net = Net(opset=18)
    x = net.input("x", ["N", 1, 8])
    count = net("Cast", net("ReduceMax", x, keepdims=0), to=7)
    some = net("Slice", x, [0], net("Unsqueeze", count, [0]), [1])
    a, b = net("Split", net("Transpose", some, perm=[0, 2, 1]), outputs=2, axis=0, num_outputs=2)
    net.output(a, net("Expand", b, [2]))
    agree(net, x=np.linspace(-1, 1.5, 40, dtype=F32).reshape(5, 1, 8))


@pytest.mark.parametrize("op", ["ScatterElements", "ScatterND"])
@pytest.mark.parametrize("place", [3, -4, -5, 99])
def test_a_place_out_of_range_is_none_to_write_to(op: str, place: int) -> None:
    net = Net()
    data, places, mask = net.input("data", (3,)), net.input("places", (4,), I64), net.input("mask", (4,), np.bool_)
    taken = net("Compress", places, mask)
    taken = net("Unsqueeze", taken, [1]) if op == "ScatterND" else taken
    net.output(net(op, data, taken, net("Compress", [1.0, 2.0, 3.0, 4.0], mask)))
    feeds = {"data": np.zeros(3, F32), "places": np.array([place, -1, -3, 1]), "mask": np.arange(4) > 0}
    model = agree(net, **feeds)
    assert model.plan.tail is None
    with pytest.raises(fg.FastgraphError, match="out of range"):
        model.run({**feeds, "mask": np.arange(4) != 1})


def test_casts_round_beside_what_depends_on_data() -> None:
    """Floats of fewer bits are float32 here: a cast to these that keeps the type changes numbers."""
    net = Net()
    x = net.input("x", (2, 4))
    rounded = net("Cast", net("Cast", x, to=TensorProto.BFLOAT16), to=TensorProto.FLOAT)
    net.output(net("Cast", net("NonZero", x), to=1), rounded)
    agree(net, x=X + F32.type(1 / 3))
