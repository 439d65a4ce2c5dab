"""Branches: the program holds all of them, with jumps around those that are not taken."""

from __future__ import annotations

import numpy as np

from ....freedoms import free
from ....ir import BOOL, Node
from ....ops.control import BRANCHES, REFUSED
from ...program import ERROR, Jump
from ..graph import emit_copies, emit_graph
from ..moves import emit_copy
from ..registry import Emit, Matches, lowers
from .common import CARRY, finish, is_one, native, same_types, within

Branches = dict[str, Matches | None]


def _match(node: Node) -> Branches | None:
    """The lowerings of each branch's nodes; None for a branch that can't be run, which kernels report."""
    refused = node.attrs.get(REFUSED, {})
    branches = [node.attrs[name] for name in BRANCHES if name not in refused]
    typed = all(same_types(branch.outputs, node.outputs) for branch in branches)
    if not free("control") or not is_one(node.x, BOOL) or not typed:
        return None
    matches = {name: None if name in refused else native(node.attrs[name]) for name in BRANCHES}
    sound = branches and all(matches[name] is not None for name in BRANCHES if name not in refused)
    return matches if sound else None


@lowers("if", match=_match)
def if_(e: Emit, node: Node, matches: Branches) -> None:
    """The first branch, jumped over unless the condition holds, then the second, jumped over by the first."""
    start = len(e.program.steps)
    otherwise = e.jump(Jump(node, e.address(node.x), wanted=False))
    _branch(e, node, matches, BRANCHES[0])
    over = e.jump(Jump(node))
    e.land(otherwise)
    _branch(e, node, matches, BRANCHES[1])
    e.land(over)
    finish(e, node, start)


def _branch(e: Emit, node: Node, matches: Branches, name: str) -> None:
    """Write a branch; its results are computed in the storage of the node's, where each has one maker, else copied."""
    branch, match = node.attrs[name], matches[name]
    if match is None:
        e.node = node
        emit_copy(e, (), 8, (e.packed(_one), ()), (ERROR, ()))
        e.jump(Jump(node, fails=True))
        return
    made = {v for inner in branch.nodes for v in inner.outputs}
    pairs = list(zip(branch.outputs, node.outputs, strict=True))
    direct = {v: e.storage(out) for v, out in pairs if v in made and branch.outputs.count(v) == 1}
    inner = within(e, branch, match, direct)
    emit_graph(inner, branch)
    emit_copies(inner, {out: v for v, out in pairs}, CARRY)


def _one() -> np.ndarray:
    return np.array(1, np.int64)
