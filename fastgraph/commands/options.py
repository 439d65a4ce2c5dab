"""Arguments that commands share, and what their texts are read as."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..kernels.isa.tiers import BY_NAME, NUMPY, PRECISIONS

if TYPE_CHECKING:
    from ..tools.preprocessing import Preprocessing


def model(sub: argparse.ArgumentParser, many: bool = False, least: int = 1) -> None:
    count = None if not many else "+" if least else "*"
    sub.add_argument("model", metavar="MODEL", nargs=count, help="a file or an .mlpackage")
    opening(sub, many)


def opening(sub: argparse.ArgumentParser, many: bool = False) -> None:
    """How a file is loaded, or how `many` are."""
    shape = "shape of an input that the file leaves open; repeatable" + "; FILE:NAME=... is for one of the files" * many
    sub.add_argument(
        "--function", metavar="NAME", help="which function of a Core ML program, or signature of a .tflite file"
    )
    sub.add_argument("--shape", action="append", default=[], metavar="NAME=1,3,224,224", help=shape)
    registers = "Python that calls fastgraph.register_custom_op; repeatable"
    sub.add_argument("--custom-ops", action="append", default=[], metavar="FILE.py", help=registers)


def isa(sub: argparse.ArgumentParser, tiers: Sequence[str] = (*BY_NAME, NUMPY.name)) -> None:
    said = f"{', '.join(tiers)}; default: the widest here"
    sub.add_argument("--isa", choices=tiers, metavar="TIER", help=said)


def precision(sub: argparse.ArgumentParser) -> None:
    said = f"what float32 is computed in: {', '.join(PRECISIONS)}; default: the first"
    sub.add_argument("--precision", choices=PRECISIONS, metavar="TYPE", help=said)


def running(sub: argparse.ArgumentParser, many: bool = False, least: int = 1, all_threads: bool = False) -> None:
    """Which model or models are run, how, and by how many threads: one, or as many as there are CPUs."""
    isa(sub)
    precision(sub)
    model(sub, many, least)
    threads(sub, None if all_threads else 1, "the CPUs that this process may use" if all_threads else "1")


def threads(sub: argparse.ArgumentParser, default: int | None, said: str) -> None:
    sub.add_argument("--threads", type=positive, default=default, metavar="N", help=f"default: {said}")


def feeding(sub: argparse.ArgumentParser, name: str = "[NAME=]FILE") -> None:
    """Options for feeds, and for how images and floats become feeds."""
    sub.add_argument("--input", action="append", default=[], metavar=name, help="what to feed; repeatable")
    sub.add_argument("--float-io", action="store_true", help="floats in and out of quantized inputs and outputs")
    pixels = "of the pixels 0..255 of an image; or one a channel: 123.7,116.3,103.5"
    sub.add_argument("--mean", type=numbers, metavar="X", help=f"mean {pixels}")
    sub.add_argument("--std", type=numbers, metavar="X", help="standard deviation, likewise")
    sub.add_argument("--stored-pixels", action="store_true", help="the bytes of an image are what int8 inputs store")
    sub.add_argument("--layout", choices=("NHWC", "NCHW"), help="where an image's channels are; default: by the shape")
    sub.add_argument("--colors", choices=("RGB", "BGR"), help="the order of an image's channels; default RGB")
    sub.add_argument("--rate", type=positive, metavar="HZ", help="samples a second that the model wants")


def preprocessing(args: argparse.Namespace) -> Preprocessing:
    """What `feeding` asks for. InputError where nothing that is fed takes it; who reads standard input looks there."""
    from ..tools import audio, images
    from ..tools.preprocessing import Preprocessing, check_used

    scaled = args.mean or args.std or args.stored_pixels
    found = Preprocessing(
        args.mean, args.std, args.stored_pixels, args.layout or "", args.colors or "", args.rate or 0,
        "as given" if scaled else "",
    )  # fmt: skip
    if not any(text == "-" or text.endswith("=-") for text in args.input):
        kinds = {Path(text).suffix.lower() for text in args.input}
        check_used(found, bool(kinds & images.SUFFIXES), bool(kinds & audio.SUFFIXES))
    return found


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
