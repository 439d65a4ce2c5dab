"""bench/compare.py on two saved runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "bench" / "compare.py"


def save(path: Path, **medians: float) -> None:
    runs = [{"fullname": name, "stats": {"median": median}} for name, median in medians.items()]
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


def test_one_run_is_not_enough(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("error: two saved runs")
