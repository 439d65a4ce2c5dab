"""From a path or bytes to a Graph: what may go wrong on the way ends here as a ModelError."""

from __future__ import annotations

import os

from ...errors import ModelError
from ...ir import Graph
from ..core.files import opened, part, size_of
from ..core.guard import guarded
from .convert import to_graph
from .split import hold_back
from .wire import check_outermost, looks_like, parse


def load(source: str | os.PathLike[str] | bytes, name: str) -> Graph:
    """See `fastgraph.frontends.onnx.read`."""
    return guarded(lambda: _load(source, name), source, name)


def _load(source: str | os.PathLike[str] | bytes, name: str) -> Graph:
    beside = None
    if isinstance(source, bytes | bytearray | memoryview):
        data, where = memoryview(bytes(source)), name or "<bytes>"
        check_outermost(data, len(data), where)
    else:
        path = os.fspath(source)
        where = name or path
        beside = os.path.abspath(path)
        with opened(path) as file:
            size = size_of(file)
            check_outermost(file, size, where)
            data = part(file, 0, size, path).data
    try:
        slim, held = hold_back(data)
        return to_graph(parse(slim, where), where, beside, held)
    except UnicodeDecodeError as error:
        raise ModelError(
            f"{where}: expected names in UTF-8, found {error.object[:40]!r}{looks_like(bytes(data[:64]), where)}"
        ) from error
