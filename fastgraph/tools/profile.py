"""Where the time of a plan goes: seconds and multiply-adds per step."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from ..plan.describe import macs
from ..plan.program import HostStep, Jump
from ..runtime.executable import Executable
from ..text import shorten, table

RUNS = 50


def profile(plan: Executable, runs: int = RUNS) -> list[dict[str, Any]]:
    """A row per native step, in order, and one for all NumPy steps if there are any: microseconds, GMAC/s.

    Medians over `runs` of thread 0's clock: waiting for other threads is part of a step, and so is a jump before it. A
    step of a loop has the time of all its rounds.
    """
    plan.execute()
    seconds = [np.median([runner.profile() for _ in range(runs)], axis=0) for _, runner in plan.segments]
    rows: list[dict[str, Any]] = []
    for (steps, _), times in zip(plan.segments, seconds, strict=True):
        for step, time in zip(steps, times, strict=True):
            if isinstance(step, Jump):
                continue
            count = macs(step)
            rows.append(
                {
                    "result": step.node.out.name,
                    "op": step.node.op,
                    "kernel": str(step.kernel),
                    "type": str(step.node.out.type),
                    "us": float(time * 1e6),
                    "gmacs": float(count / time * 1e-9) if count and time > 0 else None,
                }
            )
    host = sum(isinstance(step, HostStep) for step in plan.program.steps)
    if host:
        rest = _whole(plan, runs) - sum(row["us"] for row in rows)
        rows.append(
            {"result": f"{host} steps", "op": "", "kernel": "numpy", "type": "", "us": max(rest, 0.0), "gmacs": None}
        )
    return rows


def _whole(plan: Executable, runs: int) -> float:
    """Microseconds of a run, host steps included."""
    times = []
    for _ in range(runs):
        start = perf_counter()
        plan.execute()
        times.append(perf_counter() - start)
    return float(np.median(times)) * 1e6


def text(rows: list[dict[str, Any]], call: float | None = None) -> str:
    """The profile as a table, with each step's share of the total and of a call of so many microseconds."""
    total = sum(row["us"] for row in rows) or 1.0
    lines = [("", "op", "result", "type", "us", "%", "GMAC/s", "kernel")]
    for n, row in enumerate(rows):
        speed = f"{row['gmacs']:.1f}" if row["gmacs"] is not None else ""
        share = f"{100 * row['us'] / total:.1f}"
        cells = (row["op"], shorten(row["result"], 40), row["type"], f"{row['us']:.2f}", share, speed)
        lines.append((str(n), *cells, shorten(row["kernel"], 80)))
    end = f"{total:.1f} us in all"
    if call is not None:
        end += f", {total / call:.0%} of the p50 above: medians of each step over {RUNS} runs of their own, without the"
        end += " copies of inputs and Python's call"
    return "\n".join([*table(lines, right=(0, 4, 5, 6)), end])
