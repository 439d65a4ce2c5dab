"""fastgraph.tflite under the names of LiteRT's modules, for packages that one does not edit."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from types import ModuleType

from ..errors import FastgraphError

NAMES = ("tflite_runtime.interpreter", "ai_edge_litert.interpreter")

_before: dict[str, ModuleType | None] = {}
"""What `sys.modules` had under each name before `install`."""


def install(force: bool = False) -> None:
    """Let `tflite_runtime.interpreter` and `ai_edge_litert.interpreter` be fastgraph.tflite in this process, whether
    these packages are installed or not.

    FastgraphError when one of them was imported already, as some module then holds on to it; with `force` it is
    replaced for later imports. `uninstall` undoes it.
    """
    for name in NAMES:
        found = sys.modules.get(name)
        if found is not None and found is not sys.modules[__package__] and not force:
            raise FastgraphError(
                f"{name} was imported already, from {getattr(found, '__file__', None)}, and who did so keeps it: call "
                "fastgraph.tflite.install() before, or install(force=True) for later imports"
            )
    for name in NAMES:
        package = name.partition(".")[0]
        if package not in sys.modules:
            _put(package, _package(package))
        _put(name, sys.modules[__package__])
        vars(sys.modules[package])["interpreter"] = sys.modules[name]


def uninstall() -> None:
    """Take back what `install` did; further imports find the packages themselves, if they are installed."""
    while _before:
        name, module = _before.popitem()
        package = sys.modules.get(name.partition(".")[0])
        if module is not None:
            sys.modules[name] = module
        else:
            sys.modules.pop(name, None)
        if name in NAMES and package is not None:
            vars(package).pop("interpreter", None)
            if module is not None:
                vars(package)["interpreter"] = module


def _put(name: str, module: ModuleType) -> None:
    if name not in _before:
        _before[name] = sys.modules.get(name)
    sys.modules[name] = module


def _package(name: str) -> ModuleType:
    """The package itself where it is installed, else an empty one."""
    try:
        return __import__(name)
    except ImportError:
        spec = ModuleSpec(name, None, is_package=True)
        return module_from_spec(spec)
