"""`fastgraph compile`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..kernels.isa.tiers import BY_NAME
from . import options
from .common import as_json, granted, show, writable

SUMMARY = "save a program that runs without a compiler"
DESCRIPTION = """\
Save a program that fastgraph.load maps and runs without a compiler: plans, machine code, packed weights, and the graph,
of which further shapes are planned where there is a compiler, or with --any-shape. Copy the file to where it runs;
NumPy is all it needs.

  fastgraph compile net.onnx                                   net.fgm, for this CPU
  fastgraph compile net.onnx -o out.fgm --isa avx2,avx512vnni,amx
  fastgraph compile net.onnx --shape x=1,3,224,224 --shape x=8,3,224,224       two sets of shapes
  fastgraph compile net.onnx --any-shape                       plans further shapes without a compiler
  fastgraph inspect net.fgm                                    what is in it

A load takes the widest tier that its CPU has. The file holds machine code: load it as you would run a program.
"""


def arguments(sub: argparse.ArgumentParser) -> None:
    options.model(sub)
    sub.add_argument("-o", "--output", metavar="FILE.fgm", help="default: the model's name with .fgm, in this folder")
    sub.add_argument("--isa", metavar="TIERS", help=f"of {', '.join(BY_NAME)}, with commas; default: the widest here")
    options.precision(sub)
    sub.add_argument("--threads", metavar="N,...", help="for how many; default: the CPUs that this process may use")
    sub.add_argument("--no-graph", action="store_true", help="leave the graph out: half the size, no further shapes")
    sub.add_argument("--any-shape", action="store_true", help="keep all kernels: further shapes need no compiler")
    sub.add_argument("--json", action="store_true", help="print JSON")


def command(args: argparse.Namespace) -> int:
    from ..loading import load
    from ..tools import saved

    place = args.output or f"{Path(args.model).stem}.fgm"
    writable("--output", place, args.model, kinds=(".fgm", ""))
    sets = saved.shape_sets(args.shape)
    threads = None if args.threads is None else saved.counts(args.threads)
    shapes = sets[0] if len(sets) == 1 else None
    most = None if threads is None else max(threads)
    model = load(args.model, threads=most, precision=args.precision, shapes=shapes, function=args.function)
    if not sets and not model.planned:
        sets = [granted(model.signature, {})]
    wanted = sets if sets and shapes is None else None
    model.save(place, shapes=wanted, isa=args.isa, threads=threads, graph=not args.no_graph, any_shape=args.any_shape)
    found = saved.facts(place)
    show(as_json(found) if args.json else saved.text(found))
    return 0
