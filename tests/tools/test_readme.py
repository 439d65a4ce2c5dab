"""What the README shows is run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from fastgraph.tools.cli import main, parser

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


@pytest.mark.slow
def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand there, one after the other, but for the one that compiles all kernels; the machine may be busy."""
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("fastgraph ")]
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        if "--build" not in words:
            assert main(words + ["--allow-noise"] * (words[0] == "bench")) == 0, line


def test_the_environment_variables_it_names_are_read() -> None:
    said = set(re.findall(r"FASTGRAPH_\w+", README))
    sources = [path for place in ("fastgraph", "bench", "tests") for path in (ROOT / place).rglob("*.py")]
    read = {name for path in sources for name in re.findall(r"FASTGRAPH_\w+", path.read_text(encoding="utf-8"))}
    assert said == read, "every setting is documented, and every documented one exists"


def test_the_operators_it_counts_are_those_there_are() -> None:
    from docs.coverage import text
    from docs.pages import part

    assert part("coverage").strip() == text(), "python -m docs counts them"


def test_a_table_of_results_has_a_row_for_each_network() -> None:
    from bench.table import row, text

    def found(name: str, *ratios: float) -> dict[str, Any]:
        own = {"name": "fastgraph", "version": "1", "p50_ms": 2.0}
        names = ("onnxruntime", "openvino")
        peers = [{"name": n, "version": "2", "ratio": r} for n, r in zip(names, ratios, strict=False)]
        away = [{"name": "litert", "unavailable": "other format"}]
        return {"model": f"a/{name}", "isa": "avx2", "arena_bytes": 1_536_000, "engines": [own, *peers, *away]}

    assert row(found("x.onnx", 0.5, 2.0)) == "| x.onnx | 2.000 | 2.00 | 0.50 |  | 1,500 |"
    lines = text([found("x.onnx", 0.5, 2.0), found("y.onnx", 0.125)], "command").splitlines()
    assert lines[4] == "| geometric mean |  | 4.00 | 0.50 |  |  |" and "command" in lines[-1]
