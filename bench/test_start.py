"""From `import numpy` to the first result, in processes of their own: saved programs and files beside the peers.

Processes of all ways take turns, on one CPU and one thread; medians of 15. RSS is the peak of the process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest
import zoo

import fastgraph as fg

ROOT = Path(__file__).parents[1]
ROUNDS = 15

HEAD = """
from time import perf_counter
begun = perf_counter()
import sys
import numpy as np
imported = perf_counter()
path = sys.argv[1]
"""
OURS = """
import fastgraph as fg
model = fg.load(path, threads=1)
sizes = [[d if isinstance(d, int) else 1 for d in spec.shape] for spec in model.inputs]
model.run({spec.name: np.zeros(dims, spec.dtype) for spec, dims in zip(model.inputs, sizes)})
"""
LITERT = """
from ai_edge_litert.interpreter import Interpreter
net = Interpreter(path, num_threads=1)
net.allocate_tensors()
for each in net.get_input_details():
    net.set_tensor(each["index"], np.zeros(each["shape"], each["dtype"]))
net.invoke()
[net.get_tensor(each["index"]) for each in net.get_output_details()]
"""
ONNXRUNTIME = """
import onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = 1
net = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
net.run(None, {each.name: np.zeros(each.shape, np.float32) for each in net.get_inputs()})
"""
OPENVINO = """
import openvino as ov
core = ov.Core()
net = core.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
net([np.zeros(list(each.shape), np.float32) for each in net.inputs])
"""
TAIL = """
ended = perf_counter()
with open("/proc/self/status") as file:
    peak = next(line for line in file if line.startswith("VmHWM")).split()[1]
print(ended - begun, imported - begun, int(peak) / 1024)
"""


class Start(NamedTuple):
    """Seconds to the first result, those of them that NumPy's import takes; MB of memory at most."""

    seconds: float
    numpy: float
    peak: float


def start(code: str, path: str, cache: Path) -> Start:
    env = {key: text for key, text in os.environ.items() if key not in ("PYTHONDONTWRITEBYTECODE", "FASTGRAPH_CHECK")}
    env |= {"FASTGRAPH_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT), "ORT_DISABLE_TELEMETRY": "1"}
    command = ["taskset", "-c", "0", sys.executable, "-c", HEAD + code + TAIL, path]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True, cwd=ROOT)
    return Start(*map(float, done.stdout.split()))


def medians(ways: Mapping[str, tuple[str, str]], cache: Path) -> dict[str, Start]:
    """Of each way, its code and the path that it is given, in turns after one round that does not count."""
    found: dict[str, list[Start]] = {name: [] for name in ways}
    for number in range(ROUNDS + 1):
        for name, (code, path) in ways.items():
            made = start(code, path, cache)
            found[name] += [made] * (number > 0)
    return {name: Start(*map(median, zip(*each, strict=True))) for name, each in found.items()}


def saved(path: str, folder: Path) -> str:
    """The network as a saved program."""
    place = folder / f"{Path(path).stem}.fgm"
    fg.load(path, threads=1).save(place)
    return str(place)


def said(goal: Any, found: Mapping[str, Start]) -> None:
    for name, each in found.items():
        goal(f"{name}: to the first result", 1000 * each.seconds, "ms")
        goal(f"{name}: without NumPy's import", 1000 * (each.seconds - each.numpy), "ms")
        goal(f"{name}: peak RSS", each.peak, "MB")


@pytest.mark.parametrize("kind", ["f32", "int8"])
def test_against_litert(goal: Any, tmp_path: Path, kind: str) -> None:
    path = zoo.keras("mobilenetv2", kind)
    ways = {".fgm": (OURS, saved(path, tmp_path)), ".tflite": (OURS, path), "LiteRT": (LITERT, path)}
    found = medians(ways, tmp_path / "cache")
    said(goal, {f"mobilenetv2 {kind}, {name}": each for name, each in found.items()})
    goal(f"mobilenetv2 {kind}: .fgm / LiteRT", found[".fgm"].seconds / found["LiteRT"].seconds, "", 1.0)
    goal(f"mobilenetv2 {kind}: peak over LiteRT's", found[".fgm"].peak - found["LiteRT"].peak, "MB", 5.0)


def test_against_the_others(goal: Any, tmp_path: Path) -> None:
    small, large = zoo.network("mobilenet_v2"), zoo.network("resnet50")
    ways = {
        f"{name}, {engine}": (code, path)
        for name, path in (("mobilenet_v2", small), ("resnet50", large))
        for engine, code, path in (
            (".fgm", OURS, saved(path, tmp_path)), (".onnx", OURS, path),
            ("ONNX Runtime", ONNXRUNTIME, path), ("OpenVINO", OPENVINO, path),
        )
    }  # fmt: skip
    found = medians(ways, tmp_path / "cache")
    said(goal, found)
    seconds = {name: each.seconds for name, each in found.items()}
    goal("resnet50 .fgm / mobilenet_v2 .fgm", seconds["resnet50, .fgm"] / seconds["mobilenet_v2, .fgm"], "", 1.1)
    for name in ("mobilenet_v2", "resnet50"):
        goal(f"{name}: .onnx / ONNX Runtime", seconds[f"{name}, .onnx"] / seconds[f"{name}, ONNX Runtime"], "", 1.05)
