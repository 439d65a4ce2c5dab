"""Names and scopes: inputs, outputs, order, functions, sub-graphs."""

import re

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx.helper import make_node as node

from fastgraph.errors import ModelError, UnsupportedError
from fastgraph.frontends.onnx import read
from fastgraph.ir import captured
from fastgraph.limits import Limits, spending
from tests.onnx.onnx_models import graph_of, info, load, model_of, one, ops, run

X = np.array([[1.0, -2.0], [3.0, -4.0]], np.float32)
BOOL = TensorProto.BOOL


def test_symbolic_and_unknown_dims_are_kept():
    model = one("Relu", [info("x", ["batch", None, 3, -1])], 13)
    model.graph.output[0].CopyFrom(info("y0", ["batch", 3]))
    graph = load(model)
    assert graph.inputs[0].type.shape == ("batch", None, 3, None)
    assert graph.inputs[0].type.dtype == np.float32
    assert graph.outputs[0].type.shape == ("batch", 3)


def test_initializers_among_the_inputs_are_constants():
    model = one("Add", ["x", info("w", [2])], 7)
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    model.ir_version = 3
    graph = load(model)
    assert [v.name for v in graph.inputs] == ["x"] and graph.nodes[0].const(1).tolist() == [1, 1]


def test_default_domain_has_two_names():
    model = one("Relu", ["x"], 13)
    model.graph.node[0].domain = model.opset_import[0].domain = "ai.onnx"
    assert ops(load(model)) == ["relu"]


def test_absent_optional_inputs_are_none():
    node = load(one("Clip", ["x", ""], 13, {"hi": np.float32(1)})).nodes[0]
    assert node.inputs[1] is None and node.const(2) == 1
    assert len(load(one("Clip", ["x", "", ""], 13)).nodes[0].inputs) == 1


def test_nodes_are_sorted_when_they_are_not():
    nodes = [node("Neg", ["b"], ["y"]), node("Abs", ["a"], ["b"]), node("Relu", ["x"], ["a"])]
    assert ops(load(model_of(nodes, ["x"], ["y"]))) == ["relu", "abs", "neg"]


def test_what_a_branch_captures_counts_for_the_order():
    branch = graph_of([node("Neg", ["late"], ["o"])], [], ["o"])
    nodes = [node("If", ["c"], ["y"], then_branch=branch, else_branch=branch), node("Relu", ["x"], ["late"])]
    assert ops(load(model_of(nodes, ["x", info("c", [], BOOL)], ["y"]))) == ["relu", "if"]


def test_outputs_keep_their_names():
    nodes = [node("Identity", ["x"], ["y"]), node("Identity", ["w"], ["z"])]
    model = model_of(nodes, ["x"], ["y", "z", "x"], {"w": X})
    graph = load(model)
    assert [v.name for v in graph.outputs] == ["y", "z", "x"]
    assert ops(graph) == ["identity"] and graph.outputs[1].data is not None
    assert all(np.array_equal(r, X) for r in run(model, X))


def test_branches_capture_values_and_constants_of_the_outer_graph():
    then = graph_of([node("Add", ["a", "w"], ["t"])], [], ["t"])
    other = graph_of([], [], ["a"])
    nodes = [node("Relu", ["x"], ["a"]), node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    model = model_of(nodes, ["x", info("c", [], BOOL)], ["y"], {"w": np.float32(1)})
    graph = load(model)
    for inner in graph.nodes[1].graphs:
        assert captured(inner) == [graph.nodes[0].out]
    assert np.array_equal(run(model, X, np.array(True))[0], np.maximum(X, 0) + 1)
    assert np.array_equal(run(model, X, np.array(False))[0], np.maximum(X, 0))


def test_a_branch_may_use_a_name_again():
    then = graph_of([node("Neg", ["x"], ["a"])], [], ["a"])
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=graph_of([], [], ["a"])),
    ]
    model = model_of(nodes, ["x", info("c", [], BOOL)], ["y"])
    assert np.array_equal(run(model, X, np.array(True))[0], -X)
    assert np.array_equal(run(model, X, np.array(False))[0], np.maximum(X, 0))


def test_loop_with_a_body_two_scopes_down():
    inner = graph_of([node("Add", ["s", "x"], ["t"])], [], ["t"])
    body = graph_of(
        [node("Identity", ["go"], ["again"]), node("If", ["go"], ["u"], then_branch=inner, else_branch=inner)],
        [info("i", [], TensorProto.INT64), info("go", [], BOOL), info("s", [2, 2])],
        ["again", "u", "u"],
    )
    model = one("Loop", [], 21, {"n": np.int64(3), "g": np.bool_(True), "s0": X}, 2, body=body)
    model.graph.input.append(info("x", [2, 2]))
    final, steps = run(model, X)
    assert np.array_equal(final, 4 * X) and steps.shape == (3, 2, 2)


def scaled(name="Scale", default=None, domain="f", body=None):
    """y = alpha * v as LeakyRelu(v) of negative values; alpha refers to attribute k."""
    nodes = body or [node("LeakyRelu", ["v"], ["r"])]
    function = helper.make_function(domain, name, ["v", "w"], ["r"], nodes, [helper.make_opsetid("", 17)])
    if default is None:
        function.attribute.append("k")
    else:
        function.attribute_proto.append(helper.make_attribute("k", default))
    if body is None:
        function.node[0].attribute.add(name="alpha", ref_attr_name="k", type=AttributeProto.FLOAT)
    return function


