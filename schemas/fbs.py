"""FlatBuffers schema files as tables in Python, so that no load parses one: `python -m fastgraph.schemas.fbs`.

What is written, `NAME.py` beside each `NAME.fbs`:

TABLES: table -> field -> (place in the vtable, type, default). Types are one letter of `struct` for a number, "=" and
a name for an enum, "s" text, ":" and a name for a table, "|" and a name for a union (its tag stands in the slot
before), and "[" before any of these but a union for a vector.
ENUMS: enum -> (letter of `struct`, number -> name). UNIONS: union -> tag -> table.
"""

from __future__ import annotations

import os
import re
from typing import Any

NUMBERS = {
    "bool": "?", "byte": "b", "int8": "b", "ubyte": "B", "uint8": "B", "short": "h", "int16": "h", "ushort": "H",
    "uint16": "H", "int": "i", "int32": "i", "uint": "I", "uint32": "I", "long": "q", "int64": "q", "ulong": "Q",
    "uint64": "Q", "float": "f", "float32": "f", "double": "d", "float64": "d",
}  # fmt: skip

SCHEMAS = ("circle", "tflite")
BASE = "tflite"

_BLOCK = re.compile(r"\b(table|enum|union)\s+(\w+)\s*(?::\s*(\w+)\s*)?\{(.*?)\}", re.S)
_FIELD = re.compile(r"(\w+)\s*:\s*(\[?\w+\]?)\s*(?:=\s*([\w.+-]+)\s*)?(\(deprecated\))?\s*;")
_MEMBER = re.compile(r"(\w+)\s*(?:=\s*(-?\d+))?\s*(?:,|$)")


def parse(text: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """TABLES, ENUMS and UNIONS of a schema: the part of the language that these schemas use."""
    blocks = _BLOCK.findall(re.sub(r"//[^\n]*", "", text))
    enums = {
        name: (NUMBERS[base], {number: key for key, number in _members(body, 0)})
        for kind, name, base, body in blocks
        if kind == "enum"
    }
    unions = {name: {tag: key for key, tag in _members(body, 1)} for kind, name, _, body in blocks if kind == "union"}
    tables = {name: _fields(body, enums, unions) for kind, name, _, body in blocks if kind == "table"}
    return tables, enums, unions


def _members(body: str, first: int) -> list[tuple[str, int]]:
    found = []
    for name, number in _MEMBER.findall(body.strip()):
        first = int(number) if number else first
        found.append((name, first))
        first += 1
    return found


def _fields(body: str, enums: dict[str, Any], unions: dict[str, Any]) -> dict[str, tuple[int, str, Any]]:
    fields: dict[str, tuple[int, str, Any]] = {}
    slot = 0
    for name, type_name, default, deprecated in _FIELD.findall(body):
        kind = _kind(type_name.strip("[]"), enums, unions)
        slot += kind[0] == "|"
        if not deprecated:
            vector = type_name[0] == "["
            fields[name] = (4 + 2 * slot, "[" + kind if vector else kind, None if vector else _default(kind, default))
        slot += 1
    return fields


def _kind(name: str, enums: dict[str, Any], unions: dict[str, Any]) -> str:
    if name in NUMBERS:
        return NUMBERS[name]
    if name == "string":
        return "s"
    return ("=" if name in enums else "|" if name in unions else ":") + name


def _default(kind: str, text: str) -> Any:
    if kind[0] in "s:|":
        return None
    if kind[0] == "=":
        return text or 0
    return text == "true" if kind == "?" else float(text or 0) if kind in "fd" else int(text or 0)


def generated(name: str) -> str:
    """The text of `NAME.py` for `NAME.fbs`: of Circle, what differs from TensorFlow Lite, which it copied."""
    copied = name != BASE
    parts, base = _resolved(name), _resolved(BASE) if copied else ({}, {}, {})
    lines = [f'"""The tables of {name}.fbs, written by fbs.py; fbs.py says what they hold."""', "# ruff: noqa: E501"]
    lines += ["", f"from . import {BASE}"] if copied else []
    for title, table, old in zip(("TABLES", "ENUMS", "UNIONS"), parts, base, strict=True):
        own = (f"    {key!r}: {item!r}," for key, item in table.items() if old.get(key) != item)
        lines += ["", f"{title}: dict = {f'{BASE}.{title} | ' if copied else ''}{{", *own, "}"]
        lines += [f"del {title}[{key!r}]" for key in old if key not in table]
    return "\n".join(lines) + "\n"


def _resolved(name: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """TABLES, ENUMS and UNIONS of a schema file, whose defaults are numbers."""
    with open(os.path.join(os.path.dirname(__file__), f"{name}.fbs")) as file:
        tables, enums, unions = parse(file.read())
    for fields in tables.values():
        for field, (place, kind, default) in fields.items():
            if isinstance(default, str):
                numbers = {key: number for number, key in enums[kind[1:]][1].items()}
                fields[field] = (place, kind, numbers[default])
    return tables, enums, unions


def main() -> None:
    """Write the tables of all schemas."""
    for name in SCHEMAS:
        with open(os.path.join(os.path.dirname(__file__), f"{name}.py"), "w") as file:
            file.write(generated(name))


if __name__ == "__main__":
    main()
