"""`fastgraph history`."""

from __future__ import annotations

import argparse

from .common import as_json, show

SUMMARY = "the course of bench's figures over commits, and its steps"
DESCRIPTION = """\
Show a file that fastgraph bench --history FILE adds a line to for each model and run: the course of the p50 and of the
ratios to other engines (below 1 is good) for each model, machine, tier and number of threads.

  fastgraph bench net.onnx --against onnxruntime --history speed.jsonl     after each commit
  fastgraph history speed.jsonl

A step is where the median of the 5 runs after (at least 3) differs from that of the 5 before (at least 3) by more than
5 %, and by more than 3 times the usual change from one run to the next. Runs that other programs disturbed too much are
shown and do not count. A commit with + had changes that were not committed.
"""


def arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("file", metavar="FILE", help="what bench --history wrote")
    sub.add_argument("--json", action="store_true", help="print JSON")


def command(args: argparse.Namespace) -> int:
    from ..tools import history

    records = history.read(args.file)
    show(as_json(history.as_json(records)) if args.json else history.text(records))
    return 0
