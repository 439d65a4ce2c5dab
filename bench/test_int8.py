"""Int8 networks on one thread: without AMX against OpenVINO, and against their own float32 versions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import rivals
import zoo

import fastgraph as fg
from fastgraph.kernels.isa.tiers import usable
from fastgraph.tools.bench import measure, pinned
from fastgraph.tools.engines import fastgraph
from fastgraph.tools.feeds import random_feeds

ratios_below_amx: list[float] = []


@pytest.mark.skipif("amx" not in [tier.name for tier in usable()], reason="this CPU has no AMX: nothing to switch off")
@pytest.mark.parametrize("name", zoo.KERAS)
def test_network_without_amx(goal: Any, name: str) -> None:
    """In a process of its own, because oneDNN reads its limit once. LiteRT has no such limit and stays out."""
    command = ["bench", zoo.keras(name, "int8"), "--isa", "avx512vnni", "--against", "openvino"]
    command += ["--allow-noise", "--json", "-"]
    env = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"}
    done = subprocess.run([sys.executable, "-m", "fastgraph", *command], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["models"][0]
    ratios_below_amx.append(rivals.noted(goal, f"{name} int8 without AMX", found, 1.0))


def test_geometric_mean_without_amx(goal: Any) -> None:
    rivals.note_mean(goal, "int8 without AMX", ratios_below_amx, len(zoo.KERAS), 0.9)


@pytest.mark.parametrize("name", [*zoo.KERAS, *zoo.TINY])
def test_int8_is_no_slower_than_float32(goal: Any, name: str) -> None:
    of, wide = (zoo.keras, "f32") if name in zoo.KERAS else (zoo.tiny, "fp32")
    engines = []
    with pinned(1):
        for kind in ("int8", wide):
            path = of(name, kind)
            engines.append(fastgraph(path, random_feeds(fg.load(path, threads=1), {}), 1))
        found = measure(engines, 2.0)
    rivals.left_alone(found.disturbance)
    narrow = np.median([np.median(burst) for burst in found.times[0]])
    goal(f"{name}: int8 {narrow * 1e3:.4f} ms, of float32", found.ratio(0, 1)[0], "x", 1.0)
