"""The file of a saved program (.fgm): a directory in JSON, and sections of bytes that are mapped.

Layout, little-endian: MAGIC, the length of the directory (u64) and its CRC-32 (u32), the directory; then the sections,
which the directory lists by name as [offset from the first one, size, CRC-32]. The first section begins at a multiple
of PAGE, the others at multiples of 64; behind the last are at least SLACK bytes. `arrays` of the directory are parts of
sections: [section, offset, element type, shape].

All is checked before it is used, but for WEIGHTS, numbers of which any bits are valid: reading them all would cost what
mapping saves. `check` reads those too; `sums` of the directory is a checksum of them that memory can keep up with.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary
from zlib import crc32

import numpy as np

from ..errors import FastgraphError, ModelError
from ..room import SLACK
from .json import decoded, encoded


class Maybe:
    """None, or this form."""

    def __init__(self, form: Any) -> None:
        self.form = form


class Either:
    """One of these forms."""

    def __init__(self, *forms: Any) -> None:
        self.forms = forms


class Each:
    """Any names, with this form each."""

    def __init__(self, form: Any) -> None:
        self.form = form


INTS = [int]
VIEW = (int, int, str, INTS, INTS)
"""saved/flat.py's View."""

FLAT = {
    "arena": int, "buffers": int, "words": int, "addresses": int, "tables": int, "steps": int,
    "parts": [(int, int, int, str)], "constants": INTS, "kernels": INTS, "inputs": [(str, VIEW)],
    "outputs": [(str, Either(int, VIEW))], "states": [(VIEW, int)], "cuts": [(int, int, VIEW)],
}  # fmt: skip

PLAN = {
    "tier": str, "threads": int, "shapes": [INTS], "values": [(str, str)], "decided": [(str, Maybe(int))],
    "flat": Maybe(FLAT),
}  # fmt: skip

DIRECTORY = {
    "fastgraph": str, "sources": str, "layout": [str], "source": {"name": str, "bytes": int},
    "sections": Each((int, int, int)), "arrays": list, "plans": [PLAN],
    "images": Each({"functions": [str], "offsets": INTS, "kernels": list}), "decide": [str],
    "deciders": [([INTS], [str])],
}  # fmt: skip


def fits(item: Any, form: Any) -> bool:
    """Whether a part of a directory has a form: a type; [form], a list of such; (form, ...), a list of these; a dict of
    forms by name; or one of the classes here.
    """
    kind = type(form)
    if kind is list:
        return type(item) is list and all(fits(each, form[0]) for each in item)
    if kind is tuple:
        return type(item) is list and len(item) == len(form) and all(map(fits, item, form))
    if kind is dict:
        return type(item) is dict and all(name in item and fits(item[name], each) for name, each in form.items())
    if kind is Maybe:
        return item is None or fits(item, form.form)
    if kind is Either:
        return any(fits(item, each) for each in form.forms)
    if kind is Each:
        return type(item) is dict and all(fits(each, form.form) for each in item.values())
    return type(item) is form


MAGIC = b"\x93FGM\r\n\x1a\n"
"""No text begins like this, and programs that convert line ends damage it."""
FORMAT = 2
PAGE, ALIGN = 4096, 64
WEIGHTS = "weights"
_HEAD = struct.Struct("<8sQI")
MOST_AXES = 32
BLOCK = 1 << 13
"""Words of 64 bits that `_sums` adds up."""
ELEMENTS = frozenset("b1 i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 c8 c16".split())
"""Element types of arrays and views."""


