"""`fastgraph compare A B`: two networks, or a network and an engine, on the same numbers: how far B is from A.

Inputs and outputs are paired by name, shape and values (pairing.py). Where both are fastgraph's, so are the values
inside (compare_layers.py): the first layer that differs, and how far each layer of a quantized network is from its
float one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from inspect import signature
from typing import Any

import numpy as np

from ..errors import FastgraphError, InputError
from ..loading import load
from ..runtime.model import Model
from ..text import plain
from . import agreement, compare_sides, feeds, pairing
from .compare_layers import Layer, inner, layers
from .compare_sides import Arrays, Side
from .pairing import Figures, Pair, arranged

SNR = 10.0
"""dB that outputs of a quantized network need beside a float one's, or another's, where no limit is given."""


@dataclass(frozen=True)
class Limits:
    """What B may differ by: |b - a| <= atol + rtol * the largest |a|, and at least `snr` dB; None: no such limit."""

    atol: float | None = None
    rtol: float | None = None
    snr: float | None = None

    def allow(self, found: Figures) -> bool:
        """Whether figures are within the limits."""
        if self.snr is not None and not found.snr >= self.snr:
            return False
        if (self.atol is None and self.rtol is None) or not found.absolute:
            return True
        scale = found.absolute / found.relative
        return found.absolute <= (self.atol or 0.0) + (self.rtol or 0.0) * scale

    def __str__(self) -> str:
        parts = [f"{self.atol:g}" if self.atol is not None else "", f"{self.rtol:g} * largest |a|" if self.rtol else ""]
        most = " + ".join(part for part in parts if part)
        return ", ".join(([f"|b - a| <= {most}"] if most else []) + ([f"SNR >= {self.snr:g} dB"] if self.snr else []))


@dataclass(frozen=True)
class Compared:
    """An input or output of A, that of B, how they were paired ("name", "shape", "values", "map") and laid out; of
    outputs the figures of all draws, and whether they are within the limits.
    """

    a: str
    b: str
    by: str
    layout: str
    figures: Figures | None = None
    ok: bool = True


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`: A is what B is held against. `unpaired`: outputs of A that B lacks. `layers`: of the
    first draw, in the order of A; `first`: the number of the first that differs. `notes`: what could not be compared.
    """

    a: str
    b: str
    runs: int
    limits: Limits
    inputs: tuple[Compared, ...]
    outputs: tuple[Compared, ...]
    unpaired: tuple[str, ...]
    layers: tuple[Layer, ...]
    first: int | None
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every output of A has a partner, within the limits."""
        return bool(self.outputs) and not self.unpaired and all(pair.ok for pair in self.outputs)

    def __str__(self) -> str:
        from .compare_text import text

        return text(self)


def compare(
    a: Any, b: Any, given: Callable[[Model], Arrays] | Arrays | None = None, *, pairs: Sequence[str] = (),
    limits: Limits | None = None, runs: int = 1, inside: bool = False, shapes: feeds.Shapes | None = None,
    **options: Any,
) -> Comparison:  # fmt: skip
    """Compare B with A, each the path of a file or a loaded model; one of them may be the name of an engine
    ("onnxruntime", "openvino", "litert"), which runs the other's file.

    `given`: feeds for A by input, or samples of them, all of which are run: with an axis before the input's, or in the
    place of its batch; inputs left out get random numbers, `runs` times. `pairs`: ["name of A=name of B"] of inputs and
    outputs; `shapes`: of A's open inputs; `inside`: also the layers where the outputs agree; `options`: of `load`.
    Limits are otherwise 1e-3 of the largest number, or 10 dB where one of the two is quantized.

    Raises InputError where inputs have no pairs, engines.Unavailable where an engine is missing or refuses the file.
    """
    _check_options(options)
    one, two = compare_sides.sides(a, b, options)
    fed = dict((given(one.loaded) if callable(given) else given) or {})
    each_fed = compare_sides.samples(one, fed)
    known = {**(shapes or {}), **{name: np.shape(array) for name, array in each_fed[0].items()}}
    chosen, sizes = compare_sides.inputs(one, two, known, pairs)
    if len(each_fed) == 1 and not compare_sides.all_fed(one, fed):
        each_fed *= runs
    draws = [compare_sides.draw(one, two, chosen[0], sizes, each, seed) for seed, each in enumerate(each_fed)]
    before = one.run(draws[0])
    tried = [_tried(two, compare_sides.fed(one, two, each, sizes, draws[0]), before, pairs) for each in chosen]
    best = max(range(len(tried)), key=lambda i: (tried[i][0], -i))
    inputs, partners = chosen[best], tried[best][1]
    rounded = compare_sides.is_rounded(one) or compare_sides.is_rounded(two)
    limits = limits or (Limits(snr=SNR) if rounded else Limits(rtol=agreement.TOLERANCE))
    fed_b = [compare_sides.fed(one, two, inputs, sizes, draw) for draw in draws]
    arrays = [(one.run(x) if i else before, two.run(y)) for i, (x, y) in enumerate(zip(draws, fed_b, strict=True))]
    outputs = [_compared(pair, arrays, limits) for pair in partners]
    notes = _notes(outputs, arrays[0])
    found: list[Layer] = []
    bad = {pair.a for pair in outputs if not pair.ok}
    if one.model and two.model and (inside or bad):
        try:
            insides = inner(one.model, draws[0], rounded), inner(two.model, fed_b[0], rounded)
            wrong = [i for i, spec in enumerate(one.outputs) if spec.name in bad]
            found = layers(*insides, wrong, limits.allow, rounded)
        except FastgraphError as error:
            notes.append(f"layers were not compared: {error}")
    first = next((i for i, layer in enumerate(found) if not layer.ok), None)
    shown = [Compared(p.a, p.b, p.by, pairing.layout(*sizes[p.a, p.b], p.way)) for p in inputs]
    missing = [name for name in _numbers(before) if name not in {pair.a for pair in partners}]
    parts = tuple(shown), tuple(outputs), tuple(missing), tuple(found)
    return Comparison(one.name, two.name, len(draws), limits, *parts, first, tuple(notes))


def _check_options(options: Mapping[str, Any]) -> None:
    """TypeError for what is no option of `load`."""
    if unknown := [name for name in options if name not in signature(load).parameters]:
        raise TypeError(
            f"compare() got an unexpected keyword argument {unknown[0]!r}: feeds for A are `given`, a dict by input; "
            "what else it takes are `pairs`, `limits`, `runs`, `inside`, `shapes` and options of load"
        )


# -- outputs


def _numbers(outputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: y for name, y in outputs.items() if isinstance(y, np.ndarray) and y.dtype.kind in "fiubc"}


def _tried(two: Side, fed: Arrays, before: Mapping[str, Any], pairs: Sequence[str]) -> tuple[float, list[Pair]]:
    """How near B's outputs are when it is fed so, in dB of all; and the pairs of outputs."""
    mine, theirs = _numbers(before), _numbers(two.run(fed))
    found = pairing.by_values(mine, theirs, pairing.mapped(pairs, list(mine), list(theirs)))
    gaps = [pairing.figures([(arranged(mine[p.a], p.way, theirs[p.b].shape), theirs[p.b])]).snr for p in found]
    return sum(min(max(gap, -100.0), 100.0) for gap in gaps), found


