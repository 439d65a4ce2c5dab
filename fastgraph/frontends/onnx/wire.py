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

_FOREIGN = (
    (0, b"PK\x03\x04", "a zip archive (a PyTorch checkpoint, an .mlpackage or an .npz?)"),
    (4, b"TFL3", "a TensorFlow Lite model (.tflite)"),
    (4, b"CIR0", "a Circle model (.circle)"),
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"\x89HDF", "an HDF5 file (a Keras model?)"),
    (0, b"\x93NUMPY", "a NumPy array (.npy)"),
    (0, b"version https://git-lfs", "a Git LFS pointer: the file itself was not downloaded"),
    (0, b"<", "HTML or XML, perhaps the page of a failed download"),
    (0, b"{", "JSON"),
    (0, b"ORTM", "an ONNX Runtime model"),
    (4, b"ORTM", "an ONNX Runtime model (.ort)"),
)


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
        raise ModelError(f"{source}: not an ONNX model, or cut short ({error}){looks_like(head)}") from error
    if not model.HasField("graph"):
        raise ModelError(f"{source}: expected an ONNX model, found no graph in it{looks_like(head)}")
    return model


def check_outermost(source: BinaryIO | memoryview, size: int, where: str) -> None:
    """ModelError where what is large is no ONNX model by its first bytes; what is small, the parser judges at once."""
    if size < LARGE:
        return
    try:
        protobuf.check_outside(source, size, lambda number: number == GRAPH)
    except ValueError as error:
        head = protobuf.read_of(source)(0, 64)
        raise ModelError(f"{where}: not an ONNX model, or cut short ({error}){looks_like(head)}") from None


def looks_like(head: bytes) -> str:
    """The tail of a message: what a file that begins so is, as far as known, and what to do."""
    for at, magic, what in _FOREIGN:
        if head[at : at + len(magic)] == magic:
            return f"; it looks like {what}"
    return "; check that the file was written and copied completely"
