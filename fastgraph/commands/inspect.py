"""`fastgraph inspect`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ..errors import FastgraphError, InputError
from . import options
from .common import as_json, granted, loaded, say, show, terminal_width

SUMMARY = "show a model's plan"
DESCRIPTION = """\
Show what a model reads and makes, the steps it became, the kernel of each, and the memory it needs.
A step's offset is its result's place in the arena, in bytes. A quantized tensor shows what a stored number q
stands for: uint8[1,10] {0.5 * (q - 128)}.

  fastgraph inspect net.tflite
  fastgraph inspect net.onnx --memory       a picture of the arena over time
  fastgraph inspect net.onnx --stages       the graph as text, as read and after each stage of rewriting
  fastgraph inspect net.onnx --asm 3         a step's arguments by name, and the machine code of its kernel
  fastgraph inspect net.mlpackage --function decode
  fastgraph inspect --host folder net.tflite      what NumPy computes, of all networks there, since no kernel does it
  fastgraph inspect net.fgm --check         what is in a saved program; none of it is run
  fastgraph inspect net.onnx --json
"""


def arguments(sub: argparse.ArgumentParser) -> None:
    options.running(sub, many=True, all_threads=True)
    what = sub.add_mutually_exclusive_group()
    what.add_argument("--graph", action="store_true", help="the graph as text, as the plan has it")
    what.add_argument("--stages", action="store_true", help="the graph as text after each stage")
    what.add_argument("--memory", action="store_true", help="a picture of the arena")
    what.add_argument(
        "--asm", type=options.number, metavar="STEP", help="a step's call and machine code, by its number"
    )
    what.add_argument("--check", action="store_true", help="compare all checksums of a saved program")
    what.add_argument("--host", action="store_true", help="what NumPy computes, over files and folders")
    sub.add_argument("--json", action="store_true", help="print JSON: of the summary, or of --host")


def command(args: argparse.Namespace) -> int:
    from ..runtime.feeds import declared
    from ..tools import asm, feeds, inspect, saved

    shapes = feeds.parse_shapes(args.shape)
    if args.host:
        return _host(args, shapes)
    (path, *more) = args.model
    if more:
        raise InputError(f"inspect shows one model, {len(args.model)} were named: --host takes many")
    whole = args.graph or args.stages or args.memory or args.asm is not None
    if saved.saved_in(path) and not whole:
        known = saved.facts(path, args.check)
        show(as_json(known) if args.json else saved.text(known))
        return 0
    if args.check:
        raise InputError(f"--check {path}: it is no saved program, which alone has checksums")
    if args.json and whole:
        raise InputError("--json is for the summary and for --host")
    if args.stages:
        graph = saved.graph_of(path, args.function)
        declared(graph, shapes)
        with suppress(InputError):
            shapes |= granted(graph, shapes)
        show(inspect.stages_text(graph, shapes))
        return 0
    model = loaded(args, path, shapes)
    if inspect.unplanned(model):
        with suppress(FastgraphError):
            model.resize(granted(model.signature, shapes))
    if (args.graph or args.memory or args.asm is not None) and (why := inspect.unplanned(model)):
        raise InputError(why)
    if args.graph:
        show(model.plan.graph)
    elif args.memory:
        show(inspect.memory_text(model))
    elif args.asm is not None:
        show(asm.step_text(model.plan, args.asm))
    else:
        facts = inspect.file_facts(path)
        if args.json:
            show(as_json(inspect.model_json(model, facts)))
        else:
            show(inspect.summary_text(model, facts, terminal_width()))
    return 0


def _host(args: argparse.Namespace, shapes: Mapping[str, Sequence[int]]) -> int:
    from ..kernels.isa.tiers import choose
    from ..tools import numpy_operators

    found = numpy_operators.report(args.model, choose(args.isa), shapes, args.function)
    show(as_json(found) if args.json else numpy_operators.text(found, terminal_width()))
    for path, why in found["refused"].items():
        say(InputError(why if path in why else f"{path}: {why}"))
    return 2 if found["refused"] else 0
