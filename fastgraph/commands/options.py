"""Arguments that commands share, and what their texts are read as."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

from ..kernels.isa.tiers import BY_NAME, NUMPY


def model(sub: argparse.ArgumentParser, many: bool = False) -> None:
    sub.add_argument("model", metavar="MODEL", nargs="+" if many else None, help="a file or an .mlpackage")
    opening(sub)


def opening(sub: argparse.ArgumentParser) -> None:
    """How a file is loaded."""
    shape = "shape of an input that the file leaves open; repeatable"
    sub.add_argument("--function", metavar="NAME", help="which function of a Core ML program")
    sub.add_argument("--shape", action="append", default=[], metavar="NAME=1,3,224,224", help=shape)
    registers = "Python that calls fastgraph.register_custom_op; repeatable"
    sub.add_argument("--custom-ops", action="append", default=[], metavar="FILE.py", help=registers)


def isa(sub: argparse.ArgumentParser, tiers: Sequence[str] = (*BY_NAME, NUMPY.name)) -> None:
    said = f"{', '.join(tiers)}; default: the widest here"
    sub.add_argument("--isa", choices=tiers, metavar="TIER", help=said)


def threads(sub: argparse.ArgumentParser, default: int | None, said: str) -> None:
    sub.add_argument("--threads", type=positive, default=default, metavar="N", help=f"default: {said}")


def numbers(text: str) -> list[float]:
    try:
        numbers = [float(number) for number in text.split(",")]
    except ValueError:
        numbers = [math.nan]
    if not all(map(math.isfinite, numbers)):
        raise argparse.ArgumentTypeError(f"expected finite numbers, found {text!r}")
    return numbers


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, found {text!r}")
    return int(text)


def number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected the number of a step, found {text!r}")
    return int(text)


def limit(text: str) -> float:
    (limit, *more) = numbers(text)
    if more or limit < 0:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, found {text!r}")
    return limit


def seconds(text: str) -> float:
    (seconds, *more) = numbers(text)
    if more or seconds <= 0:
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")
    return seconds
