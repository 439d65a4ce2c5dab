"""Branches: all of them are in the program, and jumps lead around those that are not taken."""

from __future__ import annotations

from ....freedoms import free
from ....ir import Graph, Node
from ...program import Jump
from ..graph import emit_copies, emit_graph
from ..registry import Emit, Matches, lowers
from .common import BOOL, CARRY, alike, around, finish, is_one, native


def _match(node: Node) -> list[Matches] | None:
    branches = [node.attrs["then_branch"], node.attrs["else_branch"]]
    if not free("control") or not is_one(node.x, BOOL) or not all(alike(b.outputs, node.outputs) for b in branches):
        return None
    found = [match for match in map(native, branches) if match is not None]
    return found if len(found) == len(branches) else None


@lowers("if", match=_match)
def if_(e: Emit, node: Node, matches: list[Matches]) -> None:
    """The first branch, jumped over unless the condition holds, then the second, jumped over by the first."""
    start = len(e.program.steps)
    otherwise = e.jump(Jump(node, e.address(node.x), wanted=False))
    _branch(e, node, node.attrs["then_branch"], matches[0])
    over = e.jump(Jump(node))
    e.land(otherwise)
    _branch(e, node, node.attrs["else_branch"], matches[1])
    e.land(over)
    finish(e, node, start)


def _branch(e: Emit, node: Node, branch: Graph, match: Matches) -> None:
    """A branch makes its results in the node's places, as far as it makes them itself, and once."""
    made = {v for inner in branch.nodes for v in inner.outputs}
    pairs = list(zip(branch.outputs, node.outputs, strict=True))
    direct = {v: e.storage(out) for v, out in pairs if v in made and branch.outputs.count(v) == 1}
    inner = e.within(branch, match, around(e, branch) | direct)
    emit_graph(inner, branch)
    emit_copies(inner, {out: v for v, out in pairs}, CARRY)
