"""Arrays of every element type with numbers at its edges, and graphs of single operators."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.kernels.isa.tiers import Tier
from fastgraph.ops.evaluate import evaluate, infer_graph
from fastgraph.runtime.model import Model
from tests.nets import numpy_steps

WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
REAL = ("float16", "float32", "float64")
SHAPES = (
    ((3, 5, 37), (3, 5, 37)), ((300,), (300,)), ((4, 7), (7,)), ((4, 7), (4, 1)), ((2, 3, 4, 5), (1, 3, 1, 5)),
    ((), ()), ((1000,), ()), ((), (65,)), ((130, 3), (3,)), ((6, 1, 9), (1, 8, 1)),
)  # fmt: skip
"""Pairs that broadcast to one another, with rows of less and more than a vector."""


def numbers(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> np.ndarray:
    """A third random ones, a third small whole ones, a third edges of the type."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        ends = np.iinfo(kind)
        any_ = rng.integers(ends.min, ends.max, shape, kind, endpoint=True)
        small = rng.integers(-4 if kind.kind == "i" else 0, 5, shape).astype(kind)
        edges = np.array([ends.min, ends.max, 0, 1, ends.max // 2, ends.max // 2 + ends.min], kind)
    else:
        limits = np.finfo(kind)
        any_, small = (rng.standard_normal(shape) * 10).astype(kind), rng.integers(-4, 5, shape).astype(kind)
        edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, limits.max, limits.min, 0.5, -2.5, 1], kind)
    which = rng.integers(0, 3, shape)
    chosen = edges[rng.integers(0, len(edges), shape)]
    return np.where(which == 0, any_, np.where(which == 1, small, chosen)).astype(kind)


def one(
    op: str,
    arrays: Sequence[np.ndarray],
    constants: Sequence[Any] = (),
    attrs: Mapping[str, Any] | None = None,
    outputs: int = 1,
) -> Graph:
    """A graph of one node, of inputs x0, x1, ... like the arrays, and constants."""
    inputs = [Value(f"x{i}", TensorType.of(array)) for i, array in enumerate(arrays)]
    fixed = [Value.constant(f"c{i}", np.asarray(data)) for i, data in enumerate(constants)]
    results = [Value("y" if outputs == 1 else f"y{i}") for i in range(outputs)]
    graph = Graph("g", inputs, results, [Node(op, [*inputs, *fixed], list(results), dict(attrs or {}), "n")])
    infer_graph(graph)
    return graph


def agrees(graph: Graph, arrays: Sequence[np.ndarray], tier: Tier, rtol: float = 0.0, threads: int = 1) -> None:
    """The native results are the references', to the bit or to `rtol`, and NumPy computes nothing."""
    feeds = {value.name: array for value, array in zip(graph.inputs, arrays, strict=True)}
    with np.errstate(all="ignore"):
        expected = evaluate(graph, feeds)
    model = Model(graph, tier, threads)
    assert not numpy_steps(model)
    for found, wanted in zip(model.run(feeds).values(), expected, strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        if rtol:
            np.testing.assert_allclose(found, flushed(wanted), rtol, rtol)
        else:
            np.testing.assert_array_equal(found, flushed(wanted))


def flushed(x: np.ndarray) -> np.ndarray:
    """As a run has it: numbers of float32 and float64 that are subnormal are 0."""
    if x.dtype not in (np.float32, np.float64):
        return x
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.zeros((), x.dtype), x)
