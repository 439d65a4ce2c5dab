"""From the start of a process to the first result: saved programs and files beside the peers.

Processes of all ways take turns, on one CPU and one thread; medians of 15. RSS is the peak of the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
import rivals
import zoo

import fastgraph as fg
from fastgraph.tools.bench import pinned
from fastgraph.tools.bench.cold import Start, Way, fed_in, measured

ROUNDS = 15


def starts(ways: Sequence[Way], folder: Path) -> dict[str, list[Start]]:
    """Of ways that load one network, by name: those that were left alone. They are fed zeros."""
    specs = fg.load(ways[0].path, threads=1).inputs
    sizes = [[d if isinstance(d, int) else 1 for d in spec.shape] for spec in specs]
    feeds = {spec.name: np.zeros(dims, spec.dtype) for spec, dims in zip(specs, sizes, strict=True)}
    with pinned(1):
        kept, _, report = measured(ways, fed_in(folder, feeds), ROUNDS)
    rivals.left_alone(report)
    return {way.name: [each.starts[i] for each in kept] for i, way in enumerate(ways)}


def seconds(found: Sequence[Start]) -> float:
    return median(each.seconds for each in found)


def peak(found: Sequence[Start]) -> float:
    return median(each.peak or 0.0 for each in found)


def saved(path: str, folder: Path) -> str:
    """The network as a saved program."""
    place = folder / f"{Path(path).stem}.fgm"
    fg.load(path, threads=1).save(place)
    return str(place)


def said(goal: Any, label: str, found: Mapping[str, Sequence[Start]]) -> None:
    for name, each in found.items():
        goal(f"{label}, {name}: to the first result", 1000 * seconds(each), "ms")
        imports = 1000 * median(sum(one.parts[:2]) for one in each)
        goal(f"{label}, {name}: without Python's start and NumPy's import", 1000 * seconds(each) - imports, "ms")
        goal(f"{label}, {name}: peak RSS", peak(each), "MB")


@pytest.mark.parametrize("kind", ["f32", "int8"])
def test_against_litert(goal: Any, tmp_path: Path, kind: str) -> None:
    path, cache = zoo.keras("mobilenetv2", kind), tmp_path / "cache"
    ways = [
        Way(".fgm", "fastgraph", saved(path, tmp_path), cache), Way(".tflite", "fastgraph", path, cache),
        Way("LiteRT", "litert", path, None),
    ]  # fmt: skip
    label, found = f"mobilenetv2 {kind}", starts(ways, tmp_path)
    said(goal, label, found)
    goal(f"{label}: .fgm / LiteRT", seconds(found[".fgm"]) / seconds(found["LiteRT"]), "", 1.0)
    goal(f"{label}: peak over LiteRT's", peak(found[".fgm"]) - peak(found["LiteRT"]), "MB", 5.0)


def test_against_the_others(goal: Any, tmp_path: Path) -> None:
    programs: dict[str, float] = {}
    for name in ("mobilenet_v2", "resnet50"):
        path, cache = zoo.network(name), tmp_path / "cache"
        ways = [
            Way(".fgm", "fastgraph", saved(path, tmp_path), cache), Way(".onnx", "fastgraph", path, cache),
            Way("ONNX Runtime", "onnxruntime", path, None), Way("OpenVINO", "openvino", path, None),
        ]  # fmt: skip
        found = starts(ways, tmp_path)
        said(goal, name, found)
        programs[name] = seconds(found[".fgm"])
        goal(f"{name}: .onnx / ONNX Runtime", seconds(found[".onnx"]) / seconds(found["ONNX Runtime"]), "", 1.05)
    goal("resnet50 .fgm / mobilenet_v2 .fgm", programs["resnet50"] / programs["mobilenet_v2"], "", 1.1)
