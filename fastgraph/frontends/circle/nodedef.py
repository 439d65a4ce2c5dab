"""Attributes of TensorFlow operators that ride as custom ones: a map of FlexBuffers, or a NodeDef (protobuf) in one.

Semantics: tensorflow/core/framework/{node_def, attr_value}.proto; tensorflow/lite/delegates/flex.
"""

from __future__ import annotations

from struct import unpack_from
from typing import Any

from ...errors import ModelError
from ..core.protobuf import fields, read_of, varint
from .flex import decode

_LIST, _BYTES, _INT, _FLOAT, _BOOL, _TYPE = range(1, 7)


def attributes(options: bytes | memoryview, where: str) -> dict[str, Any]:
    """The attributes in custom options: numbers, bools, text, lists; types by number."""
    found = decode(options, where) if len(options) else {}
    if isinstance(found, dict):
        return found
    if not isinstance(found, list) or len(found) != 2 or not isinstance(found[1], str | bytes):
        raise ModelError(f"{where}: expected a map, or a name and a NodeDef, in its custom options")
    try:
        entries = [dict(_fields(entry)) for number, entry in _fields(_bytes(found[1])) if number == 5]
        return {entry.get(1, b"").decode(): _value(entry.get(2, b"")) for entry in entries}
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise ModelError(f"{where}: its NodeDef is damaged ({error})") from error


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _fields(data: bytes) -> list[tuple[int, bytes]]:
    """(number, content) of a message."""
    return [(number, data[start:end]) for number, start, end in fields(read_of(memoryview(data)), 0, len(data))]


def _value(data: bytes) -> Any:
    """What an AttrValue holds: its last field."""
    found = _fields(data)
    if not found:
        return None
    number, content = found[-1]
    if number == _LIST:
        return [item for kind, part in _fields(content) for item in _items(kind, part)]
    return _items(number, content)[0]


def _items(number: int, content: bytes) -> list[Any]:
    """The values of a field: several where it is a list whose numbers are packed, one after another."""
    if number == _FLOAT:
        return [unpack_from("<f", content, at)[0] for at in range(0, len(content), 4)]
    if number == _BYTES:
        return [content.decode()]
    if number not in (_INT, _BOOL, _TYPE):
        return [content]
    items, at = [], 0
    while at < len(content):
        value, at = varint(content, at)
        items.append(bool(value) if number == _BOOL else value - (1 << 64) if value >> 63 else value)
    return items
