"""Formats of the outside world to graphs: names and quirks of a format end in its own folder."""

from __future__ import annotations

import os
from typing import BinaryIO

from ..errors import InputError
from ..ir import Graph
from .core.files import opened, size_of

STARTS = b"\x08\x12\x1a\x22\x2a\x32\x3a\x42P"
"""How files begin that are no flatbuffers: by ONNX's first fields, Core ML's version, or as zip archives do."""


def read(source: str | os.PathLike[str] | bytes, function: str | None = None) -> Graph:
    """The graph of a model file or of its bytes. ModelError or UnsupportedError when it can't be read.

    The content says what it is: Circle and TensorFlow Lite have their names in bytes 4 to 7, folders and zip archives
    are Core ML packages, protobuf messages are Core ML or ONNX models by the fields they have. Files called .tflite,
    .circle, .mlmodel or .onnx must be what they are called. `function`: which function of
    a Core ML program, or signature of a TensorFlow Lite or Circle file.
    """
    kind = kind_of(source)
    if kind == "mil":
        from .mil import read as read_mil

        return read_mil(source, function=function)
    if kind == "circle":
        from .circle import read as read_circle

        return read_circle(source, function=function)
    if function is not None:
        raise InputError(
            f"function={function!r}: an ONNX file has one graph; only TensorFlow Lite's signatures and Core ML's "
            "functions can be chosen (outputs= chooses what to compute)"
        )
    from .onnx import read as read_onnx

    return read_onnx(source)


def kind_of(source: str | os.PathLike[str] | bytes) -> str:
    """The frontend that reads it: "circle", "mil" or "onnx"."""
    if isinstance(source, bytes | bytearray | memoryview):
        return _kind_of(memoryview(source), len(source), bytes(source[:64]), "")
    name = os.fspath(source)
    suffix = os.path.splitext(name)[1].lower()
    if os.path.isdir(source) or suffix in (".mlmodel", ".mlpackage"):
        return "mil"
    with opened(source) as file:
        return _kind_of(file, size_of(file), file.read(64), suffix, name)


def _kind_of(source: BinaryIO | memoryview, size: int, head: bytes, suffix: str, name: str = "") -> str:
    """The format of a file, by its first bytes, and those of its outermost fields."""
    flatbuffer = head[4:8] in (b"TFL3", b"CIR0")
    if not flatbuffer and head[:1] not in STARTS:
        from .core.foreign import refuse

        refuse(head, name)
    if flatbuffer or suffix in (".tflite", ".circle"):
        return "circle"
    if suffix == ".onnx":
        return "onnx"
    if head[:4] == b"PK\x03\x04":
        return "mil"
    from .mil.wire import is_model

    return "mil" if is_model(source, size) else "onnx"
