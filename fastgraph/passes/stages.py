"""The stages from a specialized graph to one whose nodes kernels take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..errors import ModelError, UnsupportedError
from ..freedoms import free
from ..ir import Graph, Value, captured, check
from ..rules.rule import has, later
from ..rules.sweep import has_reals
from .canonicalize import canonicalize
from .decompose import decompose
from .explicit_quantization import explicit_quantization
from .fuse import fuse
from .layout import layout
from .specialize import specialize
from .widen import Match, widen


def bodies(graph: Graph, match: Match) -> bool:
    """Run all stages on the bodies of control flow that kernels can then run; other bodies stay as they are."""
    if not any(node.graphs for node in graph.nodes):
        return False
    from .bodies import inner, settle, sound_bodies  # few graphs have control flow

    changed = False
    for i, node in enumerate(graph.nodes):
        lowered = inner(node)
        if lowered is None:
            continue
        try:
            for body in sound_bodies(lowered):
                specialize(body, {})
                settle(body)
                optimize(body, match, captured(body))
        except (ModelError, UnsupportedError):
            continue
        if match(lowered) is not None:
            graph.nodes[i], changed = lowered, True
    return changed


LISTS = later("lists.tensors", has("loop"))
EARLY_ENDS = later("loops.early_ends", has("loop"))
"""The stages that run before the dynamic part of a graph is cut off."""
STAGES: tuple[tuple[str, Callable[..., bool]], ...] = (
    ("explicit_quantization", explicit_quantization),
    ("canonicalize", canonicalize),
    ("decompose", decompose),
    ("layout", layout),
    ("to_integers", later("to_integers.to_integers", has_reals)),
    ("attention", later("attention.attention", has("softmax", "matmul split"))),
    ("norms", later("norms.norms", has("reduce_mean", "sqrt"))),
    ("fuse", fuse),
    ("widen", widen),
    ("control", bodies),
)
"""The stages of a specialized graph, in order. Each returns whether it may have changed nodes or values."""
_MATCHING = (widen, bodies)


def stages(graph: Graph, match: Match, around: Iterable[Value] = ()) -> Iterator[tuple[str, Graph]]:
    """Run the stages on a specialized graph, in place; yields each stage's name with the graph after it, checked.

    `match` gives the kernels for a node, which the last stages ask for. `around`: the values that a body captures.
    """
    for name, stage in STAGES:
        if free(name) and (stage(graph, match) if stage in _MATCHING else stage(graph)):
            check(graph, name, set(around))
        yield name, graph


def optimize(graph: Graph, match: Match, around: Iterable[Value] = ()) -> None:
    """Run all stages, in place."""
    for _ in stages(graph, match, around):
        pass
