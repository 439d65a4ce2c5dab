"""`fastgraph run`: run a model on arrays from files or on random ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ..errors import InputError, writing
from ..runtime.feeds import widened
from ..runtime.model import Model
from ..text import counted, table
from . import labels

KINDS = (".npz", ".npy")
"""Files that outputs are written into."""


def run(model: Model, feeds: Mapping[str, np.ndarray], repeat: int) -> tuple[dict[str, np.ndarray], list[float]]:
    """The outputs, and the seconds of each of `repeat` runs after one that is not timed (planning, kernels)."""
    outputs = model.run(feeds)
    seconds = []
    for _ in range(repeat):
        start = perf_counter()
        outputs = model.run(feeds)
        seconds.append(perf_counter() - start)
    return {name: widened(y) if isinstance(y, np.ndarray) else y for name, y in outputs.items()}, seconds


def save(path: str, outputs: Mapping[str, Any]) -> list[str]:
    """Write the outputs that are arrays: all by name into an .npz, the only one into an .npy. Their names. InputError
    where an .npy can't hold them, FileError where they can't be written.
    """
    arrays = {name: array for name, array in outputs.items() if isinstance(array, np.ndarray)}
    single = Path(path).suffix.lower() == ".npy"
    if single and len(arrays) != 1:
        said = ", ".join(arrays) or "none"
        raise InputError(f"--output {path}: an .npy holds one array, the outputs are {said}: call it .npz")
    with writing(path), open(path, "wb") as file:
        if single:
            np.save(file, next(iter(arrays.values())))
        else:
            np.savez(file, **arrays)  # type: ignore[arg-type]
    return list(arrays)


def result_json(
    model: Model, outputs: Mapping[str, Any], seconds: list[float], top: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Outputs in figures, latency, arena; the top classes, where they are asked for."""
    p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
    found = {"isa": model.tier.name, "precision": model.precision, "threads": model.threads, "runs": len(seconds)}
    found |= {"p50_ms": float(p50), "p99_ms": float(p99), "arena_bytes": model.arena_bytes}
    found |= {"outputs": {name: figures(array) for name, array in outputs.items()}}
    return found | ({} if top is None else {"top": dict(top)})


def figures(array: Any) -> dict[str, Any]:
    """Shape, type, least, mean and largest value, and the index of the largest; only shape and type without numbers."""
    if not isinstance(array, np.ndarray):
        return {"type": type(array).__name__}
    found: dict[str, Any] = {"shape": list(array.shape), "dtype": str(array.dtype)}
    if array.size and array.dtype.kind in "fiub":
        wide = array.astype(np.float64)
        found |= {"min": float(wide.min()), "mean": float(wide.mean()), "max": float(wide.max())}
        found["argmax"] = [int(i) for i in np.unravel_index(int(wide.argmax()), array.shape)]
    return found


def text(result: Mapping[str, Any], width: int | None = None) -> str:
    """`result_json` for people, in lines of that width where columns can be shortened, or left out, to it."""
    rows = [("output", "type", "min", "mean", "max", "largest at")]
    for name, of in result["outputs"].items():
        shape = ",".join(map(str, of.get("shape", ())))
        numbers = [f"{of[key]:.6g}" if key in of else "" for key in ("min", "mean", "max")]
        at = str(of["argmax"]) if "argmax" in of else ""
        rows.append((name, f"{of['dtype']}[{shape}]" if "dtype" in of else of["type"], *numbers, at))
    runs, threads = counted(result["runs"], "run"), counted(result["threads"], "thread")
    latency = f"p50 {result['p50_ms']:.4f} ms, p99 {result['p99_ms']:.4f} ms"
    top = [labels.text(result["top"])] if "top" in result else []
    lines = [
        *table(rows, (2, 3, 4), width, {0: 12, 1: 16}, drop=(3, 2, 5)),
        *top,
        f"{latency}, {runs}; {result['isa']}, {threads}",
    ]
    if "differences" in result:
        lines += [f"NOT AS EXPECTED: {line}" for line in result["differences"]] or ["outputs are as expected"]
    return "\n".join(lines)
