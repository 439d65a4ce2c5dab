"""The catalogs say where everything is: else it would be missing, or all be imported to look for it."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fastgraph.families import Families
from fastgraph.ops import OPS
from tests.processes import python


def test_catalogs_are_those_of_the_sources() -> None:
    """Of operators, lowerings and rules; in a process that has imported none of them."""
    python("-m", "docs.catalog", "--check")


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
