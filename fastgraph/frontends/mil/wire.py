"""Core ML model files as protobuf messages."""

from __future__ import annotations

from itertools import islice
from typing import Any, BinaryIO

from ...errors import ModelError, UnsupportedError
from ..core import protobuf

Message = Any
"""A message of schemas/CoreML.proto or schemas/MIL.proto."""

KINDS = 200
"""The fields of a model from this number on hold a network, or another kind of model."""
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
"""The kinds of models by the first words of the field of `Model`: their names, and advice."""


def message(name: str) -> Message:
    """The class of message `CoreML.Specification.<name>`."""
    return protobuf.message("mil.desc", "CoreML.Specification." + name)


def wrong(text: str) -> ModelError:
    """The error for a model that contradicts itself."""
    return ModelError(f"{text}; the model was not written correctly")


def parse(data: bytes, source: str) -> Message:
    """The Model in `data`, which holds a program. ModelError when it is no model, UnsupportedError for other kinds."""
    from google.protobuf.message import DecodeError

    if not data:
        raise ModelError(f"{source}: expected a Core ML model, found an empty file; save or download it again")
    try:
        model = message("Model").FromString(data)
    except DecodeError as error:
        raise ModelError(f"{source}: {_no_model(error, data[:64], source)}") from error
    kind = model.WhichOneof("Type")
    if kind is None:
        raise ModelError(
            f"{source}: expected a Core ML model with a program, found none of any kind in it; "
            "check that the file was written and copied completely"
        )
    if kind != "mlProgram":
        raise UnsupportedError(f"{source}: expected a program (mlProgram), found {_what(kind)}")
    if model.specificationVersion < OLDEST:
        raise ModelError(
            f"{source}: expected specification version {OLDEST} or newer of a program, "
            f"found {model.specificationVersion}; the file was not written correctly"
        )
    return model


def check_outermost(source: BinaryIO | memoryview, size: int, where: str) -> None:
    """ModelError where this is no Core ML model by its first bytes."""
    try:
        protobuf.check_outside(source, size, lambda number: number >= KINDS)
    except ValueError as error:
        raise ModelError(f"{where}: {_no_model(error, protobuf.read_of(source)(0, 64), where)}") from None


def _no_model(error: Exception, head: bytes, name: str) -> str:
    """The message for a file that is no Core ML model, by its first bytes and the error."""
    from ..core.foreign import guess

    return f"not a Core ML model, or cut short ({error}); {guess(head, name)}"


def _what(kind: str) -> str:
    """The kind of another model, and what to do, as text."""
    for start, (what, advice) in _KINDS.items():
        if kind.startswith(start):
            return f"{what} ({kind}); {advice}"
    return f"a model of kind {kind}, which has no neural network for fastgraph to run; {_RETRAIN}"


def is_model(source: BinaryIO | memoryview, size: int) -> bool:
    """Whether a file or bytes look like a Core ML model and not like an ONNX one: by the numbers of their outer fields.

    Both have a version as field 1. Of a Core ML model, fields 2 and 10 are beside it, and the model itself is at 200 or
    more; an ONNX model has its graph in field 7 and its operator sets in field 8. Neither has many fields before these.
    """
    found: set[int] = set()
    try:
        for number, _, _ in islice(protobuf.fields(protobuf.read_of(source), 0, size), protobuf.OUTERMOST):
            found.add(number)
            if number >= KINDS:
                return number <= 3000 and not found & {3, 4, 5, 6, 7, 8}
    except ValueError:
        pass
    return False
