"""Text for people: numbers of things, tables as wide as the terminal."""

import re
from pathlib import Path
from typing import Any

import pytest

from fastgraph.cli import main
from fastgraph.demo import MODEL
from fastgraph.text import counted, table
from tests.nets import Net


@pytest.fixture
def small(tmp_path: Path) -> str:
    """One operator, one input, one output."""
    net = Net()
    net.output(net("Relu", net.input("x", (1, 3))))
    path = tmp_path / "net.onnx"
    path.write_bytes(net.bytes())
    return str(path)


def test_counts() -> None:
    assert [counted(n, "step") for n in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]


@pytest.mark.parametrize("words", [
    ["inspect", "M"], ["run", "M", "--random", "--repeat", "1"], ["profile", "M", "--runs", "1"], ["verify", "M"],
    ["compare", "M", "M", "--layers"], ["bench", "M", "--runs", "1", "--allow-noise"], ["inspect", "--host", "M"],
])  # fmt: skip
def test_one_thing_is_not_many(capsys: Any, small: str, words: list[str]) -> None:
    threads = [] if "--host" in words else ["--threads", "1"]
    assert main([small if word == "M" else word for word in words] + threads) == 0
    out = capsys.readouterr().out
    assert not re.search(r"(?<![\d.,])1 [a-z]+s\b", out.replace("1 us", "")), out


ROWS = [("op", "name", "us", "kernel"), ("conv", "/block/0/conv", "12.5", "winograd(m=4,tall=False)")]


def test_tables_get_narrower_by_shorter_cells_then_by_fewer_columns() -> None:
    def lines(width: int) -> list[str]:
        return table(ROWS, (2,), width, {1: 9, 3: 12}, drop=(1, 2), begins=(3,))

    assert lines(80)[1] == "conv  /block/0/conv  12.5  winograd(m=4,tall=False)"
    assert lines(45)[1] == "conv  /block/0/conv  12.5  winograd(m=4,tall…"
    assert lines(35)[1] == "conv  /blo…conv  12.5  winograd(m=…"
    assert lines(34)[1] == "conv  12.5  winograd(m=4,tall=Fal…"
    assert lines(20)[1] == "conv  winograd(m=4,…"
    assert lines(9)[1] == "conv  winograd(m=…", "what can't be left out stays"


@pytest.mark.parametrize("width", [50, 60, 80, 100])
@pytest.mark.parametrize("words", [
    ["inspect", "M"], ["run", "M", "--random", "--repeat", "1"], ["profile", "M", "--runs", "1"],
    ["profile", "M", "--runs", "1", "--by", "op"], ["verify", "M"], ["compare", "M", "M", "--layers"],
    ["bench", "M", "--runs", "1", "--allow-noise"],
])  # fmt: skip
def test_tables_fit_narrow_terminals(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, words: list[str], width: int
) -> None:
    """Lines of tables: those with two blanks between words; sentences wrap."""
    monkeypatch.setenv("COLUMNS", str(width))
    assert main([str(MODEL) if word == "M" else word for word in words]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if re.search(r"\S  +\S", line)]
    rows = [line for line in rows if not line.startswith("kernels  ")]
    assert rows and max(map(len, rows)) <= width, rows
