"""The graph's invariants, checked after every pass, and the shapes that inputs may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ..errors import GraphError, InputError
from .graph import Graph, Value
from .types import MAX_ELEMENTS, MAX_RANK, Shape, TensorType


def check(graph: Graph, stage: str = "", known: set[Value] | None = None) -> None:
    """GraphError when a value is read before it is made, made twice, or a constant disagrees with its type.

    `known`: the values around a sub-graph.
    """
    known = set() if known is None else known
    own = {*graph.inputs, *(state.input for state in graph.states)} - known
    known |= own

    def fail(where: object, what: str) -> None:
        raise GraphError(f"{graph.source or graph.name}: after {stage or 'import'}: {where}: {what}")

    def readable(where: object, value: Value) -> None:
        if value.data is None:
            fail(where, f"{value!r} is read before it is made")
        elif (value.type.dtype, value.type.shape) != (value.data.dtype, value.data.shape):
            fail(where, f"{value!r} is a constant {TensorType.of(value.data)} but its type says {value.type}")

    for node in graph.nodes:
        for value in node.inputs:
            if value is not None and value not in known:
                readable(node, value)
        for inner in node.graphs:
            check(inner, stage, known)
        for value in node.outputs:
            if value in known:
                fail(node, f"{value!r} is made twice")
            if value.data is not None:
                fail(node, f"{value!r} is a constant and made by a node")
            own.add(value)
            known.add(value)
    for value in graph.results():
        if value not in known:
            readable("outputs", value)
    known -= own


def fits(value: Value, shape: Sequence[int], advise: Callable[[Shape, Sequence[int]], str] | None = None) -> None:
    """InputError unless `shape` is an instance of the value's declared shape, and one that an array can have.

    `advise`: what to do instead, given the two shapes.
    """
    if min(shape, default=0) < 0 or prod(shape) > MAX_ELEMENTS or len(shape) > MAX_RANK:
        raise InputError(
            f"input {value.name!r} can't have shape {tuple(shape)}: extents are at least 0, "
            f"elements at most {MAX_ELEMENTS}, axes at most {MAX_RANK}"
        )
    declared = value.type.shape
    if declared is None:
        return
    if len(declared) != len(shape) or [d for d, s in zip(declared, shape, strict=True) if d != s and type(d) is int]:
        advice = advise(declared, shape) if advise is not None else "feed an array that fits"
        raise InputError(f"input {value.name!r} has shape {tuple(shape)}, the model declares {value.type}: {advice}")
