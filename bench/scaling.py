"""How runs would scale over more cores than there are: each thread's share of each step, measured alone on one core.

python bench/scaling.py FILE... [--threads 1,2,4,8,16] [--isa avx2] [--precision bfloat16] [--steps 5]

A step takes as long as its longest share, and a barrier: BARRIER, and LINE for each thread whose arrival is counted.
So this shows how evenly a plan cuts its work. What cores share is not in it: the last cache, memory, the clock that
falls when many compute. `--steps` names those whose threads wait longest. Networks of one native call without branches.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import fastgraph as fg
from fastgraph.kernels.core.slots import JUMP, TEAM_WORTH
from fastgraph.plan.program import Step
from fastgraph.runtime.pool import Runner
from fastgraph.text import table
from fastgraph.tools.bench import pinned
from fastgraph.tools.feeds import random_feeds
from fastgraph.tools.profile import fed

BARRIER, LINE = 0.4, 0.1
"""Microseconds. Two cores of a Xeon take 0.5 to 0.7 for a barrier."""
PASSES = 15

Call = tuple[int, int, int, int]
"""A row of a team's table, its kernel, its record, and how many shares it is done in."""


def calls(runner: Runner) -> Iterator[Call]:
    """What a team does, in order. ValueError: it depends on data."""
    rows, i, threads = runner._team_steps, 0, 1
    while i < len(rows):
        kernel, args, flags = rows[i].tolist()
        if kernel:
            threads = runner.threads if flags & TEAM_WORTH or threads > 1 else 1
            yield i, kernel, args, threads
            i += 1
        else:
            jump = (ctypes.c_int64 * len(JUMP)).from_address(args)
            if jump[JUMP.at("cell")]:
                raise ValueError("its steps depend on data")
            i, threads = i + jump[JUMP.at("by")], 1


def shares(runner: Runner) -> dict[int, list[float]]:
    """Microseconds of each share of each row, the least of PASSES runs, without the time of a call from Python."""
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    steps = [(i, function(kernel), args, threads) for i, kernel, args, threads in calls(runner)]
    found = {i: [float("inf")] * threads for i, _, _, threads in steps}
    nothing = function(ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value or 0)
    least = min(timed(nothing, 0, 0, 1) for _ in range(1000))
    for _ in range(PASSES):
        for i, call, args, threads in steps:
            for share in range(threads):
                found[i][share] = min(found[i][share], timed(call, args, share, threads) - least)
    return found


def timed(call: Callable[..., object], *args: int) -> float:
    began = perf_counter_ns()
    call(*args)
    return 1e-3 * (perf_counter_ns() - began)


def barrier(threads: int) -> float:
    return BARRIER + LINE * threads if threads > 1 else 0.0


def simulated(path: str, threads: int, how: dict[str, Any]) -> tuple[float, list[tuple[float, str]]]:
    """Microseconds of a run; for each step how long its threads wait on average, and what it is."""
    model = fg.load(path, threads=threads, **how)
    [(steps, runner)] = fed(model, random_feeds(model, {})).segments
    spent, waits = 0.0, []
    for i, each in shares(runner).items():
        took = max(each) + barrier(len(each))
        spent += took
        step = steps[i]
        assert isinstance(step, Step)
        waits.append((took - sum(each) / threads, f"{step.node.op} {step.node.out.type} {step.kernel}"))
    return spent, sorted(waits, reverse=True)


def main(paths: list[str], counts: list[int], how: dict[str, Any], worst: int) -> None:
    names = ["network", "ms", *(f"{n} threads" for n in counts[1:])]
    rows = []
    for path in paths:
        (alone, _), *more = found = [simulated(path, threads, how) for threads in counts]
        rows.append([Path(path).name, f"{alone / 1e3:.2f}", *(f"{alone / spent:.2f}" for spent, _ in more)])
        for n, (_, waits) in zip(counts, found, strict=True):
            for us, what in waits[:worst]:
                print(f"{Path(path).name}, {n} threads: {us:.1f} us {what}")
    print("\n".join(table([names, *rows], right=range(1, len(names)))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--threads", default="1,2,4,8,16")
    parser.add_argument("--isa")
    parser.add_argument("--precision")
    parser.add_argument("--steps", type=int, default=0, metavar="N")
    given = parser.parse_args()
    chosen = {name: value for name in ("isa", "precision") if (value := getattr(given, name))}
    with pinned(1):
        main(given.files, [int(n) for n in given.threads.split(",")], chosen, given.steps)
