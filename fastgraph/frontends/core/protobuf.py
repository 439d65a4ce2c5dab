"""Protobuf messages without generated code.

Classes are made at run time from a descriptor set in `schemas/`, in a descriptor pool of its own: they neither depend
on the version of the protobuf compiler nor meet the classes of other packages in protobuf's global registry.

Where protobuf has its C implementation, that is asked itself: `message_factory` and `descriptor_pool`, which do no more
then, import the text format, the well-known types and the implementation in Python, for 10 ms.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any


@cache
def message(file: str, name: str) -> Any:
    """The class of message `name` (with its package) of descriptor set `file`."""
    descriptor = _pool(file).FindMessageTypeByName(name)
    try:
        from google._upb._message import MessageMeta
        from google.protobuf.message import Message

        known = getattr(descriptor, "_concrete_class", None)
        return known or MessageMeta(descriptor.name, (Message,), {"DESCRIPTOR": descriptor, "__module__": None})
    except (ImportError, TypeError):  # it promises nothing to others: the public way always does
        from google.protobuf import message_factory

        return message_factory.GetMessageClass(descriptor)


@cache
def _pool(file: str) -> Any:
    try:
        from google._upb._message import DescriptorPool
    except ImportError:
        from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[assignment]

    from ... import schemas  # type: ignore[attr-defined]  # in a checkout they lie elsewhere

    with open(os.path.join(schemas.__path__[0], file), "rb") as stream:
        data = stream.read()
    pool = DescriptorPool()
    for descriptor in _files(data):
        pool.AddSerializedFile(descriptor)
    return pool


def _files(data: bytes) -> list[bytes]:
    """The files of a FileDescriptorSet: of each a tag byte, its length as a varint, the file."""
    found, at = [], 0
    while at < len(data):
        assert data[at] == 0x0A, "a descriptor set holds files and nothing else"
        length, at = varint(data, at + 1)
        found.append(data[at : at + length])
        at += length
    return found


def varint(data: Any, at: int) -> tuple[int, int]:
    """The variable-length number at `at` of bytes, and the place behind it. IndexError when they end before it does."""
    number, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128 or shift > 63:
            return number, at
