"""What the README shows is run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fastgraph.tools.cli import parser

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    assert blocks("python")
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)


def test_the_commands_are_ones_that_there_are() -> None:
    lines = [line.partition(" #")[0] for block in blocks("sh") for line in block.splitlines()]
    commands = [line for line in lines if line.startswith("fastgraph ")]
    assert commands
    for line in commands:
        parser().parse_args(shlex.split(line)[1:])


def test_the_places_it_names_are_there() -> None:
    named = set(re.findall(r"`((?:fastgraph|kernels|schemas|bench|tests|\.ci)/[\w./*]*)`", README))
    assert len(named) > 15
    for place in named:
        assert list(ROOT.glob(place)), f"README.md names {place}, which is not there"


def test_the_environment_variables_it_names_are_read() -> None:
    said = set(re.findall(r"FASTGRAPH_\w+", README))
    sources = [path for place in ("fastgraph", "bench", "tests") for path in (ROOT / place).rglob("*.py")]
    read = {name for path in sources for name in re.findall(r"FASTGRAPH_\w+", path.read_text(encoding="utf-8"))}
    assert said == read, "every setting is documented, and every documented one exists"
