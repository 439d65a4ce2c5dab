"""Branches and loops. Semantics: coremltools/converters/mil/mil/ops/defs/iOS15/control_flow.py.

Blocks read what is around them directly. States that they touch are handed in and out of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir import Graph, TensorType, Value
from ..core.common import BOOL, FARTHEST
from .call import Call, rule


def _flag(c: Call, value: Value) -> Value:
    if value.type.dtype != BOOL:
        c.fail(f"expected a condition of type bool, found {value.type}")
    return value


def _finish(c: Call, results: list[Value], states: Sequence[str]) -> None:
    """Let the operator's outputs, then what states hold from here on, be `results`."""
    count = len(c.outputs)
    for index, value in enumerate(results[:count]):
        c.give(value, index)
    for state, value in zip(states, results[count:], strict=True):
        c.assign(state, value)


def _made(c: Call, like: Sequence[Value]) -> list[Value]:
    """Fresh values for the operator's outputs, and others for the states, whose values before are `like`."""
    return [c.fresh(v.type) for v in (*c.outputs, *like)]


@rule("cond")
def _cond(c: Call) -> None:
    """Block 0 where the condition holds, else block 1."""
    if c.blocks != 2:
        c.fail(f"expected two blocks, found {c.blocks}")
    states = c.touched(0, 1)
    branches = [c.block(i, (), states) for i in range(2)]
    for branch in branches:
        _check(c, branch, len(c.outputs) + len(states), "branches")
    results = _made(c, [c.present(state) for state in states])
    c.add("if", [_flag(c, c.x("pred"))], results, then_branch=branches[0], else_branch=branches[1])
    _finish(c, results, states)


def _check(c: Call, graph: Graph, outputs: int, what: str) -> None:
    if len(graph.outputs) != outputs:
        c.fail(f"expected {what} with {outputs} outputs, found {len(graph.outputs)}")


@rule("while_loop")
def _while(c: Call) -> None:
    """While block 0 says so, block 1. The canonical body ends with the condition, which is also asked once before."""
    carried = c.values("loop_vars")
    if c.blocks != 2 or len(c.outputs) != len(carried):
        c.fail(f"expected two blocks and as many outputs as loop_vars, found {c.blocks} blocks, {len(c.outputs)} "
               f"outputs and {len(carried)} loop_vars")  # fmt: skip
    states = c.touched(0, 1)
    first, begun = _asked(c, carried, states)
    body = c.block(1, None, states)
    _check(c, body, len(carried) + len(states), "a body")
    if len(body.inputs) != len(begun):
        c.fail(f"expected a body with {len(carried)} inputs, found {len(body.inputs) - len(states)}")
    for value, start in zip(body.inputs, begun, strict=True):
        value.type = value.type if value.type.dtype is not None else start.type
    before = [c.present(state) for state in states]
    nodes, c.nodes = c.nodes, body.nodes
    for state, value in zip(states, body.outputs[len(carried) :], strict=True):
        c.assign(state, value)
    again, after = _asked(c, body.outputs[: len(carried)], states)
    c.nodes = nodes
    for state, value in zip(states, before, strict=True):
        c.assign(state, value)
    turn, alive = c.fresh(TensorType(np.dtype(np.int64), ())), c.fresh(TensorType(BOOL, ()))
    loop = Graph(body.name, [turn, alive, *body.inputs], [again, *after], body.nodes, body.source)
    results = _made(c, before)
    c.add("loop", [c.const(np.int64(FARTHEST)), first, *begun], results, body=loop)
    _finish(c, results, states)


def _asked(c: Call, values: Sequence[Value], states: Sequence[str]) -> tuple[Value, list[Value]]:
    """Write the condition for `values`; (the answer, the values and the states after it)."""
    graph = c.block(0, values, states)
    _check(c, graph, 1 + len(states), "a condition")
    c.nodes += graph.nodes
    answer, *after = graph.outputs
    for state, value in zip(states, after, strict=True):
        c.assign(state, value)
    return _flag(c, answer), [*values, *after]
