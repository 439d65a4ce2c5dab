"""Files of saved programs taken apart and put together again, with checksums that are right."""

import json
import struct
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from fastgraph.room import SLACK
from fastgraph.saved.container import ALIGN, MAGIC, PAGE

HEAD = struct.Struct("<8sQI")


class Parts:
    """`directory` and `sections` of a file; `bytes()` writes them as they are now. Sections stay where they are unless
    their sizes change.
    """

    def __init__(self, data: bytes) -> None:
        magic, size, _ = HEAD.unpack_from(data)
        assert magic == MAGIC
        self.directory: dict[str, Any] = json.loads(data[HEAD.size : HEAD.size + size])
        self.start = -(-(HEAD.size + size) // PAGE) * PAGE
        self.sections = {
            name: bytearray(data[self.start + at : self.start + at + size])
            for name, (at, size, _) in self.directory["sections"].items()
        }

    def bytes(self) -> bytes:
        """With the sections where `write` puts them, and checksums that are right."""
        body, places = bytearray(), {}
        for name, data in self.sections.items():
            places[name] = [len(body), len(data), crc32(data)]
            body += data + bytes(-len(data) % ALIGN)
        return signed({**self.directory, "sections": places}, bytes(body) + bytes(SLACK))

    def json(self, name: str) -> Any:
        """What a section of text says."""
        return json.loads(bytes(self.sections[name]).rstrip(b"\0"))

    def set_json(self, name: str, item: Any) -> None:
        text = json.dumps(item, separators=(",", ":")).encode()
        self.sections[name] = bytearray(text + bytes(-len(text) % ALIGN))

    def array(self, number: int) -> np.ndarray:
        """An array, which can be written, of its section."""
        section, at, element, dims = self.directory["arrays"][number]
        return np.ndarray(dims, element, memoryview(self.sections[section]), at)


def signed(directory: dict[str, Any], body: bytes) -> bytes:
    """A file of this directory, whose checksum is right, and these sections."""
    text = json.dumps(directory, separators=(",", ":")).encode()
    head = HEAD.pack(MAGIC, len(text), crc32(text)) + text
    return head + bytes(-len(head) % PAGE) + body


def parts(path: Path) -> Parts:
    return Parts(path.read_bytes())
