"""The command `fastgraph`."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import FastgraphError, InputError
from ..kernels.isa.tiers import BY_NAME, NUMPY
from ..text import shorten, visible

if TYPE_CHECKING:
    from ..ir import Graph

Shapes = Mapping[str, Sequence[int]]

DESCRIPTION = """\
Runs neural-network files (ONNX, TensorFlow Lite, Circle, Core ML) as one block of machine work.

  fastgraph digits                          try it: a network that ships with fastgraph
  fastgraph inspect net.tflite              what is in the file, and what becomes of it
  fastgraph run net.onnx --random           run it on random inputs
  fastgraph run net.tflite --input cat.jpg --labels labels.txt
  fastgraph bench net.onnx --against onnxruntime,openvino
  fastgraph verify net.onnx --against onnxruntime        is it computed right, step by step
  fastgraph compare net.onnx net.tflite     is it the same network; if not, which layer differs first
  fastgraph compile net.onnx                save a program that runs without a compiler
  fastgraph kernels --build                 compile all kernels now, for a container or a read-only system
"""

RUN = """\
Run a model once for its results, then --repeat times for its latency.

  fastgraph run net.onnx --random
  fastgraph run net.onnx --input x=x.npy --output out.npz
  fastgraph run net.tflite --input cat.jpg --labels labels.txt
  fastgraph run net.tflite --input x.npy --float-io
  fastgraph run net.onnx --input inputs.npz --threads 2 --repeat 100 --json
  fastgraph run net.onnx --input test_data_set_0 --expect test_data_set_0         (ONNX's test data)
  fastgraph run net.onnx --random --shape x=1,3,224,224     (for inputs whose shape the file leaves open)

--input takes .npy, .npz (arrays by name), .pb (TensorProto), a folder of input_0.pb ..., images, and any other file as
the input's raw bytes. NAME= may be left out
when the model has one input.

An image (.bmp; .png, .jpg, .gif, .webp need pip install 'fastgraph-runtime[images]') is resized to the input's
height and width. Then uint8 inputs take the pixels 0..255 as they are, int8 inputs the pixel - 128, float inputs the
pixel / 255. With --mean or --std it is (pixel - mean) / std, which a quantized input takes by its own scale.
"""

INSPECT = """\
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

BENCH = """\
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

VERIFY = """\
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
what follows from it. Where an operator differs and no step, the rule is wrong that wrote the operator as those steps.
"""

COMPARE = """\
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
numbers, which a quantized input can take; --input and --shape name A's inputs.

Layers are compared, with the same limits, where outputs differ, and with --layers, --html or --png: tensors of the two
files are paired by shape and value. Those that exist only within a kernel are left out, and named beside the next one.
Exit code 1 when B is beyond the limits, or lacks an output of A; 2 when they could not be compared.
"""

COMPILE = """\
Save a program that fastgraph.load maps and runs without a compiler: plans, machine code, packed weights, and the graph,
of which further shapes are planned where there is a compiler. Copy the file to where it runs; NumPy is all it needs.

  fastgraph compile net.onnx                                   net.fgm, for this CPU
  fastgraph compile net.onnx -o out.fgm --isa avx2,avx512vnni,amx
  fastgraph compile net.onnx --shape x=1,3,224,224 --shape x=8,3,224,224       two sets of shapes
  fastgraph inspect net.fgm                                    what is in it

A load takes the widest tier that its CPU has. The file holds machine code: load it as you would run a program.
"""

DIGITS = """\
Classify the held-out digits of the network that ships with fastgraph, one by one: accuracy, latency, memory, kernels.

  fastgraph digits
  fastgraph digits --save .                 also write its files, to try other commands on
  fastgraph run digits.onnx --input image.npy --labels labels.txt
"""

KERNELS = """\
List the kernels that any network can want on a tier, and which of them came ready with the package or are in the
cache of compiled kernels. A load compiles those that it wants and neither has.

  fastgraph kernels                         objects by family and kernel, those ready, in the cache, and their bytes
  fastgraph kernels --build                 compile all that are missing, with all CPUs
  fastgraph kernels --build --isa avx2      for another machine: this one need not have the instructions
  fastgraph kernels --json                  each with its parameters

For a container or a read-only system, build into a folder of the image, which loads then only read:

  FASTGRAPH_CACHE_DIR=/opt/fastgraph fastgraph kernels --build && chmod -R a+rX /opt/fastgraph

and set FASTGRAPH_CACHE_DIR=/opt/fastgraph where it runs. The folder must belong to root or to the user who runs
models, with the same versions of fastgraph, numba and Python.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit code: 0, 1 when results disagree, 2 for errors (one line on stderr), 3 when the machine
    is too busy to measure.
    """
    args = _parsed(argv)
    try:
        _register(getattr(args, "custom_ops", []))
        code = args.command(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (FastgraphError, OSError, ValueError) as error:
        return _say(error)
    except KeyboardInterrupt:
        return 130


def _register(paths: Sequence[str]) -> None:
    """Run files that register operators. InputError, which names the file, where one raises."""
    for number, path in enumerate(paths):
        spec = spec_from_file_location(f"fastgraph_custom_ops_{number}", path)
        if spec is None or spec.loader is None:
            raise InputError(f"--custom-ops {path}: expected a file of Python, called *.py")
        module = sys.modules[spec.name] = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise InputError(f"--custom-ops {path}: {type(error).__name__}: {error}") from error


def _say(error: Exception) -> int:
    """Print an error; its exit code, 2 by default."""
    what = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        what = f"{error.filename}: {error.strerror}"
    print("error: " + visible(shorten(" ".join(what.split()), 4000)), file=sys.stderr)
    return getattr(error, "exit_code", 2)


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments. Models may stand on both sides of options."""
    top = parser()
    if not (sys.argv[1:] if argv is None else argv):
        top.print_help(sys.stderr)
        raise SystemExit(2)
    args, rest = top.parse_known_args(argv)
    if rest and (not isinstance(getattr(args, "model", None), list) or any(word.startswith("-") for word in rest)):
        top.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        args.model += rest
    return args


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser("fastgraph", description=DESCRIPTION, formatter_class=_Raw)
    top.add_argument("--version", action="version", version=f"fastgraph {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(command: Any, summary: str, description: str, arguments: Callable[[argparse.ArgumentParser], None]) -> None:
        name = command.__name__[1:]
        sub = commands.add_parser(name, help=summary, description=description, formatter_class=_Raw)
        sub.set_defaults(command=command)
        tiers = (*BY_NAME, NUMPY.name) if name != "kernels" else tuple(BY_NAME)
        if name != "compile":
            said = f"{', '.join(tiers)}; default: the widest here"
            sub.add_argument("--isa", choices=tiers, metavar="TIER", help=said)
        arguments(sub)

    add(_run, "run a model", RUN, _run_arguments)
    add(_inspect, "show a model's plan", INSPECT, _inspect_arguments)
    add(_bench, "measure models, and other engines beside", BENCH, _bench_arguments)
    add(_verify, "compare each step with its reference, and outputs with other engines'", VERIFY, _verify_arguments)
    add(_compare, "compare two networks, or a network and an engine", COMPARE, _compare_arguments)
    add(_compile, "save a program that runs without a compiler", COMPILE, _compile_arguments)
    add(_kernels, "list all kernels, and compile those that the cache lacks", KERNELS, _kernels_arguments)
    add(_digits, "classify handwritten digits: a first try", DIGITS, _digits_arguments)
    return top


def _run_arguments(sub: argparse.ArgumentParser) -> None:
    _model(sub)
    _threads(sub, None, "the CPUs that this process may use")
    sub.add_argument("--input", action="append", default=[], metavar="[NAME=]FILE", help="what to feed; repeatable")
    sub.add_argument("--random", action="store_true", help="random arrays for the inputs that --input leaves out")
    sub.add_argument("--float-io", action="store_true", help="floats in and out of quantized inputs and outputs")
    pixels = "of the pixels 0..255 of an image; or one a channel: 123.7,116.3,103.5"
    sub.add_argument("--mean", type=_numbers, metavar="X", help=f"mean {pixels}")
    sub.add_argument("--std", type=_numbers, metavar="X", help="standard deviation, likewise")
    sub.add_argument("--stored-pixels", action="store_true", help="the bytes of an image are what int8 inputs store")
    sub.add_argument("--labels", metavar="FILE", help="names of classes, one a line: print the likeliest")
    sub.add_argument("--top", type=_positive, default=5, metavar="N", help="how many of them (default 5)")
    sub.add_argument("--output", metavar="FILE.npz", help="where to write the outputs")
    expect = "what they should be: .npz, .npy, .pb or a folder of output_0.pb ...; exit code 1 when they are not"
    sub.add_argument("--expect", metavar="FILE", help=expect)
    sub.add_argument("--repeat", type=_positive, default=10, metavar="N", help="timed runs (default 10)")
    sub.add_argument("--json", action="store_true", help="print JSON")


def _inspect_arguments(sub: argparse.ArgumentParser) -> None:
    _model(sub, many=True)
    _threads(sub, None, "the CPUs that this process may use")
    what = sub.add_mutually_exclusive_group()
    what.add_argument("--graph", action="store_true", help="the graph as text, as the plan has it")
    what.add_argument("--stages", action="store_true", help="the graph as text after each stage")
    what.add_argument("--memory", action="store_true", help="a picture of the arena")
    what.add_argument("--asm", type=_number, metavar="STEP", help="a step's call and machine code, by its number")
    what.add_argument("--check", action="store_true", help="compare all checksums of a saved program")
    what.add_argument("--host", action="store_true", help="what NumPy computes, over files and folders")
    sub.add_argument("--json", action="store_true", help="print JSON: of the summary, or of --host")


def _bench_arguments(sub: argparse.ArgumentParser) -> None:
    _model(sub, many=True)
    _threads(sub, 1, "1")
    sub.add_argument("--against", default="", metavar="ENGINES", help="of onnxruntime, openvino, litert; with commas")
    length = sub.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=_seconds, default=3.0, help="how long to measure each model (default 3)")
    length.add_argument("--runs", type=_positive, metavar="N", help="rounds to measure instead")
    sub.add_argument("--allow-noise", action="store_true", help="report, with a mark, what others disturbed too much")
    sub.add_argument("--profile", action="store_true", help="also the time of each of fastgraph's steps")
    sub.add_argument("--json", metavar="FILE", help="also write the results there; - for stdout, in place of the table")


def _verify_arguments(sub: argparse.ArgumentParser) -> None:
    _model(sub, many=True)
    _threads(sub, 1, "1")
    sub.add_argument("--input", action="append", default=[], metavar="[NAME=]FILE", help="what to feed; repeatable")
    sub.add_argument("--against", default="", metavar="ENGINES", help="of onnxruntime, openvino, litert; with commas")
    sub.add_argument("--json", action="store_true", help="print JSON, with every step")


def _compare_arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("a", metavar="A", help="a file or an .mlpackage, or an engine: onnxruntime, openvino, litert")
    sub.add_argument("b", metavar="B", help="likewise; an engine runs the other one's file")
    sub.add_argument("--map", action="append", default=[], metavar="A=B", help="an input or output of each; repeatable")
    sub.add_argument("--input", action="append", default=[], metavar="[NAME=]FILE", help="what to feed A; repeatable")
    sub.add_argument("--runs", type=_positive, default=1, metavar="N", help="draws of random numbers (default 1)")
    for name, what in (("atol", "largest |b - a|"), ("rtol", "the same over the largest |a|"), ("snr", "least dB")):
        sub.add_argument(f"--{name}", type=_limit, metavar="X", help=f"limit: {what}")
    sub.add_argument("--layers", action="store_true", help="a line for each layer, also where outputs agree")
    sub.add_argument("--html", metavar="FILE", help="write a page with all of it")
    sub.add_argument("--png", metavar="FILE", help="write a picture of the layers; needs matplotlib")
    _opening(sub)
    _threads(sub, 1, "1")
    sub.add_argument("--json", action="store_true", help="print JSON, with every layer that was compared")


def _compile_arguments(sub: argparse.ArgumentParser) -> None:
    _model(sub)
    sub.add_argument("-o", "--output", metavar="FILE.fgm", help="default: the model's name with .fgm, in this folder")
    sub.add_argument("--isa", metavar="TIERS", help=f"of {', '.join(BY_NAME)}, with commas; default: the widest here")
    sub.add_argument("--threads", metavar="N,...", help="for how many; default: the CPUs that this process may use")
    sub.add_argument("--no-graph", action="store_true", help="leave the graph out: half the size, no further shapes")
    sub.add_argument("--json", action="store_true", help="print JSON")


def _kernels_arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--build", action="store_true", help="compile what is missing")
    sub.add_argument("--json", action="store_true", help="print JSON, with each kernel")


def _digits_arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--save", metavar="FOLDER", help="also write digits.onnx, image.npy and labels.txt there")
    _threads(sub, 1, "1")
    sub.add_argument("--json", action="store_true", help="print JSON")


class _Raw(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=110)


def _model(sub: argparse.ArgumentParser, many: bool = False) -> None:
    sub.add_argument("model", metavar="MODEL", nargs="+" if many else None, help="a file or an .mlpackage")
    _opening(sub)


def _opening(sub: argparse.ArgumentParser) -> None:
    """How a file is loaded."""
    shape = "shape of an input that the file leaves open; repeatable"
    sub.add_argument("--function", metavar="NAME", help="which function of a Core ML program")
    sub.add_argument("--shape", action="append", default=[], metavar="NAME=1,3,224,224", help=shape)
    registers = "Python that calls fastgraph.register_custom_op; repeatable"
    sub.add_argument("--custom-ops", action="append", default=[], metavar="FILE.py", help=registers)


def _threads(sub: argparse.ArgumentParser, default: int | None, said: str) -> None:
    sub.add_argument("--threads", type=_positive, default=default, metavar="N", help=f"default: {said}")


def _numbers(text: str) -> list[float]:
    try:
        numbers = [float(number) for number in text.split(",")]
    except ValueError:
        numbers = [math.nan]
    if not all(map(math.isfinite, numbers)):
        raise argparse.ArgumentTypeError(f"expected finite numbers, found {text!r}")
    return numbers


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, found {text!r}")
    return int(text)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected the number of a step, found {text!r}")
    return int(text)


def _limit(text: str) -> float:
    (limit, *more) = _numbers(text)
    if more or limit < 0:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, found {text!r}")
    return limit


def _seconds(text: str) -> float:
    (seconds, *more) = _numbers(text)
    if more or seconds <= 0:
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")
    return seconds


def _print(text: object) -> None:
    print(visible(str(text)))


# -- commands: what each needs is imported only there


def _writable(flag: str, name: str | None) -> None:
    """InputError when the file can't be written, before there is something to write."""
    if name in (None, "-"):
        return
    path = Path(str(name))
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        what = "it is a folder" if path.is_dir() else f"no file can be written in {path.parent}"
        raise InputError(f"{flag} {name}: {what}")


def _granted(graph: Graph, given: Container[str]) -> dict[str, tuple[int, ...]]:
    """The shapes assumed for open inputs, which it prints. InputError when more than a batch is open."""
    from . import feeds

    found = feeds.taken_for_granted(graph, given)
    if found:
        said = " ".join(f"--shape {name}={','.join(map(str, shape))}" for name, shape in found.items())
        print(visible(f"{graph.source}: taken for granted: {said}"), file=sys.stderr)
    return found


def _each(args: argparse.Namespace, command: Callable[[str, Shapes], int]) -> tuple[int, dict[str, str]]:
    """Run a command on each file with its shapes; errors are printed, and the next file follows. The greatest exit
    code, and why files failed.
    """
    shapes = _shapes_of(args)
    code, failed = 0, {}
    for path in args.model:
        try:
            code = max(code, command(path, shapes[path]))
        except BrokenPipeError:
            raise
        except (FastgraphError, MemoryError, OSError) as error:
            failed[path] = str(error)
            code = max(code, _say(error if path in str(error) else InputError(f"{path}: {error}")))
        sys.stdout.flush()
    return code, failed


def _shapes_of(args: argparse.Namespace) -> dict[str, Shapes]:
    """The shapes for each file: of several files, each takes those of inputs that it has. InputError when none has such
    an input.
    """
    from . import feeds, saved

    shapes = feeds.parse_shapes(args.shape)
    if len(args.model) == 1 or not shapes:
        return dict.fromkeys(args.model, shapes)
    found: dict[str, Shapes] = {}
    for path in args.model:
        found[path] = {}
        with suppress(FastgraphError, MemoryError, OSError):  # said when its turn comes
            names = {value.name for value in saved.signature_of(path, args.function).inputs}
            found[path] = {name: shape for name, shape in shapes.items() if name in names}
    unused = set(shapes).difference(*found.values())
    if unused:
        raise InputError(f"--shape {', '.join(sorted(unused))}: no model has an input of that name")
    return found


def _run(args: argparse.Namespace) -> int:
    import numpy as np

    from ..loading import load
    from . import feeds, labels, run, tensors

    _writable("--output", args.output)
    shapes = feeds.parse_shapes(args.shape)
    named = labels.read_labels(args.labels) if args.labels else None
    model = load(args.model, threads=args.threads, isa=args.isa, shapes=shapes, function=args.function)
    pixels = {"mean": args.mean, "std": args.std, "stored": args.stored_pixels}
    given = feeds.read_inputs(args.input, model, **pixels, shapes=shapes, float_io=args.float_io)
    if args.random:
        _granted(model.signature, given)
        given = feeds.random_feeds(model, shapes | {name: a.shape for name, a in given.items()}) | given
    elif model.inputs and not given:
        wanted = " ".join(f"--input {spec.name}=FILE" for spec in model.inputs)
        raise InputError(f"the model has inputs: feed them with {wanted}, or use --random")
    outputs, seconds = run.run(model, given, args.repeat)
    top = None if named is None else labels.top_classes(outputs, model.outputs, named, args.top)
    if args.float_io:
        outputs = feeds.edge_out(outputs, model.outputs)
    if args.output:
        arrays = {name: array for name, array in outputs.items() if isinstance(array, np.ndarray)}
        with open(args.output, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
    result = run.result_json(model, outputs, seconds, top)
    if args.expect:
        result["differences"] = tensors.differences(outputs, tensors.expected(args.expect, list(outputs)))
    _print(_json(result) if args.json else run.text(result))
    return 1 if result.get("differences") else 0


def _inspect(args: argparse.Namespace) -> int:
    from ..loading import load
    from ..runtime.feeds import declared
    from . import asm, feeds, inspect, saved

    shapes = feeds.parse_shapes(args.shape)
    if args.host:
        return _host(args, shapes)
    (path, *more) = args.model
    if more:
        raise InputError(f"inspect shows one model, {len(args.model)} were named: --host takes many")
    whole = args.graph or args.stages or args.memory or args.asm is not None
    if saved.is_program(path) and not whole:
        known = saved.facts(path, args.check)
        _print(_json(known) if args.json else saved.text(known))
        return 0
    if args.check:
        raise InputError(f"--check {path}: it is no saved program, which alone has checksums")
    if args.json and whole:
        raise InputError("--json is for the summary and for --host")
    if args.stages:
        graph = saved.graph_of(path, args.function)
        declared(graph, shapes)
        with suppress(InputError):
            shapes |= _granted(graph, shapes)
        _print(inspect.stages_text(graph, shapes))
        return 0
    model = load(path, threads=args.threads, isa=args.isa, shapes=shapes, function=args.function)
    if inspect.unplanned(model):
        with suppress(FastgraphError):
            model.resize(_granted(model.signature, shapes))
    if (args.graph or args.memory or args.asm is not None) and (why := inspect.unplanned(model)):
        raise InputError(why)
    if args.graph:
        _print(model.plan.graph)
    elif args.memory:
        _print(inspect.memory_text(model))
    elif args.asm is not None:
        _print(asm.step_text(model.plan, args.asm))
    else:
        facts = inspect.file_facts(path)
        _print(_json(inspect.model_json(model, facts)) if args.json else inspect.summary_text(model, facts))
    return 0


def _host(args: argparse.Namespace, shapes: Mapping[str, Sequence[int]]) -> int:
    from ..kernels.isa.tiers import choose
    from . import host

    found = host.report(args.model, choose(args.isa), shapes, args.function)
    _print(_json(found) if args.json else host.text(found))
    return 2 if found["refused"] else 0


def _bench(args: argparse.Namespace) -> int:
    from ..loading import load
    from . import bench, feeds, profile
    from .engines import PEERS

    _writable("--json", args.json)
    against = [name for name in args.against.split(",") if name]
    for name in against:
        if name not in PEERS:
            raise InputError(f"--against {name}: the engines are {', '.join(PEERS)}")
    results = []

    def measure(path: str, shapes: Shapes) -> int:
        options = {"threads": args.threads, "isa": args.isa, "function": args.function}
        model = load(path, shapes=shapes, **options)
        _granted(model.signature, shapes)
        inputs = feeds.random_feeds(model, shapes)
        if args.profile:
            model.run(inputs)
            plan = model.plan  # where a saved program has no graph to make it of, that is said first
        result = bench.compare(path, inputs, against, seconds=args.seconds, rounds=args.runs, **options)
        if not args.allow_noise and bench.agrees(result):
            bench.refuse(result)
        results.append(result)
        if args.profile:
            with bench.pinned(args.threads):
                result["profile"] = profile.profile(plan)
        if args.json != "-":
            _print(bench.text(result))
            if args.profile:
                _print(profile.text(result["profile"], 1e3 * result["engines"][0]["p50_ms"]))
        return 0 if bench.agrees(result) else 1

    code, failed = _each(args, measure)
    means = {name: bench.geomean(results, name) for name in against}
    if len(results) > 1 and args.json != "-":
        said = ", ".join(f"{mean:.3f} to {name}" for name, mean in means.items() if mean is not None)
        if said:
            noisy = " (NOISY)" if any(result["disturbance"]["noisy"] for result in results) else ""
            _print(f"geometric mean of the ratios{noisy}: {said}")
    if args.json:
        known = {"fastgraph": __version__, "machine": bench.machine()}
        report = _json(known | {"models": results, "failed": failed, "geomeans": means})
        if args.json == "-":
            _print(report)
        else:
            Path(args.json).write_text(report + "\n", encoding="utf-8")
    return code


def _verify(args: argparse.Namespace) -> int:
    from ..loading import load
    from . import feeds, verify

    reports = []

    def check(path: str, shapes: Shapes) -> int:
        model = load(path, threads=args.threads, isa=args.isa, shapes=shapes, function=args.function)
        given = feeds.read_inputs(args.input, model, shapes=shapes)
        known = {**shapes, **{name: a.shape for name, a in given.items()}}
        _granted(model.signature, known)
        given = feeds.random_feeds(model, known) | given
        report = verify.verify(model, given, [name for name in args.against.split(",") if name])
        reports.append(verify.as_json(report))
        if not args.json:
            _print(report)
        return 0 if report.ok else 1

    code, _ = _each(args, check)
    if args.json and reports:
        _print(_json(reports if len(args.model) > 1 else reports[0]))
    return code


def _compare(args: argparse.Namespace) -> int:
    from . import compare, drift, feeds

    _writable("--html", args.html)
    _writable("--png", args.png)
    given = (args.atol, args.rtol, args.snr)
    limits = None if given == (None, None, None) else compare.Limits(*given)
    shapes = feeds.parse_shapes(args.shape)
    found = compare.compare(
        args.a, args.b, lambda model: feeds.read_inputs(args.input, model, shapes=shapes), pairs=args.map,
        limits=limits, runs=args.runs, inside=bool(args.layers or args.html or args.png), shapes=shapes,
        threads=args.threads, isa=args.isa, function=args.function,
    )  # fmt: skip
    if args.html:
        Path(args.html).write_text(drift.html(found), encoding="utf-8")
    if args.png:
        Path(args.png).write_bytes(drift.png(found))
    _print(_json(compare.as_json(found)) if args.json else drift.text(found, args.layers))
    return 0 if found.ok else 1


def _compile(args: argparse.Namespace) -> int:
    from ..loading import load
    from . import saved

    place = args.output or f"{Path(args.model).stem}.fgm"
    _writable("--output", place)
    sets = saved.shape_sets(args.shape)
    threads = None if args.threads is None else saved.counts(args.threads)
    shapes = sets[0] if len(sets) == 1 else None
    model = load(args.model, threads=None if threads is None else max(threads), shapes=shapes, function=args.function)
    if not sets and not model.planned:
        sets = [_granted(model.signature, {})]
    wanted = sets if sets and shapes is None else None
    model.save(place, shapes=wanted, isa=args.isa, threads=threads, graph=not args.no_graph)
    found = saved.facts(place)
    _print(_json(found) if args.json else saved.text(found))
    return 0


def _kernels(args: argparse.Namespace) -> int:
    from ..kernels.isa.tiers import choose
    from . import kernels

    tier = BY_NAME[args.isa] if args.isa else choose()
    made = kernels.build(tier) if args.build else None
    found = kernels.report(tier)
    _print(_json(found) if args.json else kernels.text(found))
    if made and not args.json:
        _print(f"{made[0]} compiled in {made[1]:.1f} s")
    return 0


def _digits(args: argparse.Namespace) -> int:
    from ..demo import digits

    if args.save is not None:
        for path in digits.save(args.save):
            print(f"wrote {path}", file=sys.stderr)
    result = digits.classify(args.threads, args.isa)
    _print(_json(result) if args.json else digits.text(result))
    return 0


def _json(found: Any) -> str:
    return json.dumps(found, indent=2)
