"""Where the time of a plan goes: seconds, multiply-adds and bytes of each step, beside what the machine could do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ..disturbance import SHARED
from ..plan.describe import RECURRENT, macs, unit
from ..plan.program import HostStep, Jump, Ref, Scratch, Step
from ..runtime.check_feeds import checked_feeds
from ..runtime.executable import Executable
from ..text import bytes_text, counted, table
from . import neighbor
from .peaks import MachinePeaks, machine_peaks

if TYPE_CHECKING:
    from ..runtime.model import Model

RUNS = 50
NEEDED = 5
"""Runs on a quiet core that medians need, or all where fewer are asked for."""
PATIENCE = 1.0
"""Seconds in which to find them."""
PICKS = frozenset({"gather", "gather_elements", "gather_nd", "slice", "strided_slice", "split", "block_gather"})
"""Operators that read a part of what they are given: as much as they write."""
PRODUCTS = frozenset({"conv", "dense", "matmul", "conv_transpose", "attention", *RECURRENT})
"""Operators that multiply; steps of theirs that don't bring operands into place, and nothing says how much of them."""
SORTS = ("time", "order")
HOST, TAIL = "numpy", "tail"
TAIL_RUNS = 3


def fed(model: Model, feeds: Mapping[str, Any]) -> Executable:
    """The plan of a model that ran on these feeds, with them in its own memory, so that it may be run as it is. On the
    zeros that lie there else, as runs read large feeds elsewhere, steps take other times.
    """
    model.run(feeds)
    plan = model.plan
    plan.fill(checked_feeds(model.signature, feeds))
    return plan


def profile(
    plan: Executable, runs: int = RUNS, machine: Callable[..., MachinePeaks | None] = machine_peaks
) -> list[dict[str, Any]]:
    """A row per native step, in order, one for all NumPy steps and one for the tail, where there are any: `step`, its
    number (None for these), `node`, `op`, `result`, `type`, `kernel`; `us`, microseconds; `macs`, multiply-adds, of
    which `unit` of MachinePeaks.peaks, and `gmacs`, 10**9 of them per second (None: it is no product); `bytes` that it
    reads and writes at least; `least_us`, in which the machine could do these, `bound` ("compute" or "memory") and
    `share`, least_us / us (None: not known).

    Medians over `runs` of thread 0's clock: waiting for other threads is part of a step, and so is a jump before it. A
    step of a loop has the time of all its rounds, and no share. `runs`: those that count, `runs_shared` of `runs_made`
    were on a core that a neighbor shared: see `medians`.
    """
    can = machine(plan.tier, plan.threads)
    plan.execute()
    found = [medians(runner.profile, runs) for _, runner in plan.segments]
    numbers = {id(step): i for i, step in enumerate(plan.program.steps)}
    looped = {i for numbers in plan.program.bodies.values() for i in numbers}
    rows: list[dict[str, Any]] = []
    for (steps, _), (times, counts) in zip(plan.segments, found, strict=True):
        for step, time in zip(steps, times, strict=True):
            if not isinstance(step, Jump):
                number = numbers[id(step)]
                rows.append(_row(plan, step, number, float(time), None if number in looped else can) | counts)
    host = sum(isinstance(step, HostStep) for step in plan.program.steps)
    if host:
        whole, counts = medians(lambda: _seconds(plan.execute), runs)
        rest = max(1e6 * float(whole) - sum(row["us"] for row in rows), 0.0)
        rows.append(_known(None, counted(host, "step"), HOST, rest) | {"result": counted(host, "step")} | counts)
    if plan.tail is not None:
        rows.append(_known(None, counted(len(plan.tail.nodes), "node"), TAIL, _tail(plan)) | {"result": "tail"})
    return rows


def _tail(plan: Executable) -> float:
    """Microseconds of what is computed after the program, for what the inputs hold."""
    times = [_seconds(plan.results) for _ in range(1 + TAIL_RUNS)]
    return float(np.median(times[1:])) * 1e6


