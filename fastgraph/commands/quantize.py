"""`fastgraph quantize`."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import options
from .common import as_json, note, show, writable

SUMMARY = "make an int8 network of a float one"
DESCRIPTION = """\
Quantize a float ONNX network after its training: ranges of its tensors are found on samples, and a QDQ file is written
that fastgraph and onnxruntime run on integers. Says how far its results are from the float network's, on samples that
were held back, and how fast both are here.

  fastgraph quantize net.onnx --data samples.npz -o net.int8.onnx
  fastgraph quantize net.onnx --data folder --snr 25             leave layers float until 25 dB are reached
  fastgraph quantize net.onnx --data folder --method entropy --equalize
  fastgraph quantize net.onnx --data folder --exclude Gemm --exclude /head/Conv
  fastgraph quantize net.onnx --data folder --weights 4          weights alone in 4 bits, sums stay float
  fastgraph quantize net.onnx --data folder --dynamic            for encoders of text: ranges found in each run

--data is a folder, each file of which, and of folders in it, is one sample (.npy, .npz, .pb, images, folders of ONNX's
test data), or an .npz, whose arrays have an axis of samples before the input's, or more rows in the place of its batch.

Exit code 1 when --snr is not reached.
"""


def arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("model", metavar="MODEL.onnx", help="a float network")
    sub.add_argument("--data", required=True, metavar="PLACE", help="samples to calibrate by: a folder or an .npz")
    sub.add_argument("-o", "--output", metavar="FILE.onnx", help="default: the model's name with .int8.onnx")
    sub.add_argument("--samples", type=options.positive, metavar="N", help="how many to use at most (default: all)")
    ways = ("mse", "minmax", "percentile", "entropy")
    sub.add_argument("--method", choices=ways, default="mse", help="how ranges are found (default mse)")
    sub.add_argument("--percentile", type=options.limit, default=99.99, metavar="P", help="of --method percentile")
    sub.add_argument("--activations", choices=("uint8", "int8"), default="uint8", help="default uint8")
    sub.add_argument("--per-tensor", action="store_true", help="one scale for all weights of a layer")
    sub.add_argument("--equalize", action="store_true", help="equalize channels between convolutions first")
    sub.add_argument("--no-bias-correction", action="store_true", help="biases, Adds after MatMul stay as they are")
    sub.add_argument("--weights", type=int, choices=(8, 4), metavar="BITS", help="only weights, in 8 or 4 bits")
    sub.add_argument("--block", type=options.positive, default=32, metavar="N", help="weights with a scale in common")
    sub.add_argument("--dynamic", action="store_true", help="activations are quantized in each run")
    sub.add_argument("--exclude", action="append", default=[], metavar="NODE", help="a node's name, or an operator")
    sub.add_argument("--snr", type=options.limit, metavar="DB", help="leave layers float until this is reached")
    sub.add_argument("--seconds", type=options.limit, default=1.0, help="how long to measure both; 0: not at all")
    sub.add_argument("--json", action="store_true", help="print JSON")


def command(args: argparse.Namespace) -> int:
    from ..quantize import Options, quantize

    output = args.output or f"{Path(args.model).stem}.int8.onnx"
    writable("--output", output, args.model, args.data, kinds=(".onnx",))
    how = Options(
        method=args.method, percentile=args.percentile, activations=args.activations, per_channel=not args.per_tensor,
        equalize=args.equalize, bias_correction=not args.no_bias_correction, weights=args.weights, block=args.block,
        dynamic=args.dynamic, exclude=tuple(args.exclude), snr=args.snr,
    )  # fmt: skip
    found = quantize(args.model, args.data, output, most=args.samples, seconds=args.seconds, options=how)
    show(as_json(found.as_json()) if args.json else found)
    if args.snr is None or found.snr >= args.snr:
        return 0
    note(f"{output}: --snr {args.snr:g} is not reached: {found.snr:.1f} dB")
    return 1
