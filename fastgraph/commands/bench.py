"""`fastgraph bench`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..disturbance import of_shared_core
from ..errors import InputError
from . import options
from .common import Shapes, addressed, as_json, each_file, filled, loaded, note, show, terminal_width, writable, write
from .profile import shown, write_trace

if TYPE_CHECKING:
    from ..runtime.executable import Executable
    from ..runtime.model import Model

SUMMARY = "measure models, and other engines beside"
DESCRIPTION = """\
Measure models, and other engines on the same inputs in the same process, taking turns. Results are compared.

  fastgraph bench net.onnx --against onnxruntime,openvino
  fastgraph bench net.tflite --against litert,openvino --input cat.jpg --warmup 1
  fastgraph bench *.onnx --against onnxruntime --seconds 10 --json results.json --csv results.csv
  fastgraph bench a.onnx b.onnx --shape a.onnx:x=1,3,224,224 --shape b.onnx:x=8,3,64,64
  fastgraph bench net.onnx --cpu 3          on that CPU; --threads 2 --cpu 2,3
  fastgraph bench net.onnx --streams 4      inferences a second with 4 at the same time, and latencies under that load
  fastgraph bench net.onnx --cold           whole processes, from their start to the first result, and their memory
  fastgraph bench net.onnx --profile        time and multiply-adds of each step
  fastgraph bench net.onnx --against onnxruntime --html net.html        a page: latencies, roofline, arena, graph
  fastgraph bench --diff old.json new.json  what got slower since; exit code 1 if something did, by more than 5 %

With one thread, all run on one CPU. ratio = fastgraph's time / the engine's, the median over the rounds: below 1,
fastgraph is faster; 95 %: where that median lies with such confidence. load: from the file to a model that is ready,
first: its first inference, both with modules imported and fastgraph's cache filled. mJ: energy of an inference, where
/sys/class/powercap can be read. difference = largest difference of outputs / largest output; of integer outputs the
share of numbers that differ, and the largest difference. --streams: fastgraph runs clones, onnxruntime one session,
OpenVINO requests with its throughput hint, LiteRT interpreters, one a stream; ratio is of times, as without. A narrow
terminal shows fewer columns, --json and --csv all.

--cold: p50 and so on are of whole processes, which take turns; python (the interpreter), numpy, import (the engine's
modules), load and first are its parts; added MB is its peak beyond Python with NumPy. fastgraph's cache is full, or
empty: then it compiles kernels, if none came with the package; saved is a program that fastgraph compile writes.

A round in which another program had the CPU for more than 1 % of an engine's time is thrown away, for all engines.
When fewer than 5 are left, after twice the time that was asked for, the figures would be wrong: nothing is reported.

On a virtual machine a neighbor outside of it can have the other hyper-thread of the core, so that vectors take 1.4 of
their time and AMX 2 to 4. Probes of the core before, between and after calls show that (on one CPU of several).
Of the rounds that are left, those count in which all bursts had a quiet core; where these are fewer than 5, each
engine's own quiet bursts, and the ratio is the median over all pairs of them; where an engine has fewer than 5 of them,
all rounds, and it is said that these are figures of a shared core. --json and --csv have the counts, and what was
kept: rounds, bursts or all. --profile does so with runs. --streams and --cold are not probed.

