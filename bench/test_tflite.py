"""Networks of TensorFlow Lite on one thread against LiteRT and OpenVINO: of float32, of int8, and of float activations
with int8 weights.
"""

from __future__ import annotations

from typing import Any

import pytest
import rivals
import zoo

SMALL = tuple(name for name in zoo.TINY if name != "kws_dscnn")
"""kws_dscnn_fp32 has int8 weights."""

RACES: dict[str, tuple[list[tuple[str, str]], float, float]] = {
    "int8": ([(name, "int8") for name in zoo.KERAS], 1.0, 0.7),
    "MLPerf Tiny int8": ([(name, "int8") for name in zoo.TINY], 1.0, 0.5),
    "float32": ([*((name, "f32") for name in zoo.KERAS), *((name, "fp32") for name in SMALL)], 1.1, 0.95),
    "dynamic range": ([*((name, "dynamic") for name in zoo.KERAS), ("kws_dscnn", "fp32")], 1.0, 0.7),
}
"""Networks; the most that one may take of the quicker peer's time, and their mean."""

ratios: dict[str, list[float]] = {race: [] for race in RACES}


@pytest.mark.parametrize("race, name, kind", [(race, *each) for race, (nets, *_) in RACES.items() for each in nets])
def test_network(benchmark: Any, goal: Any, race: str, name: str, kind: str) -> None:
    path = zoo.keras(name, kind) if name in zoo.KERAS else zoo.tiny(name, kind)
    ratios[race].append(rivals.race(benchmark, goal, f"{name} {race}", path, RACES[race][1]))


@pytest.mark.parametrize("race", RACES)
def test_geometric_mean(goal: Any, race: str) -> None:
    rivals.note_mean(goal, race, ratios[race], len(RACES[race][0]), RACES[race][2])
