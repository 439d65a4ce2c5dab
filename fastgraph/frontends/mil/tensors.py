"""Constants of a program: values that it holds itself, or that are in a file of weights.

Such files are blob storage, version 2 (coremltools, mlmodel/src/MILBlob/Blob/StorageFormat.hpp): a header of 64 bytes
(count, version), then for each blob a record of 64 bytes, to which programs point, and its data.
"""

from __future__ import annotations

from math import prod
from struct import unpack
from typing import Any

import numpy as np

from ...errors import ModelError
from ...limits import current
from ..core import elements
from ..core.elements import aligned, decode
from .package import Package
from .types import ELEMENTS, MilType, mil_type
from .wire import Message

DEPTH_LIMIT = 32
"""How deep lists, tuples and dictionaries may lie in one another."""

RECORD = 64
SENTINEL = 0xDEADBEEF
_TYPES = """
FLOAT16 FLOAT32 UINT8 INT8 BFLOAT16 INT16 UINT16 INT4 UINT1 UINT2 UINT4 UINT3 UINT6 INT32 UINT32 FLOAT8E4M3FN FLOAT8E5M2
"""
TYPES = dict(enumerate(_TYPES.split(), 1))


class Constants:
    """The constants of a package; those in files of weights are read once, and are views of the file where possible."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self._files: dict[str, np.ndarray] = {}
        self._read: dict[tuple[str, int, str, tuple[int, ...]], np.ndarray] = {}

    def read(self, value: Message, where: str) -> tuple[MilType, Any]:
        """The type of a Value, and what it holds: an array, or a list, tuple or dict of such."""
        return self._read_value(value, where, 0)

    def _read_value(self, value: Message, where: str, depth: int) -> tuple[MilType, Any]:
        kind = mil_type(value.type, where)
        held = value.WhichOneof("value")
        if held is None or depth > DEPTH_LIMIT:
            raise ModelError(f"{where}: expected a constant, found {'lists too deep' if held else 'none'}")
        if held == "blobFileValue":
            return kind, self._blob(value.blobFileValue, kind, where)
        immediate = value.immediateValue
        what = immediate.WhichOneof("value")
        if what != kind.kind:
            raise ModelError(f"{where}: expected a constant {kind}, found a {what or 'constant that holds nothing'}")
        if what == "tensor":
            return kind, _immediate(immediate.tensor, kind, where)
        if what == "dictionary":
            pairs = [
                (self._part(p.key, where, depth), self._part(p.value, where, depth))
                for p in immediate.dictionary.values
            ]
            return kind, {
                key.item() if isinstance(key, np.ndarray) and key.ndim == 0 else str(key): item for key, item in pairs
            }
        parts = [self._part(v, where, depth) for v in getattr(immediate, what).values]
        return kind, parts if what == "list" else tuple(parts)

    def _part(self, value: Message, where: str, depth: int) -> Any:
        return self._read_value(value, where, depth + 1)[1]

    def _blob(self, proto: Message, kind: MilType, where: str) -> np.ndarray:
        dims = _dims(kind, where)
        key = (proto.fileName, proto.offset, kind.element, dims)
        if key not in self._read:
            if proto.fileName not in self._files:
                self._files[proto.fileName] = self.package.weights(proto.fileName, where)
            file, size = self._files[proto.fileName], _size(kind.element, prod(dims), where)
            stored = _blob(file, proto.offset, kind.element, size, where)
            if size != prod(dims) * ELEMENTS[kind.element].itemsize:
                current().hold(kind.held.nbytes, where)
            self._read[key] = _decoded(stored, kind.element, prod(dims)).reshape(dims)
        return self._read[key]


def _dims(kind: MilType, where: str) -> tuple[int, ...]:
    if kind.kind != "tensor" or not kind.held.concrete:
        raise ModelError(f"{where}: expected a constant tensor of known shape, found {kind}")
    return kind.held.dims


def _size(element: str, count: int, where: str) -> int:
    """Bytes of `count` packed elements."""
    if element == "STRING":
        raise ModelError(f"{where}: expected text in the program itself, found it in a file or as bytes")
    return elements.ELEMENTS[element].size(count)


def _decoded(data: np.ndarray, element: str, count: int) -> np.ndarray:
    """The `count` elements in the bytes `data`, in the type that the graph holds them in."""
    return aligned(decode(data, elements.ELEMENTS[element], count).astype(ELEMENTS[element], copy=False))


def _immediate(tensor: Message, kind: MilType, where: str) -> np.ndarray:
    """The array of a TensorValue. ModelError when it holds another kind or number of elements than its type says."""
    dims, element = _dims(kind, where), kind.element
    field = tensor.WhichOneof("value")
    count = prod(dims)
    if field is None:
        if count:
            raise ModelError(f"{where}: expected {count} elements of {element}, found none")
        return np.empty(dims, ELEMENTS[element])
    values = getattr(tensor, field).values
    if field == "bytes":
        size = _size(element, count, where)
        if len(values) != size:
            raise ModelError(f"{where}: expected {size} bytes for {count} elements of {element}, found {len(values)}")
        return _decoded(np.frombuffer(values, np.uint8), element, count).reshape(dims)
    if len(values) != count:
        raise ModelError(f"{where}: expected {count} elements of {element}, found {len(values)}")
    if _FIELDS[field] != _family(element):
        raise ModelError(f"{where}: expected elements of {element}, found {field}")
    if field == "strings":
        found = np.empty(count, object)
        found[:] = list(values)
        return found.reshape(dims)
    array = np.array(values, {"ints": np.int64, "longInts": np.int64}.get(field))
    return _narrowed(array, element, where).reshape(dims)


_FIELDS = {"floats": "f", "doubles": "f", "ints": "i", "longInts": "i", "bools": "b", "strings": "s"}


def _family(element: str) -> str:
    held = ELEMENTS[element].kind
    return {"u": "i", "O": "s"}.get(held, held)


def _narrowed(array: np.ndarray, element: str, where: str) -> np.ndarray:
    """Numbers in the type that the graph holds `element` in. ModelError when they don't fit."""
    held = ELEMENTS[element]
    if held.kind in "iu" and element != "UINT64":
        bits = elements.ELEMENTS[element].bits
        low, high = (0, (1 << bits) - 1) if held.kind == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        if array.size and not low <= int(array.min()) <= int(array.max()) <= high:
            raise ModelError(f"{where}: expected numbers of {element}, found {array.min()} to {array.max()}")
    with np.errstate(over="ignore"):
        return array.astype(held)