Exit code 1 when results disagree, 2 when a file could not be measured: the others are; 3 when other programs disturb
too much: close them, or add --allow-noise. Of several files each gets the --shapes and --inputs that name it (FILE:),
and those of inputs that it has; inputs that nothing is given for are random. What an engine can't run is said. They
come with pip install 'fastgraph-runtime[bench]'
"""


def arguments(sub: argparse.ArgumentParser) -> None:
    options.running(sub, many=True, least=0)
    sub.add_argument("--cpu", type=_cpus, default=(), metavar="N", help="the CPU to run on; several with commas")
    sub.add_argument("--against", default="", metavar="ENGINES", help="of onnxruntime, openvino, litert; with commas")
    length = sub.add_mutually_exclusive_group()
    length.add_argument(
        "--seconds", type=options.seconds, default=3.0, help="how long to measure each model (default 3)"
    )
    length.add_argument("--runs", type=options.positive, metavar="N", help="rounds to measure instead")
    streams = "throughput of N clones at the same time, in a thread and on a CPU each"
    sub.add_argument("--streams", type=options.positive, metavar="N", help=streams)
    cold = "whole processes, from their start to the first result; --runs of each (default 11)"
    sub.add_argument("--cold", action="store_true", help=cold)
    warmup = "call each engine for so long before (default 0: a call before each burst)"
    sub.add_argument("--warmup", type=options.limit, default=0.0, metavar="SECONDS", help=warmup)
    options.feeding(sub, "[[FILE:]NAME=]FILE")
    sub.add_argument("--diff", nargs=2, metavar=("OLD.json", "NEW.json"), help="compare two results of --json instead")
    threshold = "with --diff: what a time may grow by (default 5 %%)"
    sub.add_argument("--threshold", type=options.limit, default=5.0, metavar="PERCENT", help=threshold)
    sub.add_argument("--allow-noise", action="store_true", help="report, with a mark, what others disturbed too much")
    sub.add_argument("--profile", action="store_true", help="also the time of each of fastgraph's steps")
    shown(sub)
    sub.add_argument("--html", metavar="FILE", help="also write a page with charts there: see fastgraph report")
    sub.add_argument("--history", metavar="FILE", help="add a line for each model there: see fastgraph history")
    sub.add_argument("--json", metavar="FILE", help="also write the results there; - for stdout, in place of the table")
    sub.add_argument("--samples", action="store_true", help="with every call in --json; without, medians of rounds")
    sub.add_argument("--csv", metavar="FILE", help="also write a line for each model and engine there")


def command(args: argparse.Namespace) -> int:
    from ..tools import bench, history

    for flag in ("json", "csv", "html", "trace", "history"):
        writable(f"--{flag}", getattr(args, flag), *args.model)
    if args.history and Path(args.history).exists():
        history.read(args.history)  # what is no history is not added to
    if args.diff:
        return _diff(args)
    if not args.model:
        raise InputError("which model? fastgraph bench MODEL ..., or --diff OLD.json NEW.json")
    against = _against(args)
    _placed(args)
    results: list[dict[str, Any]] = []
    plans: list[Executable] = []
    code, failed = each_file(args, lambda path, shapes: _measure(args, path, shapes, against, results, plans))
    means = {name: bench.geomean(results, name) for name in against}
    if results and args.json != "-":
        _summary(results, means)
    if args.history:
        history.append(args.history, [history.record(result, bench.machine()) for result in results])
    if args.csv:
        write(args.csv, bench.sheet(results))
    if args.html and results:
        _page(args.html, results, plans)
    if args.json:
        known = {"fastgraph": __version__, **bench.invocation(), "machine": bench.machine()}
        _write(args.json, known | {"models": results, "failed": failed, "geomeans": means})
    return code


def _measure(
    args: argparse.Namespace, path: str, shapes: Shapes, against: list[str], results: list[dict[str, Any]],
    plans: list[Executable],
) -> int:  # fmt: skip
    """Measure a file, and print its table; the exit code. Adds to `results`, and what was run to `plans`."""
    from ..tools import bench, profile

    how = {"threads": args.threads, "isa": args.isa, "precision": args.precision, "function": args.function}
    model = loaded(args, path, shapes)
    inputs = _feeds(args, path, model, shapes)
    looked = args.profile or args.html or args.trace
    if looked:
        plan = profile.fed(model, inputs)  # where a saved program has no graph to make it of, that is said first
    length = {"seconds": args.seconds, "rounds": args.runs}
    if args.cold:
        del how["precision"]
        result = bench.cold_start(path, inputs, against, args.runs, cpus=args.cpu, **how)
    elif args.streams:
        del how["threads"]
        result = bench.throughput(path, inputs, against, args.streams, cpus=args.cpu, **length, **how)
    else:
        length |= {"warmup": args.warmup}
        result = bench.compare(path, inputs, against, cpus=args.cpu, samples=args.samples, **length, **how)
    if not args.allow_noise and bench.agrees(result):
        bench.refuse(result)
    results.append(result)
    if looked:
        plans.append(plan)
        with bench.pinned(args.threads, args.cpu):
            result["profile"] = profile.profile(plan)
            if args.trace:
                write_trace(args.trace, plan, path)
    if args.json != "-":
        show(bench.text(result))
        if args.profile:
            call = 1e3 * result["engines"][0]["p50_ms"]
            show(profile.text(result["profile"], call, sort=args.sort, by=args.by, width=terminal_width()))
    return 0 if bench.agrees(result) else 1


def _page(path: str, results: list[dict[str, Any]], plans: list[Executable]) -> None:
    from ..tools import bench
    from ..tools.report import Measured, report

    found = [Measured(r["model"], plan, r["profile"], r) for r, plan in zip(results, plans, strict=True)]
    write(path, report(found, bench.machine(), __version__))
    note(f"written: {path}")


def _placed(args: argparse.Namespace) -> None:
    """InputError when threads, streams or feeds can't be arranged as the options ask."""
    from ..tools import bench

    options.preprocessing(args)
    if args.cold and args.precision:
        raise InputError("--cold starts have float32: leave --precision out")
    if args.streams and (args.threads > 1 or args.cold):
        raise InputError("--streams have one thread each, in one process: leave --threads and --cold out")
    looked = args.profile or args.html or args.trace
    if (args.streams or args.cold) and (looked or args.samples or args.warmup or args.history):
        raise InputError(
            "--profile, --html, --trace, --samples, --warmup and --history are for latencies: leave --streams and "
            "--cold out"
        )
    if args.trace and len(args.model) > 1:
        raise InputError("--trace is of one network: name one model")
    count, what = (args.streams, "streams") if args.streams else (args.threads, "threads")
    if args.cpu and len(set(args.cpu)) < count:
        raise InputError(f"--cpu {','.join(map(str, args.cpu))}: {count} {what} need as many CPUs")
    with bench.pinned(count, args.cpu):
        pass


