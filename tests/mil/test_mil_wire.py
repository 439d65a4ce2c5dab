"""Models of other kinds than programs, and what is no model at all."""

import pytest

from fastgraph.errors import ModelError, UnsupportedError
from fastgraph.frontends import read
from fastgraph.frontends.mil import wire
from tests.mil.mil_write import Program

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