def _compared(pair: Pair, arrays: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], limits: Limits) -> Compared:
    """The figures in A's layout, where rows of scores are rows of scores."""
    shapes = arrays[0][0][pair.a].shape, arrays[0][1][pair.b].shape
    if not pairing.ways(*shapes):
        raise InputError(f"output {pair.a!r} is {list(shapes[0])}, {pair.b!r} {list(shapes[1])}: they are no pair")
    both = [(x[pair.a], arranged(y[pair.b], pair.way[::-1], x[pair.a].shape)) for x, y in arrays]
    found = pairing.figures(both)
    return Compared(pair.a, pair.b, pair.by, pairing.layout(*shapes, pair.way), found, limits.allow(found))


def _notes(outputs: Sequence[Compared], arrays: tuple[Mapping[str, Any], Mapping[str, Any]]) -> list[str]:
    """Outputs that were not compared; and names that may be mixed up."""
    mine, theirs = arrays
    notes = [
        f"output {name!r} of A is no array of numbers: not compared" for name in mine if name not in _numbers(mine)
    ]
    extra = [name for name in theirs if name not in {pair.b for pair in outputs}]
    notes += [f"B also has the output {name!r}" for name in extra]
    for pair in outputs:
        if pair.ok or pair.figures is None or pair.by == "map":
            continue
        for name, other in _numbers(theirs).items():
            x = mine[pair.a]
            near = [pairing.figures([(arranged(x, w, other.shape), other)]) for w in pairing.ways(x.shape, other.shape)]
            best = max((each.snr for each in near), default=-math.inf)
            if name != pair.b and best > pair.figures.snr + 20:
                notes.append(f"B's {name!r} is nearer to A's {pair.a!r} ({best:.0f} dB): try --map {pair.a}={name}")
    return notes


# -- JSON


def as_json(found: Comparison) -> dict[str, Any]:
    """The comparison for JSON, with `ok`. Numbers that are not finite are "inf", "-inf" or "nan"."""
    parts = asdict(found)
    for group in ("outputs", "layers"):
        for part, each in zip(parts[group], getattr(found, group), strict=True):
            part["figures"] = each.figures._asdict()
    for part in parts["inputs"]:
        del part["figures"], part["ok"]
    return {"ok": found.ok, **plain(parts)}
