"""The exceptions of onnxruntime, under its names and with its codes, and what of fastgraph's become which."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from ..errors import FastgraphError, MissingFileError, ModelError, UnsupportedError
from ..frontends.onnx.signatures import signature


class OrtError(Exception):
    """Base of what onnxruntime raises; there each of them is an Exception by itself."""

    code = ""

    def __init__(self, text: str = "") -> None:
        super().__init__(f"[ONNXRuntimeError] : {self.code} : {text}")
        self.text = text

    def __reduce__(self):  # a subclass's argument is its text, not the whole message
        return type(self), (self.text,)


def _error(code: str) -> type[OrtError]:
    """An exception by its number, its class and how messages call it."""
    number, name, spelled = code.split()
    return type(name, (OrtError,), {"code": f"{number} : {spelled}", "__module__": __name__})


(
    Fail, InvalidArgument, NoSuchFile, NoModel, EngineError, RuntimeException, InvalidProtobuf, ModelLoaded,
    NotImplemented, InvalidGraph, EPFail, ModelLoadCanceled, ModelRequiresCompilation, NotFound, DeviceReset,
) = map(_error, (
    "1 Fail FAIL", "2 InvalidArgument INVALID_ARGUMENT", "3 NoSuchFile NO_SUCHFILE", "4 NoModel NO_MODEL",
    "5 EngineError ENGINE_ERROR", "6 RuntimeException RUNTIME_EXCEPTION", "7 InvalidProtobuf INVALID_PROTOBUF",
    "8 ModelLoaded MODEL_LOADED", "9 NotImplemented NOT_IMPLEMENTED", "10 InvalidGraph INVALID_GRAPH",
    "11 EPFail EP_FAIL", "12 ModelLoadCanceled MODEL_LOAD_CANCELED",
    "13 ModelRequiresCompilation MODEL_REQUIRES_COMPILATION", "14 NotFound NOT_FOUND", "15 DeviceReset DEVICE_RESET",
))  # fmt: skip

_KINDS: tuple[tuple[str, type[OrtError]], ...] = (
    ("not an ONNX model", InvalidProtobuf),
    ("no ONNX, TensorFlow Lite", InvalidProtobuf),
    ("cut short", InvalidProtobuf),
    ("expected a regular file", InvalidProtobuf),
    ("expected a package", InvalidProtobuf),
    ("an empty file", InvalidArgument),
    ("no graph in it", InvalidArgument),
    ("which nothing defines", InvalidArgument),
    ("attribute", InvalidGraph),
    ("expected inputs", InvalidGraph),
    ("must be", InvalidGraph),
)
"""Which class a ModelError is, by a part of its text: the first that is in it; else it is a Fail."""


@contextmanager
def loading(path: str) -> Iterator[None]:
    """Raises what onnxruntime raises where a model can't be loaded: the text is fastgraph's, which says more."""
    try:
        yield
    except MissingFileError as error:
        raise NoSuchFile(f"Load model from {path} failed:Load model {path} failed. File doesn't exist") from error
    except ModelError as error:
        raise next((kind for part, kind in _KINDS if part in str(error)), Fail)(str(error)) from error
    except UnsupportedError as error:
        raise _unsupported(str(error))(str(error)) from error
    except (FastgraphError, OSError) as error:
        raise Fail(str(error)) from error


def _unsupported(text: str) -> type[OrtError]:
    """NotImplemented for an operator of ONNX; one that ONNX does not know is a broken graph, a user's a failure."""
    named = re.search(r"not supported: ([\w.]+)\.(\w+)", text)
    if named is None:
        return NotImplemented
    if named[1] != "ai.onnx":
        return Fail
    return NotImplemented if signature(named[2]) else InvalidGraph


def failed(error: FastgraphError) -> OrtError:
    """The exception of onnxruntime for an operator that can't be computed with the feeds."""
    return Fail(f"Non-zero status code returned while running the model: {error}")


_warned: set[str] = set()


def say_once(text: str) -> None:
    """A warning, once in a process."""
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def lacking(what: str, advice: str) -> NoReturn:
    raise NotImplemented(  # noqa: F901  # the class above
        f"fastgraph.onnxruntime has no {what}: {advice}"
    )
