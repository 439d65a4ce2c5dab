"""Text for people: tables, sizes, short forms; and what JSON can hold."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .locks import undisturbed

_COMMANDS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"


def table(
    rows: Sequence[Sequence[str]], right: Sequence[int] = (), width: int | None = None,
    least: Mapping[int, int] = {}, drop: Sequence[int] = (), begins: Sequence[int] = (),
) -> list[str]:  # fmt: skip
    """Lines of aligned columns; those in `right` are right-aligned. Where lines would be longer than `width`, the
    widest columns of `least` are shortened, none below the width that it gives; where that is not enough, columns of
    `drop` are left out before, the first first. A shortened cell lacks its middle, or in the columns `begins` its end.
    """
    widths = {i: max(map(len, column)) for i, column in enumerate(zip(*rows, strict=True))}
    if width is not None:
        for i in drop:
            if _across([min(w, least.get(i, w)) for i, w in widths.items()]) <= width:
                break
            widths.pop(i, None)
        over = _across(list(widths.values())) - width
        while over > 0 and (wide := [i for i, w in widths.items() if w > least.get(i, w)]):
            widths[max(wide, key=lambda i: widths[i])] -= 1
            over -= 1
    lines = []
    for row in rows:
        cells = ((i, shorten(row[i], w, i in begins), w) for i, w in widths.items())
        lines.append("  ".join(c.rjust(w) if i in right else c.ljust(w) for i, c, w in cells).rstrip())
    return lines


def _across(widths: Sequence[int]) -> int:
    """The length of a line of columns that wide."""
    return sum(widths) + 2 * (len(widths) - 1)


def counted(number: int, what: str) -> str:
    """A number of things by their name: "1 thread", "2 threads"."""
    return f"{number} {what}{'s' * (number != 1)}"


def meant(words: Iterable[str], known: Iterable[str]) -> str:
    """For the end of a message: of what is `known`, what is nearest to words that are not; "" where nothing is near."""
    with undisturbed():  # most texts ask nothing
        from difflib import get_close_matches

    known = list(known)
    near = dict.fromkeys(found for word in words for found in get_close_matches(word, known, 1))
    return f"; did you mean {', '.join(near)}?" if near else ""


def units(tier: str, precision: str) -> str:
    """The tier that computes, with the precision of float32 where the caller chose one."""
    return tier if precision == "float32" else f"{tier} {precision}"


def bytes_text(nbytes: int) -> str:
    """Bytes with a unit."""
    if nbytes < 1024:
        return f"{nbytes} B"
    if nbytes < 1 << 20:
        return f"{nbytes / 1024:.1f} KiB"
    return f"{nbytes / (1 << 20):.2f} MiB" if nbytes < 1 << 30 else f"{nbytes / (1 << 30):.2f} GiB"


def visible(text: str) -> str:
    """The text with escapes for characters that a terminal would obey or can't show: names in a file may be
    anything.
    """
    return re.sub(_COMMANDS, lambda found: f"\\u{ord(found[0]):04x}", text)


def shorten(text: str, limit: int, begin: bool = False) -> str:
    """The text, with its middle left out when it is longer than `limit`; of a `begin`, its end."""
    if len(text) <= limit:
        return text
    if begin:
        return text[: limit - 1] + "…"
    half = (limit - 1) // 2
    return text[:half] + "…" + text[-(limit - 1 - half) :]


def plain(item: Any) -> Any:
    """Nested data for JSON: numbers that are not finite are "inf", "-inf" or "nan"."""
    if isinstance(item, Mapping):
        return {key: plain(value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [plain(value) for value in item]
    return str(item) if isinstance(item, float) and not math.isfinite(item) else item