def _blob(file: np.ndarray, offset: int, element: str, size: int, where: str) -> np.ndarray:
    """The `size` bytes of the blob whose record is at `offset`: a view. ModelError when there is no such blob."""
    version = unpack("<I", file[4:8].tobytes())[0] if len(file) >= RECORD else 0
    if version != 2:
        found = f"version {version}" if version else "a file cut short"
        raise ModelError(f"{where}: expected weights in blob storage version 2, found {found}; copy the package again")
    if offset < RECORD or offset + RECORD > len(file):
        raise ModelError(
            f"{where}: expected a record of {RECORD} bytes at {offset}, "
            f"found a file of {len(file)} bytes; copy the package again"
        )
    sentinel, code, length, start = unpack("<IIQQ", file[offset : offset + 24].tobytes())
    if sentinel != SENTINEL:
        raise ModelError(
            f"{where}: expected a record of a blob at {offset} ({SENTINEL:#x}), found {sentinel:#x}; "
            "copy the package again"
        )
    if TYPES.get(code) != element:
        raise ModelError(f"{where}: expected a blob of {element}, found {TYPES.get(code, f'type {code}')}")
    if length != size:
        raise ModelError(f"{where}: expected a blob of {size} bytes for its type and shape, found {length}")
    if start + length > len(file):
        raise ModelError(
            f"{where}: expected {length} bytes at {start}, found a file of {len(file)} bytes; copy the package again"
        )
    return file[start : start + length]
