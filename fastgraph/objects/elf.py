"""Links objects in ELF for x86-64 into an image of code that may lie anywhere, so that a warm load needs no LLVM.

Compiled kernels have code, constants that it addresses relative to itself, and calls of the C library's functions.
Anything else in an object makes it `Foreign`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from .code import BLANK, JUMP, STUB, Foreign, Image, place

ELF64 = b"\x7fELF\x02\x01"
_RELOCATABLE, _X86_64 = 1, 62
_PROGRAM, _SYMBOLS, _RELOCATIONS, _UNWINDING = 1, 2, 4, 0x70000001
"""Kinds of sections. No exception passes through a kernel, so unwind tables are skipped."""
_WRITABLE, _PRESENT = 1, 2
"""Flags of sections."""
_DISTANCES, _SLOT_DISTANCES = (2, 4), (9, 41, 42)
"""Kinds of relocations: the 32-bit distance to a symbol, or to eight bytes with its address."""


class Section(NamedTuple):
    """An entry of an object's section table. `link` and `info` are numbers of other sections, where they mean any."""

    name: int
    kind: int
    flags: int
    address: int
    start: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class Symbol(NamedTuple):
    """`section` 0: defined elsewhere; else it is at offset `at` of that section."""

    name: str
    section: int
    at: int


def sections(obj: bytes) -> list[Section]:
    """The sections of an ELF64 object. struct.error or IndexError when it is cut short, here and below."""
    table, size, count = struct.unpack_from("<Q", obj, 40)[0], *struct.unpack_from("<HH", obj, 58)
    return [Section(*struct.unpack_from("<IIQQQQIIQQ", obj, table + size * i)) for i in range(count)]


def symbols(obj: bytes, among: list[Section]) -> list[Symbol]:
    """The symbols of an ELF64 object; those of sections have no name."""
    found = []
    for section in among:
        if section.kind == _SYMBOLS:
            base = among[section.link].start
            for at in range(section.start, section.start + section.size, 24):
                name, _, _, home, value, _ = struct.unpack_from("<IBBHQQ", obj, at)
                found.append(Symbol(obj[base + name : obj.index(b"\0", base + name)].decode(), home, value))
    return found


def arrange(objects: Mapping[str, bytes]) -> Image:
    """The image of {symbol: the object that defines it}; Foreign when this loader can't load one."""
    parts = {symbol: _Part(obj) for symbol, obj in objects.items()}
    functions = sorted(
        {each.name for part in parts.values() for each in part.symbols if each.name and not each.section}
    )
    end = len(functions) * STUB
    for part in parts.values():
        end = part.place(end)
    code = memoryview(bytearray(end))
    code[: len(functions) * STUB] = BLANK * len(functions)
    stubs = {name: i * STUB for i, name in enumerate(functions)}
    for part in parts.values():
        part.write(code, stubs)
    return Image(bytes(code), tuple(functions), {symbol: part.offset(symbol) for symbol, part in parts.items()})


def load(objects: Mapping[str, bytes]) -> dict[str, int]:
    """{symbol: its address, 0 when the object does not define it} for {symbol: object}; Foreign when this loader can't
    load one.

    OSError when the system gives no executable pages.
    """
    image = arrange(objects)
    base = place(image)
    return {symbol: base + at if at >= 0 else 0 for symbol, at in image.symbols.items()}


class _Part:
    """An object, and the offsets of its sections from the first page."""

    def __init__(self, obj: bytes) -> None:
        if not obj.startswith(ELF64) or struct.unpack_from("<HH", obj, 16) != (_RELOCATABLE, _X86_64):
            raise Foreign("it is no relocatable ELF object for x86-64")
        self.obj = obj
        self.sections = sections(obj)
        self.symbols = symbols(obj, self.sections)
        self.places: dict[int, int] = {}

    def place(self, end: int) -> int:
        """Assign offsets to the sections that are loaded, from `end` on; the new end."""
        for i, section in enumerate(self.sections):
            if not section.flags & _PRESENT or section.kind == _UNWINDING:
                continue
            if section.kind != _PROGRAM or section.flags & _WRITABLE:
                raise Foreign(f"it has a section of kind {section.kind} and flags {section.flags}")
            align = max(section.align, 1)
            self.places[i] = -(-end // align) * align
            end = self.places[i] + section.size
        return end

    def write(self, code: memoryview, stubs: Mapping[str, int]) -> None:
        """Copy the sections to their offsets and apply their relocations, calls by way of the stubs."""
        for i, at in self.places.items():
            section = self.sections[i]
            code[at : at + section.size] = self.obj[section.start : section.start + section.size]
        for section in self.sections:
            if section.kind == _RELOCATIONS and section.info in self.places:
                for entry in range(section.start, section.start + section.size, 24):
                    self._relocate(code, stubs, self.places[section.info], entry)

    def _relocate(self, code: memoryview, stubs: Mapping[str, int], start: int, entry: int) -> None:
        offset, info, more = struct.unpack_from("<QQq", self.obj, entry)
        kind, symbol = info & 0xFFFFFFFF, self.symbols[info >> 32]
        here = start + offset
        if symbol.section in self.places and kind in _DISTANCES:
            target = self.places[symbol.section] + symbol.at
        elif not symbol.section and kind in _DISTANCES:
            target = stubs[symbol.name]
        elif not symbol.section and kind in _SLOT_DISTANCES:
            target = stubs[symbol.name] + len(JUMP)
        else:
            raise Foreign(f"it has a relocation of kind {kind} to section {symbol.section}")
        struct.pack_into("<i", code, here, target + more - here)

    def offset(self, name: str) -> int:
        """Where a symbol is, -1 when the object does not define it."""
        return next((self.places[s.section] + s.at for s in self.symbols if s.name == name and s.section), -1)