def _diff(args: argparse.Namespace) -> int:
    from ..tools.bench import diff

    if args.model:
        raise InputError(f"--diff takes two results, and measures nothing: leave {' '.join(args.model)} out")
    old, new = args.diff
    found = diff.diff(old, new, args.threshold / 100, args.allow_noise)
    if args.json != "-":
        show(diff.text(found))
    if args.json:
        _write(args.json, found)
    return diff.exit_code(found)


def _feeds(args: argparse.Namespace, path: str, model: Model, shapes: Shapes) -> dict[str, Any]:
    """The arrays of --input for this file, and random ones for all other inputs."""
    from ..tools import feeds

    shared, own = addressed(args.input, args.model)
    if len(args.model) > 1:
        names = [spec.name for spec in model.inputs]
        shared = [text for text in shared if "=" not in text or any(text.startswith(f"{name}=") for name in names)]
    how = options.preprocessing(args)
    texts = [*shared, *own[path]]
    given = feeds.read_inputs(texts, model, how, file=path, shapes=shapes, float_io=args.float_io, say=note)
    return filled(model, shapes, given)


def _against(args: argparse.Namespace) -> list[str]:
    from ..tools.engines import check_names

    against = [name for name in args.against.split(",") if name]
    check_names(against)
    return against


def _summary(results: list[dict[str, Any]], means: Mapping[str, float | None]) -> None:
    from ..tools import bench

    known = [f"{mean:.3f} to {name}" for name, mean in means.items() if mean is not None]
    if known and len(results) > 1:
        found = [result["disturbance"] for result in results]
        marks = " (NOISY)" * any(each["noisy"] for each in found)
        marks += " (SOME OF A SHARED CORE)" * any(map(of_shared_core, found))
        show(f"geometric mean of the ratios{marks}: {', '.join(known)}")
    if known:
        show(bench.LEGEND)


def _write(place: str, found: Any) -> None:
    if place == "-":
        show(as_json(found))
    else:
        write(place, as_json(found) + "\n")


def _cpus(text: str) -> tuple[int, ...]:
    found = tuple(int(number) for number in text.split(",") if number.isdecimal())
    if len(found) != len(text.split(",")):
        raise argparse.ArgumentTypeError(f"expected the number of a CPU, or several with commas, found {text!r}")
    return found
