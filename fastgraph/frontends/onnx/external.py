"""Tensors that a model keeps in other files beside it."""

from __future__ import annotations

import os
from pathlib import PureWindowsPath

import numpy as np

from ...errors import ModelError
from ...limits import current
from ..core.files import inside, opened, part, size_of
from .wire import Message


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
                    f"{held}; copy it again together with the model"
                )
            current().hold(size, where)
            return part(file, offset, size, where)
    except OSError as error:
        raise ModelError(
            f"{where}: can't read its data from {location!r} ({error.strerror or error}); put the file beside the model"
        ) from error


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
