"""Graphs of a few nodes by kernels alone, beside their references."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastgraph.ir import Graph, Node, Quantization, TensorType, Value
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.isa.tiers import Tier
from fastgraph.ops.evaluate import infer_graph
from fastgraph.plan.program import HostStep
from fastgraph.runtime.executable import Executable, compile_graph

F32, U8, S8, I16, I64 = (np.dtype(kind) for kind in ("f4", "u1", "i1", "i2", "i8"))
WIDEST = tiers.usable()[-1]
_QUICK = tiers.usable()[1:] or tiers.usable()
ENDS = (_QUICK[0], _QUICK[-1])
"""The narrowest tier that is quick to compile, and the widest."""


def stored(scale: Any, zero: Any = 0, axis: int | None = None) -> Quantization:
    """A quantization by numbers or arrays."""
    scales, zeros = np.atleast_1d(scale), np.atleast_1d(zero)
    return Quantization(tuple(scales.tolist()), tuple(np.broadcast_to(zeros, scales.shape).tolist()), axis)


def bytes_like(name: str, shape: Sequence[int] | None, scale: float, zero: int) -> Value:
    return Value(name, TensorType(U8, None if shape is None else tuple(shape), stored(scale, zero)))


def graph_of(op: str, operands: Sequence[TensorType | Value | None], out: TensorType, **attrs: Any) -> Graph:
    """One node. Operands that are Values are as they are, of types inputs x0, x1, ..."""
    values = [Value(f"x{i}", v) if isinstance(v, TensorType) else v for i, v in enumerate(operands)]
    inputs = [v for v in values if v is not None and v.data is None]
    return inferred(Graph(op, inputs, nodes=[Node(op, list(values), [Value("y", out)], attrs)]))


def inferred(graph: Graph) -> Graph:
    graph.outputs = graph.outputs or [graph.nodes[-1].out]
    infer_graph(graph)
    return graph


def compiled(graph: Graph, tier: Tier = WIDEST, threads: int = 1) -> Executable:
    """Its plan, none of whose steps is left to NumPy."""
    plan = compile_graph(graph, {}, tier, threads)
    assert not [step.node.op for step in plan.program.steps if isinstance(step, HostStep)], str(plan)
    return plan


def results(plan: Executable, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    plan.fill(feeds)
    plan.execute()
    return [array.copy() for array in plan.results().values()]


def kernels(plan: Executable) -> set[str]:
    return {kernel.name for kernel in plan.kernels()}


def fed(graph: Graph, seed: int = 1) -> dict[str, np.ndarray]:
    """Random numbers of all inputs; whole ones all over their types, up to some ten thousand."""
    return {v.name: numbers(v.type, seed + i) for i, v in enumerate(graph.inputs)}


def numbers(type_: TensorType, seed: int) -> np.ndarray:
    rng, dtype = np.random.default_rng(seed), type_.dtype
    assert dtype is not None
    if dtype.kind == "f":
        return (rng.standard_normal(type_.dims) * 3).astype(dtype)
    limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return rng.integers(max(limits[0], -40000), min(limits[1], 40000) + 1, type_.dims).astype(dtype)


def agrees(got: np.ndarray, want: np.ndarray, few: float = 0.005, rtol: float = 2e-6) -> None:
    """Equal, but for a `few` (rounded in f32 where the reference rounds in f64) that are one step off."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if got.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * max(1, float(np.abs(want).max(initial=0))))
        return
    off = np.abs(got.astype(np.int64) - want.astype(np.int64))
    assert off.max(initial=0) <= 1 and (off != 0).mean() <= few + 1.5 / got.size
