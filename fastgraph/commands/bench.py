"""`fastgraph bench`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import __version__
from ..errors import InputError
from . import options
from .common import Shapes, as_json, each_file, granted, show, writable

SUMMARY = "measure models, and other engines beside"
DESCRIPTION = """\
Measure models, and other engines on the same inputs in the same process, taking turns. Results are compared.
With one thread, all run on one CPU. ratio = fastgraph's time / the engine's, the median over the rounds: below 1,
fastgraph is faster. difference = largest difference of outputs / largest output; of integer outputs the share of
numbers that differ, and the largest difference.

  fastgraph bench net.onnx --against onnxruntime,openvino
  fastgraph bench net.tflite --against litert,openvino
  fastgraph bench *.onnx --against onnxruntime --threads 2 --seconds 10 --json results.json
  fastgraph bench net.onnx --profile        time and multiply-adds of each step

A round in which another program had the CPU for more than 1 % of an engine's time is thrown away, for all engines.
When fewer than 5 are left, after twice the time that was asked for, the figures would be wrong: nothing is reported.

Exit code 1 when results disagree, 2 when a file could not be measured: the others are; 3 when other programs disturb
too much: close them, or add --allow-noise. A --shape is for all files that have an input of that name. What an engine
can't run is said. They come with pip install 'fastgraph-runtime[bench]'
"""


def arguments(sub: argparse.ArgumentParser) -> None:
    options.isa(sub)
    options.model(sub, many=True)
    options.threads(sub, 1, "1")
    sub.add_argument("--against", default="", metavar="ENGINES", help="of onnxruntime, openvino, litert; with commas")
    length = sub.add_mutually_exclusive_group()
    length.add_argument(
        "--seconds", type=options.seconds, default=3.0, help="how long to measure each model (default 3)"
    )
    length.add_argument("--runs", type=options.positive, metavar="N", help="rounds to measure instead")
    sub.add_argument("--allow-noise", action="store_true", help="report, with a mark, what others disturbed too much")
    sub.add_argument("--profile", action="store_true", help="also the time of each of fastgraph's steps")
    sub.add_argument("--history", metavar="FILE", help="add a line for each model there: see fastgraph history")
    sub.add_argument("--json", metavar="FILE", help="also write the results there; - for stdout, in place of the table")


def command(args: argparse.Namespace) -> int:
    from ..loading import load
    from ..tools import bench, feeds, history, profile
    from ..tools.engines import PEERS

    writable("--json", args.json)
    writable("--history", args.history)
    against = [name for name in args.against.split(",") if name]
    for name in against:
        if name not in PEERS:
            raise InputError(f"--against {name}: the engines are {', '.join(PEERS)}")
    results = []

    def measure(path: str, shapes: Shapes) -> int:
        how = {"threads": args.threads, "isa": args.isa, "function": args.function}
        model = load(path, shapes=shapes, **how)
        granted(model.signature, shapes)
        inputs = feeds.random_feeds(model, shapes)
        if args.profile:
            model.run(inputs)
            plan = model.plan  # where a saved program has no graph to make it of, that is said first
        result = bench.compare(path, inputs, against, seconds=args.seconds, rounds=args.runs, **how)
        if not args.allow_noise and bench.agrees(result):
            bench.refuse(result)
        results.append(result)
        if args.profile:
            with bench.pinned(args.threads):
                result["profile"] = profile.profile(plan)
        if args.json != "-":
            show(bench.text(result))
            if args.profile:
                show(profile.text(result["profile"], 1e3 * result["engines"][0]["p50_ms"]))
        return 0 if bench.agrees(result) else 1

    code, failed = each_file(args, measure)
    means = {name: bench.geomean(results, name) for name in against}
    if len(results) > 1 and args.json != "-":
        said = ", ".join(f"{mean:.3f} to {name}" for name, mean in means.items() if mean is not None)
        if said:
            noisy = " (NOISY)" if any(result["disturbance"]["noisy"] for result in results) else ""
            show(f"geometric mean of the ratios{noisy}: {said}")
    if args.history:
        history.append(args.history, [history.record(result, bench.machine()) for result in results])
    if args.json:
        known = {"fastgraph": __version__, "machine": bench.machine()}
        report = as_json(known | {"models": results, "failed": failed, "geomeans": means})
        if args.json == "-":
            show(report)
        else:
            Path(args.json).write_text(report + "\n", encoding="utf-8")
    return code
