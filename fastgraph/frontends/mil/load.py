"""From a path or bytes to a Graph: what may go wrong on the way ends here as a ModelError."""

from __future__ import annotations

import os

from ...ir import Graph
from ..core.guard import guarded
from .interface import to_graph
from .package import open_package
from .reader import Reader
from .wire import parse


def load(source: str | os.PathLike[str] | bytes, name: str, function: str | None) -> Graph:
    """See `fastgraph.frontends.mil.read`."""
    return guarded(lambda: _load(source, name, function), source, name)


def _load(source: str | os.PathLike[str] | bytes, name: str, function: str | None) -> Graph:
    package = open_package(source, name)
    return to_graph(Reader(parse(package.spec, package.source), package, function))
