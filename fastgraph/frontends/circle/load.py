"""From a file or its bytes to a checked root table, and on to the graph."""

from __future__ import annotations

import os
from importlib import import_module

from ...errors import ModelError
from ...ir import Graph
from ..core.files import whole
from ..core.guard import guarded
from .convert import to_graph
from .wire import MAGIC, Table, Wire

VERSIONS = {"tflite": 3, "circle": 0}


def load(source: str | os.PathLike[str] | bytes, name: str = "") -> Graph:
    """What `read` says."""
    return guarded(lambda: to_graph(root(source, name)), source, name)


def root(source: str | os.PathLike[str] | bytes, name: str = "") -> Table:
    """The root table of a file or of its bytes, of the version that is read. ModelError for other files."""
    if isinstance(source, bytes | bytearray | memoryview):
        data, name = memoryview(bytes(source)), name or "model"
    else:
        name = name or os.fspath(source)
        data = whole(source)
    magic = bytes(data[4:8])
    if magic not in MAGIC:
        raise ModelError(f"{name}: expected 'TFL3' or 'CIR0' in bytes 4 to 7, found {magic!r}; it is no "
                         "TensorFlow Lite or Circle model, or it was cut short")  # fmt: skip
    schema = MAGIC[magic]
    model = Wire(data, name, import_module(f"...schemas.{schema}", __package__)).root("Model")
    if model.version != VERSIONS[schema]:
        raise ModelError(f"{name}: expected version {VERSIONS[schema]} of the {schema} schema, "
                         f"found {model.version}; convert the model again with a current converter")  # fmt: skip
    return model
