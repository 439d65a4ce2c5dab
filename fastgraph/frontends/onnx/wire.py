"""ONNX files as protobuf messages, without generated code."""

from __future__ import annotations

from typing import Any, BinaryIO

from ...errors import ModelError
from ..core import protobuf

GRAPH = 7
"""The field of a model that holds its graph."""
LARGE = 1 << 16
"""Bytes from which it pays to look before reading."""

Message = Any
"""A message of schemas/onnx.proto."""


def message(name: str) -> Message:
    """The class of message `onnx.<name>`."""
    return protobuf.message("onnx.desc", "onnx." + name)


def parse(data: bytes | memoryview, source: str) -> Message:
    """The ModelProto in `data`; ModelError when it is none."""
    from google.protobuf.message import DecodeError

    head = bytes(data[:64])
    if not data:
        raise ModelError(f"{source}: expected an ONNX model, found an empty file; export or download it again")
    try:
        model = message("ModelProto").FromString(data)
    except DecodeError as error:
        raise ModelError(f"{source}: not an ONNX model, or cut short ({error}){looks_like(head, source)}") from error
    if not model.HasField("graph"):
        raise ModelError(f"{source}: expected an ONNX model, found no graph in it{looks_like(head, source)}")
    return model


def check_outermost(source: BinaryIO | memoryview, size: int, where: str) -> None:
    """ModelError for a large file that is no ONNX model by its first bytes; small ones are left to the parser."""
    if size < LARGE:
        return
    try:
        protobuf.check_outside(source, size, lambda number: number == GRAPH)
    except ValueError as error:
        head = protobuf.read_of(source)(0, 64)
        raise ModelError(f"{where}: not an ONNX model, or cut short ({error}){looks_like(head, where)}") from None


def looks_like(head: bytes, name: str) -> str:
    """The end of an error's text: the kind of a file that begins so, as far as known, and what to do."""
    from ..core.foreign import guess

    return f"; {guess(head, name)}"
