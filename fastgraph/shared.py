"""Data that the plans of a model share, and the limits of planning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .errors import FastgraphError, GraphError
from .ir import Graph, Open, copy
from .ir.weights import Weights
from .kernels.core.kernel import Kernel
from .limits import spending
from .locks import lock, undisturbed
from .passes.specialize import specialize

Shapes = Mapping[str, Sequence[int | Open]]
_UNFORESEEN = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class Shared:
    """What the plans of a model with open input shapes share.

    `graph`: the model's, with all constants folded that don't depend on shapes; `short`: the same without transposes
    between spatial layers, for plans without extents of 1. `addresses`: of the kernels linked by now. `block`: bytes of
    the memory for arenas; a smaller arena takes no more. `left`: how many layers the last plan for known lengths left
    to its tail. `lock`: held while planning.
    """

    def __init__(self, graph: Graph, short: Graph, weights: Weights, whole: Shared | None = None) -> None:
        self.graph, self.short, self.weights = graph, short, weights
        self.addresses: dict[Kernel, int] = {} if whole is None else whole.addresses
        self.lock: Any = lock() if whole is None else whole.lock
        self.block = self.left = 0


def share(graph: Graph, whole: Shared | None = None) -> Shared:
    """What plans of a graph for several shapes share. `whole`: where the graph is part of a plan, what that shares."""
    from .passes.spatial import cancel_transposes  # of models whose shapes are open

    base = short = copy(graph)
    if not graph.states:
        with spending(graph.limits, _stored(graph), name_of(graph)):
            try:
                specialize(base, {})
                short = copy(base)
                if not cancel_transposes(short):
                    short = base
            except (FastgraphError, *_UNFORESEEN):
                base = short = copy(graph)  # a plan says what is wrong
    if whole is not None:
        return Shared(base, short, whole.weights, whole)
    constants = dict.fromkeys((*base.constants(), *short.constants()))
    return Shared(base, short, Weights(v.data for v in constants if v.data is not None))


def deciders(shared: Shared, shapes: Shapes) -> tuple[str, ...]:
    """The inputs whose values must be known, too, for a plan of these input shapes. Raises what `planned` does."""
    from .passes.deciding import deciding  # of models whose shapes are open

    graph = copy(shared.graph)
    inputs = list(graph.inputs)
    graph.unfold_states()
    with guarded(graph), undisturbed():
        specialize(graph, shapes)
    graph.inputs = inputs
    return tuple(v.name for v in deciding(graph))


@contextmanager
def guarded(graph: Graph) -> Iterator[None]:
    """Holds planning to the graph's limits. GraphError for unforeseen failures within."""
    try:
        with spending(graph.limits, _stored(graph), name_of(graph)), np.errstate(all="ignore"):
            yield
    except FastgraphError:
        raise
    except _UNFORESEEN as error:
        raise GraphError(
            f"{graph.source or graph.name}: making a plan failed ({type(error).__name__}: {error}): it has numbers "
            "that make no sense together, or this is a defect of fastgraph; if other programs can run it, report it"
        ) from error


def name_of(graph: Graph) -> str:
    """The name of a model in error messages."""
    return graph.source or graph.name or "model"


def _stored(graph: Graph) -> int:
    return graph.stored or sum(v.type.nbytes for v in graph.constants())
