"""Signatures of operators as text: a table of a format has an entry for each, which names may share. Rules by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar


def entries(table: str) -> dict[str, str]:
    """The text behind the colon for each name of a table. A line that begins with blanks continues the one before."""
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


Rule = TypeVar("Rule")


class RuleFiles:
    """The files `rules_*.py` of a frontend's package."""

    def __init__(self, package: str) -> None:
        self.package = package
        self._waiting: list[str] | None = None

    def find(self, table: Mapping[str, Rule], name: str) -> Rule | None:
        """The entry of that name in `table`, which the files fill when they are imported."""
        if self._waiting is None:
            found = {m.name for m in iter_modules(import_module(self.package).__path__) if m.name.startswith("rules_")}
            self._waiting = sorted(found)
        while name not in table and self._waiting:
            import_module(f"{self.package}.{self._waiting[0]}")
            self._waiting.pop(0)
        return table.get(name)
