"""A whole process, from nothing to the first result: with an empty cache, a warm one, and kernels that came ready."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
import zoo

from fastgraph.kernels.isa.tiers import choose

ROOT = Path(__file__).parents[1]
CODE = """
import sys
import numpy as np
import fastgraph as fg
model = fg.load(sys.argv[1], threads=1)
out = model.run({spec.name: np.zeros(spec.shape, np.float32) for spec in model.inputs})
assert all(np.isfinite(array).all() for array in out.values())
print(*(name for name in ("llvmlite.ir", "fastgraph.kernels.core.build", "onnx") if name in sys.modules))
"""


READY = """
import sys
from fastgraph.objects import ready
from fastgraph.tools import kernels
kernels.archive(sys.argv[1:], ready.PATH)
"""


def start(path: str, cache: Path, package: Path = ROOT) -> tuple[float, list[str]]:
    """Seconds of a process that loads the network and runs it once, with the package that lies in a folder; which
    modules it should have done without.

    Python may keep bytecode, as it does unless told not to.
    """
    env = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    begun = perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CODE, path],
        cwd=package, env=env | {"FASTGRAPH_CACHE_DIR": str(cache), "PYTHONPATH": str(package)},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return perf_counter() - begun, done.stdout.split()


def test_cold_start(benchmark: Any, goal: Any, tmp_path: Path) -> None:
    path = zoo.network("mobilenet_v2")
    first, _ = start(path, tmp_path)
    goal("first load of mobilenet_v2 ever", first, "s", 3.0)
    seconds, imported = [], set()

    def again() -> None:
        took, modules = start(path, tmp_path)
        seconds.append(took)
        imported.update(modules)

    benchmark.pedantic(again, rounds=7, warmup_rounds=1)
    assert not imported, f"nothing was to be compiled, yet {imported} were imported"
    goal("process start to first result of mobilenet_v2", sorted(seconds)[len(seconds) // 2], "s", 0.35)


def with_ready_kernels(folder: Path) -> Path:
    """The folder of a package as a wheel with ready kernels of this CPU's tier installs it."""
    shutil.copytree(ROOT / "fastgraph", folder / "fastgraph", ignore=shutil.ignore_patterns("__pycache__"))
    env = os.environ | {"PYTHONPATH": str(folder)}
    subprocess.run([sys.executable, "-c", READY, choose().name], cwd=folder, env=env, check=True)
    compileall.compile_dir(folder, quiet=1)
    return folder


def test_first_load_with_ready_kernels(goal: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In turns with one of a warm cache: no first load writes any, so each is one again. Both make their plans."""
    monkeypatch.setenv("FASTGRAPH_PLAN_CACHE", "0")
    path, never = str(Path(zoo.network("mobilenet_v2")).absolute()), tmp_path / "never"
    pure, ready = tmp_path / "pure", with_ready_kernels(tmp_path / "ready")
    shutil.copytree(ready, pure, ignore=shutil.ignore_patterns("ready.objects"))
    start(path, tmp_path / "warm", pure)
    rounds = [(start(path, never, ready), start(path, tmp_path / "warm", pure)) for _ in range(9)]
    assert not never.exists() and not any(modules for pair in rounds for _, modules in pair)
    ratios = sorted(first[0] / warm[0] for first, warm in rounds)
    goal("first load of mobilenet_v2 with ready kernels / with a warm cache", ratios[len(ratios) // 2], "", 1.05)
