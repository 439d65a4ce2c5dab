"""Carried values whose next value a round can compute in the memory of the old one."""

from __future__ import annotations

from collections.abc import Iterable

from ....ir import Graph, Node, Value, captured, read_by
from ...storage import MOVES, overwritten, same_form
from ..registry import Matches

VIEWS = MOVES - {"concat"}
"""Operators whose results may be views of their operand."""
GATHERED = frozenset({"concat", "conv"})
"""Operators whose result may be partly written before the node runs: by the nodes that compute its parts, by bands."""

Makers = dict[Value, tuple[int, Node]]


def in_place(body: Graph, match: Matches, carried: Iterable[tuple[Value, Value]]) -> dict[Value, Value]:
    """Next values of carried ones, and intermediate values that these overwrite -> the old value whose memory they can
    take.

    They can when the node that computes the first of them runs after all readers of the old value, or is the last
    reader and its kernel reads each element only where it is about to write. `carried`: old and next values.
    """
    found: dict[Value, Value] = {}
    makers = {v: (i, node) for i, node in enumerate(body.nodes) for v in node.outputs}
    for old, new in carried:
        line: list[Value] = []
        value: Value | None = new
        while value in makers and value not in found and same_form(old, value):
            at, maker = makers[value]
            if maker.op in GATHERED:
                break
            line.append(value)
            if _replaces(body, at, value, old, match):
                found |= dict.fromkeys(line, old)
                line = []
            value = _overwritten_operand(body, at, value, makers, match)
    return found


def _overwritten_operand(body: Graph, at: int, made: Value, makers: Makers, match: Matches) -> Value | None:
    """The operand of node `at`, computed in the body and no view, that the result `made` can overwrite."""
    node = body.nodes[at]
    for value in (node.inputs[i] for i in _overwritable(node, made, match)):
        if value in makers and makers[value][1].op not in MOVES and same_form(value, made):
            joined = any(other.op == "concat" and value in other.inputs for other in body.nodes[:at])
            if not joined and _replaces(body, at, made, value, match):
                return value
    return None


def _replaces(body: Graph, at: int, made: Value, old: Value, match: Matches) -> bool:
    """Whether node `at` can write its result over `old`, which no later node reads."""
    lying, end = {old}, -1
    for i, node in enumerate(body.nodes):
        if lying.isdisjoint(read_by(node)):
            continue
        end = i
        if node.op in VIEWS:
            lying.update(node.outputs)
    if not lying.isdisjoint(body.outputs):
        return False
    return end < at or end == at and _overwrites(body.nodes[at], made, old, lying, match)


def _overwrites(node: Node, made: Value, old: Value, lying: set[Value], match: Matches) -> bool:
    """Whether the node can write this result over an operand that is `old` itself."""
    where = _overwritable(node, made, match)
    within = {v for graph in node.graphs for v in captured(graph)}
    return lying.isdisjoint(within) and all(
        v not in lying or v is old and i in where for i, v in enumerate(node.inputs)
    )


def _overwritable(node: Node, made: Value, match: Matches) -> range:
    """The operands that the node can overwrite with this result; for a loop, the initial value of the carried one."""
    if node.op in ("loop", "scan") and match(node) is not None:
        carried = len(node.inputs) - (2 if node.op == "loop" else node.attrs["num_scan_inputs"])
        at = node.outputs.index(made)
        first = at + (2 if node.op == "loop" else 0)
        return range(first, first + (at < carried))
    return overwritten(node, match.abilities(node)) if len(node.outputs) == 1 and not node.graphs else range(0)
