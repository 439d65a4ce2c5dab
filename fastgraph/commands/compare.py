"""`fastgraph compare`."""

from __future__ import annotations

import argparse
from typing import Any

from . import options
from .common import as_json, note, show, terminal_width, writable, write

SUMMARY = "compare two networks, or a network and an engine"
DESCRIPTION = """\
Say how far B is from A, on the same numbers: two files of any format, or a file and an engine (onnxruntime, openvino,
litert), which runs that file. Inputs and outputs are paired by name, then by shape, then by values, in any layout.

  fastgraph compare net.onnx net.tflite                      was it converted right; where not, the first layer
  fastgraph compare float.onnx int8.onnx --layers            how far each layer of a quantized network drifts
  fastgraph compare net.mlpackage net.onnx --input x=x.npy --map "probs=Identity:0"
  fastgraph compare net.onnx onnxruntime --runs 10
  fastgraph compare a.onnx b.onnx --rtol 1e-5 --atol 1e-7 --json
  fastgraph compare float.tflite int8.tflite --snr 20 --html report.html

A is what B is held against. Relative is over the largest |a| of an output: |b - a| <= atol + rtol * largest |a|. SNR is
the power of a over that of b - a, in dB. argmax: how many rows of scores have the same largest. Without limits,
outputs may differ by --rtol 1e-3, and where a network is quantized need --snr 10. Inputs without --input get random
numbers, which a quantized input can take; --input and --shape name A's inputs. Arrays that hold several samples, in an
axis before the input's or in the place of its batch, are run one by one.

Layers are compared, with the same limits, where outputs differ, and with --layers or --html: tensors of the two
files are paired by shape and value. Those that exist only within a kernel are left out, and named beside the next one;
of quantized networks they are what NumPy makes of the values before them.
Exit code 1 when B is beyond the limits, or lacks an output of A; 2 when they could not be compared.
"""


def arguments(sub: argparse.ArgumentParser) -> None:
    options.isa(sub)
    options.precision(sub)
    sub.add_argument("a", metavar="A", help="a file or an .mlpackage, or an engine: onnxruntime, openvino, litert")
    sub.add_argument("b", metavar="B", help="likewise; an engine runs the other one's file")
    sub.add_argument("--map", action="append", default=[], metavar="A=B", help="an input or output of each; repeatable")
    sub.add_argument("--input", action="append", default=[], metavar="[NAME=]FILE", help="what to feed A; repeatable")
    sub.add_argument(
        "--runs", type=options.positive, default=1, metavar="N", help="draws of random numbers (default 1)"
    )
    for name, what in (("atol", "largest |b - a|"), ("rtol", "the same over the largest |a|"), ("snr", "least dB")):
        sub.add_argument(f"--{name}", type=options.limit, metavar="X", help=f"limit: {what}")
    sub.add_argument("--layers", action="store_true", help="a line for each layer, also where outputs agree")
    sub.add_argument("--html", metavar="FILE", help="write a page with all of it")
    options.opening(sub)
    options.threads(sub, 1, "1")
    sub.add_argument("--json", action="store_true", help="print JSON, with every layer that was compared")


def command(args: argparse.Namespace) -> int:
    from ..tools import compare, compare_text, feeds

    writable("--html", args.html, args.a, args.b)
    given = (args.atol, args.rtol, args.snr)
    limits = None if given == (None, None, None) else compare.Limits(*given)
    shapes = feeds.parse_shapes(args.shape)

    def read(model: Any) -> Any:
        return feeds.read_inputs(args.input, model, file=args.a, shapes=shapes, say=note)

    found = compare.compare(
        args.a, args.b, read, pairs=args.map,
        limits=limits, runs=args.runs, inside=bool(args.layers or args.html), shapes=shapes,
        threads=args.threads, isa=args.isa, precision=args.precision, function=args.function,
    )  # fmt: skip
    if args.html:
        write(args.html, compare_text.html(found))
    show(as_json(compare.as_json(found)) if args.json else compare_text.text(found, args.layers, terminal_width()))
    return 0 if found.ok else 1
