"""Signatures of operators as text: a table of a format has an entry for each, which names may share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache


def entries(table: str) -> dict[str, str]:
    """What a table says of each name, behind the colon. A line that begins with blanks goes on from the one before."""
    found: dict[str, str] = {}
    for line in table.replace("\n  ", " ").strip().splitlines():
        names, _, text = line.partition(":")
        found.update(dict.fromkeys(names.split(), text))
    return found


def arity(parameters: Sequence[str]) -> tuple[int, float]:
    """The fewest and the most values for parameters, of which optional ones end in `?`, variadic ones in `*` or `+`."""
    return _arity(tuple(parameters))


@cache
def _arity(parameters: tuple[str, ...]) -> tuple[int, float]:
    needed = [i + 1 for i, name in enumerate(parameters) if name[-1] not in "?*"]
    return max(needed, default=0), float("inf") if parameters and parameters[-1][-1] in "*+" else len(parameters)
