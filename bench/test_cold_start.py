"""A whole process, from nothing to the first result: with an empty cache, a warm one, and kernels that came ready."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import zoo

import fastgraph as fg
from fastgraph.kernels.isa.tiers import choose
from fastgraph.tools.bench import cold
from fastgraph.tools.bench.cold import Start, Way, fed_in
from fastgraph.tools.feeds import random_feeds

ROOT = Path(__file__).parents[1]
UNWANTED = {"llvmlite.ir", "fastgraph.kernels.core.build", "onnx"}
"""Modules of which a start without compiling should do without."""

READY = """
import sys
from fastgraph.objects import ready
from fastgraph.tools import kernels
kernels.archive(sys.argv[1:], ready.PATH)
"""


def start(path: str, cache: Path, package: Path = ROOT) -> Start:
    """A process that loads the network and runs it once, with the package that lies in a folder."""
    folder = cache.parent / "feeds"
    folder.mkdir(exist_ok=True)
    fed = fed_in(folder, random_feeds(fg.load(path, threads=1), {}))
    return cold.start(Way("fastgraph", "fastgraph", path, cache), fed, package)


def test_cold_start(benchmark: Any, goal: Any, tmp_path: Path) -> None:
    path, cache = zoo.network("mobilenet_v2"), tmp_path / "cache"
    goal("first load of mobilenet_v2 ever", start(path, cache).seconds, "s", 3.0)
    found: list[Start] = []
    benchmark.pedantic(lambda: found.append(start(path, cache)), rounds=7, warmup_rounds=1)
    imported = {name for each in found for name in UNWANTED & each.modules}
    assert not imported, f"nothing was to be compiled, yet {imported} were imported"
    goal("process start to first result of mobilenet_v2", median(each.seconds for each in found), "s", 0.35)


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
    assert not never.exists() and not any(UNWANTED & each.modules for pair in rounds for each in pair)
    ratio = median(first.seconds / warm.seconds for first, warm in rounds)
    goal("first load of mobilenet_v2 with ready kernels / with a warm cache", ratio, "", 1.05)
