"""The course of measurements over commits: a file of JSON lines that `fastgraph bench --history` adds to.

A series is what can be compared: one model on one machine (its CPU's name and number of CPUs), tier and number of
threads. Figures of a run that other programs disturbed too much, or a neighbor, are kept, and take no part in finding
steps.

A step lies between two runs when the median of up to WINDOW runs after it differs from that of as many before it by
more than LEAST, and by more than NOISE times the usual change from one run to the next (the median of all changes). On
each side at least FEWEST runs are needed, so that one slow run is none, and the newest step shows at its third run.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..disturbance import of_shared_core
from ..errors import InputError, writing
from ..text import counted, shorten, table

WINDOW, FEWEST = 5, 3
LEAST = 0.05
NOISE = 3.0
SHOWN = 20
"""Runs in a table, the newest; the line of bars has all."""
BARS = "▁▂▃▄▅▆▇█"


def record(result: Mapping[str, Any], machine: Mapping[str, Any]) -> dict[str, Any]:
    """What the file keeps of a result of `bench.compare`: `commit` of the folder's git (None where there is none; with
    "+" when files differ from it), `date` (UTC), `fastgraph`, its version, `machine`, `model` (its path from the root
    of the checkout), `isa`, `threads`, `p50_ms`, `ratios` by engine (fastgraph's time / its own), `arena_bytes`,
    `noisy`.
    """
    own, *others = result["engines"]
    root = _git("rev-parse", "--show-toplevel")
    commit = _git("rev-parse", "HEAD")
    changed = commit and _git("status", "--porcelain", "--untracked-files=no")
    return {
        "commit": f"{commit[:12]}{'+' if changed else ''}" if commit else None,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "fastgraph": __version__,
        "machine": f"{machine['cpu']}, {machine['cpus']} CPUs",
        "model": _model(result["model"], root),
        "isa": result["isa"],
        "threads": result["threads"],
        "p50_ms": own["p50_ms"],
        "ratios": {row["name"]: row["ratio"] for row in others if "ratio" in row},
        "arena_bytes": result["arena_bytes"],
        "noisy": bool(result["disturbance"]["noisy"]) or of_shared_core(result["disturbance"]),
    }


def _git(*words: str) -> str:
    """The output of a git command; empty where there is no git, or no checkout."""
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _model(path: str, root: str) -> str:
    """A name that does not depend on the folder where the command was given."""
    place = Path(path).resolve()
    return place.relative_to(root).as_posix() if root and place.is_relative_to(root) else place.as_posix()


def append(path: str | os.PathLike[str], records: Sequence[Mapping[str, Any]]) -> None:
    """Add a line for each record, in one write."""
    text = "".join(json.dumps(each) + "\n" for each in records)
    with writing(path), open(path, "a", encoding="utf-8") as file:
        file.write(text)


def read(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The records of a file, oldest first. InputError, with the line's number, for what is none, and for devices, which
    may have no end.
    """
    if Path(path).exists() and not Path(path).is_file():
        raise InputError(f"{path}: expected a file of lines that fastgraph bench --history wrote, found none")
    found = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        try:
            each = json.loads(line)
            _key(each)
            float(each["p50_ms"]), str(each["date"]), dict(each["ratios"]), bool(each["noisy"])
        except (ValueError, KeyError, TypeError) as error:
            what = "expected a line that fastgraph bench --history wrote"
            raise InputError(f"{path}:{number}: {what}, found {shorten(line, 60)!r} ({error!r})") from None
        found.append(each)
    return found


def series(records: Sequence[dict[str, Any]]) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    """The records that can be compared with one another, by what they have in common, in the order of the file."""
    found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for each in records:
        found.setdefault(_key(each), []).append(each)
    return found


def _key(each: Mapping[str, Any]) -> tuple[str, ...]:
    threads = int(each["threads"])
    return str(each["model"]), str(each["isa"]), counted(threads, "thread"), str(each["machine"])


def steps(times: Sequence[float]) -> dict[int, float]:
    """The runs at which a level of times begins, and the change to it: 0.1 is 10 % slower than before."""
    logs = np.log(np.asarray(times, float))
    if len(logs) < 2 * FEWEST:
        return {}
    usual = float(np.median(np.abs(np.diff(logs))))
    found: dict[int, float] = {}
    for at in sorted(range(1, len(logs)), key=lambda k: -_gain(logs, k)):
        gap = np.median(logs[at : at + WINDOW]) - np.median(logs[max(at - WINDOW, 0) : at])
        change = float(np.expm1(gap))
        if abs(change) > LEAST and abs(gap) > NOISE * usual and all(abs(at - other) >= FEWEST for other in found):
            found[at] = change
    return {at: found[at] for at in sorted(found) if FEWEST <= at <= len(logs) - FEWEST}


def _gain(logs: np.ndarray, at: int) -> float:
    """By how much two levels, before a run and from it on, fit the runs beside it better than one."""
    before, after = logs[max(at - FEWEST, 0) : at], logs[at : at + FEWEST]
    return _misfit(np.concatenate([before, after])) - _misfit(before) - _misfit(after)


def _misfit(logs: np.ndarray) -> float:
    return float(np.abs(logs - np.median(logs)).sum())


def marked(runs: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """`steps` of the runs that are not noisy, by their places among all."""
    quiet = [i for i, each in enumerate(runs) if not each["noisy"]]
    return {quiet[at]: change for at, change in steps([runs[i]["p50_ms"] for i in quiet]).items()}


def bars(figures: Sequence[float]) -> str:
    """A line of bars, from the least to the greatest."""
    low, high = min(figures), max(figures)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((each - low) * scale)] for each in figures)


def text(records: Sequence[dict[str, Any]]) -> str:
    """Every series: a line of bars, and a table of its newest runs with the steps."""
    parts = [_course(key, runs) for key, runs in series(records).items()]
    return "\n\n".join(parts) if parts else "no runs yet"


def _course(key: tuple[str, ...], runs: Sequence[dict[str, Any]]) -> str:
    times, found = [run["p50_ms"] for run in runs], marked(runs)
    peers = list(dict.fromkeys(name for run in runs for name in run["ratios"]))
    rows = [("commit", "date", "p50 ms", *(f"/ {name}" for name in peers), "")]
    for i, run in list(enumerate(runs))[-SHOWN:]:
        ratios = (f"{run['ratios'][name]:.3f}" if name in run["ratios"] else "" for name in peers)
        said = f"{'slower' if found[i] > 0 else 'faster'}: {found[i]:+.0%}" if i in found else ""
        notes = ", ".join(filter(None, [said, "noisy" if run["noisy"] else ""]))
        date = run["date"].replace("T", " ")[:16]
        rows.append((run["commit"] or "", date, f"{run['p50_ms']:.4f}", *ratios, notes))
    head = f"{key[0]}: {', '.join(key[1:])}; {counted(len(runs), 'run')}"
    line = f"{bars(times)}  p50 {min(times):.4f} to {max(times):.4f} ms, now {times[-1]:.4f}"
    return "\n".join([head, line, *table(rows, right=range(2, 3 + len(peers)))])


def as_json(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every series with its runs and steps: `at`, which run, and `change`."""
    return [
        {
            **dict(zip(("model", "isa", "threads", "machine"), key, strict=True)),
            "runs": runs,
            "steps": [{"at": at, "change": change} for at, change in marked(runs).items()],
        }
        for key, runs in series(records).items()
    ]
