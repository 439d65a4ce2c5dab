"""Control flow: the steps of bodies among those of the program, with jumps between them.

A node of it is taken when kernels do many nodes of its bodies, and no type depends on how the run goes. What NumPy does
in a body is done between native calls, and so are then the jumps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....ir import Graph, Node, Value, captured
from ...storage import Storage, has_memory
from ..moves import SIZES
from ..registry import Emit, Matches

CARRY = "carry"
"""The operator of nodes whose steps copy a body's results to their destinations."""


HOSTS = 2
"""The most host steps per native node of a body: with more, the body takes longer than its nodes one by one in NumPy.
"""


def native(graph: Graph) -> Matches | None:
    """The lowerings of a body's nodes, where enough nodes have one and all types are known; else None."""
    values = (*graph.inputs, *graph.outputs, *(v for node in graph.nodes for v in node.outputs))
    if not all(map(_known, values)):
        return None
    match = Matches()
    taken = sum(match(node) is not None for node in graph.nodes)
    return match if len(graph.nodes) - taken <= HOSTS * taken else None


def _known(value: Value) -> bool:
    """Whether the value's type is known, and kernels can copy it."""
    return value.type.concrete and has_memory(value) and value.type.itemsize in SIZES


def same_types(ones: Sequence[Value | None], others: Sequence[Value]) -> bool:
    """Whether values have the same types, pair by pair, so that one can replace the other."""
    kinds = [[None if v is None else (v.type.dtype, v.type.shape) for v in values] for values in (ones, others)]
    return kinds[0] == kinds[1] and all(map(_known, others))


def is_one(value: Value | None, dtype: np.dtype) -> bool:
    """Whether the value is absent, or a single element of this type."""
    return value is None or value.type.dtype == dtype and value.type.concrete and value.type.size == 1


def within(e: Emit, body: Graph, match: Matches, placed: Mapping[Value, Storage]) -> Emit:
    """An Emit for the steps of a body, which captures storage. `placed`: as of Views, of the body's own values."""
    known = {v: e.storage(v) for v in captured(body)} | dict(placed)
    inner = e.within(body, match, known)
    if e.precision == "bfloat16":
        from ..narrow import narrow

        narrow(inner, body, known)
    return inner


def finish(e: Emit, node: Node, start: int) -> None:
    """Assign the steps from `start` on to the node."""
    e.program.bodies[node] = range(start, len(e.program.steps))
