"""What a file says becomes what the graph says: types, names, operators; and errors that say where."""

import numpy as np
import pytest
from flatbuffers import flexbuffers

from fastgraph.errors import ModelError, UnsupportedError
from fastgraph.frontends import read as read_any
from fastgraph.frontends.circle import custom_rule, read
from fastgraph.ir import Quantization, check
from fastgraph.ops.evaluate import evaluate, infer_graph
from tests.circle.write import Model, Writer


def declared(shape=(2, 3), schema="tflite", **fields):
    """The type of an input that is declared so."""
    m = Model(schema)
    m.input(shape)
    m.now["tensors"][0].update(fields)
    return read(m.bytes([0])).inputs[0].type


def test_open_extents():
    assert declared((1, 8), shape_signature=[-1, 8]).shape == (None, 8)
    assert declared((1, 8)).shape == (1, 8) and declared(()).shape == ()
    with pytest.raises(ModelError, match="shape_signature"):
        declared((1, 8), shape_signature=[-1])


def test_quantization():
    def quant(kind="INT8", **fields):
        return declared(type=kind, quantization=fields).quant

    assert quant(scale=np.float32([0.5]), zero_point=[3]) == Quantization((0.5,), (3,))
    assert quant(scale=np.float32([0.5, 1, 2]), zero_point=[0], quantized_dimension=1) == Quantization(
        (0.5, 1, 2), (0, 0, 0), 1
    )
    assert quant(scale=np.float32([0.5, 1]), zero_point=[1, 2]) == Quantization((0.5, 1), (1, 2), 0)
    assert quant(min=np.float32([0]), max=np.float32([6])) is None
    assert quant("FLOAT32", scale=np.float32([0.5]), zero_point=[3]) is None
    assert quant("INT32", scale=np.float32([0])) is None
    assert quant(scale=np.float32([0]), zero_point=[0]) is None
    for fields, message in (
        ({"scale": np.float32([-1])}, "finite scales above 0"),
        ({"scale": np.float32([np.nan])}, "finite scales"),
        ({"scale": np.float32([1, 0, 1]), "zero_point": [0]}, "finite scales above 0"),
        ({"scale": np.float32([1, 2]), "zero_point": [1, 2, 3]}, "a zero point for each of 2 scales"),
        ({"scale": np.float32([1])}, "a zero point for each of 1 scales, found 0"),
        ({"scale": np.float32([1, 2]), "zero_point": [0], "quantized_dimension": 5}, "quantized_dimension within"),
        ({"scale": np.float32([1, 2]), "zero_point": [0], "quantized_dimension": 1}, "expected 3 scales along axis"),
        ({"scale": np.float32([1]), "zero_point": [1 << 40]}, "zero points of 32 bits"),
    ):
        with pytest.raises(ModelError, match=message):
            quant(**fields)


def test_a_bias_may_name_the_axis_of_its_weights():
    said = {"scale": np.float32([1, 2, 3]), "zero_point": [0], "quantized_dimension": 3}
    type_ = declared((3,), type="INT32", quantization=said)
    assert type_.quant == Quantization((1, 2, 3), (0, 0, 0), 0)


def signed(inputs, outputs, key="serving_default", **fields):
    def maps(items):
        return [{"name": name, "tensor_index": index} for name, index in items]

    return {"inputs": maps(inputs), "outputs": maps(outputs), "signature_key": key, **fields}


def named(*signatures, outputs=(1,)):
    m = Model()
    x = m.input((2,), name="serving_x:0")
    m.op("RELU", [x], [(2,)])
    m.now["tensors"][1]["name"] = "Call:0"
    m.now["outputs"] = list(outputs)
    fields = {"version": 3, "operator_codes": m.codes, "subgraphs": m.graphs, "signature_defs": list(signatures)}
    graph = read(Writer("tflite").file("Model", fields, b"TFL3"))
    check(graph)
    return [v.name for v in graph.inputs], [v.name for v in graph.outputs]


