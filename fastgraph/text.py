"""Text for people: tables, sizes, short forms."""

from __future__ import annotations

import re
from collections.abc import Sequence

_COMMANDS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Lines of aligned columns; those in `right` are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(range(len(row)), row, widths, strict=True)
        lines.append("  ".join(c.rjust(w) if i in right else c.ljust(w) for i, c, w in cells).rstrip())
    return lines


def bytes_text(nbytes: int) -> str:
    """Bytes with a unit."""
    if nbytes < 1024:
        return f"{nbytes} B"
    return f"{nbytes / 1024:.1f} KiB" if nbytes < 1 << 20 else f"{nbytes / (1 << 20):.2f} MiB"


def visible(text: str) -> str:
    """The text with escapes for characters that a terminal would obey or can't show: names in a file may be
    anything.
    """
    return re.sub(_COMMANDS, lambda found: f"\\u{ord(found[0]):04x}", text)


def shorten(text: str, limit: int) -> str:
    """The text, with its middle left out when it is longer than `limit`."""
    if len(text) <= limit:
        return text
    half = (limit - 1) // 2
    return text[:half] + "…" + text[-(limit - 1 - half) :]
