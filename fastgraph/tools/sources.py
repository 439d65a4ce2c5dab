"""Where a command's arrays come from: a file, or standard input."""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

MAGIC = {
    b"\x93NUMPY": ".npy", b"PK\x03\x04": ".npz", b"\xff\xd8\xff": ".jpg", b"\x89PNG\r\n": ".png", b"GIF8": ".gif",
    b"fLaC": ".flac", b"OggS": ".ogg",
}  # fmt: skip
"""How files begin that need no other sign of what they are."""
IN_RIFF = {b"WAVE": ".wav", b"WEBP": ".webp"}


class Source:
    """A file by its name, or standard input for "-", all of which is read at once: then `data` is its bytes.

    `kind` is the file's suffix; that of standard input goes by its first bytes, and is "" where they are no sign.
    """

    def __init__(self, path: str) -> None:
        piped = path == "-"
        self.name = "standard input" if piped else path
        self.data = sys.stdin.buffer.read() if piped else None
        self.kind = Path(path).suffix.lower() if self.data is None else _kind(self.data)

    @property
    def piped(self) -> BytesIO | None:
        """Standard input as a file that is read from its beginning; None for a file."""
        return None if self.data is None else BytesIO(self.data)


def _kind(data: bytes) -> str:
    if data[:4] == b"RIFF":
        return IN_RIFF.get(data[8:12], "")
    return next((kind for magic, kind in MAGIC.items() if data.startswith(magic)), "")
