"""Bad files give a ModelError that says what and where, and nothing else."""

import os
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_node as node

import fastgraph
from fastgraph.errors import ModelError, UnsupportedError
from fastgraph.frontends.onnx import read
from tests.onnx.onnx_models import graph_of, info, load, model_of, one
from tests.onnx.onnx_seeds import own_seeds
from tests.tables import rows


def refused(model: onnx.ModelProto, match: str) -> None:
    with pytest.raises(ModelError, match=match) as caught:
        load(model)
    assert str(caught.value).startswith("test.onnx")


def identity(constant: TensorProto) -> onnx.ModelProto:
    model = model_of([node("Abs", ["c"], ["y"])], [], ["y"])
    constant.name = "c"
    model.graph.initializer.append(constant)
    return model


@pytest.mark.parametrize(
    "data, says",
    [
        (b"", "empty file"),
        (b"PK\x03\x04" + bytes(60), "zip archive"),
        (b"\x1c\0\0\0TFL3" + bytes(60), "TensorFlow Lite"),
        (b"\x18\0\0\0CIR0" + bytes(60), "Circle"),
        (b"<!DOCTYPE html><html></html>", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"),
        (b"\x89HDF\r\n\x1a\n" + bytes(60), "HDF5"),
        (bytes(100), "not an ONNX model"),
        (b"\xff" * 100, "not an ONNX model"),
        (b"\x08\x03", "no graph"),
    ],
)
def test_not_an_onnx_file(data, says):
    with pytest.raises(ModelError, match=says):
        read(data, "x.onnx")


def test_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.onnx")


def test_truncated_anywhere():
    for data in own_seeds()[:5]:
        for end in range(0, len(data), max(1, len(data) // 40)):
            with pytest.raises(ModelError):
                read(data[:end], "x.onnx")


def test_name_that_is_not_utf8():
    data = model_of([node("Relu", ["x"], ["QQQQ"])], ["x"], ["QQQQ"]).SerializeToString()
    with pytest.raises(ModelError, match="UTF-8"):
        read(data.replace(b"QQQQ", b"\xff\xfe\xfd\xfc"), "x.onnx")


def test_documentation_that_is_not_utf8_does_no_harm():
    model = model_of([node("Relu", ["x"], ["y"], doc_string="QQQQ")], ["x"], ["y"])
    assert len(read(model.SerializeToString().replace(b"QQQQ", b"\xff\xfe\xfd\xfc")).nodes) == 1


def test_texts_that_are_not_utf8_are_saved_as_escapes(tmp_path):
    model = model_of([node("Relu", ["x"], ["y"], name="QQQQ")], [info("x", ["QQQQ", 4])], ["y"])
    model.graph.name = model.graph.doc_string = model.doc_string = model.domain = model.producer_name = "QQQQ"
    model.producer_version = "QQQQ"
    model.metadata_props.add(key="QQQQ", value="QQQQ")
    loaded = fastgraph.load(model.SerializeToString().replace(b"QQQQ", b"QQ\xff\xfe"))
    loaded.run({"x": np.ones((2, 4), np.float32)})
    loaded.save(str(tmp_path / "m.fgm"))
    metadata = fastgraph.load(str(tmp_path / "m.fgm")).metadata
    assert metadata.producer == r"QQ\xff\xfe" and metadata.custom == {r"QQ\xff\xfe": r"QQ\xff\xfe"}


def test_newer_opset_with_known_operators_and_with_unknown_ones():
    with pytest.warns(RuntimeWarning, match="operator set 99 is newer than 28.*export for 28"):
        assert [n.op for n in load(one("Relu", ["x"], 99)).nodes] == ["relu"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(one("Relu", ["x"], 28))
    with pytest.raises(UnsupportedError, match="operator set 99 is newer"):
        load(one("Frobnicate", ["x"], 99))


def test_all_unsupported_operators_are_named_at_once():
    nodes = [
        node("Frob", ["x"], ["a"], name="here"),
        node("Frob", ["a"], ["b"], name="there"),
        node("Nicate", ["b"], ["c"], domain="my.domain"),
        node("Relu", ["c"], ["y"]),
    ]
    with pytest.raises(UnsupportedError) as caught:
        load(model_of(nodes, ["x"], ["y"], domains=["my.domain"]))
    text = str(caught.value)
    assert "ai.onnx.Frob (2 times, first at node 'here'); my.domain.Nicate (at node #2);" in text and "Relu" not in text


@pytest.mark.parametrize("name", ["Frob", "Nicate"])
def test_an_unknown_operator_is_named_whatever_its_attributes_hold(name):
    domain = "my.domain" if name == "Nicate" else ""
    odd = TensorProto(data_type=99, dims=[1])
    held = {"config": b"\n\x07\xff\xfe", "configs": [b"\xff", b"a"], "table": odd, "kind": onnx.TypeProto()}
    nodes = [node(name, ["x"], ["a"], domain=domain, **{key: item}) for key, item in held.items()]
    nodes.append(node("Sum", ["a"] * 2, ["y"]))
    for at, each in enumerate(nodes[:-1]):
        each.output[0] = f"a{at}"
    nodes[-1].input[:] = [f"a{at}" for at in range(len(held))]
    with pytest.raises(UnsupportedError, match=rf"{name} \(4 times, first at node #0\)"):
        load(model_of(nodes, ["x"], ["y"], domains=["my.domain"]))


def changed(model: onnx.ModelProto, change: Callable[[onnx.ModelProto], Any]) -> onnx.ModelProto:
    change(model)
    return model


def of_nodes(*nodes: tuple[str, list[str], list[str], str], output: str = "y") -> onnx.ModelProto:
    """(operator, inputs, outputs, name); x is fed."""
    made = [node(op, inputs, outputs, name=name) for op, inputs, outputs, name in nodes]
    return model_of(made, ["x"], [output])


def tensor(**fields: Any) -> onnx.ModelProto:
    return identity(TensorProto(**fields))


def cleared(field: str) -> onnx.ModelProto:
    return changed(one("Relu", ["x"], 13), lambda m: (m.graph.input[0] if field == "type" else m).ClearField(field))


ONES = numpy_helper.from_array(np.zeros(1, np.float32))
CYCLE = [("Add", ["x", "c"], ["a"], "first"), ("Relu", ["a"], ["b"], "second"), ("Neg", ["b"], ["c"], "third")]
ABSURD = [[-1], [2, -3], [10**18], [2**62, 2**62], [2**31, 2**31, 0], [1] * 100]
W = {"w": np.zeros((4, 3, 3, 3), np.float32)}
BROKEN = r"""
cycle.*first.*second.*third | of_nodes(*CYCLE, output="c")
cycle: 'n' -> 'n' | of_nodes(("Relu", ["y"], ["y"], "n"))
node 'n' \(Relu\): it reads 'lost' | of_nodes(("Relu", ["lost"], ["y"], "n"))
output 'z'.*gives it | of_nodes(("Relu", ["x"], ["y"], ""), output="z")
defines 'x' a second time | of_nodes(("Relu", ["x"], ["y"], ""), ("Neg", ["x"], ["x"], ""))
defines 'y' a second time | of_nodes(("Relu", ["x"], ["y"], ""), ("Neg", ["x"], ["y"], ""))
'c' a second time | changed(identity(ONES), lambda m: m.graph.initializer.append(m.graph.initializer[0]))
12 bytes.*found 0 | tensor(data_type=1, dims=[3], raw_data=b"")
12 bytes.*found 11 | tensor(data_type=1, dims=[3], raw_data=bytes(11))
12 bytes.*found 24 | tensor(data_type=1, dims=[3], raw_data=bytes(24))
12000 bytes.*found 9000 | tensor(data_type=1, dims=[3000], raw_data=bytes(9000))
segments | tensor(data_type=1, dims=[1], raw_data=bytes(4), segment={"begin": 0, "end": 1})
UTF-8 | tensor(data_type=8, dims=[1], string_data=[b"\xff\xfe"])
input 'x' | model_of([node("Relu", ["x"], ["y"])], [info("x", [-5])], ["y"])
input 'x' | model_of([node("Relu", ["x"], ["y"])], [info("x", [2**40, 2**40])], ["y"])
no type | cleared("type")
opset_import | cleared("opset_import")
'alpha' is given twice | changed(one("LeakyRelu", ["x"], 13, alpha=0.5),
  lambda m: m.graph.node[0].attribute.add(name="alpha"))
expected inputs | one("Relu", ["x", "z"], 13)
expected inputs | one("Add", ["x"], 13)
'A' is required | one("Add", ["", "x"], 13)
'wrong' | one("Relu", ["x"], 13, wrong=1)
'axis' .* required | one("Concat", ["x"], 13)
'axis' as int | one("Concat", ["x"], 13, axis="a")
'alpha' as float | one("LeakyRelu", ["x"], 13, alpha=1)
element type | one("Cast", ["x"], 13, to=77)
expected outputs | one("Relu", ["x"], 13, outputs=2)
strides | one("Conv", ["x", "w"], 13, strides=[1, 0])
strides from 1 on and below 2147483648 | one("Conv", ["x", "w"], 13, strides=[1, 2**31])
number of spatial | one("Conv", ["x", "w"], 13, strides=[1, 1], dilations=[1])
weights | one("Conv", ["x"], 13, W, kernel_shape=[2, 2])
auto_pad | one("Conv", ["x"], 13, W, auto_pad="ALL")
number of spatial | one("MaxPool", ["x"], 13, kernel_shape=[2], pads=[1, 1, 1])
direction | one("LSTM", ["x", "w", "r"], 13, direction="up")
ReduceSum | one("ReduceSum", ["x"], 11, axes="all")
"""
TENSORS = [(tensor(data_type=code, dims=[1], raw_data=bytes(4)), "element type") for code in (0, 29, 1000, -1)]
TENSORS += [(tensor(data_type=1, dims=dims, raw_data=bytes(8)), "initializer 'c'") for dims in ABSURD]
TENSORS += [(tensor(data_type=1, dims=dims, float_data=[1.0, 2.0]), "initializer 'c'") for dims in ABSURD]


@pytest.mark.parametrize("model, says", [*TENSORS, *((model, says) for says, model in rows(BROKEN, globals(), 2))])
def test_broken_models(model: onnx.ModelProto, says: str) -> None:
    refused(model, says)


def external(tmp_path, location="w.bin", data=bytes(range(24)), **entries):
    (tmp_path / "w.bin").write_bytes(data)
    tensor = TensorProto(name="c", data_type=1, dims=[3], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    path = tmp_path / "m.onnx"
    path.write_bytes(identity(tensor).SerializeToString())
    return path


@pytest.mark.parametrize("entries", [{}, {"offset": 0, "length": 12}, {"offset": 12}, {"offset": 4, "checksum": "x"}])
def test_external_data(tmp_path, entries):
    graph = read(external(tmp_path, **entries))
    expected = np.frombuffer(bytes(range(24)), np.float32, 3, entries.get("offset", 0))
    assert graph.nodes[0].const(0).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "location, entries, says",
    [
        ("/etc/hostname", {}, "model's folder"),
        ("../w.bin", {}, "model's folder"),
        ("a/../../w.bin", {}, "model's folder"),
        ("C:\\w.bin", {}, "model's folder"),
        ("..\\w.bin", {}, "model's folder"),
        ("", {}, "model's folder"),
        ("w\0.bin", {}, "model's folder"),
        ("none.bin", {}, "can't read"),
        (".", {}, "w|regular|can't read"),
        ("link.bin", {}, "leads out"),
        ("w.bin", {"offset": 16}, "has only 24"),
        ("w.bin", {"offset": 10**17}, "has only 24"),
        ("w.bin", {"offset": -4}, "count of bytes"),
        ("w.bin", {"offset": "x"}, "count of bytes"),
        ("w.bin", {"length": 8}, "expected 12 bytes"),
    ],
)
def test_external_data_that_is_refused(tmp_path, location, entries, says):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(24))
    os.symlink(tmp_path / "w.bin", folder / "link.bin")
    with pytest.raises(ModelError, match=says):
        read(external(folder, location, **entries))


def test_external_data_that_git_lfs_left_out(tmp_path):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
    with pytest.raises(ModelError, match="'w.bin', which has only .* Git LFS pointer.* git lfs pull"):
        read(external(tmp_path, data=pointer, offset=4096))


def test_external_data_of_a_model_given_as_bytes(tmp_path):
    with pytest.raises(ModelError, match="by its path"):
        read(external(tmp_path).read_bytes())


def test_external_data_in_a_subfolder_and_behind_a_link_within(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "v.bin").write_bytes(bytes(12))
    os.symlink(tmp_path / "data" / "v.bin", tmp_path / "link.bin")
    for location in ("data/v.bin", "link.bin"):
        assert read(external(tmp_path, location)).nodes[0].const(0).tolist() == [0, 0, 0]


def test_external_data_in_a_folder_of_links_to_files_side_by_side(tmp_path):
    cache, shown = tmp_path / "blobs", tmp_path / "snapshots" / "onnx"
    for folder in (cache, shown, shown / "sub"):
        folder.mkdir(parents=True)
    path = external(shown, "sub/w.data")
    for here, there in ((path, "1a2b"), (shown / "w.bin", "3c4d")):
        here.rename(cache / there)
    path.symlink_to(cache / "1a2b")
    (shown / "sub" / "w.data").symlink_to(cache / "3c4d")
    assert read(path).nodes[0].const(0).tobytes() == bytes(range(12))
    copy = pickle.loads(pickle.dumps(fastgraph.load(path)))
    assert copy.run({})["y"].shape == (3,)
    (cache / "3c4d").rename(tmp_path / "3c4d")
    (shown / "sub" / "w.data").unlink()
    (shown / "sub" / "w.data").symlink_to(tmp_path / "3c4d")
    with pytest.raises(ModelError, match="leads out"):
        read(path)


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field of a protobuf message."""
    size, prefix = len(content), bytearray([number << 3 | 2])
    while size > 127:
        prefix.append(size & 127 | 128)
        size >>= 7
    return bytes(prefix) + bytes([size]) + content


@pytest.mark.parametrize("depth", [20, 40, 400, 5000])
def test_graphs_deep_in_one_another(depth):
    graph = graph_of([node("Relu", ["x"], ["o"])], [], ["o"]).SerializeToString()
    output = field(12, info("o").SerializeToString())
    for _ in range(depth):
        branch = field(5, field(1, b"then_branch") + field(6, graph) + b"\xa0\x01\x05")
        graph = field(1, field(1, b"c") + field(2, b"o") + field(4, b"If") + branch) + output
    inputs = b"".join(field(11, i.SerializeToString()) for i in (info("x"), info("c", [], 9)))
    model = one("Relu", ["x"], 13)
    model.ClearField("graph")
    with pytest.raises(ModelError, match="'else_branch'" if depth < 30 else "not an ONNX model"):
        read(model.SerializeToString() + field(7, graph + inputs), "x.onnx")
