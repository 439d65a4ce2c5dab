"""What kernels cost to compile: the slowest twenty of a tier, all together; a first load with an empty cache."""

from __future__ import annotations

import lzma
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import pytest
import zoo

from fastgraph.kernels.core.table import kernels_of
from fastgraph.kernels.isa.tiers import BY_NAME, choose
from fastgraph.objects import store

SLOWEST = 20
TIERS = sorted({"generic", "avx2", choose().name})

LOAD = """
import sys
import numpy as np
import fastgraph as fg
path, *dims = sys.argv[1:]
model = fg.load(path, shapes={"x": [int(n) for n in dims]} if dims else None)
model.run({spec.name: np.zeros(spec.shape, spec.dtype) for spec in model.inputs})
"""


@pytest.mark.parametrize("name", TIERS)
def test_all_kernels(name: str, benchmark: Any, goal: Any) -> None:
    """CPU seconds of this process, one kernel after the other. The machine need not be able to run them."""
    tier = BY_NAME[name]
    store.compiled(kernels_of(tier)[0], tier)
    seconds, objects = {}, []

    def compile_all() -> None:
        for kernel in kernels_of(tier):
            began = process_time()
            objects.append(store.compiled(kernel, tier))
            seconds[str(kernel)] = process_time() - began

    benchmark.pedantic(compile_all, rounds=1)
    for kernel in sorted(seconds, key=seconds.__getitem__, reverse=True)[:SLOWEST]:
        goal(f"compile {kernel}, {name}"[:90], seconds[kernel], "s", 0.5)
    goal(f"compile all {len(objects)} kernels, {name}", sum(seconds.values()), "s")
    goal(f"kernels of {name}", len(objects), "", 400)
    goal(f"their objects, {name}", sum(map(len, objects)) / 1e6, "MB")
    goal(f"their objects in one .xz, {name}", len(lzma.compress(b"".join(objects), preset=9)) / 1e6, "MB")


@pytest.mark.parametrize(
    ("name", "shape", "most"), [("mobilenet_v2", (), 3.0), ("ch_PP-OCRv4_det_infer", (1, 3, 640, 640), 5.0)]
)
def test_first_load(name: str, shape: tuple[int, ...], most: float, benchmark: Any, goal: Any, tmp_path: Path) -> None:
    """A process with an empty cache, from its start to the first result; the goals are for two CPUs that are idle."""
    path, seconds = zoo.network(name), []

    def first() -> None:
        folder = tmp_path / str(len(seconds))
        env = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        command = [sys.executable, "-c", LOAD, path, *map(str, shape)]
        began = perf_counter()
        subprocess.run(command, env=env | {"FASTGRAPH_CACHE_DIR": str(folder)}, check=True)
        seconds.append(perf_counter() - began)

    benchmark.pedantic(first, rounds=3)
    goal(f"first load ever of {name}", sorted(seconds)[len(seconds) // 2], "s", most)
