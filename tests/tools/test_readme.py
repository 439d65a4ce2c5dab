"""What the README shows is run."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from bench import table
from fastgraph.cli import main, parser
from fastgraph.demo import MODEL

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


def result(
    name: str, *ratios: float, disturbed: int = 0, noisy: bool = False, shared: int = 0, kept: str = "rounds"
) -> dict[str, Any]:
    own = {"name": "fastgraph", "version": "1", "p50_ms": 2.0}
    names = ("onnxruntime", "openvino")
    peers = [{"name": n, "version": "2", "ratio": r, "p50_ms": 2 / r} for n, r in zip(names, ratios, strict=False)]
    away = [{"name": "litert", "unavailable": "other format"}]
    disturbance = {"rounds": 40, "disturbed": disturbed, "noisy": noisy, "shared": shared, "kept": kept}
    known = {"model": f"a/{name}", "isa": "avx2", "threads": 1, "arena_bytes": 1_536_000, "least_us": 1500.0}
    return known | {"disturbance": disturbance, "engines": [own, *peers, *away]}


def test_a_table_of_results_has_a_row_for_each_network() -> None:
    assert table.row(result("x.onnx", 0.5, 2.0)) == "| x.onnx | 2.00 | 75% | 0.50 (4.00) | 2.00 (1.00) |  | 1,500 |"
    found = table.text([result("x.onnx", 0.5, 2.0, disturbed=3), result("y.onnx", 0.125)], "command")
    assert found.splitlines()[4] == "| geometric mean |  |  | 0.25 | 2.00 |  |  |" and found.endswith("`command`")
    assert "3 of 80 rounds were disturbed" in found and "NOISY" not in found
    many = [result("x.onnx", 0.5, shared=9), *(result(k, 0.5, shared=40, kept=k) for k in ("all", "bursts"))]
    found = table.text(many, "command")
    assert "So were 89," in found and "Of bursts, quiet bursts" in found and "for the figures of all," in found
    assert "NOISY: those of x.onnx" in table.text([result("x.onnx", 0.5, disturbed=39, noisy=True)], "command")


def test_a_table_is_written_where_it_is_asked_for(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = {"rounds": 9, "disturbed": 9, "cpu_share": 0.5, "switches_a_round": 7, "stolen_seconds": 0.0, "load": 1.0}
    busy |= {"shared": 0, "kept": "all"}
    written: list[str] = []
    monkeypatch.setattr(table, "put", lambda name, text: written.append(text))
    monkeypatch.setattr(table, "compare", lambda path, *_, **__: result(path, 0.5))
    model = str(MODEL)
    assert table.main([model]) == 0 and not written
    out, err = capsys.readouterr()
    assert "| 0.50 (4.00) |" in out and f"python -m bench.table --write {model}" in err
    assert table.main(["--write", model]) == 0 and "| 0.50 (4.00) |" in written.pop()
    noisy = result(model, 0.5) | {"disturbance": busy | {"noisy": True, "watched": True}}
    monkeypatch.setattr(table, "compare", lambda *_, **__: noisy)
    assert table.main(["--write", model]) == 3 and not written and "not measurable here" in capsys.readouterr().err
    assert table.main(["--write", "--allow-noise", model]) == 0 and "NOISY" in written.pop()
    assert table.main(["no/such.onnx"]) == 2
    with pytest.raises(SystemExit, match="0"):
        table.main(["--help"])
    assert "prints it" in capsys.readouterr().out and not written
