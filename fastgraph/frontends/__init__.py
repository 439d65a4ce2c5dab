"""Formats of the outside world to graphs: names and quirks of a format end in its own folder."""

from __future__ import annotations

import os

from ..ir import Graph


def read(source: str | os.PathLike[str] | bytes) -> Graph:
    """The graph of a model file or of its bytes. ModelError or UnsupportedError when it can't be read."""
    from .onnx import read as read_onnx

    return read_onnx(source)
