"""`quantize`: from a float network and samples to a file, and what that did."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError, writing
from ..loading import load
from ..text import counted
from . import report, write
from .channels import correct, equalize
from .network import LAYERS, constants, library, opened
from .observe import observed, tensors_of
from .ranges import METHODS, Range, method
from .samples import Feeds, samples

TRIED = 16
"""Samples that a choice between layers is made by, at most."""
MASK = 2.0**20
"""From this magnitude on a number stands for an infinite one, as in masks: no step suits it and the others."""


@dataclass(frozen=True)
class Options:
    """How to quantize.

    method: how ranges are found ("mse", "minmax", "percentile" with `percentile`, "entropy"); activations: "int8" or
    "uint8"; per_channel: whether each output channel's weights have a scale; equalize: cross-layer equalization;
    bias_correction; weights: None, or 8 or 4 bits of weights alone, 4 with a scale for each `block` that is summed;
    dynamic: ranges of activations are found in each run. exclude: names of nodes, or operators, to leave float. snr:
    leave as many layers float as this many dB take.
    """

    method: str = "mse"
    percentile: float = 99.99
    activations: str = "uint8"
    per_channel: bool = True
    equalize: bool = False
    bias_correction: bool = True
    weights: int | None = None
    block: int = 32
    dynamic: bool = False
    exclude: tuple[str, ...] = ()
    snr: float | None = None


class Split(NamedTuple):
    """Samples to calibrate on, and to compare: other ones where they are `apart`."""

    calibration: Sequence[Feeds]
    compared: Sequence[Feeds]
    apart: bool


def quantize(
    source: str | os.PathLike[str], data: Any, output: str | os.PathLike[str], *, most: int | None = None,
    held: float = 0.2, seconds: float = 1.0, options: Options | None = None, **given: Any,
) -> report.Report:  # fmt: skip
    """Quantize a float ONNX file to `output`; what that did.

    `data`: samples, as `samples.samples` takes them, of which at most `most` are used, and the share `held` is not
    calibrated on but compared, where there are 5 at least. `seconds`: how long to measure both networks, 0 not at all.
    `options`, or its fields as arguments. Raises InputError where data or options don't fit, ModelError where the file
    is no float ONNX network, FastgraphError where a library is missing or refuses the network.
    """
    how = replace(options or Options(), **given)
    _check(how)
    source, output = os.fspath(source), os.fspath(output)
    model, found = opened(source), samples(data, load(source, threads=1), most)
    count = max(1, round(held * len(found))) if held > 0 and len(found) >= 5 else 0
    split = Split(found[:-count], found[-count:], True) if count else Split(found, found, False)
    left = _excluded(model, how.exclude)
    wanted = report.outputs(source, split.compared)
    if how.weights:
        made, label = _weights_alone(model, how, left), f"weights alone in {how.weights} bits"
    elif how.dynamic:
        with writing(output):
            write.dynamic(model, output, how.per_channel, sorted(left))
        made, label = None, "activations quantized in each run"
    else:
        made, left, label = _static(model, source, how, left, split.calibration)
    if made is not None:
        with writing(output):
            library("onnx").save(made, output)
    return _report((source, output), model, label, split, wanted, sorted(left), seconds)


def _check(how: Options) -> None:
    if how.method not in METHODS:
        raise InputError(f"method {how.method!r}: expected one of {', '.join(METHODS)}")
    if how.activations not in write.TYPES:
        raise InputError(f"activations {how.activations!r}: expected one of {', '.join(write.TYPES)}")
    if how.weights not in (None, *write.MOST):
        raise InputError(f"weights {how.weights!r}: expected 8 or 4 bits")
    if not 50 < how.percentile <= 100:
        raise InputError(f"percentile {how.percentile}: expected a number above 50, at most 100")
    if how.weights and how.dynamic:
        raise InputError("weights alone are stored in few bits, or activations are quantized in each run: choose one")


def _excluded(model: Any, exclude: Sequence[str]) -> set[str]:
    """The names of nodes to leave float. InputError for what is neither a node's name nor an operator."""
    found: set[str] = set()
    for each in exclude:
        names = {node.name for node in model.graph.node if each in (node.name, node.op_type)}
        if not names:
            raise InputError(f"exclude {each!r}: no node has that name or operator")
        found |= names
    return found


