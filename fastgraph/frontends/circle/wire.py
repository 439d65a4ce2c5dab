"""FlatBuffers, read with care: every offset, length, tag and enum is checked before it is used.

A file is a `Wire`; its tables are `Table`s, whose attributes are the fields of the schema:

- numbers, booleans: as they are; enums: their names; text: str; each with the schema's default where absent
- tables and unions: a Table, or None where absent
- vectors of tables: a sequence of Tables, made when they are asked for; of numbers: a tuple, empty where absent;
  `array(field)` is the way to read long ones: a view of the file

ModelError says what is wrong, in which field of which table, and at which byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, calcsize
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from ...errors import ModelError

MAGIC = {b"TFL3": "tflite", b"CIR0": "circle"}
"""What stands in bytes 4 to 7 of a file, and the schema that it then follows."""

LONGEST_TUPLE = 1 << 16
"""Most numbers of a vector that is read as a tuple: what the format keeps in one, sizes and indices, is short."""

_READ = {code: Struct("<" + code) for code in "?bBhHiIqQfd"}
_INT32, _UINT16, _UINT32 = _READ["i"].unpack_from, _READ["H"].unpack_from, _READ["I"].unpack_from
_NOTHING: dict[int, int] = {}
_WIDTH = {code: calcsize("<" + code) for code in _READ}


class Wire:
    """A file's bytes with its schema. `source` names it in messages."""

    __slots__ = ("data", "size", "source", "tables", "enums", "unions", "vtables")

    def __init__(self, data: memoryview, source: str, schema: ModuleType) -> None:
        self.data = data
        self.size = len(data)
        self.source = source
        self.tables: dict[str, dict[str, tuple[int, str, Any]]] = schema.TABLES
        self.enums: dict[str, tuple[str, dict[int, str]]] = schema.ENUMS
        self.unions: dict[str, dict[int, str]] = schema.UNIONS
        self.vtables: dict[int, tuple[int, dict[int, int]]] = {}

    def root(self, name: str) -> Table:
        """The root table, of the type of that name."""
        if self.size < 8:
            self.fail("the file", 0, f"expected at least 8 bytes, found {self.size}")
        return Table(self, name, _UINT32(self.data, 0)[0], "the root")

    def fail(self, where: str, at: int, what: str) -> NoReturn:
        raise ModelError(f"{self.source}: {where}, at byte {at}: {what}; the file is damaged or cut short")

    def vtable(self, table: int, where: str) -> tuple[int, dict[int, int]]:
        """The bytes of the table at that byte, and where its fields begin, by their places in its vtable."""
        at = table - _INT32(self.data, table)[0]
        known = self.vtables.get(at)
        if known is None:
            size = _UINT16(self.data, at)[0] if 0 <= at <= self.size - 4 else 0
            if size < 4 or size & 1 or at + size > self.size:
                self.fail(
                    where,
                    table,
                    f"expected its table of fields (vtable) within the file's {self.size} bytes, found it at {at}",
                )
            _, length, *starts = Struct(f"<{size // 2}H").unpack_from(self.data, at)
            known = self.vtables[at] = length, {4 + 2 * i: start for i, start in enumerate(starts) if start}
        return known


