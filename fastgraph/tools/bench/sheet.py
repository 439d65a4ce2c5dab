"""Comparisons as a spreadsheet: a line for each model and engine."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

KNOWN = ("model", "isa", "precision", "threads", "streams", "cpu", "rounds")
ROUNDS = {"noisy": "noisy", "all_rounds": "rounds", "disturbed": "disturbed", "shared": "shared", "kept": "kept"}
"""What is kept of a `disturbance.report`."""
FIGURES = (
    "name", "version", "calls", "min_ms", "mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "python_ms", "numpy_ms",
    "import_ms", "load_ms", "first_ms", "peak_mb", "added_mb", "joules", "per_second", "ratio", "ratio_low",
    "ratio_high", "difference", "unequal", "steps", "agrees", "cpu_share", "lost_share", "unavailable",
)  # fmt: skip


def sheet(results: Sequence[dict[str, Any]]) -> str:
    """CSV: columns of the model, of its rounds (how many don't count, and why), and of the engine; what is not known is
    empty.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, (*KNOWN, *ROUNDS, *FIGURES), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for result in results:
        known = {key: result.get(key) for key in KNOWN} | {
            key: result["disturbance"][name] for key, name in ROUNDS.items()
        }
        for row in result["engines"]:
            low, high = row.get("ratio_interval") or (None, None)
            writer.writerow(known | row | {"ratio_low": low, "ratio_high": high})
    return out.getvalue()
