"""Control flow: the steps of bodies among those of the program, with jumps between them.

A node of it is taken when kernels do many nodes of its bodies, and no type depends on how the run goes. What NumPy does
in a body is done between native calls, and so are then the jumps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ir import Graph, Node, Value, captured
from ...storage import Storage, has_memory
from ..moves import SIZES
from ..registry import Emit, Matches

CARRY = "carry"
"""The operator of the nodes whose steps copy what a body gives to where it is wanted."""
BOOL, INT64 = np.dtype(bool), np.dtype(np.int64)


HOSTS = 2
"""Up to so many host steps for each node that kernels do, a body's nodes take longer on NumPy than one by one."""


def native(graph: Graph) -> Matches | None:
    """What takes the nodes of a body, if it takes many, and all its types are known."""
    values = (*graph.inputs, *graph.outputs, *(v for node in graph.nodes for v in node.outputs))
    if not all(map(_known, values)):
        return None
    match = Matches()
    taken = sum(match(node) is not None for node in graph.nodes)
    return match if len(graph.nodes) - taken <= HOSTS * taken else None


def _known(value: Value) -> bool:
    """Whether the value's type is known, and kernels can copy it."""
    return value.type.concrete and has_memory(value) and value.type.itemsize in SIZES


def alike(ones: Sequence[Value | None], others: Sequence[Value]) -> bool:
    """Whether values can stand for one another, each in its turn."""
    kinds = [[None if v is None else (v.type.dtype, v.type.shape) for v in values] for values in (ones, others)]
    return kinds[0] == kinds[1] and all(map(_known, others))


def is_one(value: Value | None, dtype: np.dtype) -> bool:
    """Whether the value, if there is one, is a single element of this type."""
    return value is None or value.type.dtype == dtype and value.type.concrete and value.type.size == 1


def around(e: Emit, body: Graph) -> dict[Value, Storage]:
    """Where the values lie that a body takes from around it."""
    return {v: e.storage(v) for v in captured(body)}


def finish(e: Emit, node: Node, start: int) -> None:
    """Say that the steps from `start` on are those of the node."""
    e.program.bodies[node] = range(start, len(e.program.steps))
