"""The command `fastgraph`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from io import TextIOWrapper
from typing import Any

from . import __version__
from .commands import bench, compare, compile, digits, history, inspect, kernels, profile, quantize, report, run, verify
from .commands.common import flush, say
from .errors import FastgraphError, InputError
from .text import meant

DESCRIPTION = """\
Runs neural-network files (ONNX, TensorFlow Lite, Circle, Core ML) in one native call, on the CPU.

  fastgraph digits                          try it: a network that ships with fastgraph
  fastgraph inspect net.tflite              what is in the file, and what becomes of it
  fastgraph run net.onnx --random           run it on random inputs
  fastgraph run net.tflite --input cat.jpg --labels labels.txt
  fastgraph bench net.onnx --against onnxruntime,openvino
  fastgraph profile net.onnx                where its time goes, and what the machine could do
  fastgraph report net.onnx                 the same as a page with charts
  fastgraph history speed.jsonl             bench's figures over commits, which --history wrote there
  fastgraph verify net.onnx --against onnxruntime        is it computed right, step by step
  fastgraph compare net.onnx net.tflite     is it the same network; if not, which layer differs first
  fastgraph quantize net.onnx --data folder        make an int8 network of a float one
  fastgraph compile net.onnx                save a program that runs without a compiler
  fastgraph kernels --build                 compile all kernels now, for a container or a read-only system
"""
COMMANDS = (run, inspect, profile, bench, report, history, verify, compare, quantize, compile, kernels, digits)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit code: 0, 1 when results disagree, 2 for errors (one line on stderr), 3 when the machine
    is too busy to measure.
    """
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
        sys.stdout.reconfigure(errors="replace")  # encodings other than UTF-8 have no bars
    args = _parsed(argv)
    try:
        _register(getattr(args, "custom_ops", []))
        code = args.command(args)
        flush()
        return code
    except BrokenPipeError:
        _give_up()
        return 0
    except (FastgraphError, OSError, ValueError) as error:
        code = say(error)
    except KeyboardInterrupt:
        return 130
    try:
        sys.stdout.flush()
    except OSError:
        _give_up()
    return code


def _give_up() -> None:
    """Discard what standard output can't take: Python would fail on it when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments. Models may stand on both sides of options."""
    top = parser()
    if not (sys.argv[1:] if argv is None else argv):
        top.print_help(sys.stderr)
        raise SystemExit(2)
    args, rest = top.parse_known_args(argv)
    if rest and (not isinstance(getattr(args, "model", None), list) or any(word.startswith("-") for word in rest)):
        known = [flag for flag in args.parser._option_string_actions if flag.startswith("--")]
        unknown = [word.partition("=")[0] for word in rest if word.startswith("-")]
        args.parser.error(f"unrecognized arguments: {' '.join(rest)}{meant(unknown, known)}")
    if rest:
        args.model += rest
    return args


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = _Parser("fastgraph", description=DESCRIPTION, formatter_class=_Raw)
    top.add_argument("--version", action="version", version=f"fastgraph {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in COMMANDS:
        name = module.__name__.rpartition(".")[2]
        sub = commands.add_parser(name, help=module.SUMMARY, description=module.DESCRIPTION, formatter_class=_Raw)
        sub.set_defaults(command=module.command, parser=sub)
        module.arguments(sub)
    return top


class _Parser(argparse.ArgumentParser):
    """One that says which choice a wrong one may have meant."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            file = isinstance(action, argparse._SubParsersAction) and os.path.exists(value)
            instead = f"; a file comes after a command, as in fastgraph inspect {value}"
            error.message += instead if file else meant([str(value)], map(str, action.choices or ()))
            raise


class _Raw(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=110)