def _seconds(call: Callable[[], Any]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def medians(run: Callable[[], Any], runs: int) -> tuple[Any, dict[str, int]]:
    """Medians of what `run` gives, and `runs` that count, `runs_made`, `runs_shared`. Those on a core that a neighbor
    shared don't count, if NEEDED others are found in up to twice as many, or while PATIENCE lasts.
    """
    found: list[Any] = []
    probes, needed, clean = [neighbor.probe()], min(runs, NEEDED), 0
    end = perf_counter() + PATIENCE
    while len(found) < runs or (clean < needed and (len(found) < 2 * runs or perf_counter() < end)):
        found.append(run())
        probes.append(neighbor.probe())
        neighbor.of_burst(probes[-2:])
        clean += len(neighbor.quiet(probes[-2:], neighbor.least()))
    quiet = neighbor.quiet(probes, neighbor.least())
    counting = [found[i] for i in quiet] if len(quiet) >= needed else found
    counts = {"runs": len(counting), "runs_made": len(found), "runs_shared": len(found) - len(quiet)}
    return np.median(counting, axis=0), counts


def _known(number: int | None, node: str, kernel: str, us: float) -> dict[str, Any]:
    return {
        "step": number, "node": node, "op": "", "result": "", "type": "", "kernel": kernel, "us": us, "macs": 0,
        "unit": "", "gmacs": None, "bytes": 0, "least_us": None, "bound": None, "share": None,
    }  # fmt: skip


def _row(plan: Executable, step: Step, number: int, seconds: float, can: MachinePeaks | None) -> dict[str, Any]:
    node, count, moved = step.node, macs(step), bytes_moved(plan, step)
    row = _known(number, node.name or node.out.name, str(step.kernel), 1e6 * seconds)
    row |= {"op": node.op, "result": node.out.name, "type": str(node.out.type), "macs": count, "bytes": moved}
    row["unit"] = unit(step.kernel) if count else ""
    if count and seconds > 0:
        row["gmacs"] = 1e-9 * count / seconds
    if can is not None and moved and seconds > 0:
        peak = can.peaks.get(row["unit"] or "f32")
        if peak is not None:
            computing, moving = count / peak, moved / can.rate(moved)
            row["bound"] = "compute" if computing > moving else "memory"
            row["least_us"] = 1e6 * max(computing, moving)
            row["share"] = max(computing, moving) / seconds
    return row


def bytes_moved(plan: Executable, step: Step) -> int:
    """Bytes of a step's operands, constants as they are packed, results and scratch, each once: what it moves at least,
    in proportion to its share of its node. Of what only a part is read, as much as is written. 0 where it is not known.
    """
    if step.node.op in PRODUCTS and not macs(step):
        return 0
    node, refs = step.node, [word for word in step.words() if isinstance(word, Ref)]
    packed = {ref.base for ref in refs if isinstance(ref.base, int) and ref.base >= 0}
    weights = sum(plan.program.constants[number].nbytes for number in packed)
    scratch = sum(base.nbytes for base in {ref.base for ref in refs} if isinstance(base, Scratch))
    written = sum(v.type.nbytes for v in node.outputs if v.type.concrete)
    operands = {v for v in node.inputs if v is not None and v.data is None and v.type.concrete}
    read = sum(v.type.nbytes for v in operands)
    if node.op in PICKS:
        read, weights = min(read, written), min(weights, written)
    return round((read + written) * step.share) + weights + scratch


# -- sums


def total(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sums of rows: steps, us, macs, gmacs, bytes, least_us and share (of those rows whose share is known)."""
    us, count = sum(row["us"] for row in rows), sum(row["macs"] for row in rows)
    known = [row for row in rows if row["least_us"] is not None]
    least, spent = sum(row["least_us"] for row in known), sum(row["us"] for row in known)
    return {
        "steps": sum(row.get("steps", 1) for row in rows), "us": us, "macs": count,
        "gmacs": 1e-3 * count / us if count and us else None, "bytes": sum(row["bytes"] for row in rows),
        "least_us": least if known else None, "share": least / spent if spent else None,
    }  # fmt: skip


def by_operator(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows' `total` for each operator, with its name as `op`, in the order in which they first come."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["op"] or row["kernel"], []).append(row)
    return [{"op": op} | total(group) for op, group in groups.items()]


def as_data(plan: Executable, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The profile for JSON: `rows`, `operators` and `total`, and the machine's `limits` (None: not known)."""
    can = machine_peaks(plan.tier, plan.threads)
    return {
        "isa": plan.tier.name,
        "precision": plan.graph.precision,
        "threads": plan.threads,
        "limits": None if can is None else can._asdict(),
        "total": total(rows),
        "operators": by_operator(rows),
        "rows": list(rows),
    }


# -- text


def text(
    rows: Sequence[dict[str, Any]], call: float | None = None, *, sort: str = "time", by: str = "step",
    width: int | None = None,
) -> str:  # fmt: skip
    """The profile as a table of that width, with each step's share of the total and of a call of so many microseconds.
    `sort`: one of SORTS; `by`: "step" or "op".
    """
    whole = total(rows)
    shown = list(rows) if by == "step" else by_operator(rows)
    if sort == "time":
        shown.sort(key=lambda row: -row["us"])
    if by == "step":
        head = ["step", "op", "result", "type", *HEAD, "kernel"]
        lines = [
            [_number(row), row["op"], row["result"], row["type"], *figures(row, whole), row["kernel"]] for row in shown
        ]
        found = table(
            [head, *lines], (0, 4, 5, 6, 7, 8), width, {1: 12, 2: 12, 3: 16, 9: 12}, drop=(7, 3, 6, 9, 8), begins=(9,)
        )
    else:
        lines = [[row["op"], str(row["steps"]), *figures(row, whole)] for row in shown]
        found = table([["op", "steps", *HEAD], *lines], (1, 2, 3, 4, 5, 6), width, {0: 8}, drop=(5, 4, 6))
    below = (line for said in (*_end(whole, call), shared(rows)) for line in wrap(said, width or 120))
    return "\n".join([*found, *below])


def shared(rows: Sequence[dict[str, Any]]) -> str:
    """A sentence about the runs on a core that a neighbor shared; empty when there were none."""
    row = max(rows, key=lambda row: row.get("runs_shared", 0), default={})
    if not row.get("runs_shared"):
        return ""
    left_out = row["runs"] < row["runs_made"]
    which = "which do not count" if left_out else "and too few others were found: these are times of a shared core"
    many = f"{row['runs_shared']} of {counted(row['runs_made'], 'run')}"
    return f"{SHARED} in {many}, {which}"


HEAD = ("us", "%", "GMAC/s", "moved", "limit")


def _number(row: dict[str, Any]) -> str:
    return "" if row["step"] is None else str(row["step"])


def figures(row: dict[str, Any], whole: dict[str, Any]) -> list[str]:
    """The cells below HEAD."""
    speed = f"{row['gmacs']:.1f}" if row["gmacs"] is not None else ""
    share = "" if row["share"] is None else f"{row['share']:.0%}"
    moved = bytes_text(row["bytes"]) if row["bytes"] else ""
    return [f"{row['us']:.2f}", f"{100 * row['us'] / (whole['us'] or 1):.1f}", speed, moved, share]


def _end(whole: dict[str, Any], call: float | None) -> list[str]:
    """The sentences below a table."""
    end = f"{whole['us']:.1f} us in all"
    if whole["gmacs"] is not None:
        end += f", {whole['gmacs']:.1f} GMAC/s"
    if whole["share"] is not None:
        end += f", {whole['share']:.0%} of what this machine can do at most"
    lines = [end]
    if call is not None:
        lines.append(
            f"{whole['us'] / call:.0%} of the p50 above: medians of each step over {RUNS} runs of their own, "
            "without the copies of inputs and Python's call"
        )
    if whole["share"] is not None:
        lines.append("limit: multiply-adds at the peak measured here, or bytes at the rate of a cache that holds them")
    return lines
