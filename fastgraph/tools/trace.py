"""Runs of a plan as a trace that Perfetto and Chrome's about:tracing open: Google's Trace Event Format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import Any

import numpy as np

from ..plan.describe import macs
from ..plan.lower.build import lifetimes
from ..plan.packing import Buffer
from ..plan.program import HostStep, Jump, Step
from ..runtime.executable import Executable
from ..runtime.pool import ticks, ticks_per_second
from ..text import counted
from .profile import bytes_moved

RUNS = 10
PROCESS, THREAD = 1, 1
Span = tuple[range, float, float]
"""Numbers of steps, and microseconds of their begin and end since that of the first run."""


def trace(plan: Executable, runs: int = RUNS, name: str = "") -> dict[str, Any]:
    """Run a plan so often, after once; a trace of that, for JSON: a span ("X") for each run and step, and the bytes of
    the arena that are in use, a counter ("C"). `ts` and `dur` are microseconds.

    Its one track is the thread that calls: what it waits for others is part of a step. Consecutive steps of NumPy are
    one span, and so are all those of a branch or loop.
    """
    plan.execute()
    measured = [_run(plan) for _ in range(runs)]
    start, rate = measured[0][0], ticks_per_second() * 1e-6
    live = live_bytes(list(lifetimes(plan.program, plan.graph).values()), len(plan.program.steps))
    title = name or plan.graph.name or "model"
    events = [
        _meta("process_name", f"fastgraph: {title}"),
        _meta("thread_name", f"caller ({counted(plan.threads, 'thread')})"),
    ]
    for turn, (begun, ended, segments) in enumerate(measured):
        events.append(_span(f"run {turn}", "run", (begun - start) / rate, (ended - begun) / rate, {"run": turn}))
        for numbers, since, until in _spans(plan, begun, ended, segments):
            at = (since - start) / rate
            known = _told(plan, numbers, (until - since) / rate)
            events.append(_span(*known[:2], at, (until - since) / rate, known[2]))
            events.append(_event("C", "arena", at) | {"args": {"live bytes": int(live[list(numbers)].max())}})
        events.append(_event("C", "arena", (ended - start) / rate) | {"args": {"live bytes": int(live[-1])}})
    about = {"model": title, "tier": plan.tier.name, "threads": plan.threads, "arena_bytes": plan.arena_bytes}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}


def live_bytes(buffers: Sequence[Buffer], steps: int) -> np.ndarray:
    """int64 [steps, or 1 if there are none]: bytes of the arena that are in use at each."""
    change = np.zeros(max(steps, 1) + 1, np.int64)
    for each in buffers:
        change[each.first] += each.size
        change[min(each.last + 1, len(change) - 1)] -= each.size
    return np.cumsum(change)[:-1]


def _run(plan: Executable) -> tuple[int, int, list[np.ndarray]]:
    """One run: ticks of its begin and end, and those of each segment."""
    with ExitStack() as stack:
        found = [stack.enter_context(runner.clocked()) for _, runner in plan.segments]
        begun = ticks()
        plan.execute()
        return begun, ticks(), found


def _spans(plan: Executable, begun: int, ended: int, segments: Sequence[np.ndarray]) -> Iterator[Span]:
    """The steps that ran, in order, by ticks. One without a clock took the time between its neighbors."""
    ends: dict[int, tuple[int, int]] = {}
    numbers = {id(step): i for i, step in enumerate(plan.program.steps)}
    for (steps, _), times in zip(plan.segments, segments, strict=True):
        begins = [int(times[0, 0]), *map(int, times[1:, 0])]
        for step, since, (end, took) in zip(steps, begins, times[1:].tolist(), strict=False):
            if end and not isinstance(step, Jump):
                ends[numbers[id(step)]] = min(end - took, max(since, end - took)), end
    body = {i: steps.start for steps in _outermost(plan) for i in steps}

    def part(i: int) -> tuple[str, int]:
        if i in body:
            return "body", body[i]
        return ("host", 0) if isinstance(plan.program.steps[i], HostStep) else ("step", i)

    parts = [(kind, list(group)) for (kind, _), group in groupby(range(len(plan.program.steps)), part)]
    last = begun
    for n, (kind, group) in enumerate(parts):
        if kind == "step":
            if group[0] not in ends:
                continue
            since, until = ends[group[0]]
        else:
            later = [ends[i][0] for _, after in parts[n + 1 : n + 2] for i in after if i in ends]
            mine = [ends[i][1] for i in group if i in ends]
            since, until = last, max(mine, default=min(later, default=ended))
        since = max(since, last)
        until = max(until, since)
        yield range(group[0], group[-1] + 1), since, until
        last = until


def _outermost(plan: Executable) -> list[range]:
    bodies = plan.program.bodies
    return [bodies[node] for node in plan.graph.nodes if node in bodies]


def _told(plan: Executable, numbers: range, us: float) -> tuple[str, str, dict[str, Any]]:
    """Name, category and arguments of a span."""
    steps = [plan.program.steps[i] for i in numbers]
    first = steps[0]
    if len(steps) > 1 or not isinstance(first, Step):
        nodes = list(dict.fromkeys(step.node.name or step.node.out.name for step in steps))
        ops = ", ".join(dict.fromkeys(step.node.op for step in steps))
        return ops, "numpy" if isinstance(first, HostStep) else "control", {"nodes": nodes, "steps": list(numbers)}
    node, count = first.node, macs(first)
    args: dict[str, Any] = {
        "step": numbers[0],
        "node": node.name or node.out.name,
        "operator": node.op,
        "kernel": str(first.kernel),
        "inputs": [str(v.type) for v in node.inputs if v is not None],
        "outputs": [str(v.type) for v in node.outputs],
        "bytes": bytes_moved(plan, first),
    }
    if count:
        args |= {"multiply-adds": count, "GMAC/s": round(1e-3 * count / us, 3) if us else None}
    return f"{node.op} {node.out.name}", "step", args


def _event(phase: str, name: str, at: float) -> dict[str, Any]:
    return {"ph": phase, "name": name, "ts": round(at, 4), "pid": PROCESS, "tid": THREAD}


def _meta(name: str, value: str) -> dict[str, Any]:
    return _event("M", name, 0) | {"args": {"name": value}}


def _span(name: str, category: str, at: float, took: float, args: dict[str, Any]) -> dict[str, Any]:
    return _event("X", name, at) | {"cat": category, "dur": round(took, 4), "args": args}
