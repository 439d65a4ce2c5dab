"""Control flow: the steps of bodies among those of the program, with jumps between them.

A node of it is taken when kernels do all nodes of its bodies, and no type hangs on how the run goes. Carried values lie
where the node's results do; a round reads them there, and its end copies what they become over them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...freedoms import free
from ...ir import Graph, Node, Value, captured
from ..program import Jump
from ..storage import Storage, has_memory
from .graph import emit_copies, emit_graph
from .move.emit import SIZES
from .registry import Emit, Matches, lowers

CARRY, ROUND, SLICE = "carry", "round", "slice"
"""Operators of the nodes of steps that copy carried values, count rounds, and copy slices."""
BOOL, INT64 = np.dtype(bool), np.dtype(np.int64)
MOST = np.iinfo(np.int64).max
TRUE = Value.constant("true", np.array(True))


def _known(value: Value) -> bool:
    """Whether the value's type is known, and kernels can copy it."""
    return value.type.concrete and has_memory(value) and value.type.itemsize in SIZES


def _native(graph: Graph) -> Matches | None:
    """What takes the nodes of a body, if all are taken and all its types known."""
    values = (*graph.inputs, *graph.outputs, *(v for node in graph.nodes for v in node.outputs))
    match = Matches()
    return match if all(map(_known, values)) and all(match(node) is not None for node in graph.nodes) else None


def _same(ones: Sequence[Value], others: Sequence[Value]) -> bool:
    """Whether values can stand for one another, each in its turn."""
    kinds = [[(v.type.dtype, v.type.shape) for v in values] for values in (ones, others)]
    return kinds[0] == kinds[1] and all(map(_known, (*ones, *others)))


def _flag(value: Value | None) -> bool:
    return value is None or value.type.dtype == BOOL and value.type.concrete and value.type.size == 1


# -- if


def _match_if(node: Node) -> list[Matches] | None:
    branches = [node.attrs["then_branch"], node.attrs["else_branch"]]
    if not free("control") or not _flag(node.x) or not all(_same(b.outputs, node.outputs) for b in branches):
        return None
    found = [match for match in map(_native, branches) if match is not None]
    return found if len(found) == len(branches) else None


@lowers("if", match=_match_if)
def if_(e: Emit, node: Node, matches: list[Matches]) -> None:
    """Jump over one of the branches."""
    start = len(e.program.steps)
    otherwise = e.jump(Jump(node, e.address(node.x), wanted=False))
    _branch(e, node, node.attrs["then_branch"], matches[0])
    over = e.jump(Jump(node))
    e.land(otherwise)
    _branch(e, node, node.attrs["else_branch"], matches[1])
    e.land(over)
    e.program.bodies[node] = range(start, len(e.program.steps))


def _branch(e: Emit, node: Node, branch: Graph, match: Matches) -> None:
    """A branch makes its results in the node's places, as far as it makes them itself, and once."""
    made = {v for inner in branch.nodes for v in inner.outputs}
    pairs = [(v, out) for v, out in zip(branch.outputs, node.outputs, strict=True)]
    direct = {v: e.storage(out) for v, out in pairs if v in made and branch.outputs.count(v) == 1}
    inner = e.within(branch, match, _around(e, branch) | direct)
    emit_graph(inner, branch)
    emit_copies(inner, {out: v for v, out in pairs}, CARRY)


def _around(e: Emit, body: Graph) -> dict[Value, Storage]:
    """Where the values lie that a body takes from around it."""
    return {v: e.storage(v) for v in captured(body)}
