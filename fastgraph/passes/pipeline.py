"""The stages that a graph goes through, in order; the graph is checked after each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..ir import Graph, check
from ..plan.freedoms import free
from .canonicalise import canonicalise
from .decompose import decompose
from .explicit_quantization import explicit_quantization
from .fuse import fuse
from .layout import layout
from .to_integers import to_integers

STAGES: tuple[tuple[str, Callable[[Graph], None]], ...] = (
    ("explicit_quantization", explicit_quantization),
    ("canonicalise", canonicalise),
    ("decompose", decompose),
    ("layout", layout),
    ("to_integers", to_integers),
    ("fuse", fuse),
)


def stages(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """Run the stages on a specialised graph, in place; yields each stage's name with the graph after it."""
    for name, run in STAGES:
        if free(name):
            run(graph)
        check(graph, name)
        yield name, graph


def optimise(graph: Graph) -> None:
    """Run all stages, in place."""
    for _ in stages(graph):
        pass
