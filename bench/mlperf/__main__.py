"""Measure a network with MLPerf LoadGen, in fastgraph or a peer.

  python -m bench.mlperf net.tflite                                      SingleStream, some seconds
  python -m bench.mlperf net.onnx --scenario SingleStream,Offline,Server --engine fastgraph,onnxruntime
  python -m bench.mlperf net.onnx --scenario Server --qps 100 --latency 15
  python -m bench.mlperf net.onnx --scenario Offline --streams 2         two samples at a time
  python -m bench.mlperf net.onnx --scenario SingleStream --official --out logs

SingleStream: the next sample comes when the last one is done; the 90th percentile of latency. Offline: all samples at
once; samples a second. Server: samples come at random times, --qps of them a second, and 99 % must be done within
--latency; samples a second. Samples are random numbers; copying one into the inputs is part of its time.

--official takes durations (ten minutes), numbers of queries, percentiles, latencies and seeds of MLPerf's rules; the
figures are no results of MLPerf, which want its data, accuracy runs and review. Exit code 1 when a run is not VALID.
Needs pip install 'fastgraph-runtime[mlperf]'.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastgraph.errors import FastgraphError
from fastgraph.text import table
from fastgraph.tools.bench import machine
from fastgraph.tools.engines import PEERS

from .run import SCENARIOS, loadgen, run, settings
from .system import Stream, samples, stream

SECONDS = 3.0
BUSY = 0.25
"""Server is asked for so much of what the engine can do alone."""


def measured(args: argparse.Namespace, engine: str, scenario: str, data: list[Any], folder: Path) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    count = 1 if scenario == "SingleStream" else args.streams
    streams: list[Stream] = [stream(args.model, engine, data[0], args.threads) for _ in range(count)]
    typical = streams[0].seconds(data[0]) / count
    qps = args.qps or BUSY / typical
    seconds = None if args.official else args.seconds
    made = settings(scenario, folder, typical, seconds=seconds, latency=args.latency / 1e3, qps=qps, rules=args.rules)
    found = run(made, scenario, folder, streams, data)
    version = streams[0].engine.version
    asked = qps if scenario == "Server" else None
    return {"engine": engine, "version": version, "scenario": scenario, "streams": count, "qps": asked, **found}


def text(results: Sequence[dict[str, Any]]) -> str:
    rows = [("scenario", "engine", "version", "result", "", "")]
    for each in results:
        value, metric = each["result"], each["metric"]
        if value is not None and metric.endswith("(ns)"):
            value, metric = value / 1e6, metric.replace("(ns)", "(ms)")
        asked = "" if each["qps"] is None else f" of {each['qps']:.0f} asked for"
        figure = "" if value is None else f"{value:.4g}"
        verdict = "VALID" if each["valid"] else f"INVALID: {'; '.join(each['reasons'])}"
        rows.append((each["scenario"], each["engine"], each["version"], figure, metric + asked, verdict))
    return "\n".join(table(rows, right=(3,)))


def chosen(what: str, known: Sequence[str]) -> Any:
    """A type of argparse: some of these names, with commas."""

    def parse(words: str) -> list[str]:
        found = [word for word in words.split(",") if word]
        for word in found:
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word}: the {what} are {', '.join(known)}")
        return found

    return parse


def parser() -> argparse.ArgumentParser:
    lines = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser("python -m bench.mlperf", description=__doc__, formatter_class=lines)
    made.add_argument("model", metavar="MODEL", help="a network's file")
    made.add_argument(
        "--scenario", type=chosen("scenarios", list(SCENARIOS)), default=["SingleStream"], metavar="NAMES"
    )
    engines = ["fastgraph", *PEERS]
    made.add_argument("--engine", type=chosen("engines", engines), default=["fastgraph"], metavar="NAMES")
    made.add_argument("--threads", type=int, default=1, metavar="N", help="of each engine (default 1)")
    made.add_argument(
        "--streams", type=int, default=1, metavar="N", help="Offline, Server: engines at work (default 1)"
    )
    made.add_argument("--samples", type=int, metavar="N", help="different samples (default 64, --official 1024)")
    made.add_argument("--seconds", type=float, default=SECONDS, help=f"how long at least (default {SECONDS:g})")
    made.add_argument(
        "--qps", type=float, help="Server: samples a second (default: a quarter of what the engine can do)"
    )
    made.add_argument("--latency", type=float, default=15.0, metavar="MS", help="Server: bound of 99 %% (default 15)")
    made.add_argument("--official", action="store_true", help="durations, queries, latencies, seeds of MLPerf's rules")
    made.add_argument("--rules", default="resnet50", metavar="NAME", help="--official: of which benchmark (resnet50)")
    made.add_argument("--out", type=Path, metavar="FOLDER", help="keep LoadGen's logs there")
    made.add_argument("--json", action="store_true", help="print JSON")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    results = []
    try:
        loadgen()
        data = samples(args.model, args.samples or (1024 if args.official else 64))
        with TemporaryDirectory() as temporary:
            for scenario in args.scenario:
                for engine in args.engine:
                    folder = (args.out or Path(temporary)) / scenario / engine
                    results.append(measured(args, engine, scenario, data, folder))
    except FastgraphError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    known = {"model": args.model, "machine": machine(), "official": args.official, "results": results}
    print(json.dumps(known, indent=2) if args.json else text(results))
    return 0 if all(each["valid"] for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
