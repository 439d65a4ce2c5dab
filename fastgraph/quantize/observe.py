"""Statistics of the tensors of a float network over samples: extremes, histograms, means of channels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..loading import load
from .network import constants
from .samples import Feeds

BINS = 2048
"""Of a histogram, from the least to the greatest number."""
AT_ONCE = 64
"""Tensors that one pass takes from the network: all are kept in memory together."""


class Tensor(NamedTuple):
    """A tensor's least and greatest number over all samples; counts by bin between these, or None; and the means along
    axis 1, where convolutions have channels, and along the last one, or None where there are no two axes.
    """

    low: float
    high: float
    counts: np.ndarray | None = None
    channels: np.ndarray | None = None
    last: np.ndarray | None = None

    @property
    def centers(self) -> np.ndarray:
        """The middle of each bin."""
        edges = np.linspace(self.low, self.high, BINS + 1)
        return (edges[:-1] + edges[1:]) / 2


def observed(model: Any, names: Sequence[str], samples: Sequence[Feeds], histograms: bool) -> dict[str, Tensor]:
    """What each named tensor holds when the network, a ModelProto, runs on the samples; without those that are empty,
    no floats, or not finite.
    """
    found: dict[str, Tensor] = {}
    source = model.SerializeToString()
    for start in range(0, len(names), AT_ONCE):
        part = list(names[start : start + AT_ONCE])
        runs = _Runs(source, part, samples)
        seen = _extremes(runs)
        found |= _with_histograms(runs, seen) if histograms else seen
    return found


class _Runs:
    """The tensors of each sample, anew with each iteration."""

    def __init__(self, source: bytes, names: Sequence[str], samples: Sequence[Feeds]) -> None:
        self.model, self.samples = load(source, outputs=list(names), threads=1), samples

    def __iter__(self) -> Any:
        for feeds in self.samples:
            for name, array in self.model.run(feeds).items():
                if isinstance(array, np.ndarray) and array.dtype == np.float32 and array.size:
                    yield name, array


def _extremes(runs: Any) -> dict[str, Tensor]:
    lows: dict[str, float] = {}
    highs: dict[str, float] = {}
    sums: dict[tuple[str, int], np.ndarray] = {}
    counts: Counter[str] = Counter()
    for name, array in runs:
        lows[name] = min(lows.get(name, np.inf), float(array.min()))
        highs[name] = max(highs.get(name, -np.inf), float(array.max()))
        counts[name] += 1
        for axis in (1, -1) if array.ndim >= 2 else ():
            means = array.mean(axis=tuple(i for i in range(array.ndim) if i != axis % array.ndim), dtype=np.float64)
            before = sums.get((name, axis), np.zeros_like(means))
            sums[name, axis] = before + means if before.shape == means.shape else np.full_like(before, np.nan)
    means_of = {key: total / counts[key[0]] for key, total in sums.items()}
    return {
        name: Tensor(lows[name], highs[name], None, means_of.get((name, 1)), means_of.get((name, -1)))
        for name in lows
        if np.isfinite(lows[name]) and np.isfinite(highs[name])
    }


def _with_histograms(runs: Any, seen: Mapping[str, Tensor]) -> dict[str, Tensor]:
    counts = {name: np.zeros(BINS, np.int64) for name in seen}
    for name, array in runs:
        if name in counts:
            low, high = seen[name].low, seen[name].high
            scale = BINS / (high - low) if high > low else 0.0
            bins = np.minimum(((array.ravel() - np.float32(low)) * np.float32(scale)).astype(np.int32), BINS - 1)
            counts[name] += np.bincount(np.maximum(bins, 0), minlength=BINS)
    return {name: tensor._replace(counts=counts[name]) for name, tensor in seen.items()}


def tensors_of(model: Any, operators: Sequence[str]) -> list[str]:
    """The tensors that nodes of these operators read and make, constants left out."""
    fixed = constants(model).keys()
    names = [name for node in model.graph.node if node.op_type in operators for name in (*node.input, *node.output)]
    floats = _floats(model)
    return [name for name in dict.fromkeys(names) if name and name not in fixed and floats.get(name, True)]


def _floats(model: Any) -> dict[str, bool]:
    """Whether values are float32 tensors, as far as the file or shape inference says."""
    graph = model.graph
    return {v.name: v.type.tensor_type.elem_type in (0, 1) for v in (*graph.value_info, *graph.input, *graph.output)}