def _weights_alone(model: Any, how: Options, left: Collection[str]) -> Any:
    assert how.weights is not None
    model = write.raised(model, 21)
    write.weights_only(model, how.weights, how.block, left)
    return model


def _static(
    model: Any, source: str, how: Options, left: set[str], calibration: Sequence[Feeds]
) -> tuple[Any, set[str], str]:
    """The QDQ network, the nodes that are left float, and how it was made."""
    notes = [f"{how.activations} activations", f"ranges by {how.method}"]
    if how.equalize:
        notes.append(f"{equalize(model)} pairs of layers equalized")
    operators = write.operators()
    asked = tensors_of(model, operators)
    seen = observed(model, asked, calibration, how.method != "minmax")
    of = method(how.method, how.percentile)
    ranges = {name: of(tensor) for name, tensor in seen.items() if max(-tensor.low, tensor.high) < MASK}
    wild = set(asked) - ranges.keys()
    able = [node for node in model.graph.node if node.op_type in operators]
    left = left | {node.name for node in able if wild.intersection((*node.input, *node.output))}
    nodes = [node for node in able if node.name not in left]
    layers = [node.name for node in nodes if node.op_type in LAYERS]
    if how.snr is not None:
        few = calibration[:TRIED]
        measure = partial(_snr, model, ranges, how, report.outputs(source, few), few)
        others = [node.name for node in nodes if node.op_type not in LAYERS]
        more, reached = to_leave(layers, others, measure, how.snr)
        left = left | set(more)
        notes.append(f"{counted(len(more), 'layer')} left float for {how.snr:g} dB, {reached:.1f} reached in choosing")
    names = [node.name for node in nodes if node.name not in left]
    if how.bias_correction:
        notes.append(f"{correct(model, names, seen, how.per_channel)} biases corrected")
    return write.with_ranges(model, ranges, names, how.activations, how.per_channel), left, ", ".join(notes)


def _snr(
    model: Any, ranges: dict[str, Range], how: Options, wanted: Any, few: Sequence[Feeds], names: Collection[str]
) -> float:
    if not names:
        return math.inf
    made = write.with_ranges(model, ranges, names, how.activations, how.per_channel)
    return report.least_snr(wanted, report.outputs(made.SerializeToString(), few))


def _report(
    paths: tuple[str, str], model: Any, label: str, split: Split, wanted: Any, left: list[str], seconds: float
) -> report.Report:
    (calibration, compared, apart), output = split, paths[1]
    found, fixed = report.outputs(output, compared), constants(model).keys()
    layers = [node for node in model.graph.node if node.op_type in LAYERS and (len(node.input) > 1)]
    layers = [node for node in layers if node.input[1] in fixed or node.op_type == "MatMul" or node.name in left]
    ms, ratio, noisy = report.speed(paths, compared[0], seconds) if seconds else (None, None, False)
    return report.Report(
        *paths, label, len(calibration), len(compared), apart, report.figures(wanted, found),
        report.by_onnxruntime(output, compared, found), (sum(n.name not in left for n in layers), len(layers)), left,
        (Path(paths[0]).stat().st_size, Path(output).stat().st_size), ms, ratio, noisy,
    )  # fmt: skip


Measure = Callable[[Collection[str]], float]
"""The signal to noise, in dB, of the network with these nodes on integers."""


def to_leave(layers: Sequence[str], others: Sequence[str], snr: Measure, wanted: float) -> tuple[list[str], float]:
    """The fewest layers, of the most sensitive ones, without which the network, `layers` and `others` on integers,
    reaches `wanted` dB; and what it reaches. All where none is few enough.
    """
    reached = snr([*layers, *others])
    if reached >= wanted:
        return [], reached
    ranked = [name for _, name in sorted((snr([name, *others]), name) for name in layers)]  # the worst alone first
    low, high, best = 1, len(ranked), snr(others)
    while low < high:
        middle = (low + high) // 2
        found = snr([*ranked[middle:], *others])
        if found >= wanted:
            high, best = middle, found
        else:
            low = middle + 1
    return ranked[:high], best
