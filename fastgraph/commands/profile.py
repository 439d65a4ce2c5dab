"""`fastgraph profile`."""

from __future__ import annotations

import argparse
import json

from ..text import counted, units
from . import options
from .common import as_json, filled, loaded, note, show, terminal_width, writable, write

SUMMARY = "the time of each step, beside what the machine could do"
DESCRIPTION = """\
Show where the time of a run goes, on random inputs: microseconds of each step, its share, multiply-adds per second,
the bytes that it moves at least, and its limit: the share that its time would be if this machine computed at its peak,
or moved these bytes at its best, whichever takes longer. Peak and rates are measured when it starts.

  fastgraph profile net.onnx                the slowest steps first
  fastgraph profile net.onnx --sort order   as they run
  fastgraph profile net.onnx --by op        summed by operator
  fastgraph profile net.onnx --trace net.json      runs over time: open it in https://ui.perfetto.dev
  fastgraph profile net.onnx --json

Times are medians of runs, on one CPU where it is one thread. Runs while a neighbor outside of a virtual machine shared
the core don't count where 5 others are found in twice as many, or within a second; a line says how many. Winograd's
kernels do fewer multiply-adds than are counted, and may so be above 100 %. fastgraph bench --profile shows the same
table beside other engines' times.
"""


def arguments(sub: argparse.ArgumentParser) -> None:
    options.running(sub)
    sub.add_argument("--runs", type=options.positive, default=50, metavar="N", help="runs to take medians of (50)")
    shown(sub)
    sub.add_argument("--json", action="store_true", help="print the rows, their sums and the machine's limits as JSON")


def shown(sub: argparse.ArgumentParser) -> None:
    """How the table of a profile looks, and its trace."""
    sub.add_argument("--sort", choices=("time", "order"), default="time", help="rows by time, the default, or in order")
    sub.add_argument("--by", choices=("step", "op"), default="step", help="a row for each step, or operator")
    sub.add_argument("--trace", metavar="FILE", help="also write runs for Perfetto or Chrome there, as JSON")


def command(args: argparse.Namespace) -> int:
    from ..tools import bench, feeds, profile

    writable("--trace", args.trace, args.model)
    shapes = feeds.parse_shapes(args.shape)
    model = loaded(args, args.model, shapes)
    plan = profile.fed(model, filled(model, shapes))
    with bench.pinned(args.threads):
        rows = profile.profile(plan, args.runs)
        if args.trace:
            write_trace(args.trace, plan, args.model)
    if args.json:
        show(as_json(profile.as_data(plan, rows) | {"model": args.model}))
    else:
        show(f"{args.model}: {units(plan.tier.name, plan.graph.precision)}, {counted(plan.threads, 'thread')}")
        show(profile.text(rows, sort=args.sort, by=args.by, width=terminal_width()))
    return 0


def write_trace(path: str, plan: object, name: str) -> None:
    from ..tools.trace import trace

    write(path, json.dumps(trace(plan, name=name)))  # type: ignore[arg-type]
    note(f"{path}: open it in https://ui.perfetto.dev or chrome://tracing")
