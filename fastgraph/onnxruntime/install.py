"""fastgraph.onnxruntime under the name `onnxruntime`, for packages whose imports one does not edit."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import FastgraphError
from .state import VERSION

NAME, OURS = "onnxruntime", __package__


class _Distribution(metadata.Distribution):
    """The metadata of the package `onnxruntime` for importlib, where it is not installed itself."""

    def read_text(self, filename: str) -> str | None:
        return f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return Path(__file__).parent / path


class _Finder:
    """Finds that, and no modules."""

    @staticmethod
    def find_spec(*_: Any) -> None:
        return None

    @staticmethod
    def find_distributions(context: Any = None) -> Iterator[metadata.Distribution]:
        if getattr(context, "name", None) in (None, NAME):
            yield _Distribution()


_before: dict[str, ModuleType] | None = None
"""The modules that had the name before; None while nothing is installed."""


def install(force: bool = False) -> None:
    """From now on, `import onnxruntime`, and imports of its submodules, give fastgraph.onnxruntime.

    Where onnxruntime itself is installed, its parts that are written in Python (quantization, transformers, tools) can
    still be imported, and use what is installed here. FastgraphError when onnxruntime was imported already, as some
    module then holds on to it; with `force` it is replaced for later imports. `uninstall` undoes it.
    """
    global _before
    if _before is not None:
        return
    before = _modules()
    if before and not force:
        raise FastgraphError(
            f"onnxruntime was imported already, from {getattr(before.get(NAME), '__file__', None)}, and who did so "
            "keeps it: call fastgraph.onnxruntime.install() before, or install(force=True) for later imports"
        )
    _before = before
    real = PathFinder.find_spec(NAME)
    for name in before:
        del sys.modules[name]
    package = sys.modules[OURS]
    for name in (each.name for each in pkgutil.walk_packages(package.__path__, f"{OURS}.")):
        if not name.endswith("__main__"):
            importlib.import_module(name)
    for name, module in list(sys.modules.items()):
        if name == OURS or name.startswith(f"{OURS}."):
            sys.modules[NAME + name.removeprefix(OURS)] = module
    if real is not None and real.submodule_search_locations:
        package.__path__.extend(real.submodule_search_locations)
    try:
        metadata.version(NAME)
    except metadata.PackageNotFoundError:
        sys.meta_path.append(_Finder)  # type: ignore[arg-type]


def uninstall() -> None:
    """Undo `install`: `import onnxruntime` gives what it gave before. Who has imported it meanwhile keeps it."""
    global _before
    if _before is None:
        return
    for name in _modules():
        del sys.modules[name]
    sys.modules.update(_before)
    del sys.modules[OURS].__path__[1:]
    if _Finder in sys.meta_path:
        sys.meta_path.remove(_Finder)  # type: ignore[arg-type]
    _before = None


def _modules() -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if name == NAME or name.startswith(f"{NAME}.")}
