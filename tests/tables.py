"""Tables of cases as text: an entry a line, of columns between bars; lines that begin with two blanks go on."""

from typing import Any


def entries(text: str) -> list[list[str]]:
    """The columns of each entry."""
    lines = text.replace("\n  ", " ").strip().splitlines()
    return [[part.strip() for part in f" {line} ".split(" |")] for line in lines if line]


def rows(text: str, names: dict[str, Any], columns: int) -> list[list[Any]]:
    """The entries: the first column as it stands, then expressions of `names`; columns that are left out are None."""
    found = []
    for title, *rest in entries(text):
        values = [eval(f"({part})", names) if part else None for part in rest]
        found.append([title, *values, *[None] * (columns - 1 - len(rest))])
    return found
