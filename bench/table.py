"""Measure networks beside other engines, and write the table of README.md: `python -m bench.table FILE...`.

All engines run on one thread and one CPU, in turns, on the same inputs; their results must agree. Needs
`pip install 'fastgraph-runtime[bench]'`; bench/zoo/ makes networks.
"""

from __future__ import annotations

import shlex
import sys
from datetime import date
from pathlib import Path
from typing import Any

import fastgraph as fg
from docs.pages import put
from fastgraph.tools.bench import agrees, compare, geomean, machine
from fastgraph.tools.feeds import random_feeds

PEERS = {"onnxruntime": "onnxruntime", "openvino": "OpenVINO", "litert": "LiteRT"}
RUNS = {".onnx": ("onnxruntime", "openvino")}
"""Engines for files that end so; others have LiteRT in place of onnxruntime."""
SECONDS = 6.0


def measured(path: str) -> dict[str, Any]:
    model = fg.load(path, threads=1)
    peers = RUNS.get(Path(path).suffix, ("litert", "openvino"))
    found = compare(path, random_feeds(model, {}), peers, seconds=SECONDS)
    assert agrees(found), found["engines"]
    return found


def row(found: dict[str, Any]) -> str:
    """Milliseconds of fastgraph, and how many times as long each other engine takes."""
    engines = {engine["name"]: engine for engine in found["engines"]}
    times = [f"{1 / engines[name]['ratio']:.2f}" if "ratio" in engines.get(name, {}) else "" for name in PEERS]
    arena = f"{found['arena_bytes'] / 1024:,.0f}"
    cells = [Path(found["model"]).name, f"{engines['fastgraph']['p50_ms']:.3f}", *times, arena]
    return f"| {' | '.join(cells)} |"


def text(results: list[dict[str, Any]], command: str) -> str:
    versions = {row["name"]: row["version"] for found in results for row in found["engines"] if "version" in row}
    heads = ["network", "fastgraph ms", *(f"{name} takes x" for name in PEERS.values()), "arena KiB"]
    means = [geomean(results, name) for name in PEERS]
    mean = ["geometric mean", "", *(f"{1 / m:.2f}" if m else "" for m in means), ""]
    host = machine()
    return "\n".join([
        f"| {' | '.join(heads)} |",
        f"|---|{'---:|' * (len(heads) - 1)}",
        *map(row, results),
        f"| {' | '.join(mean)} |",
        "",
        f"Medians on one thread of {host['cpu']} (tier {results[0]['isa']}), {host['system'].split('-')[0]}, "
        f"Python {host['python']}, {date.today()}; {', '.join(f'{k} {v}' for k, v in versions.items())}.",
        "Weights are random. Engines take turns on the same CPU and inputs, so that what else the machine does slows",
        "all; it was not idle, so take times as upper bounds and look at the ratios. `" + command + "`",
    ])  # fmt: skip


if __name__ == "__main__":
    names = " ".join(shlex.quote(Path(path).name) for path in sys.argv[1:])
    put("results", text([measured(path) for path in sys.argv[1:]], f"python -m bench.table {names}"))
