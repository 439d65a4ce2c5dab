"""`fastgraph digits`: classify the held-out digits one by one, say how well and how fast."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from .. import disturbance
from ..errors import writing
from ..kernels.isa.tiers import NUMPY
from ..loading import load
from ..plan.describe import kernel_counts
from ..runtime.model import Model
from ..text import bytes_text, counted, table
from . import MODEL, held_out

PASSES = 9
"""Times that the digits are classified against the clock; before, they are once to be checked."""
COMPILING = "fastgraph.objects.workers"
"""The module that is imported only where a kernel is compiled."""
NEEDED = 3
"""Of the passes, that other programs did not disturb: else all count, and `text` says so."""


def classify(threads: int = 1, isa: str | None = None) -> dict[str, Any]:
    """Accuracy (0..1), latency p50 and p99 of `model.run` in microseconds, arena bytes, kernels with their steps; what
    disturbed the passes, as `disturbance.report` has it; `compiled`: whether this process compiled its first kernels.
    """
    start, idle = perf_counter(), COMPILING not in sys.modules
    model = load(MODEL, threads=threads, isa=isa)
    loaded = perf_counter() - start
    images, labels = held_out()
    found = [int(model.run({"image": image})["probabilities"].argmax()) for image in images]
    passes, usage = [], []
    for _ in range(PASSES):
        before = disturbance.now()
        passes.append(_timed(model.run, images))
        usage.append([disturbance.now() - before])
    p50, p99 = np.percentile([passes[i] for i in disturbance.kept(usage, NEEDED)[0]], [50, 99]) * 1e6
    return {
        "digits": len(labels),
        "right": int(np.sum(np.array(found) == labels)),
        "accuracy": float(np.mean(np.array(found) == labels)),
        "p50_us": float(p50),
        "p99_us": float(p99),
        "disturbance": disturbance.report(usage, NEEDED),
        "load_seconds": loaded,
        "compiled": idle and COMPILING in sys.modules,
        "arena_bytes": model.arena_bytes,
        "isa": model.tier.name,
        "threads": threads,
        "steps": len(model.plan.program.steps),
        "kernels": kernel_counts(model.plan.program),
        "saved": None if model.tier is NUMPY else saved(model),
    }


def _timed(run: Callable[[dict[str, np.ndarray]], Any], images: np.ndarray) -> list[float]:
    seconds = []
    for image in images:
        start = perf_counter()
        run({"image": image})
        seconds.append(perf_counter() - start)
    return seconds


ALONE = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite", "google", "flatbuffers"):
            raise ImportError(f"{name} is not to be imported")

sys.meta_path.insert(0, Missing())
import numpy as np
from time import perf_counter
start = perf_counter()
import fastgraph as fg
model = fg.load(sys.argv[1], trusted=True)
result = model.run({"image": np.load(sys.argv[2])})["probabilities"]
print(perf_counter() - start, int(result.argmax()))
"""
"""A program of its own, which has NumPy and no compiler."""


def saved(model: Model) -> dict[str, Any]:
    """The model saved as a program, and run by a process that has NumPy alone: bytes, seconds to save it, seconds from
    the import of fastgraph to the first result, and whether that is this model's.
    """
    image = held_out()[0][0]
    with TemporaryDirectory() as folder:
        files = os.path.join(folder, "digits.fgm"), os.path.join(folder, "image.npy")
        np.save(files[1], image)
        start = perf_counter()
        model.save(files[0])
        took, nbytes = perf_counter() - start, os.path.getsize(files[0])
        env = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}
        done = subprocess.run(
            [sys.executable, "-c", ALONE, *files], check=True, capture_output=True, text=True, env=env
        )
    seconds, label = done.stdout.split()
    same = int(label) == int(model(image).argmax())
    return {"bytes": nbytes, "save_seconds": took, "first_result_seconds": float(seconds), "same": same}


def save(folder: str) -> list[Path]:
    """Write the network, one held-out digit and the names of the classes into a folder; the files."""
    made = [Path(folder, name) for name in ("digits.onnx", "image.npy", "labels.txt")]
    names = "zero\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n"
    with writing(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
        made[0].write_bytes(MODEL.read_bytes())
        np.save(made[1], held_out()[0][0])
        made[2].write_text(names, encoding="utf-8")
    return made


def text(result: dict[str, Any]) -> str:
    """The result of `classify`, for people."""
    kernels = ", ".join(f"{count} {name}" for name, count in result["kernels"].items())
    threads = counted(result["threads"], "thread")
    compiled = ": this first time with kernels that were compiled for this CPU" if result["compiled"] else ""
    rows = [
        ("accuracy", f"{result['accuracy']:.2%} ({result['right']} of {result['digits']} held-out digits)"),
        ("latency", f"p50 {result['p50_us']:.1f} us, p99 {result['p99_us']:.1f} us, one digit a run, {threads}"),
        ("arena", bytes_text(result["arena_bytes"])),
        ("kernels", f"{kernels} ({result['isa']})"),
        ("loading", f"{result['load_seconds']:.2f} s{compiled}"),
    ]
    if each := result["saved"]:
        rows.append(("saved", f"a program of {bytes_text(each['bytes'])}, in {each['save_seconds']:.2f} s"))
        first = f"{1e3 * each['first_result_seconds']:.0f} ms from the import of fastgraph to the first result"
        rows.append(("NumPy alone", f"{first}{'' if each['same'] else ', WHICH IS ANOTHER'}"))
    if result["disturbance"]["noisy"]:
        rows.insert(2, ("", f"the latency means little: {disturbance.text(result['disturbance'])}"))
    return "\n".join(table(rows))
