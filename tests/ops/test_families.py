"""The tables of families say where everything is: else it would be missing, or all be imported to look for it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import fastgraph
from fastgraph.families import Families
from fastgraph.ops import OPS
from fastgraph.ops.families import FAMILIES as OPERATORS
from fastgraph.plan.lower import LOWERINGS
from fastgraph.plan.lower.families import FAMILIES as LOWERED

ROOT = Path(fastgraph.__file__).parent

DEFINED = """
import sys
from collections import defaultdict
found = defaultdict(set)

def notice(frame, event, arg):
    if event == "call" and frame.f_code.co_name == "define" and frame.f_code.co_filename.endswith("registry.py"):
        found[frame.f_back.f_globals["__name__"].rpartition(".")[2]].add(frame.f_locals["name"])

sys.setprofile(notice)
from importlib import import_module
for name in {names}:
    import_module("fastgraph.ops." + name)
print({{home: sorted(names) for home, names in found.items()}})
"""


def words(table: Mapping[str, str]) -> dict[str, list[str]]:
    return {module: sorted(names.split()) for module, names in table.items()}


def test_operators_are_where_the_table_says() -> None:
    """Each file's own definitions, and no file is left out."""
    names = sorted(path.stem for path in (ROOT / "ops").glob("*.py") if path.stem != "__init__")
    done = subprocess.run([sys.executable, "-c", DEFINED.format(names=names)], capture_output=True, text=True)
    assert ast.literal_eval(done.stdout or "0") == words(OPERATORS), done.stderr


def test_lowerings_are_where_the_table_says() -> None:
    package = ROOT / "plan" / "lower"
    for path in package.rglob("*.py"):
        import_module(".".join(("fastgraph.plan.lower", *path.relative_to(package).with_suffix("").parts)))
    found: dict[str, set[str]] = {}
    for op, lowerings in LOWERINGS.items():
        for lowering in lowerings:
            home = lowering.emit.__module__.removeprefix("fastgraph.plan.lower.")
            found.setdefault(home, set()).add(op)
    assert {home: sorted(names) for home, names in found.items()} == words(LOWERED)


def test_all_are_found() -> None:
    assert all(op.name == name for name, op in OPS.items())
    assert "relu" in OPS and "no such operator" not in OPS and OPS.get("no such operator") is None
    with pytest.raises(KeyError):
        OPS["no such operator"]


def test_only_those_asked_for_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "a_package_of_families"
    package.mkdir()
    (package / "__init__.py").write_text("defined = {}\n")
    for name, words in {"one": ("a", "b"), "two": ("b", "c"), "three": ()}.items():
        lines = [f"defined.setdefault({word!r}, []).append({name!r})" for word in words]
        (package / f"{name}.py").write_text("\n".join(["from . import defined", *lines]))
    monkeypatch.syspath_prepend(tmp_path)
    defined: dict[str, Any] = import_module(package.name).defined
    table = Families(package.name, {"one": "a b", "two": "b c", "three": "d"}, defined)
    assert list(table) == ["a", "b", "c", "d"] and not defined
    assert table["a"] == ["one"] and f"{package.name}.two" not in sys.modules
    assert table["b"] == ["one", "two"] and table["b"] is defined["b"]
    with pytest.raises(KeyError, match="d"):
        table["d"]
