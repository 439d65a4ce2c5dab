"""The report of a quantization: accuracy on samples that were held back, and speed here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..loading import load
from ..text import counted, plain, table
from ..tools import bench, engines, pairing
from .samples import Feeds


@dataclass(frozen=True)
class Report:
    """Of a float network and its quantized one: `method`, samples it was calibrated and `held` samples it was compared
    on (`apart`: whether these are others); by output the `figures` of `fastgraph compare` (SNR in dB, cosine, the share
    of equal argmax); `onnxruntime`, SNR of its results to fastgraph's for the same file (None: it refuses the file);
    `layers` that are on integers, of how many, and those `left` float; bytes of both files; `ms` of both on one thread,
    `ratio` quantized / float (None where it was not measured), `noisy`: other programs had the CPU.
    """

    source: str
    result: str
    method: str
    calibrated: int
    held: int
    apart: bool
    figures: dict[str, dict[str, Any]]
    onnxruntime: float | None
    layers: tuple[int, int]
    left: list[str]
    bytes: tuple[int, int]
    ms: tuple[float, float] | None = None
    ratio: float | None = None
    noisy: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def snr(self) -> float:
        """The least signal to noise of the outputs, in dB."""
        return min((each["snr"] for each in self.figures.values()), default=math.inf)

    def as_json(self) -> dict[str, Any]:
        """The report for JSON; numbers that are not finite are text."""
        return {"snr": plain(self.snr), **plain(asdict(self))}

    def __str__(self) -> str:
        on, of = self.layers
        held = "held back" if self.apart else "that it was calibrated on, as there are few"
        lines = [
            f"{self.result}: {on} of {of} layers on integers, {self.method}, {counted(self.calibrated, 'sample')}",
            f"{self.bytes[1]:,} bytes, {self.bytes[1] / max(self.bytes[0], 1):.0%} of {self.source}",
            "",
            f"against the float network, on {counted(self.held, 'sample')} {held}:",
        ]
        rows = [("output", "SNR dB", "cosine", "argmax", "largest error / largest number")]
        for name, each in self.figures.items():
            argmax = "" if each["argmax"] is None else f"{each['argmax']:.1%}"
            rows.append((name, f"{each['snr']:.1f}", f"{each['cosine']:.5f}", argmax, f"{each['relative']:.1e}"))
        lines += table(rows, right=(1, 2, 3, 4))
        if self.onnxruntime is None:
            lines.append("onnxruntime can't run the file")
        elif math.isinf(self.onnxruntime):
            lines.append("onnxruntime's results for the file are fastgraph's")
        else:
            lines.append(f"onnxruntime's results for the file: {self.onnxruntime:.1f} dB to fastgraph's")
        if self.ms and self.ratio is not None:
            noisy = " (NOISY: other programs had the CPU)" if self.noisy else ""
            lines.append(
                f"one thread: {self.ms[1]:.3f} ms, float {self.ms[0]:.3f} ms: {self.ratio:.2f} of its time{noisy}"
            )
        if self.left:
            lines.append(f"left float: {', '.join(self.left)}")
        return "\n".join([*lines, *self.notes])


def outputs(source: Any, samples: Sequence[Feeds]) -> list[dict[str, np.ndarray]]:
    """The float outputs of a network on each sample."""
    model = load(source, threads=1)
    found = (model.run(feeds).items() for feeds in samples)
    return [{name: y for name, y in each if isinstance(y, np.ndarray) and y.dtype.kind == "f"} for each in found]


def figures(wanted: Sequence[Mapping[str, np.ndarray]], found: Sequence[Mapping[str, np.ndarray]]) -> dict[str, Any]:
    """By output, how far the found numbers are from those that are wanted."""
    names = wanted[0].keys() & found[0].keys() if wanted else set()
    return {
        name: pairing.figures([(a[name], b[name]) for a, b in zip(wanted, found, strict=True)])._asdict()
        for name in (wanted[0] if wanted else ())
        if name in names
    }


def least_snr(wanted: Sequence[Mapping[str, np.ndarray]], found: Sequence[Mapping[str, np.ndarray]]) -> float:
    return min((each["snr"] for each in figures(wanted, found).values()), default=math.inf)


def by_onnxruntime(path: str, samples: Sequence[Feeds], ours: Sequence[Mapping[str, np.ndarray]]) -> float | None:
    """SNR of onnxruntime's results for a file, as it is written, to ours, in dB; None where it refuses the file."""
    found = []
    for feeds in samples[:4]:
        try:
            engine = engines.peer("onnxruntime", path, feeds, 1, as_written=True)
        except engines.Unavailable:
            return None
        found.append(dict(zip(load(path, threads=1).run(feeds), engine.results(), strict=True)))
    return least_snr(ours[: len(found)], found)


def speed(paths: tuple[str, str], feeds: Feeds, seconds: float) -> tuple[tuple[float, float], float, bool]:
    """Milliseconds of each on one thread; the ratio of the second to the first; whether others disturbed too much."""
    with bench.pinned(1):
        made = [engines.fastgraph(path, feeds, 1) for path in paths]
        measured = bench.measure(made, seconds)
    one, two = (float(np.median([np.median(burst) for burst in bursts])) * 1e3 for bursts in measured.times)
    return (one, two), measured.ratio(1, 0)[0], bool(measured.disturbance["noisy"])
