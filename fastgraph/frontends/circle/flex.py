"""What custom options hold: FlexBuffers, the schema-less kin of FlatBuffers: bytes to dicts, lists and numbers; and in
them NodeDefs, TensorFlow's (protobuf: tensorflow/core/framework/{node_def, attr_value}.proto).
"""

from __future__ import annotations

from struct import error as struct_error
from struct import unpack_from
from typing import Any

from flatbuffers.flexbuffers import GetRoot, Ref

from ...errors import ModelError
from ..core.protobuf import fields, read_of, varint

DEPTH_LIMIT = 32
"""How deep values may lie in one another."""


def decode(data: bytes | memoryview, where: str) -> Any:
    """The value in `data`: None, bool, int, float, str, bytes, list or dict. ModelError when it is not well formed."""
    left = 16 * len(data) + 1024  # values may share bytes: this bounds what they become

    def spend(amount: int) -> None:
        nonlocal left
        left -= amount
        if left < 0:
            raise ValueError("its values share bytes too often")

    def value(ref: Ref, depth: int) -> Any:
        spend(1)
        if depth > DEPTH_LIMIT:
            raise ValueError(f"expected values at most {DEPTH_LIMIT} deep in one another")
        if not ref.IsVector:
            found = _text(ref.AsStringBytes) if ref.IsString else ref.Value
            spend(len(found) if isinstance(found, str | bytes | list) else 0)
            return found
        entries = ref.AsVector
        spend(len(entries))
        values = [value(entries[i], depth + 1) for i in range(len(entries))]
        if not ref.IsMap:
            return values
        keys = ref.AsMap.Keys
        return dict(zip((value(keys[i], depth + 1) for i in range(len(keys))), values, strict=True))

    try:
        return value(GetRoot(bytes(data)), 0)
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError, struct_error) as error:
        what = f"a width or a length that is none ({error!r})" if isinstance(error, KeyError) else error
        raise ModelError(f"{where}: custom options are not sound FlexBuffers: {what}; the file is damaged") from error


def _text(data: bytes) -> str | bytes:
    """Text, or the bytes where it is none: some keep protobuf messages in strings."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


# NodeDefs

_A_LIST, _A_BYTES, _AN_INT, _A_FLOAT, _A_BOOL, _A_TYPE = range(1, 7)


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
    if number == _A_LIST:
        return [item for kind, part in _fields(content) for item in _items(kind, part)]
    return _items(number, content)[0]


def _items(number: int, content: bytes) -> list[Any]:
    """The values of a field: several where it is a list whose numbers are packed, one after another."""
    if number == _A_FLOAT:
        return [unpack_from("<f", content, at)[0] for at in range(0, len(content), 4)]
    if number == _A_BYTES:
        return [content.decode()]
    if number not in (_AN_INT, _A_BOOL, _A_TYPE):
        return [content]
    items, at = [], 0
    while at < len(content):
        value, at = varint(content, at)
        items.append(bool(value) if number == _A_BOOL else value - (1 << 64) if value >> 63 else value)
    return items
