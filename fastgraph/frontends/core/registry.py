"""Where an operator's rule is found: files of rules are imported when the first model needs one of theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

Rule = TypeVar("Rule")


def register(table: dict[str, Rule], names: Sequence[str]) -> Callable[[Rule], Rule]:
    """A decorator that enters a rule under each of the names."""

    def note(rule: Rule) -> Rule:
        for name in names:
            assert name not in table, f"two rules for {name}"
            table[name] = rule
        return rule

    return note


class RuleFiles:
    """The files `rules_*.py` of a frontend's package; `common` ones, which most models need, are looked into first."""

    def __init__(self, package: str, common: Sequence[str] = ()) -> None:
        self.package = package
        self.common = common
        self._waiting: list[str] | None = None

    def find(self, table: Mapping[str, Rule], name: str) -> Rule | None:
        """What `table`, which the files fill as they are imported, has under that name."""
        if self._waiting is None:
            found = {m.name for m in iter_modules(import_module(self.package).__path__) if m.name.startswith("rules_")}
            self._waiting = [*self.common, *sorted(found.difference(self.common))]
        while name not in table and self._waiting:
            import_module(f"{self.package}.{self._waiting[0]}")
            self._waiting.pop(0)
        return table.get(name)
