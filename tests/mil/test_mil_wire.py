"""The schema: that of coremltools, compiled from the .proto files, and at peace with the package. Kinds of models."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from importlib import resources

import pytest
from google.protobuf import descriptor_pb2

from fastgraph.errors import ModelError, UnsupportedError
from fastgraph.frontends import read
from fastgraph.frontends.mil import wire
from tests.mil.mil_write import Program

HAS_COREMLTOOLS = importlib.util.find_spec("coremltools") is not None
needs_coremltools = pytest.mark.skipif(not HAS_COREMLTOOLS, reason="coremltools is not installed")


def _files():
    data = resources.files("fastgraph.schemas").joinpath("mil.desc").read_bytes()
    return {f.name: f for f in descriptor_pb2.FileDescriptorSet.FromString(data).file}


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


def _theirs(module):
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file


@needs_coremltools
def test_every_field_of_programs_and_features_is_as_in_coremltools():
    from coremltools.proto import FeatureTypes_pb2, MIL_pb2, Model_pb2

    ours = _files()
    assert {f for m in ours["MIL.proto"].message_type for f in _fields(m)} == {
        f for m in _theirs(MIL_pb2).message_type for f in _fields(m)
    }
    assert set(_enums(ours["MIL.proto"])) == set(_enums(_theirs(MIL_pb2)))
    theirs = [m for module in (FeatureTypes_pb2, Model_pb2) for m in _theirs(module).message_type]
    fields = {f for m in theirs if m.name != "Model" for f in _fields(m)}
    own = [m for m in ours["CoreML.proto"].message_type if m.name != "Model"]
    assert {f for m in own for f in _fields(m)} <= fields
    missing = {name.partition(".")[0] for name, *_ in fields - {f for m in own for f in _fields(m)}}
    assert missing <= {"Pipeline", "PipelineClassifier", "PipelineRegressor", "SerializedModel"}
    assert set(_enums(ours["CoreML.proto"])) == set(_enums(_theirs(FeatureTypes_pb2)))
    models = [next(m for m in where if m.name == "Model") for where in (ours["CoreML.proto"].message_type, theirs)]
    assert [(f.name, f.number) for f in models[0].field] == [(f.name, f.number) for f in models[1].field]


def test_descriptor_set_was_compiled_from_the_texts():
    for name, file in _files().items():
        text = resources.files("fastgraph.schemas").joinpath(name).read_text()
        kind = r"(?:repeated\s+)?(?:[\w.]+|map<[\w, ]+>)"
        declared = re.findall(rf"^\s*{kind}\s+(\w+)\s*=\s*(\d+)\s*(?:\[.*?\])?;", text, re.M)
        compiled = [
            (field.rpartition(".")[2], str(number))
            for m in file.message_type
            for field, number, *_ in _fields(m)
            if "Entry." not in field
        ]
        enums = re.findall(r"^\s*(\w+)\s*=\s*(\d+);", text, re.M)
        assert sorted(declared) == sorted(compiled)
        assert sorted(enums) == sorted((value.rpartition(".")[2], str(number)) for value, number in _enums(file))


OURS = "from fastgraph.frontends import read; graph = read(open({!r}, 'rb').read())"
THEIRS = "import coremltools; spec = coremltools.proto.Model_pb2.Model.FromString(open({!r}, 'rb').read())"


def _saved(tmp_path):
    p = Program()
    p.output(p.op("relu", "y", x=p.input("x", (2, 3))))
    path = tmp_path / "m.mlmodel"
    path.write_bytes(p.spec())
    return str(path)


@needs_coremltools
@pytest.mark.parametrize("ours_first", [True, False])
def test_works_beside_coremltools_in_either_order(ours_first, tmp_path):
    path = _saved(tmp_path)
    first, second = [OURS, THEIRS] if ours_first else [THEIRS, OURS]
    script = (
        f"{first}\n{second}\nassert [n.op for n in graph.nodes] == ['relu']\n"
        "assert spec.mlProgram.functions['main'].opset == 'CoreML7'\nprint('ok')"
    ).replace("{!r}", repr(path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip().endswith("ok"), done.stderr


def test_reading_imports_no_coremltools_no_llvmlite_and_no_generated_code(tmp_path):
    script = OURS.format(_saved(tmp_path)) + (
        "\nimport sys\nprint(sorted(m for m in sys.modules if m.split('.')[0] in ('coremltools', 'llvmlite', "
        "'PIL', 'torch') or m.endswith('_pb2') and 'google' not in m))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


KINDS = {
    "neuralNetwork": "a neural network in the layer format.*convert_to='mlprogram'",
    "neuralNetworkClassifier": "a neural network in the layer format",
    "pipeline": "a pipeline of several models.*pipeline.models",
    "pipelineRegressor": "a pipeline",
    "treeEnsembleClassifier": "a tree ensemble",
    "supportVectorRegressor": "a support vector machine",
    "glmRegressor": "a generalized linear model",
    "kNearestNeighborsClassifier": "a nearest neighbors classifier",
    "linkedModel": "a link to another model",
    "serializedModel": "a model in Apple's own encoding",
    "wordTagger": "a model of kind wordTagger, which has no neural network",
}


@pytest.mark.parametrize("kind", KINDS)
def test_models_of_other_kinds_are_named(kind, tmp_path):
    model = wire.message("Model")(specificationVersion=4)
    setattr(model, kind, b"\x0a\x00")
    path = tmp_path / "other.mlmodel"
    path.write_bytes(model.SerializeToString())
    for source in (path, path.read_bytes()):
        with pytest.raises(UnsupportedError, match=rf"expected a program \(mlProgram\), found {KINDS[kind]}"):
            read(source)


def test_what_is_no_model_is_refused(tmp_path):
    path = tmp_path / "m.mlmodel"
    data = Program().spec()
    for content, said in (
        (b"", "an empty file"),
        (data[:-3], "not a Core ML model, or cut short"),
        (b"\x08\x08", "none of any kind"),
        (b"<html>", "not a Core ML model, or cut short"),
        (Program(version=3).spec(), "specification version 5 or newer of a program, found 3"),
    ):
        path.write_bytes(content)
        with pytest.raises(ModelError, match=said):
            read(path)


def test_text_that_is_not_utf8_is_refused(tmp_path):
    p = Program()
    p.output(p.op("relu", "yy", x=p.input("xx", (2,))))
    with pytest.raises(ModelError, match="not a Core ML model"):
        read(zip_of(p.spec().replace(b"yy", b"\xff\xfe")))


def zip_of(spec: bytes) -> bytes:
    from tests.mil.mil_write import MODEL, zipped

    return zipped({**Program().files(), MODEL: spec})


def test_newer_specification_versions_are_read():
    p = Program("CoreML9", 12)
    p.output(p.op("relu", "y", x=p.input("x", (2,))))
    assert read(p.spec()).outputs[0].name == "y"
