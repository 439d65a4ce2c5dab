"""Text for people: numbers of things."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fastgraph.cli import main
from fastgraph.text import counted
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
