"""What a file says of itself, and signatures of TensorFlow Lite files that are chosen by key."""

import numpy as np
import pytest

import fastgraph as fg
from tests.circle.test_control import variable
from tests.circle.write import Model, Writer

onnx = pytest.importorskip("onnx")
F32 = np.float32


def two_signatures() -> bytes:
    """`add` gives a variable plus `a`, and keeps the sum; `init` sets the variable to `start`, and gives -start."""
    m = Model()
    x = m.input((4,), name="x")
    handle = variable(m)
    (before,) = m.op("READ_VARIABLE", [handle], [(4,)])
    (total,) = m.op("ADD", [before, x], [(4,)])
    m.op("ASSIGN_VARIABLE", [handle, total], [])
    m.now["outputs"] = [total]
    m.graph()
    start = m.input((4,), name="y")
    m.op("ASSIGN_VARIABLE", [variable(m), start], [])
    (negative,) = m.op("NEG", [start], [(4,)])
    m.now["outputs"] = [negative]
    signatures = [signed("add", 0, {"a": x}, {"total": total}), signed("init", 1, {"start": start}, {"neg": negative})]
    return written(m, signatures)


def signed(key: str, subgraph: int, inputs: dict[str, int], outputs: dict[str, int]) -> dict:
    maps = [[{"name": name, "tensor_index": index} for name, index in each.items()] for each in (inputs, outputs)]
    return {"signature_key": key, "subgraph_index": subgraph, "inputs": maps[0], "outputs": maps[1]}


def written(m: Model, signatures: list[dict]) -> bytes:
    fields = {"version": 3, "operator_codes": m.codes, "subgraphs": m.graphs, "buffers": m.buffers}
    said = {"description": "two", "metadata": [{"name": "min_runtime_version", "buffer": 0}]}
    return Writer("tflite").file("Model", {**fields, **said, "signature_defs": signatures}, b"TFL3")


def test_a_signature_is_chosen_by_its_key(tmp_path):
    data = two_signatures()
    (tmp_path / "two.tflite").write_bytes(data)
    for source in (data, tmp_path / "two.tflite"):
        model = fg.load(source, function="add")
        assert [s.name for s in model.inputs] == ["a"] and [s.name for s in model.outputs] == ["total"]
        assert model(np.ones(4, F32)).tolist() == [1] * 4  # the variable, which only `init` sets, began with zeros
        assert model(np.ones(4, F32)).tolist() == [2] * 4
        model = fg.load(source, function="init")
        assert [s.name for s in model.inputs] == ["start"] and model(np.ones(4, F32)).tolist() == [-1] * 4
        assert [s.name for s in fg.load(source).inputs] == ["a"]
        with pytest.raises(fg.InputError, match="no signature is called 'nope', the signatures are add, init"):
            fg.load(source, function="nope")


def test_a_file_without_signatures_says_so():
    m = Model()
    data = m.bytes(m.op("NEG", [m.input((2,))], [(2,)]))
    with pytest.raises(fg.InputError, match="the file has no signatures"):
        fg.load(data, function="serving_default")


def small_onnx() -> bytes:
    h = onnx.helper
    value = [h.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (2,)) for name in "xy"]
    graph = h.make_graph([h.make_node("Neg", ["x"], ["y"])], "g", value[:1], value[1:], doc_string="of it")
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], producer_name="us", producer_version="3")
    model.model_version, model.domain, model.doc_string = 7, "here", "a test"
    h.set_model_props(model, {"names": "{0: 'cat'}", "stride": "32"})
    return model.SerializeToString()


def test_metadata_of_onnx(tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(small_onnx())
    fg.load(path).save(tmp_path / "net.fgm")
    for source in (path, path, small_onnx(), tmp_path / "net.fgm"):  # the second is the program that was kept
        found = fg.load(source).metadata
        assert (found.description, found.version, found.domain, found.graph) == ("a test", "7", "here", "g")
        assert (found.producer, found.producer_version, found.graph_description) == ("us", "3", "of it")
        assert found.opsets == {"ai.onnx": 18} and found.custom == {"names": "{0: 'cat'}", "stride": "32"}
        assert not found.author and "author" not in repr(found) and "'stride': '32'" in repr(found)


def test_metadata_of_tflite_and_core_ml():
    found = fg.load(two_signatures()).metadata
    assert found.description == "two" and found.buffers == ("min_runtime_version",) and not found.custom
    from fastgraph.frontends.mil.description import metadata
    from fastgraph.frontends.mil.wire import message

    spec = message("Model")()
    said = spec.description.metadata
    said.shortDescription, said.author, said.license, said.versionString = "short", "me", "mine", "2"
    said.userDefined["k"] = "v"
    assert metadata(spec) == {
        "description": "short", "author": "me", "license": "mine", "version": "2", "custom": {"k": "v"},
    }  # fmt: skip


def test_metadata_can_not_be_changed():
    model = fg.load(small_onnx())
    with pytest.raises(TypeError):
        model.metadata.custom["k"] = "v"
    with pytest.raises(AttributeError):
        model.metadata.author = "me"
    with pytest.raises(AttributeError, match="can't be set"):
        model.metadata = None
