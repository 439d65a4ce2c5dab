"""What bench/compare.py and bench/roofline.py print."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import roofline
from fastgraph.kernels.isa.tiers import BY_NAME

SCRIPT = Path(__file__).parents[2] / "bench" / "compare.py"


def save(path: Path, **medians: float) -> None:
    runs = [{"fullname": name, "stats": {"median": median}, "extra_info": {}} for name, median in medians.items()]
    if "conv" in medians:
        runs[0] |= {"stats": {"median": 9.0}, "extra_info": {"median": medians["conv"]}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"benchmarks": runs}))


def run(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *argv], cwd=folder, capture_output=True, text=True, timeout=60)


def test_the_last_two_runs(tmp_path: Path) -> None:
    save(tmp_path / ".benchmarks" / "x" / "0001_a.json", conv=9.0)
    save(tmp_path / ".benchmarks" / "x" / "0002_a.json", conv=2e-3, pool=4e-6, gone=1.0)
    save(tmp_path / ".benchmarks" / "x" / "0003_a.json", conv=1e-3, pool=8e-6, new=1.0)
    done = run(tmp_path)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["conv", "2.000", "ms", "1.000", "ms", "0.500"] in lines
    assert ["pool", "4.000", "us", "8.000", "us", "2.000"] in lines
    assert "new / old: 1.000 (2 benchmarks)" in done.stdout and "gone" not in done.stdout


def test_two_files_of_fastgraph_bench(tmp_path: Path) -> None:
    for name, ms in (("old", 2.0), ("new", 3.0)):
        engines = [{"name": "fastgraph", "p50_ms": ms}, {"name": "litert", "unavailable": "other format"}]
        (tmp_path / name).write_text(json.dumps({"models": [{"model": "a.onnx", "engines": engines}]}))
    done = run(tmp_path, "old", "new")
    assert "a.onnx, fastgraph  2.000 ms  3.000 ms      1.500" in done.stdout and "(1 benchmarks)" in done.stdout


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"models": [1]}'])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "other").write_text(text)
    done = run(tmp_path, "other", "other")
    assert done.returncode == 2 and done.stderr.startswith("error: other: expected what pytest bench saves")


def test_runs_that_share_nothing(tmp_path: Path) -> None:
    save(tmp_path / "a.json", conv=1.0)
    save(tmp_path / "b.json", pool=1.0)
    assert "no benchmark is in both" in run(tmp_path, "a.json", "b.json").stdout


def test_one_run_is_not_enough(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("error: two saved runs")


def test_the_roofline_is_printed(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, figure in (("peak_macs", 7e10), ("peak_macs_int8", 3e11), ("bandwidth", 2e10)):
        monkeypatch.setattr(roofline, name, lambda *_, figure=figure: figure)
    roofline.main(BY_NAME["avx512vnni"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["f32", "70.0", "GMAC/s"] in lines and ["u8", "by", "s8", "300.0", "GMAC/s"] in lines
    assert ["memory,", "1.00", "MiB", "20.0", "GB/s"] in lines
