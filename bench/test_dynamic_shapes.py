"""Inputs of any size, as they come: calls one after the other, the first of each shape among them, beside onnxruntime
and OpenVINO. Kernels are in the cache: a process before this one has planned for all shapes.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import zoo
from zoo.opened import WORDS, encoder, with_open_batch

import fastgraph as fg
from fastgraph import disturbance
from fastgraph.tools.agreement import TOLERANCE
from fastgraph.tools.bench import pinned

Shape = tuple[int, ...]
Feeds = Mapping[str, np.ndarray]
Call = Callable[[Feeds], list[np.ndarray]]

PLAN_ALL = """
import ast, sys
import fastgraph as fg
model = fg.load(sys.argv[1], threads=1)
for shapes in ast.literal_eval(sys.stdin.read()):
    model.resize(shapes)
"""


@dataclass(frozen=True)
class Case:
    """A network, the shapes of its calls in order, what it is fed, and the most milliseconds that a shape which is new
    may take beyond its run.
    """

    make: Callable[[Path], str]
    shapes: list[Shape]
    feeds: Callable[[Shape], dict[str, np.ndarray]]
    most: float | None = None


def drawn(count: int, shape: Callable[[random.Random], Shape]) -> list[Shape]:
    rng = random.Random(0)
    return [shape(rng) for _ in range(count)]


def image(name: str) -> Callable[[Shape], dict[str, np.ndarray]]:
    return lambda shape: {name: np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)}


def words(shape: Shape) -> dict[str, np.ndarray]:
    return {"ids": np.random.default_rng(sum(shape)).integers(0, WORDS, shape), "mask": np.ones(shape, np.int64)}


CASES = {
    "PP-OCR detection": Case(
        lambda _: zoo.ocr("det"), drawn(200, lambda r: (1, 3, 32 * r.randint(5, 23), 32 * r.randint(5, 23))),
        image("x"), 150.0),
    "PP-OCR recognition": Case(
        lambda _: zoo.ocr("rec"), drawn(200, lambda r: (1, 3, 48, r.randint(48, 640))), image("x")),
    "text encoder": Case(
        lambda folder: encoder(folder / "encoder.onnx"), random.Random(0).sample([(1, t) for t in range(1, 257)], 256),
        words),
    "mobilenet_v2": Case(
        lambda folder: with_open_batch(zoo.network("mobilenet_v2"), folder / "opened.onnx"),
        [(n, 3, 224, 224) for n in range(1, 33)], image("input"), 60.0),
}  # fmt: skip


def by_fastgraph(path: str) -> Call:
    model = fg.load(path, threads=1, plans=fg.Plans(bytes="2GiB"))
    return lambda feeds: list(model.run(feeds).values())


def by_onnxruntime(path: str) -> Call:
    ort = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda feeds: list(session.run(None, dict(feeds)))


def by_openvino(path: str) -> Call:
    ov = import_module("openvino")
    config = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
              "INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False}  # fmt: skip
    compiled = ov.Core().compile_model(path, "CPU", config)
    request, outputs = compiled.create_infer_request(), range(len(compiled.outputs))

    def call(feeds: Feeds) -> list[np.ndarray]:
        request.infer(dict(feeds))
        return [request.get_output_tensor(i).data.copy() for i in outputs]

    return call


ENGINES = {"fastgraph": by_fastgraph, "onnxruntime": by_onnxruntime, "openvino": by_openvino}


def timed(call: Call, feeds: Feeds) -> float:
    """Milliseconds; NaN when other programs disturbed."""
    before, begun = disturbance.now(), perf_counter()
    call(feeds)
    ms = 1e3 * (perf_counter() - begun)
    return np.nan if disturbance.disturbed([disturbance.now() - before]) else ms


@pytest.mark.parametrize("name", CASES)
def test_any_size(goal: Any, name: str, tmp_path: Path) -> None:
    case = CASES[name]
    path = case.make(tmp_path)
    every = [{key: array.shape for key, array in case.feeds(shape).items()} for shape in case.shapes]
    subprocess.run([sys.executable, "-c", PLAN_ALL, path], input=repr(every), text=True, check=True)
    results: dict[str, list[np.ndarray]] = {}
    with pinned(1):
        for engine, make in ENGINES.items():
            try:
                call = make(path)
            except ImportError:
                continue
            measure(goal, f"{name}, {engine}", case, call, case.most if engine == "fastgraph" else None)
            results[engine] = [array for shape in case.shapes[:4] for array in call(case.feeds(shape))]
    for engine, found in results.items():
        for one, other in zip(found, results["fastgraph"], strict=True):
            assert np.abs(one - other).max() <= TOLERANCE * max(1.0, float(np.abs(one).max())), engine


def measure(goal: Any, label: str, case: Case, call: Call, most: float | None) -> None:
    """All calls in order, of which the first of a shape takes longer; then some shapes again, not the very first."""
    calls: list[float] = []
    firsts: dict[Shape, float] = {}
    for shape in case.shapes:
        calls.append(timed(call, case.feeds(shape)))
        firsts.setdefault(shape, calls[-1])
    later = {shape: np.fmin.reduce([timed(call, case.feeds(shape)) for _ in range(3)]) for shape in list(firsts)[1::8]}
    p50, p99 = np.nanpercentile(calls, [50, 99])
    goal(f"{label}: p50 of {np.isfinite(calls).sum()} calls", p50, "ms")
    goal(f"{label}: p99 of them", p99, "ms")
    new = np.nanmedian([firsts[shape] - later[shape] for shape in later])
    goal(f"{label}: what a new shape costs, the median", new, "ms", most)
    goal(f"{label}: a shape again, the median", np.nanmedian(list(later.values())), "ms")
