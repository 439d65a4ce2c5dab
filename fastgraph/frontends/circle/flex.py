"""What custom options hold: FlexBuffers, the schema-less kin of FlatBuffers: bytes to dicts, lists and numbers; and in
them NodeDefs, TensorFlow's (protobuf: tensorflow/core/framework/{node_def, attr_value}.proto).

A value of FlexBuffers is told by a byte of type (kind << 2 | log2 of the width of what it holds) that stands beside it:
in the map or vector around it, or at the buffer's end. Offsets point backwards.
"""

from __future__ import annotations

from struct import unpack_from
from typing import Any, NoReturn

from ...errors import ModelError
from ..core.protobuf import fields, read_of, varint

DEPTH_LIMIT = 32
"""How deep values may lie in one another."""

_NULL, _INT, _UINT, _FLOAT, _KEY, _STRING = range(6)
_INDIRECT = {6: _INT, 7: _UINT, 8: _FLOAT}
_MAP, _VECTOR, _BLOB, _BOOL, _VECTOR_BOOL = 9, 10, 25, 26, 36
_TYPED = {11: _INT, 12: _UINT, 13: _FLOAT, 14: _KEY, 15: _STRING, _VECTOR_BOOL: _BOOL}
_FIXED = {16 + i: ((_INT, _UINT, _FLOAT)[i % 3], i // 3 + 2) for i in range(9)}
_FORMATS = {
    _INT: {1: "<b", 2: "<h", 4: "<i", 8: "<q"},
    _UINT: {1: "<B", 2: "<H", 4: "<I", 8: "<Q"},
    _FLOAT: {2: "<e", 4: "<f", 8: "<d"},
}


def decode(data: bytes | memoryview, where: str) -> Any:
    """The value in `data`: None, bool, int, float, str, bytes, list or dict. ModelError when it is not well formed."""
    return _Buffer(bytes(data), where).root()


def _text(data: bytes) -> str | bytes:
    """Text, or the bytes where it is none: some keep protobuf messages in strings."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


class _Buffer:
    def __init__(self, data: bytes, where: str) -> None:
        self.data = data
        self.where = where
        self.left = 16 * len(data) + 1024  # values may share bytes: this bounds what they become

    def fail(self, what: str) -> NoReturn:
        raise ModelError(f"{self.where}: custom options are not sound FlexBuffers: {what}")

    def root(self) -> Any:
        if len(self.data) < 3:
            self.fail(f"expected at least 3 bytes, found {len(self.data)}")
        kind, width = self.data[-2], self.data[-1]
        if width not in (1, 2, 4, 8):
            self.fail(f"expected a root of 1, 2, 4 or 8 bytes, found {width}")
        return self.value(len(self.data) - 2 - width, kind >> 2, width, 1 << (kind & 3), 0)

    def number(self, kind: int, at: int, width: int) -> Any:
        form = _FORMATS[kind].get(width)
        if form is None or at < 0 or at + width > len(self.data):
            self.fail(f"expected a number of {width} bytes within its {len(self.data)} bytes, found it at {at}")
        return unpack_from(form, self.data, at)[0]

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            self.fail("its values share bytes too often")

    def value(self, at: int, kind: int, parent: int, width: int, depth: int) -> Any:
        """The value of a kind whose word (itself, or an offset to it) of `parent` bytes is at `at`."""
        self.spend(1)
        if depth > DEPTH_LIMIT:
            self.fail(f"expected values at most {DEPTH_LIMIT} deep in one another")
        if kind == _NULL:
            return None
        if kind in (_INT, _UINT, _FLOAT):
            return self.number(kind, at, parent)
        if kind == _BOOL:
            return self.number(_UINT, at, parent) != 0
        at -= self.number(_UINT, at, parent)
        if kind in _INDIRECT:
            return self.number(_INDIRECT[kind], at, width)
        if kind == _KEY:
            return self.key(at)
        if kind in _FIXED:
            element, count = _FIXED[kind]
            return [self.number(element, at + i * width, width) for i in range(count)]
        return self.sized(at, kind, width, depth)

    def key(self, at: int) -> str:
        end = self.data.find(b"\0", at) if at >= 0 else -1
        if end < 0:
            self.fail("expected a key that ends")
        self.spend(end - at)
        return self.data[at:end].decode("utf-8", "backslashreplace")

    def sized(self, at: int, kind: int, width: int, depth: int) -> Any:
        """A value whose length stands before it."""
        count = self.number(_UINT, at - width, width)
        element = 1 if kind in (_STRING, _BLOB) else width
        if at < 0 or count * element > len(self.data) - at:
            self.fail(f"expected {count} elements at {at} within its {len(self.data)} bytes")
        self.spend(count)
        if kind == _STRING:
            return _text(self.data[at : at + count])
        if kind == _BLOB:
            return self.data[at : at + count]
        places = range(at, at + count * width, width)
        if kind in _TYPED:
            return [self.value(place, _TYPED[kind], width, 1, depth + 1) for place in places]
        if kind not in (_MAP, _VECTOR) or at + count * (width + 1) > len(self.data):
            self.fail(f"expected a kind of value and its elements' types, found kind {kind}")
        types = self.data[at + count * width : at + count * (width + 1)]
        values = [
            self.value(place, types[i] >> 2, width, 1 << (types[i] & 3), depth + 1) for i, place in enumerate(places)
        ]
        if kind == _VECTOR:
            return values
        keys = at - 3 * width
        keys_width = self.number(_UINT, at - 2 * width, width)
        keys -= self.number(_UINT, keys, width)
        if keys_width not in (1, 2, 4, 8) or self.number(_UINT, keys - keys_width, keys_width) != count:
            self.fail(f"expected {count} keys")
        return {
            self.key(k - self.number(_UINT, k, keys_width)): v
            for k, v in zip(range(keys, keys + count * keys_width, keys_width), values, strict=True)
        }


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
