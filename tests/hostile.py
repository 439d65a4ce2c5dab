"""Inputs that a careful caller would not feed: not finite, extreme, out of any range, empty."""

from typing import Any

import numpy as np

from fastgraph.ir import Graph, TensorType


def shapes_of(graph: Graph, rng: np.random.Generator) -> dict[str, tuple[int, ...]]:
    """A shape for each input: open extents become small, at times 0."""
    names: dict[str, int] = {}

    def extent(d: Any) -> int:
        if isinstance(d, int):
            return d
        drawn = int(rng.choice((0, 1, 2, 3, 5), p=(0.05, 0.4, 0.25, 0.2, 0.1)))
        return names.setdefault(d, drawn) if isinstance(d, str) else drawn

    found = {}
    for value in graph.inputs:
        if value.type.dtype is not None:
            shape = value.type.shape if value.type.shape is not None else (None,) * int(rng.integers(0, 4))
            found[value.name] = tuple(map(extent, shape))
    return found


def hostile(type_: TensorType, rng: np.random.Generator) -> np.ndarray:
    """Numbers of a type: small ones, or some or all of what is extreme, not finite, or out of any range."""
    dims, dtype = type_.dims, np.dtype(type_.dtype)
    kind = rng.integers(0, 4)
    if dtype.kind == "O":
        texts = [rng.choice(("", "a", "1e5", "\0", "ä")) for _ in range(int(np.prod(dims)))]
        return np.array(texts, object).reshape(dims)
    if dtype.kind == "b":
        return rng.integers(0, 2, dims).astype(bool)
    if dtype.kind in "iu":
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        special = np.array([least, most, 0, most // 2, max(least, -1), 1, least // 2], dtype)
        small = rng.integers(0 if kind < 2 else max(least, -3), 4, dims).astype(dtype)
    else:
        limits = np.finfo(dtype)
        finite = (limits.max, limits.min, 0, -0.0, limits.tiny / 8, 1000, -1e-5, 0.5)
        special = np.array([np.nan, np.inf, -np.inf, *finite], dtype)
        small = rng.standard_normal(dims).astype(dtype)
    some = rng.choice(special, dims)
    if kind == 3:
        return np.full(dims, rng.choice(special), dtype)
    return small if kind == 0 else np.where(rng.random(dims) < 0.2 * kind, some, small)


def alike(one: Any, other: Any) -> bool:
    """Whether results are the same bits; NaNs are equal."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, np.ndarray) and one.dtype != object:
        typed = one.dtype == other.dtype and one.shape == other.shape
        if typed and one.dtype.kind == "V":  # ml_dtypes
            one, other = one.astype(np.float32), other.astype(np.float32)
        return typed and np.array_equal(one, other, one.dtype.kind in "fc")
    return True
