"""Tables whose entries are defined by many modules, which are imported when an entry is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TypeVar

from .locks import undisturbed

Entry = TypeVar("Entry")


def register(table: dict[str, Entry], *names: str) -> Callable[[Entry], Entry]:
    """A decorator that enters what it is for under each of the names."""

    def note(entry: Entry) -> Entry:
        for name in names:
            assert name not in table, f"{name} is defined twice"
            table[name] = entry
        return entry

    return note


class Families(Mapping[str, Entry]):
    """Entries by name. All names are known; an entry is loaded with the module that defines it.

    `modules`: by module of `package`, the names that it defines, separated by spaces. `defined`: the dict that the
    modules fill. `found`: the entries loaded by now. A module that does not define a name it is listed with is a
    defect: a KeyError.
    """

    def __init__(self, package: str, modules: Mapping[str, str], defined: Mapping[str, Entry]) -> None:
        self._package, self._defined = package, defined
        self._homes: dict[str, list[str]] = {}
        self.found: dict[str, Entry] = {}
        for module, names in modules.items():
            for name in names.split():
                self._homes.setdefault(name, []).append(module)

    def name_too(self, name: str, known: str) -> None:
        """Make `name` an alias of the entry `known`."""
        self.found[name] = self[known]

    def __getitem__(self, name: str) -> Entry:
        try:
            return self.found[name]
        except KeyError:
            for module in self._homes[name]:
                with undisturbed():
                    import_module(f"{self._package}.{module}")
            self.found[name] = self._defined[name]
            return self.found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)
