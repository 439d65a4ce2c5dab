"""TensorProto and SparseTensorProto to numpy arrays. Sizes are checked against the bytes present first."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import PureWindowsPath
from typing import Any

import numpy as np

from ...errors import ModelError
from ...ir import MAX_RANK
from ...limits import current
from ...ops.work import nbytes
from ..core.elements import Element, decode, unpack, widen
from ..core.files import inside, opened, part, size_of
from .elements import FIELDS, element_of
from .wire import Message

_FIELD_TYPES = {"float_data": "f4", "int32_data": "i4", "int64_data": "i8", "double_data": "f8", "uint64_data": "u8"}


def to_array(tensor: Message, path: str | None, where: str, held: Mapping[str, np.ndarray] | None = None) -> np.ndarray:
    """The tensor's values; read-only and perhaps unaligned where they are a view of the file.

    `held` maps raw_data, float_data or double_data to bytes that were kept out of the message (see `split`).

    Strings come as an object array of str; types that numpy lacks in the wider types that `elements` names.
    """
    element = element_of(tensor.data_type, where)
    shape = sound(tensor.dims, element.dtype.itemsize, where)
    count = prod(shape)
    if tensor.HasField("segment"):
        raise ModelError(f"{where}: it is split into segments, which no ONNX operator set defines; save it whole")
    size = element.size(count)
    if element.name == "STRING":
        return _strings(tensor, count, where).reshape(shape)
    held = held or {}
    raw = held.get("raw_data", held.get(FIELDS.get(element.name, "")))
    if tensor.data_location == 1:
        raw = read_external(tensor, size, path, where)
    elif raw is None and tensor.HasField("raw_data"):
        raw = np.frombuffer(tensor.raw_data, np.uint8)
    if raw is None:
        array = _from_field(tensor, element, count, where).reshape(shape)
        current().hold(array.nbytes, where)
        return array
    if raw.size != size:
        raise ModelError(f"{where}: expected {size} bytes for {element.name}{list(shape)}, found {raw.size}")
    current().hold(count * element.dtype.itemsize, where)
    return decode(raw, element, count).reshape(shape)


def sound(dims: Iterable[Any], itemsize: int, where: str) -> tuple[Any, ...]:
    """A shape, of numbers and what stands for others; ModelError where no tensor has it."""
    shape = tuple(dims)
    known = [d for d in shape if isinstance(d, int)]
    if any(d < 0 for d in known):
        raise ModelError(f"{where}: expected extents of 0 and more, found shape {list(shape)}")
    if len(shape) > MAX_RANK:
        raise ModelError(f"{where}: its shape has {len(shape)} axes, at most {MAX_RANK} are possible")
    if prod(d for d in known if d) * (itemsize or 1) >= 1 << 62:
        raise ModelError(f"{where}: its shape {str(list(shape))[:200]} is larger than any memory")
    return shape


def _from_field(tensor: Message, element: Element, count: int, where: str) -> np.ndarray:
    field = FIELDS.get(element.name, "int32_data")
    stored = getattr(tensor, field)
    per_item = {4: 2, 2: 4}.get(element.bits, 1)
    parts = 2 if element.dtype.kind == "c" else 1
    expected = -(-count * parts // per_item)
    if len(stored) != expected:
        raise ModelError(
            f"{where}: expected {expected} items of {field} for {count} elements of {element.name}, found {len(stored)}"
        )
    items = np.fromiter(stored, _FIELD_TYPES[field], expected)
    if field == "int32_data" and element.dtype.kind != "i" or element.format:
        bits = items.view(np.uint32)
        if element.name == "BOOL":
            return bits != 0
        codes = bits.astype(np.uint16 if element.bits == 16 else np.uint8)
        if element.bits in (2, 4):
            codes = unpack(codes, element.bits, count, element.dtype == np.int8)
        elif element.bits == 6:
            codes = np.bitwise_and(codes, 63)
        return widen(element, codes) if element.format else codes.view(element.dtype)
    return items.view(element.dtype) if parts == 2 else items.astype(element.dtype, copy=False)


def _strings(tensor: Message, count: int, where: str) -> np.ndarray:
    if len(tensor.string_data) != count:
        raise ModelError(f"{where}: expected {count} strings, found {len(tensor.string_data)}")
    result = np.empty(count, object)
    try:
        result[:] = [item.decode() for item in tensor.string_data]
    except UnicodeDecodeError as error:
        raise ModelError(f"{where}: expected UTF-8 in its strings, found {error.object[:40]!r}") from error
    current().hold(nbytes(result), where)
    return result


def densify(sparse: Message, path: str | None, where: str) -> np.ndarray:
    """A sparse tensor with its zeros written out."""
    values = to_array(sparse.values, path, f"{where}: values")
    indices = to_array(sparse.indices, path, f"{where}: indices")
    shape = sound(sparse.dims, values.dtype.itemsize, where)
    total = prod(shape)
    current().hold(total * values.dtype.itemsize, where)
    rank = len(shape)
    if indices.dtype != np.int64 or indices.shape not in ((values.size,), (values.size, rank)) or values.ndim != 1:
        raise ModelError(
            f"{where}: expected int64 indices of shape [{values.size}] or [{values.size}, {rank}], "
            f"found {indices.dtype}{list(indices.shape)}"
        )
    if indices.ndim == 2:
        if (indices < 0).any() or (indices >= np.array(shape, np.int64)).any():
            raise ModelError(f"{where}: an index lies outside of shape {list(shape)}")
        indices = np.ravel_multi_index(tuple(indices.T), shape) if values.size else indices[:, 0]
    if ((indices < 0) | (indices >= total)).any():
        raise ModelError(f"{where}: an index lies outside of shape {list(shape)}")
    dense = np.full(total, "", object) if values.dtype == object else np.zeros(total, values.dtype)
    dense[indices] = values
    return dense.reshape(shape)


def read_external(tensor: Message, size: int, model: str | None, where: str) -> np.ndarray:
    """The `size` bytes of an external tensor, as uint8. ModelError when they can't or may not be read.

    Only regular files within the model's folder, or beside what it is a link to, are opened: a model must not be able
    to read any others.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if model is None:
        raise ModelError(
            f"{where}: its data is in another file ({location!r}), out of reach for a model given as bytes; "
            "load the model by its path"
        )
    folder = os.path.realpath(os.path.dirname(model))
    name = _within(location, where)
    path = inside(folder, name, model)
    if path is None:
        raise ModelError(f"{where}: external data {location!r} leads out of the model's folder; copy the file there")
    offset = _number(entries, "offset", 0, where)
    length = _number(entries, "length", size, where)
    if length != size:
        raise ModelError(
            f"{where}: expected {size} bytes for its type and shape, found length {length} in {location!r}"
        )
    try:
        with opened(path, where) as file:
            held, status = size_of(file), os.fstat(file.fileno())
            current().beside[os.path.join(folder, name)] = status.st_size, status.st_mtime_ns
            if offset + size > held:
                raise ModelError(
                    f"{where}: expected {size} bytes at offset {offset} of {location!r}, which has only "
                    f"{held}; {_advice(file.read(64), location)}"
                )
            current().hold(size, where)
            return part(file, offset, size, where)
    except OSError as error:
        raise ModelError(
            f"{where}: can't read its data from {location!r} ({error.strerror or error}); put the file beside the model"
        ) from error


def _advice(head: bytes, location: str) -> str:
    """What to do about a file of data that is too short."""
    from ..core.foreign import known, said

    return said("lfs", location) if known(head, "") == "lfs" else "copy it again together with the model"


def _within(location: str, where: str) -> str:
    """A location with slashes, which names something in the folder."""
    parts = PureWindowsPath(location)  # knows both separators, drives and shares
    if not location or "\0" in location or parts.anchor or ".." in parts.parts:
        raise ModelError(f"{where}: external data must be in the model's folder, found location {location!r}")
    return "/".join(parts.parts)


def _number(entries: dict[str, str], key: str, default: int, where: str) -> int:
    text = entries.get(key, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ModelError(f"{where}: expected a count of bytes as {key} of its external data, found {text[:40]!r}")
    return int(text)
