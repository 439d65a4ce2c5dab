"""From a file or its bytes to a checked root table, and on to the graph."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, BinaryIO

from ...errors import ModelError
from ...ir import Graph
from ..core.files import opened, part, size_of
from ..core.guard import guarded
from .convert import to_graph
from .reader import Wanted
from .wire import MAGIC, Table, Wire

VERSIONS = {"tflite": 3, "circle": 0}


def load(source: str | os.PathLike[str] | bytes, name: str = "", function: str | None = None) -> Graph:
    """The result of `read`."""
    return guarded(lambda: to_graph(root(source, name), function), source, name)


def root(source: str | os.PathLike[str] | bytes, name: str = "") -> Table:
    """The root table of a file or of its bytes, of the version that is read. ModelError for other files."""
    if isinstance(source, bytes | bytearray | memoryview):
        data, name = memoryview(bytes(source)), name or "model"
    else:
        name = name or os.fspath(source)
        with opened(source) as file:
            size = size_of(file)
            _check_head(file, size, name)
            data = part(file, 0, size, name).data
    schema = MAGIC[_magic(bytes(data[4:8]), name)]
    model = Wire(data, name, import_module(f"...schemas.{schema}", __package__)).root("Model")
    if model.version != VERSIONS[schema]:
        raise ModelError(
            f"{name}: expected version {VERSIONS[schema]} of the {schema} schema, "
            f"found {model.version}; convert the model again with a current converter"
        )
    return model


def _magic(found: bytes, name: str) -> bytes:
    if found not in MAGIC:
        raise ModelError(
            f"{name}: expected 'TFL3' or 'CIR0' in bytes 4 to 7, found {found!r}; it is no "
            "TensorFlow Lite or Circle model, or it was cut short"
        )
    return found


def _check_head(file: BinaryIO, size: int, name: str) -> None:
    """ModelError unless a file begins as a model, and has the vtable of one: before all of it is read."""
    head = file.read(8)
    _magic(head[4:8], name)
    table = int.from_bytes(head[:4], "little")
    file.seek(min(table, size))
    vtable = table - int.from_bytes(file.read(4), "little", signed=True)
    file.seek(min(max(vtable, 0), size))
    if vtable < 0 or int.from_bytes(file.read(2), "little") < 4:
        raise ModelError(
            f"{name}: expected its root at byte {table}, found no table there; the file is damaged or cut short"
        )


def graph_of(model: Table, function: str | None, wanted: Wanted) -> Graph:
    """The graph of a signature of a file that was read by `root`, by default of its sub-graph 0, as it is wanted."""
    data: Any = model.wire.data
    return guarded(lambda: to_graph(model, function, wanted), data, model.wire.source)
