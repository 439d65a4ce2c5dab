"""`fastgraph verify`."""

from __future__ import annotations

import argparse

from . import options
from .common import Shapes, as_json, each_file, filled, loaded, note, show, terminal_width

SUMMARY = "compare each step with its reference, and outputs with other engines'"
DESCRIPTION = """\
Check that a model is computed right on this machine: run each step of the plan, and each operator of the file, beside
its NumPy reference on the values that the plan has there, name the first step and the first operator that differ, and
compare the outputs with other engines'.

  fastgraph verify net.onnx
  fastgraph verify net.onnx --against onnxruntime
  fastgraph verify net.tflite --input cat.jpg --isa avx2 --against litert
  fastgraph verify net.onnx --shape x=1,3,224,224 --json

Inputs without --input get the random arrays of bench. The largest error of floats is relative to the largest sum of
magnitudes that a result comes from; of integers it is a difference of stored numbers, where 1 is allowed to rounding.
Exit code 1 when something differs, 2 when a file could not be checked: the others are.
Steps that NumPy computes have no reference beside them. An operator whose result is within a kernel is compared with
what follows from it; where a kernel rounds more than once, only its step is checked. Where an operator differs and no
step, the rule is wrong that wrote the operator as those steps.
"""


def arguments(sub: argparse.ArgumentParser) -> None:
    options.running(sub, many=True)
    sub.add_argument("--input", action="append", default=[], metavar="[NAME=]FILE", help="what to feed; repeatable")
    sub.add_argument("--against", default="", metavar="ENGINES", help="of onnxruntime, openvino, litert; with commas")
    sub.add_argument("--json", action="store_true", help="print JSON, with every step")


def command(args: argparse.Namespace) -> int:
    from ..tools import feeds, verify

    reports = []

    def check(path: str, shapes: Shapes) -> int:
        model = loaded(args, path, shapes)
        given = feeds.read_inputs(args.input, model, file=path, shapes=shapes, say=note)
        report = verify.verify(model, filled(model, shapes, given), [name for name in args.against.split(",") if name])
        reports.append(verify.as_json(report))
        if not args.json:
            show(verify.text(report, terminal_width()))
        return 0 if report.ok else 1

    code, _ = each_file(args, check)
    if args.json and reports:
        show(as_json(reports if len(args.model) > 1 else reports[0]))
    return code
