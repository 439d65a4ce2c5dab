"""The schema: equal to onnx's own, compiled from onnx.proto, and at peace with the onnx package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import resources

import onnx
import pytest
from google.protobuf import descriptor_pb2

from tests.onnx.onnx_models import one


def _fields(message, prefix=""):
    for field in message.field:
        yield f"{prefix}{message.name}.{field.name}", field.number, field.label, field.type, field.type_name
    for nested in message.nested_type:
        yield from _fields(nested, f"{prefix}{message.name}.")


def _enums(scope, prefix=""):
    for enum in scope.enum_type:
        yield from ((f"{prefix}{enum.name}.{v.name}", v.number) for v in enum.value)
    for message in getattr(scope, "message_type", None) or getattr(scope, "nested_type", ()):
        yield from _enums(message, f"{prefix}{message.name}.")


def _ours():
    files = descriptor_pb2.FileDescriptorSet.FromString(
        resources.files("fastgraph.schemas").joinpath("onnx.desc").read_bytes()
    )
    return files.file[0]


def _theirs():
    file = descriptor_pb2.FileDescriptorProto()
    onnx.ModelProto.DESCRIPTOR.file.CopyToProto(file)
    return file


def test_every_field_of_the_onnx_package_is_in_the_schema():
    ours = {f for m in _ours().message_type for f in _fields(m)}
    theirs = {f for m in _theirs().message_type for f in _fields(m)}
    assert not theirs - ours


def test_every_enum_value_of_the_onnx_package_is_in_the_schema():
    ours, theirs = dict(_enums(_ours())), dict(_enums(_theirs()))
    del ours["Version.IR_VERSION"], theirs["Version.IR_VERSION"]
    assert not theirs.items() - ours.items()


def test_descriptor_set_was_compiled_from_the_text():
    text = resources.files("fastgraph.schemas").joinpath("onnx.proto").read_text()
    declared = re.findall(r"^\s*(?:(?:optional|repeated)\s+)?[\w.]+\s+(\w+)\s*=\s*(\d+)\s*(?:\[.*?\])?;", text, re.M)
    compiled = [(name.rpartition(".")[2], str(number)) for m in _ours().message_type for name, number, *_ in _fields(m)]
    values = [(name.rpartition(".")[2], str(number)) for name, number in _enums(_ours())]
    enums = re.findall(r"^\s*(\w+)\s*=\s*(\d+);", text, re.M)
    assert sorted(declared) == sorted(compiled)
    assert sorted(enums) == sorted(values)


SCRIPT = """
import sys
{first}
{second}
model = onnx.helper.make_model(onnx.helper.make_graph(
    [onnx.helper.make_node("Relu", ["x"], ["y"])], "g",
    [onnx.helper.make_tensor_value_info("x", 1, [2, "n"])],
    [onnx.helper.make_tensor_value_info("y", 1, [2, "n"])]))
data = model.SerializeToString()
graph = read(data)
assert [node.op for node in graph.nodes] == ["relu"] and graph.inputs[0].type.shape == (2, "n")
assert onnx.load_model_from_string(data).graph.node[0].op_type == "Relu"
onnx.checker.check_model(model)
print("ok")
"""
OURS = "from fastgraph.frontends.onnx import read; read(open({!r}, 'rb').read())"


@pytest.mark.parametrize("ours_first", [True, False])
def test_works_beside_onnx_in_either_order(ours_first, tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(one("Abs", ["x"], 13), path)
    imports = [OURS.format(str(path)), "import onnx"]
    first, second = imports if ours_first else imports[::-1]
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(first=first, second=second)], capture_output=True, text=True
    )
    assert result.stdout.strip() == "ok", result.stderr


def test_protobuf_without_its_c_implementation_or_with_another_reads_the_same(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(one("Clip", ["x"], 6, min=0.5, max=2.0), path)
    env = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    other = "from google.protobuf import message_factory\nimport google._upb._message as m\n"
    other += "m.MessageMeta = lambda name, bases: None\n"
    texts = []
    for head, own in (("", None), ("import sys\nsys.modules['google._upb._message'] = None\n", env), (other, None)):
        script = f"{head}from fastgraph.frontends.onnx import read\nprint(read({str(path)!r}, ''))"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=own)
        assert done.returncode == 0, done.stderr
        texts.append(done.stdout)
    assert texts[0] == texts[1] == texts[2] and "clip" in texts[0]
