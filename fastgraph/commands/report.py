"""`fastgraph report`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import __version__
from . import options
from .common import Shapes, each_file, filled, loaded, note, writable, write

SUMMARY = "a page with charts: time, memory, graph"
DESCRIPTION = """\
Write a page of HTML about networks, measured on random inputs: time by operator and step, a roofline with a dot for
each step, the arena over time, the graph with the time of its nodes, the environment. It needs nothing beside it.

  fastgraph report net.onnx                 writes net.html
  fastgraph report a.onnx b.tflite -o both.html
  fastgraph bench net.onnx --against onnxruntime --html net.html        with other engines and latencies
"""


def arguments(sub: argparse.ArgumentParser) -> None:
    options.running(sub, many=True)
    sub.add_argument("--runs", type=options.positive, default=50, metavar="N", help="runs to take medians of (50)")
    sub.add_argument("-o", "--output", metavar="FILE", help="default: the first file's name, .html")


def command(args: argparse.Namespace) -> int:
    from ..tools import bench, profile
    from ..tools.report import Measured, report

    output = args.output or Path(args.model[0]).stem + ".html"
    writable("--output", output, *args.model)
    found = []

    def measure(path: str, shapes: Shapes) -> int:
        model = loaded(args, path, shapes)
        plan = profile.fed(model, filled(model, shapes))
        with bench.pinned(args.threads):
            found.append(Measured(path, plan, profile.profile(plan, args.runs)))
        return 0

    code, _ = each_file(args, measure)
    if found:
        write(output, report(found, bench.machine(), __version__))
        note(f"written: {output}")
    return code
