"""Protobuf messages without generated code.

Classes are made at run time from a descriptor set in `schemas/`, in a descriptor pool of its own: they neither depend
on the version of the protobuf compiler nor meet the classes of other packages in protobuf's global registry.

Where protobuf has its C implementation, that is asked itself: `message_factory` and `descriptor_pool`, which do no more
then, import the text format, the well-known types and the implementation in Python, for 10 ms.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any, BinaryIO


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
    if data[at] < 128:
        return data[at], at + 1
    number, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128 or shift > 63:
            return number, at


OUTERMOST = 1000
"""Fields of a model's own message that may come before the one that holds the network."""

Read = Callable[[int, int], bytes]
"""(start, count): bytes of a file, fewer at its end."""


def read_of(source: BinaryIO | memoryview) -> Read:
    """A function that reads parts of an open file, or of bytes."""
    if isinstance(source, memoryview):
        return lambda at, count: bytes(source[at : at + count])

    def read(at: int, count: int) -> bytes:
        source.seek(at)
        return source.read(count)

    return read


def fields(read: Read, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(number, start and end of its content) of each field of the message at these bytes, which are not read whole.
    ValueError, with what is wrong, where there is none.
    """
    while at < end:
        head = read(at, min(20, end - at))
        try:
            tag, used = varint(head, 0)
            number, kind = tag >> 3, tag & 7
            size, used = varint(head, used) if kind == 2 else (8 if kind == 1 else 4 * (kind == 5), used)
            if kind == 0:
                size = varint(head, used)[1] - used
        except IndexError:
            raise ValueError(f"it ends within a field, at byte {at}") from None
        if not 0 < number < 1 << 29 or kind not in (0, 1, 2, 5):
            raise ValueError(f"no field of a message begins as byte {at} does, {head[0]:#04x}")
        if at + used + size > end:
            raise ValueError(f"field {number} at byte {at} has {size} bytes, {max(end - at - used, 0)} are there")
        yield number, at + used, at + used + size
        at += used + size


def check_outside(source: BinaryIO | memoryview, size: int, holds: Callable[[int], bool]) -> None:
    """ValueError unless bytes begin as a message, up to the field that holds the network and the first fields of that.

    `holds`: whether it is the field of this number. Few bytes are read, however many there are.
    """
    read = read_of(source)
    for count, (number, start, end) in enumerate(fields(read, 0, size)):
        if holds(number):
            for _ in islice(fields(read, start, end), 8):
                pass
            return
        if count == OUTERMOST:
            raise ValueError(f"none of its first {OUTERMOST} fields holds a network")