def write(path: str, directory: Mapping[str, Any], sections: Mapping[str, Sequence[bytes | np.ndarray]]) -> None:
    """Write the file whole, or not at all: readers of an older file at `path` keep what they have mapped.

    The parts of a section are written one after the other, each at a multiple of ALIGN. OSError where that fails.
    """
    places, at = {}, 0
    for name, parts in sections.items():
        size, crc = 0, 0
        for part in map(_bytes, parts):
            crc = crc32(_padding(len(part)), crc32(part, crc))
            size += padded(len(part))
        places[name] = [at, size, crc]
        at += size
    sums = _sums(map(_bytes, sections.get(WEIGHTS, ())))
    text = encoded({"format": FORMAT, **directory, "sections": places, "sums": sums})
    head = _HEAD.pack(MAGIC, len(text), crc32(text)) + text
    temporary = f"{path}.new-{os.urandom(6).hex()}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o644)
    try:
        with open(handle, "wb") as file:
            file.write(head + bytes(-len(head) % PAGE))
            for parts in sections.values():
                for part in map(_bytes, parts):
                    file.write(part)
                    file.write(_padding(len(part)))
            file.write(bytes(SLACK))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def padded(size: int) -> int:
    """Bytes that a part takes in its section."""
    return -(-size // ALIGN) * ALIGN


def _bytes(part: bytes | np.ndarray) -> bytes | memoryview:
    return np.ascontiguousarray(part).reshape(-1).view(np.uint8).data if isinstance(part, np.ndarray) else part


def _padding(size: int) -> bytes:
    return bytes(-size % ALIGN)


def _sums(parts: Iterable[bytes | memoryview]) -> int:
    """The CRC-32 of the sums of each BLOCK words of a section: finds bits that changed, as fast as memory is read."""
    sums, at = np.zeros(0, "<u8"), 0
    for part in parts:
        words = np.frombuffer(part if len(part) % ALIGN == 0 else bytes(part) + _padding(len(part)), "<u8")
        if len(words):
            rest = -at % BLOCK  # words of the block that the part before began
            made = np.add.reduceat(words, [0, *range(rest or BLOCK, len(words), BLOCK)])
            if rest:
                sums[-1:] += made[:1]
            sums = np.concatenate([sums, made[bool(rest) :]])
            at += len(words)
    return crc32(sums.tobytes())


class Container:
    """An open file: its directory, its sections, its arrays, which can't be written. ModelError for damage."""

    def __init__(self, data: np.ndarray, title: str) -> None:
        self.title, self._data = title, data
        self._checked: set[str] = set()
        self.directory, self._start = self._read_directory()
        self.sections: dict[str, tuple[int, int, int]] = self.directory["sections"]
        self._arrays = self.directory["arrays"]
        ends = [self._start + at + size for at, size, _ in self.sections.values() if min(at, size) >= 0]
        if len(ends) < len(self.sections) or max(ends, default=self._start) + SLACK > len(data):
            raise self.damaged(f"it has {len(data)} bytes, its sections end at {max(ends, default=0)}")

    def _read_directory(self) -> tuple[dict[str, Any], int]:
        data = self._data
        if not is_saved(data[: len(MAGIC)].tobytes()):
            raise ModelError(f"{self.title}: it is no saved program: save one with model.save, or fastgraph compile")
        if len(data) < _HEAD.size:
            raise self.damaged(f"it has {len(data)} bytes")
        _, size, crc = _HEAD.unpack(data[: _HEAD.size].tobytes())
        text = data[_HEAD.size : _HEAD.size + size].tobytes()
        if len(text) != size or crc32(text) != crc:
            raise self.damaged("its directory is not what was written")
        try:
            directory = decoded(text)
            form = directory["format"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise self.damaged("its directory can't be read") from None
        if type(form) is not int or form != FORMAT:
            raise ModelError(
                f"{self.title}: a saved program of format {form!r}, written by fastgraph "
                f"{directory.get('fastgraph', '?')}; this version reads format {FORMAT}: save it again with this "
                "version, or install that one"
            )
        if not fits(directory, DIRECTORY):
            raise self.damaged("its directory lacks entries, or has others than it should")
        return directory, -(-(_HEAD.size + size) // PAGE) * PAGE

    def damaged(self, why: str) -> ModelError:
        """The error for a file that is not as it was written."""
        return ModelError(f"{self.title}: the saved program is damaged: {why}: copy it again, or save it again")

    @contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """ModelError where entries of the directory that are read within are missing, of other types, out of range."""
        try:
            yield
        except FastgraphError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
            raise self.damaged(f"{what} can't be read") from None

    def section(self, name: str) -> np.ndarray:
        """The bytes of a section; its checksum is compared the first time."""
        if name not in self.sections:
            raise self.damaged(f"it has no section {name!r}")
        at, size, crc = self.sections[name]
        found = self._data[self._start + at : self._start + at + size]
        if name not in self._checked and name != WEIGHTS:
            self._check(name, found, crc)
        return found

    def json(self, name: str) -> Any:
        """The parsed JSON of a section."""
        try:
            return decoded(self.section(name).tobytes().rstrip(b"\0"))
        except (ValueError, RecursionError):
            raise self.damaged(f"its section {name!r} can't be read") from None

    def _check(self, name: str, data: np.ndarray, crc: int) -> None:
        if crc32(data.data) != crc:
            raise self.damaged(f"its section {name!r} is not what was written")
        self._checked.add(name)

    def check(self, quick: bool = False) -> None:
        """Compare the checksums of all sections; `quick`: that of WEIGHTS by sums."""
        for name, (at, size, crc) in self.sections.items():
            data = self._data[self._start + at : self._start + at + size]
            if not quick or name != WEIGHTS:
                self._check(name, data, crc)
            elif self.directory.get("sums") != _sums([data.data]):
                raise self.damaged("its weights are not what was written")

    def array(self, number: int) -> np.ndarray:
        """An array of the directory by number."""
        with self.reading(f"array {number}"):
            section, at, element, dims = self._arrays[whole(number)]
            if element not in ELEMENTS or len(dims) > MOST_AXES or at % ALIGN:
                raise ValueError(number)
            return np.ndarray(tuple(map(whole, dims)), element, self.section(section), whole(at))


def whole(number: Any) -> int:
    """A number of the directory that counts something. ValueError for any other."""
    if type(number) is not int or number < 0:
        raise ValueError(number)
    return number


def is_saved(begin: bytes) -> bool:
    """Whether a file that begins like this is a saved program."""
    return begin.startswith(MAGIC)


_mapped: WeakValueDictionary[tuple[int, ...], mmap.mmap] = WeakValueDictionary()
"""Files that are mapped now, by device, number and size: no other file has the number of one that is mapped. Models of
one program share its pages, which count once in the memory of the process."""


def opened(handle: int, title: str) -> Container:
    """The file of an open descriptor, mapped once per process: replacing it by name does not change it. OSError."""
    found = os.fstat(handle)
    if found.st_size < _HEAD.size:
        raise ModelError(f"{title}: the saved program is damaged: it has {found.st_size} bytes: copy it again")
    key = found.st_dev, found.st_ino, found.st_size
    mapped = _mapped.get(key) if found.st_ino else None  # 0: of a file system that numbers none
    if mapped is None:
        mapped = _mapped[key] = mmap.mmap(handle, found.st_size, access=mmap.ACCESS_READ)
    return Container(np.frombuffer(mapped, np.uint8), title)


def held(data: bytes, title: str) -> Container:
    """The content of a file, copied to where arrays are aligned."""
    memory = mmap.mmap(-1, max(len(data), 1))
    memory[: len(data)] = data
    array = np.frombuffer(memory, np.uint8)[: len(data)]
    array.flags.writeable = False
    return Container(array, title)
