"""Core ML model files as protobuf messages."""

from __future__ import annotations

from typing import Any

from ...errors import ModelError, UnsupportedError
from ..core import protobuf

Message = Any
"""A message of schemas/CoreML.proto or schemas/MIL.proto."""

OLDEST = 5
"""The first specification version of models that hold programs."""

_RETRAIN = "run it with the library that it comes from, or convert a neural network instead"
_KINDS = {
    "neuralNetwork": (
        "a neural network in the layer format that came before programs",
        "convert the TensorFlow or PyTorch model again: coremltools.convert(model, convert_to='mlprogram')",
    ),
    "pipeline": (
        "a pipeline of several models",
        "load the program within it: save each of coremltools.utils.load_spec(path).pipeline.models as a file",
    ),
    "treeEnsemble": ("a tree ensemble", _RETRAIN),
    "supportVector": ("a support vector machine", _RETRAIN),
    "glm": ("a generalized linear model", _RETRAIN),
    "bayesianProbit": ("a Bayesian probit regressor", _RETRAIN),
    "kNearestNeighbors": ("a nearest neighbors classifier", _RETRAIN),
    "serializedModel": ("a model in Apple's own encoding", "load the .mlpackage that it was made from"),
    "linkedModel": ("a link to another model", "load that one"),
}
"""By how the field of `Model` begins: what a model of that kind is, and what to do."""


def message(name: str) -> Message:
    """The class of message `CoreML.Specification.<name>`."""
    return protobuf.message("mil.desc", "CoreML.Specification." + name)


def parse(data: bytes, source: str) -> Message:
    """The Model in `data`, which holds a program. ModelError when it is no model, UnsupportedError for other kinds."""
    from google.protobuf.message import DecodeError

    if not data:
        raise ModelError(f"{source}: expected a Core ML model, found an empty file; save or download it again")
    try:
        model = message("Model").FromString(data)
    except DecodeError as error:
        from ..core.foreign import guess

        said = guess(data[:64], source)
        raise ModelError(f"{source}: not a Core ML model, or cut short ({error}); {said}") from error
    kind = model.WhichOneof("Type")
    if kind is None:
        raise ModelError(f"{source}: expected a Core ML model with a program, found none of any kind in it; "
                         "check that the file was written and copied completely")  # fmt: skip
    if kind != "mlProgram":
        raise UnsupportedError(f"{source}: expected a program (mlProgram), found {_what(kind)}")
    if model.specificationVersion < OLDEST:
        raise ModelError(f"{source}: expected specification version {OLDEST} or newer of a program, "
                         f"found {model.specificationVersion}; the file was not written correctly")  # fmt: skip
    return model


def _what(kind: str) -> str:
    """What a model of another kind is, and what to do."""
    for start, (what, advice) in _KINDS.items():
        if kind.startswith(start):
            return f"{what} ({kind}); {advice}"
    return f"a model of kind {kind}, which has no neural network for fastgraph to run; {_RETRAIN}"


def is_model(data: bytes | memoryview) -> bool:
    """Whether bytes look like a Core ML model and not like an ONNX one: by the numbers of their outer fields.

    Both have a version as field 1. Of a Core ML model, fields 2 and 10 are beside it, and the model itself is at 200 or
    more; an ONNX model has its graph in field 7 and its operator sets in field 8. Neither has many fields before these.
    """
    at = 0
    found: set[int] = set()
    try:
        for _ in range(1000):
            tag, at = protobuf.varint(data, at)
            number, kind = tag >> 3, tag & 7
            found.add(number)
            if number >= 200:
                return number <= 3000 and not found & {3, 4, 5, 6, 7, 8}
            if kind == 0:
                _, at = protobuf.varint(data, at)
            elif kind == 2:
                length, at = protobuf.varint(data, at)
                at += length
            elif kind in (1, 5):
                at += 8 if kind == 1 else 4
            else:
                return False
    except IndexError:
        pass
    return False
