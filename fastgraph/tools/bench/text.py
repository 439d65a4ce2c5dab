"""Comparisons as text, as wide as the terminal; as a spreadsheet, a line for each model and engine."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from math import floor, log10
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

from ... import disturbance
from ...text import counted, table, units

LEGEND = "ratio: fastgraph's time / the engine's; below 1, fastgraph is faster"
HEADS = (
    "engine", "version", "calls", "a second", "min ms", "mean ms", "p50 ms", "p90 ms", "p95 ms", "p99 ms", "python",
    "numpy", "import", "load ms", "first ms", "peak MB", "added MB", "mJ", "ratio", "95 %", "difference",
)  # fmt: skip
TIMES = (
    "min_ms", "mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "python_ms", "numpy_ms", "import_ms", "load_ms",
    "first_ms", "peak_mb", "added_mb",
)  # fmt: skip
LEAST_WANTED = (
    "calls", "mean ms", "p95 ms", "version", "min ms", "added MB", "python", "numpy", "first ms", "p90 ms", "import",
    "load ms", "mJ", "95 %", "p99 ms",
)  # fmt: skip
"""Columns that are left out of a narrow terminal, in this order."""


def text(result: dict[str, Any], width: int | None = None) -> str:
    """A comparison as a table of as many columns as fit the terminal, or `width`."""
    cpu = "" if result["cpu"] is None else f" on CPU {result['cpu']}"
    what = "streams" if "streams" in result else "threads"
    threads = counted(result[what], what.removesuffix("s"))
    kind = "processes up to their first result" if "cold" in result else units(result["isa"], result["precision"])
    head = f"{result['model']}: {kind}, {threads}{cpu}, {counted(result['rounds'], 'round')}"
    ran = [row for row in result["engines"] if "unavailable" not in row]
    notes = [f"{row['name']}: {row['unavailable']}" for row in result["engines"] if "unavailable" in row]
    if said := disturbance.text(result["disturbance"]):
        notes.append(f"NOISY, figures mean little: {said}" if result["disturbance"]["noisy"] else said)
    lines = fitted([HEADS, *map(_cells, ran)], width, LEAST_WANTED, left=2)
    return "\n".join([head, *lines, *wrapped(notes, width)])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    times = (digits(row[key]) if row.get(key) is not None else "" for key in TIMES)
    energy = digits(1e3 * row["joules"]) if row.get("joules") is not None else ""
    ratio = f"{row['ratio']:.3f}" if "ratio" in row else ""
    rate = digits(row["per_second"]) if "per_second" in row else ""
    known = row["name"], row["version"], str(row["calls"]), rate
    return (*known, *times, energy, ratio, _interval(row), _gap(row))


def _interval(row: dict[str, Any]) -> str:
    interval = row.get("ratio_interval")
    return f"{interval[0]:.3f}-{interval[1]:.3f}" if interval else ""


def _gap(row: dict[str, Any]) -> str:
    gap = f"{row['difference']:.1e}" if "difference" in row else ""
    if "steps" in row:
        gap = f"{row['unequal']:.2%}, {row['steps']}"
    return gap if row.get("agrees", True) else f"{gap} DISAGREES"


def digits(number: float) -> str:
    """Four digits that count, and no exponent."""
    places = 3 - floor(log10(number)) if number > 0 else 0
    return f"{number:,.{min(max(places, 0), 6)}f}"


def fitted(rows: Sequence[Sequence[str]], width: int | None, least_wanted: Sequence[str], left: int = 1) -> list[str]:
    """Lines of a table without empty columns; of those that are least wanted, the first are left out until it fits.
    The first `left` columns are aligned to the left.
    """
    shown = [i for i in range(len(rows[0])) if i < left or any(row[i] for row in rows[1:])]
    heads = [rows[0][i] for i in shown]
    drop = [heads.index(name) for name in least_wanted if name in heads]
    return table([[row[i] for i in shown] for row in rows], range(left, len(heads)), width or _columns(), drop=drop)


def wrapped(notes: Sequence[str], width: int | None) -> list[str]:
    """Sentences as lines."""
    return [line for note in notes for line in wrap(note, width or _columns(), break_long_words=False)]


def _columns() -> int:
    return get_terminal_size((120, 24)).columns


KNOWN = ("model", "isa", "precision", "threads", "streams", "cpu", "rounds")
ROUNDS = {"noisy": "noisy", "all_rounds": "rounds", "disturbed": "disturbed", "shared": "shared", "kept": "kept"}
"""The parts of a `disturbance.report` that are stored."""
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