@pytest.mark.parametrize(
    "default, given, alpha", [(None, 0.5, 0.5), (0.25, None, 0.25), (0.25, 0.5, 0.5), (None, None, 0.01)]
)
def test_function_with_an_attribute(default, given, alpha):
    attrs = {} if given is None else {"k": given}
    nodes = [node("Scale", ["x"], ["y"], domain="f", **attrs)]
    graph = load(model_of(nodes, ["x"], ["y"], functions=[scaled(default=default)], domains=["f"]))
    assert ops(graph) == ["leaky_relu"] and graph.outputs[0].name == "y"
    assert graph.nodes[0].attrs["alpha"] == np.float32(alpha)


def test_functions_in_functions_and_in_their_branches():
    branch = graph_of([node("Scale", ["v"], ["o"], domain="f")], [], ["o"])
    branch.node[0].attribute.add(name="k", ref_attr_name="k", type=AttributeProto.FLOAT)
    outer = scaled("Outer", None, body=[node("If", ["w"], ["r"], then_branch=branch, else_branch=branch)])
    outer.opset_import.append(helper.make_opsetid("f", 1))
    nodes = [node("Outer", ["x", "c"], ["y"], domain="f", k=0.5)]
    inputs = ["x", info("c", [], BOOL)]
    model = model_of(nodes, inputs, ["y"], functions=[outer, scaled()], domains=["f"])
    assert np.array_equal(run(model, X, np.array(True))[0], np.where(X < 0, X / 2, X))


def test_function_called_twice_with_an_input_left_out():
    body = [node("Clip", ["v", "w"], ["r"])]
    nodes = [node("F", ["x"], ["a"], domain="f"), node("F", ["a", "zero"], ["y"], domain="f")]
    function = scaled("F", 0.0, body=body)
    model = model_of(nodes, ["x"], ["y"], {"zero": np.float32(0)}, functions=[function], domains=["f"])
    assert np.array_equal(run(model, X)[0], np.maximum(X, 0))


def test_function_does_not_see_its_caller():
    body = [node("Add", ["v", "x"], ["r"])]
    nodes = [node("F", ["x"], ["y"], domain="f")]
    with pytest.raises(ModelError, match="reads 'x'"):
        load(model_of(nodes, ["x"], ["y"], functions=[scaled("F", 0.0, body=body)], domains=["f"]))


def test_recursive_functions_are_refused():
    first = scaled("A", 0.0, body=[node("B", ["v"], ["r"], domain="f")])
    second = scaled("B", 0.0, body=[node("A", ["v"], ["r"], domain="f")])
    for function in (first, second):
        function.opset_import.append(helper.make_opsetid("f", 1))
    nodes = [node("A", ["x"], ["y"], domain="f")]
    with pytest.raises(ModelError, match="calls itself"):
        load(model_of(nodes, ["x"], ["y"], functions=[first, second], domains=["f"]))


def test_functions_that_multiply_are_stopped():
    functions = []
    for level in range(30):
        inner = f"F{level + 1}" if level < 29 else "Abs"
        domain = "f" if level < 29 else ""
        body = [node(inner, ["v"], ["a"], domain=domain)]
        body += [node(inner, ["a"], ["r"], domain=domain)]
        function = scaled(f"F{level}", 0.0, body=body)
        function.opset_import.append(helper.make_opsetid("f", 1))
        functions.append(function)
    nodes = [node("F0", ["x"], ["y"], domain="f")]
    with pytest.raises(ModelError, match="operators and operands than any model has"), spending(Limits(nodes=9000)):
        load(model_of(nodes, ["x"], ["y"], functions=functions, domains=["f"]))


def test_operators_of_branches_are_refused_together_with_the_others():
    branch = graph_of([node("Frob", ["x"], ["o"])], [], ["o"])
    nodes = [node("If", ["c"], ["a"], then_branch=branch, else_branch=branch), node("Nicate", ["a"], ["y"])]
    first = "graph 'g': node #0 (If): else_branch: node #0 (Frob)"
    said = re.escape(f"ai.onnx.Frob (2 times, first at {first}); ai.onnx.Nicate (at node #1)")
    with pytest.raises(UnsupportedError, match=said):
        load(model_of(nodes, ["x", info("c", [], BOOL)], ["y"]))


def test_formats_that_numpy_lacks_are_named_where_they_round():
    cast = load(one("Cast", ["x"], 21, to=TensorProto.BFLOAT16)).nodes[0]
    assert cast.attrs["to"] == np.float32 and cast.attrs["format"] == "bfloat16"
    model = one("QuantizeLinear", ["x", "s", "z"], 21)
    model.graph.initializer.append(numpy_helper.from_array(np.float32(1), "s"))
    model.graph.initializer.append(helper.make_tensor("z", TensorProto.INT4, [], [0]))
    del model.graph.input[1:]
    assert load(model).nodes[0].attrs["format"] == "int4"


def test_convolution_is_channels_last_and_weights_are_views():
    w = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    graph = load(one("Conv", ["x"], 11, {"w": w}))
    assert ops(graph) == ["transpose", "conv", "transpose"]
    weights = graph.nodes[1].const(1)
    assert weights.shape == (2, 4, 5, 3) and weights.base is not None
    assert np.array_equal(weights, w.transpose(0, 2, 3, 1))
    attrs = graph.nodes[1].attrs
    assert attrs["strides"] == (1, 1) and attrs["pads"] == (0,) * 4 and attrs["groups"] == 1


def test_path_and_bytes_and_name(tmp_path):
    data = one("Relu", ["x"], 13).SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    assert read(path).source == str(path) == read(str(path)).source
    assert read(data, "n").source == "n" and read(path, "n").source == "n"
