"""Which carried values a round can make anew right where it has read the old ones."""

from __future__ import annotations

from collections.abc import Iterable

from ....ir import Graph, Node, Value, read_by
from ....ops.registry import OPS
from ...storage import same_form
from ..registry import Matches

VIEWS = frozenset({"reshape", "split", "slice"})
"""Operators whose results may lie in their operand."""
GATHERED = frozenset({"concat", "conv"})
"""Operators whose result may be there in part before the node's turn: parts that are made in their place, bands."""


def in_place(body: Graph, match: Matches, carried: Iterable[tuple[Value, Value]]) -> dict[Value, Value]:
    """By what a carried value becomes, the value whose memory that can be made in.

    It can when the node that makes it is the last to read the old value, which kernels then read at the very places
    that they are about to write, or comes after it. `carried`: old and new values.
    """
    found: dict[Value, Value] = {}
    makers = {v: (i, node) for i, node in enumerate(body.nodes) for v in node.outputs}
    for old, new in carried:
        if new not in makers or new in found or makers[new][1].op in GATHERED or not same_form(old, new):
            continue
        at, maker = makers[new]
        lying, end = {old}, -1
        for i, node in enumerate(body.nodes):
            if lying.isdisjoint(read_by(node)):
                continue
            end = i
            if node.op in VIEWS:
                lying.update(node.outputs)
        kept = lying.isdisjoint(body.outputs)
        if kept and (end < at or end == at and _overwrites(maker, old, lying, match)):
            found[new] = old
    return found


def _overwrites(node: Node, old: Value, lying: set[Value], match: Matches) -> bool:
    """Whether the node can write its result over an operand that is `old` itself."""
    first = OPS[node.op].one_to_one_at if match.abilities(node).in_place else None
    if first is None or node.graphs or len(node.outputs) != 1:
        return False
    return all(v not in lying or v is old and i >= first for i, v in enumerate(node.inputs))