def test_names():
    assert named() == (["serving_x:0"], ["Call:0"])
    assert named(signed([("x", 0)], [("y", 1)])) == (["x"], ["y"])
    other = signed([("a", 0)], [("b", 1)], "other")
    assert named(other, signed([("x", 0)], [("y", 1)])) == (["x"], ["y"])
    assert named(other) == (["a"], ["b"])
    assert named(signed([], [("y", 1)])) == (["serving_x:0"], ["y"])
    assert named(signed([("x", 0)], [("y", 1)], subgraph_index=1)) == (["serving_x:0"], ["Call:0"])
    assert named(outputs=(1, 1, 0)) == (["serving_x:0"], ["Call:0", "Call:0:1", "serving_x:0"])
    assert named(signed([("x", 0)], [("y", 1), ("z", 1)]), outputs=(1, 1)) == (["x"], ["y", "z"])
    assert named(signed([("same", 0)], [("same", 1)])) == (["same"], ["same"])


def test_tensors_of_one_name_become_values_of_different_ones():
    m = Model()
    x = m.input((2,), name="t")
    (y,) = m.op("RELU", [x], [(2,)])
    (z,) = m.op("RELU", [y], [(2,)])
    m.now["tensors"][y]["name"] = m.now["tensors"][z]["name"] = "t"
    graph = read(m.bytes([y, z]))
    check(graph)
    assert [v.name for v in graph.outputs] == ["t", "t:1"] and graph.inputs[0].name == "t"
    graph = read(m.bytes([z]))
    assert graph.nodes[0].out.name not in ("t", graph.outputs[0].name) and len(graph.nodes) == 2


def test_codes():
    """The greater of the old byte and the new number; Circle's own are negative, and old files have just the byte."""

    def op(schema, **code):
        m = Model(schema)
        m.op("RELU", [m.input((2,))], [(2,)])
        m.codes[0] = code
        try:
            return read(m.bytes([1])).nodes[0].op
        except (ModelError, UnsupportedError) as error:
            return str(error)

    assert op("tflite", deprecated_builtin_code=19) == "relu"
    assert op("tflite", builtin_code=19) == "relu"
    assert op("tflite", deprecated_builtin_code=127, builtin_code=158) == "sign"
    assert "GRU" in op("circle", deprecated_builtin_code=-5)
    assert "GRU" in op("circle", deprecated_builtin_code=0, builtin_code=-5)
    assert "operator code 999" in op("tflite", builtin_code=999)
    assert "custom operator 'Nobody'" in op("tflite", builtin_code=32, custom_code="Nobody")


def test_all_that_is_unsupported_is_named_at_once():
    m = Model()
    x = m.input((2,))
    (y,) = m.op("Nobody", [x], [(2,)], custom=b"")
    (y,) = m.op("Nobody", [y], [(2,)], custom=b"")
    (y,) = m.op("NoneEither", [y], [(2,)], custom=b"")
    (y,) = m.op("RELU", [y], [(2,)])
    m.codes[-1] = {"builtin_code": 999}
    with pytest.raises(UnsupportedError) as caught:
        read(m.bytes([y]), "net.tflite")
    text = str(caught.value)
    said = "custom operator 'Nobody' (2 times, first at operator 0, which makes 't0_1'); custom operator 'None"
    assert text.startswith(f"net.tflite: not supported: {said}")
    assert "operator code 999" in text
    assert "register_custom_op" in text


def test_a_rule_of_the_user():
    def swish(c):
        beta = c.const(np.float32(c.flexbuffer()["beta"]))
        c.write("mul", [c.x(), c.add("sigmoid", [c.add("mul", [c.x(), beta])])])

    m = Model()
    (y,) = m.op("Swish", [m.input((3,), name="x")], [(3,)], custom=bytes(flexbuffers.Dumps({"beta": 2.0})))
    data = m.bytes([y])
    with pytest.raises(UnsupportedError, match="custom operator 'Swish'.*register_custom_op"):
        read(data)
    custom_rule("Swish", swish)
    try:
        graph = read(data)
        infer_graph(graph)
        x = np.float32([-1, 0, 2])
        assert np.allclose(evaluate(graph, {"x": x})[0], x / (1 + np.exp(-2 * x)))
    finally:
        custom_rule("Swish", None)
    with pytest.raises(UnsupportedError, match="Swish"):
        read(data)


