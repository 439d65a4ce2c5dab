"""From a path or bytes to a Graph: what may go wrong on the way ends here as a ModelError."""

from __future__ import annotations

import os

from ...errors import FastgraphError, ModelError
from ...ir import Graph
from ..core.guard import guarded
from .package import open_package
from .reader import Reader
from .scope import MISFITS
from .wire import parse


def load(source: str | os.PathLike[str] | bytes, name: str, function: str | None) -> Graph:
    """See `fastgraph.frontends.mil.read`."""
    return guarded(lambda: _load(source, name, function), source, name)


def _load(source: str | os.PathLike[str] | bytes, name: str, function: str | None) -> Graph:
    package = open_package(source, name)
    model = parse(package.spec, package.source)
    try:
        return Reader(model, package, function).graph()
    except FastgraphError:
        raise
    except MISFITS as error:
        raise ModelError(f"{package.source}: it does not fit together ({type(error).__name__}: {error})") from error
