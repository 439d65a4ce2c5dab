"""Which file defines which operators, lowerings and rules: catalogs that are made by importing all of them, so that a
process that runs a model imports only what its operators need.

python -m docs.catalog            # writes them; a test holds them against the sources
python -m docs.catalog --check    # says whether they are up to date
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any
from unittest.mock import patch

from docs.imports import ROOT

PLACES = {
    "rules": "fastgraph/rules/catalog.py",
    "ops": "fastgraph/ops/catalog.py",
    "lower": "fastgraph/plan/lower/catalog.py",
}
"""Where each catalog is written."""
EXTRAS = "extras"
"""Rare features: operators, rules and lowerings, a file for each."""


def texts() -> dict[str, str]:
    """The text of each catalog by its path; of a process that has imported none of the files."""
    made = {"ops": _operators(), "lower": _lowerings(), "rules": _rules()}
    return {PLACES[name]: _text(*parts) for name, parts in made.items()}


def _text(what: str, index: Mapping[str, Any]) -> str:
    lines = [f'"""{what}. Written by `python -m docs.catalog`."""', "", "CATALOG = {"]
    for key, entry in index.items():
        inner = [f'"{name}": "{words}"' for name, words in entry.items()] if isinstance(entry, dict) else []
        if len(inner) > 1:
            lines += [f'    "{key}": {{', *(f"        {line}," for line in inner), "    },"]
        else:
            lines.append(f'    "{key}": {{{inner[0]}}},' if inner else f'    "{key}": "{entry}",')
    return "\n".join([*lines, "}", ""])


def _modules(package: str) -> Iterator[ModuleType]:
    """All modules of a package, imported."""
    root = import_module(f"fastgraph.{package}")
    for found in walk_packages(root.__path__, f"{root.__name__}."):
        yield import_module(found.name)


def _rules() -> tuple[str, dict[str, Any]]:
    from fastgraph.rules.rule import ANY

    index: dict[str, Any] = {}
    for module in (*_modules("passes"), *_modules(EXTRAS)):
        for function in vars(module).values():
            if getattr(function, "__module__", "") != module.__name__ or not hasattr(function, "phases"):
                continue
            name = f"{module.__name__.partition('.')[2]}.{function.__name__}"
            named = bool(function.sees) and all(isinstance(each, str) for each in function.sees)
            for phase in function.phases:
                index.setdefault(phase, {})[name] = " ".join(sorted(function.sees)) if named else ANY
    return "Rules by phase, and the operators that each sees", index


def _lowerings() -> tuple[str, dict[str, str]]:
    from fastgraph.plan.lower import registry

    list(_modules("plan.lower")), list(_modules(EXTRAS))
    homes: dict[str, dict[str, None]] = {}
    for name, lowerings in registry._defined.items():
        for lowering in lowerings:
            homes.setdefault(lowering.emit.__module__.removeprefix("fastgraph."), {})[name] = None
    return "Which file lowers which operators", _words(homes)


def _operators() -> tuple[str, dict[str, str]]:
    from fastgraph.ops import registry

    homes, define = dict[str, dict[str, None]](), registry.define

    def noted(name: str, *parts: Any, **facts: Any) -> None:
        homes.setdefault(_importing().removeprefix("fastgraph."), {})[name] = None
        define(name, *parts, **facts)

    with patch.object(registry, "define", noted):
        list(_modules("ops")), list(_modules(EXTRAS))
    return "Which file defines which operators", _words(homes)


def _words(homes: Mapping[str, Iterable[str]]) -> dict[str, str]:
    return {module: " ".join(names) for module, names in sorted(homes.items())}


def _importing() -> str:
    """The module that is being imported."""
    frame = sys._getframe(2)
    while frame.f_code.co_name != "<module>":
        assert frame.f_back is not None
        frame = frame.f_back
    return str(frame.f_globals["__name__"])


if __name__ == "__main__":
    for path, text in texts().items():
        if "--check" not in sys.argv:
            (ROOT / path).write_text(text, encoding="utf-8")
        elif (ROOT / path).read_text(encoding="utf-8") != text:
            sys.exit(f"{path} is not what `python -m docs.catalog` makes of the sources")