class Table:
    """A table of the file; `at` None stands for one that is absent, all of whose fields have their defaults.

    A field that was read is an attribute from then on.
    """

    __slots__ = ("wire", "kind", "at", "fields", "length", "starts", "__dict__")

    def __init__(self, wire: Wire, kind: str, at: int | None, where: str = "") -> None:
        self.wire = wire
        self.kind = kind
        self.at = at
        self.fields = wire.tables[kind]
        self.length, self.starts = 0, _NOTHING
        if at is not None:
            if at > wire.size - 4:
                wire.fail(where or kind, at, f"expected a {kind} within the file's {wire.size} bytes, found its end")
            self.length, self.starts = wire.vtable(at, where or kind)
            if self.length < 4 or at + self.length > wire.size:
                wanted = f"a {kind} of at least 4 bytes within the file's {wire.size} bytes"
                wire.fail(where or kind, at, f"expected {wanted}, found one of {self.length}")

    def __getattr__(self, field: str) -> Any:
        try:
            place, kind, default = self.fields[field]
        except KeyError:
            raise AttributeError(f"{self.kind} has no field {field!r}") from None
        found = self.__dict__[field] = self._read(field, place, kind, default)
        return found

    def _read(self, field: str, place: int, kind: str, default: Any) -> Any:
        code = kind[0]
        if code in _READ:
            at = self._place(place, field, _WIDTH[code])
            return _READ[code].unpack_from(self.wire.data, at)[0] if at else default
        if code == "=":
            return self._enum(field, kind[1:], self.number(field))
        if code == "[":
            return self._vector(field, kind[1:])
        at = self._follow(place, field)
        if code == "s":
            return self._text(field, at) if at else ""
        if code == ":":
            return Table(self.wire, kind[1:], at, self._where(field)) if at else None
        return self._union(field, kind[1:], place, at)

    def __repr__(self) -> str:
        return f"<{self.kind} at byte {self.at}>"

    def number(self, field: str) -> int:
        """An enum as the number that it is."""
        place, kind, default = self.fields[field]
        code = self.wire.enums[kind[1:]][0]
        at = self._place(place, field, _WIDTH[code])
        return _READ[code].unpack_from(self.wire.data, at)[0] if at else default

    def array(self, field: str) -> np.ndarray:
        """A vector of numbers as a view of the file, which can't be written to; of bytes when they are uint8."""
        at, count = self._extent(field, _WIDTH[self.fields[field][1][1]])
        return np.frombuffer(self.wire.data, "<" + self.fields[field][1][1], count, at)

    def _place(self, place: int, field: str, width: int) -> int:
        """The byte at which a field of `width` bytes is, 0 when it is absent."""
        offset = self.starts.get(place)
        if offset is None or self.at is None:
            return 0
        if offset < 4 or offset + width > self.length:
            self._fail(field, self.at, f"expected it within the table's {self.length} bytes, found it at {offset}")
        return self.at + offset

    def _follow(self, place: int, field: str) -> int:
        """The byte that an offset points to, 0 when the field is absent."""
        at = self._place(place, field, 4)
        return self._target(at, field) if at else 0

    def _target(self, at: int, field: str) -> int:
        offset = _UINT32(self.wire.data, at)[0]
        if offset < 4 or at + offset > self.wire.size - 4:
            self._fail(field, at, f"expected an offset within the file's {self.wire.size} bytes, found {offset}")
        return at + offset

    def _extent(self, field: str, width: int) -> tuple[int, int]:
        """Where a vector's elements begin, and how many there are. (0, 0): it is absent."""
        at = self._follow(self.fields[field][0], field)
        if not at:
            return 0, 0
        count = _UINT32(self.wire.data, at)[0]
        if count * width > self.wire.size - at - 4:
            wanted = f"a vector that ends within the file's {self.wire.size} bytes"
            self._fail(field, at, f"expected {wanted}, found {count} elements of {width} bytes")
        return at + 4, count

    def _text(self, field: str, at: int) -> str:
        count = _UINT32(self.wire.data, at)[0]
        if count > self.wire.size - at - 4:
            wanted = f"a text that ends within the file's {self.wire.size} bytes"
            self._fail(field, at, f"expected {wanted}, found one of {count}")
        return str(self.wire.data[at + 4 : at + 4 + count], "utf-8", "backslashreplace")

    def _enum(self, field: str, name: str, number: int) -> str:
        found = self.wire.enums[name][1].get(number)
        if found is None:
            self._fail(field, self.at or 0, f"expected a {name}, found {number}")
        return found

    def _union(self, field: str, name: str, place: int, at: int) -> Table | None:
        tag_at = self._place(place - 2, field + "_type", 1)
        tag = self.wire.data[tag_at] if tag_at else 0
        if not tag:
            return None
        kind = self.wire.unions[name].get(tag)
        if kind is None or not at:
            what = f"expected one of {name}, found number {tag}" if at else f"expected a {kind}, found nothing"
            self._fail(field, self.at or 0, what)
        return Table(self.wire, kind, at, self._where(field))

    def _vector(self, field: str, kind: str) -> Any:
        code = kind[0]
        if code in "s:":
            at, count = self._extent(field, 4)
            if code == ":":
                return Tables(self, field, kind[1:], at, count)
            return tuple(self._text(field, self._target(at + 4 * i, field)) for i in range(min(count, LONGEST_TUPLE)))
        number = code if code in _READ else self.wire.enums[kind[1:]][0]
        at, count = self._extent(field, _WIDTH[number])
        if count > LONGEST_TUPLE:
            self._fail(field, at, f"expected at most {LONGEST_TUPLE} elements, found {count}")
        values = Struct(f"<{count}{number}").unpack_from(self.wire.data, at)
        return values if code != "=" else tuple(self._enum(field, kind[1:], value) for value in values)

    def _fail(self, field: str, at: int, what: str) -> NoReturn:
        """ModelError about a field."""
        self.wire.fail(self._where(field), at, what)

    def _where(self, field: str) -> str:
        return f"field {field!r} of {self.kind}"


class Tables:
    """A vector of tables, each of which is read when it is asked for."""

    __slots__ = ("owner", "field", "kind", "at", "count")

    def __init__(self, owner: Table, field: str, kind: str, at: int, count: int) -> None:
        self.owner, self.field, self.kind, self.at, self.count = owner, field, kind, at, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Table:
        if not 0 <= index < self.count:
            raise IndexError(index)
        at = self.owner._target(self.at + 4 * index, self.field)
        return Table(self.owner.wire, self.kind, at, f"element {index} of {self.field!r}")

    def __iter__(self) -> Iterator[Table]:
        return (self[index] for index in range(self.count))
