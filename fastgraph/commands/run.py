"""`fastgraph run`."""

from __future__ import annotations

import argparse

from ..errors import InputError
from . import options
from .common import as_json, filled, loaded, note, show, terminal_width, writable

SUMMARY = "run a model"
DESCRIPTION = """\
Run a model once for its results, then --repeat times for its latency.

  fastgraph run net.onnx --random
  fastgraph run net.onnx --input x=x.npy --output out.npz
  fastgraph run net.tflite --input cat.jpg --labels labels.txt
  fastgraph run net.tflite --input x.npy --float-io
  fastgraph run net.onnx --input inputs.npz --threads 2 --repeat 100 --json
  fastgraph run net.onnx --input test_data_set_0 --expect test_data_set_0         (ONNX's test data)
  fastgraph run net.onnx --random --shape x=1,3,224,224     (for inputs whose shape the file leaves open)

--input takes .npy, .npz (arrays by name), .pb (TensorProto), a folder of input_0.pb ..., images, audio, and any other
file as the input's raw bytes; - is standard input. NAME= may be left out when the model has one input.

An image (.bmp; .png, .jpg, .gif, .webp need pip install 'fastgraph-runtime[images]') is resized to the input's
height and width. Then uint8 inputs take the pixels 0..255 as they are, int8 inputs the pixel - 128, float inputs the
pixel / 255. With --mean or --std it is (pixel - mean) / std, which a quantized input takes by its own scale. Where they
are not given and the file's metadata has them (NormalizationOptions of TensorFlow Lite, Image.NominalPixelRange and
Image.BitmapPixelFormat of ONNX), those are taken. What was done is said on stderr.

Audio (pip install 'fastgraph-runtime[audio]') becomes one channel, the mean of all, in -1..1 or int16; --rate resamples
it. It is cut, or filled up with zeros, to an input of fixed length.
"""


def arguments(sub: argparse.ArgumentParser) -> None:
    options.running(sub, all_threads=True)
    options.feeding(sub)
    sub.add_argument("--random", action="store_true", help="random arrays for the inputs that --input leaves out")
    sub.add_argument("--labels", metavar="FILE", help="names of classes, one a line: print the likeliest")
    sub.add_argument("--top", type=options.positive, default=5, metavar="N", help="how many of them (default 5)")
    sub.add_argument("-o", "--output", metavar="FILE.npz", help="where to write the outputs; or the only one, as .npy")
    expect = "what they should be: .npz, .npy, .pb or a folder of output_0.pb ...; exit code 1 when they are not"
    sub.add_argument("--expect", metavar="FILE", help=expect)
    sub.add_argument("--repeat", type=options.positive, default=10, metavar="N", help="timed runs (default 10)")
    sub.add_argument("--json", action="store_true", help="print JSON")


def command(args: argparse.Namespace) -> int:
    from ..tools import feeds, labels, run, tensors

    writable("--output", args.output, args.model, kinds=run.KINDS)
    how = options.preprocessing(args)
    shapes = feeds.parse_shapes(args.shape)
    named = labels.read_labels(args.labels) if args.labels else None
    model = loaded(args, args.model, shapes)
    given = feeds.read_inputs(args.input, model, how, file=args.model, shapes=shapes, float_io=args.float_io, say=note)
    if args.random:
        given = filled(model, shapes, given)
    elif model.inputs and not given:
        wanted = " ".join(f"--input {spec.name}=FILE" for spec in model.inputs)
        raise InputError(f"the model has inputs: feed them with {wanted}, or use --random")
    outputs, seconds = run.run(model, given, args.repeat)
    top = None if named is None else labels.top_classes(outputs, model.outputs, named, args.top)
    if args.float_io:
        outputs = feeds.edge_out(outputs, model.outputs)
    if args.output:
        note(f"written: {args.output}: {', '.join(run.save(args.output, outputs))}")
    result = run.result_json(model, outputs, seconds, top)
    if args.expect:
        result["differences"] = tensors.differences(outputs, tensors.expected(args.expect, list(outputs)))
    show(as_json(result) if args.json else run.text(result, terminal_width()))
    return 1 if result.get("differences") else 0
