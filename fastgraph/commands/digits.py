"""`fastgraph digits`."""

from __future__ import annotations

import argparse

from . import options
from .common import as_json, note, show

SUMMARY = "classify handwritten digits: a first try"
DESCRIPTION = """\
Classify the held-out digits of the network that ships with fastgraph, one by one: accuracy, latency, memory, kernels.

  fastgraph digits
  fastgraph digits --save .                 also write its files, to try other commands on
  fastgraph run digits.onnx --input image.npy --labels labels.txt
"""


def arguments(sub: argparse.ArgumentParser) -> None:
    options.isa(sub)
    sub.add_argument("--save", metavar="FOLDER", help="also write digits.onnx, image.npy and labels.txt there")
    options.threads(sub, 1, "1")
    sub.add_argument("--json", action="store_true", help="print JSON")


def command(args: argparse.Namespace) -> int:
    from ..demo import digits

    if args.save is not None:
        for path in digits.save(args.save):
            note(f"written: {path}")
    result = digits.classify(args.threads, args.isa)
    show(as_json(result) if args.json else digits.text(result))
    return 0
