"""A whole process, from nothing to the first result: with the kernels at hand, and with an empty cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import zoo

CODE = """
import sys
import numpy as np
import fastgraph as fg
model = fg.load(sys.argv[1], threads=1)
out = model.run({spec.name: np.zeros(spec.shape, np.float32) for spec in model.inputs})
assert all(np.isfinite(array).all() for array in out.values())
print(*(name for name in ("llvmlite.ir", "fastgraph.kernels.core.build", "onnx") if name in sys.modules))
"""


def start(path: str, cache: Path) -> tuple[float, list[str]]:
    """Seconds of a process that loads the network and runs it once; which modules it should have done without.

    Python may keep bytecode, as it does unless told not to.
    """
    env = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    begun = perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CODE, path],
        env=env | {"FASTGRAPH_CACHE_DIR": str(cache)},
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
