"""From a path or bytes to a Graph: what may go wrong on the way ends here as a ModelError."""

from __future__ import annotations

import os

from ...errors import ModelError
from ...ir import Graph
from ..core.files import whole
from ..core.guard import guarded
from .convert import to_graph
from .split import hold_back
from .wire import looks_like, parse


def load(source: str | os.PathLike[str] | bytes, name: str) -> Graph:
    """See `fastgraph.frontends.onnx.read`."""
    return guarded(lambda: _load(source, name), source, name)


def _load(source: str | os.PathLike[str] | bytes, name: str) -> Graph:
    folder = None
    if isinstance(source, bytes | bytearray | memoryview):
        data, where = memoryview(bytes(source)), name or "<bytes>"
    else:
        path = os.fspath(source)
        where = name or path
        folder = os.path.dirname(os.path.abspath(path))
        data = whole(path)
    try:
        slim, held = hold_back(data)
        return to_graph(parse(slim, where), where, folder, held)
    except UnicodeDecodeError as error:
        raise ModelError(
            f"{where}: expected names in UTF-8, found {error.object[:40]!r}{looks_like(bytes(data[:64]), where)}"
        ) from error