def test_large_custom_options():
    seen = []

    def note(c):
        seen.append(c.flexbuffer())
        c.write("relu")

    options = bytes(flexbuffers.Dumps({"k": 7}))
    m = Model()
    m.op("Note", [m.input((2,))], [(2,)], custom=b"")
    place = {"large_custom_options_offset": 2, "large_custom_options_size": len(options)}
    m.now["operators"][0].update(place)
    place["large_custom_options_offset"] = len(m.bytes([1]))
    m.now["operators"][0].update(place)
    custom_rule("Note", note)
    try:
        read(m.bytes([1]) + options)
        assert seen == [{"k": 7}]
        with pytest.raises(ModelError, match="the file was cut short"):
            read(m.bytes([1]))
        with pytest.raises(ModelError, match="expected a map in its custom options, found int"):
            read(m.bytes([1]) + bytes(len(options) - 3) + b"\x05\x04\x01")
    finally:
        custom_rule("Note", None)


def test_operators_say_where_they_fail():
    m = Model()
    x = m.input((2,))
    m.op("RELU", [x], [(2,)])
    m.now["operators"][0]["inputs"] = [7]
    with pytest.raises(ModelError, match=r"f\.tflite: sub-graph 0 'g0': operator 0 \(RELU\): expected tensors from -1"):
        read(m.bytes([1]), "f.tflite")
    m.now["operators"][0]["inputs"] = [1]
    with pytest.raises(ModelError, match="tensor 1 't0_1' is read, but no input, buffer or operator before gives it"):
        read(m.bytes([1]))
    m.now["operators"][0].update(inputs=[0], opcode_index=3)
    with pytest.raises(ModelError, match="expected an operator code from 0 to 0, found 3"):
        read(m.bytes([1]))
    m.now["operators"][0].update(opcode_index=0, builtin_options=("Pool2DOptions", {}))
    m.codes[0] = {"builtin_code": 3}
    with pytest.raises(ModelError, match="expected Conv2DOptions, found Pool2DOptions"):
        read(m.bytes([1]))


def test_versions_and_identifiers():
    m = Model()
    m.input((2,))
    data = m.bytes([0])
    assert read_any(data).inputs[0].type.shape == (2,)
    with pytest.raises(ModelError, match="expected version 0 of the circle schema, found 3"):
        read(data[:4] + b"CIR0" + data[8:])
    with pytest.raises(ModelError, match="expected 'TFL3' or 'CIR0'"):
        read(data[:4] + b"TFL2" + data[8:])
    with pytest.raises(ModelError, match="at least one sub-graph"):
        read(Writer("tflite").file("Model", {"version": 3}, b"TFL3"))


def test_first_circle_files_with_channels_first():
    m = Model("circle")
    m.input((2,))
    m.now["deprecated_data_format"] = "CHANNELS_FIRST"
    with pytest.raises(UnsupportedError, match="channels first"):
        read(m.bytes([0]))


def test_a_path_is_read_by_its_content(tmp_path):
    m = Model("circle")
    m.input((2,), name="in")
    path = tmp_path / "model.onnx"
    path.write_bytes(m.bytes([0]))
    assert read_any(path).inputs[0].name == "in"
    assert read_any(str(path)).source == str(path)
    with pytest.raises(OSError):
        read_any(tmp_path / "absent.tflite")
    path = tmp_path / "page.tflite"
    path.write_bytes(b"<!DOCTYPE html>")
    with pytest.raises(ModelError, match=r"page\.tflite: no .*Lite.*: it is a web page"):
        read_any(path)


def test_a_reshape_to_more_dimensions_than_there_can_be():
    m = Model()
    (y,) = m.op("RESHAPE", [m.input((4,)), m.input((1 << 28,), np.int32)], [()])
    with pytest.raises(ModelError, match="268435456 dimensions"):
        read(m.bytes([y]))


def test_a_window_of_more_channels_than_there_are():
    m = Model()
    x, told = m.input((1, 1, 1, 3), name="x"), {"radius": 1 << 30, "bias": 1.0, "alpha": 1.0, "beta": 1.0}
    (y,) = m.op("LOCAL_RESPONSE_NORMALIZATION", [x], [(1, 1, 1, 3)], **told)
    graph = read(m.bytes([y]))
    infer_graph(graph)
    x = np.float32([1, 2, 3]).reshape(1, 1, 1, 3)
    assert np.allclose(evaluate(graph, {"x": x})[0], x / 15)
