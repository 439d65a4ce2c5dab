"""Branches, loops, states and lists.

Semantics: .../ops/defs/iOS15/control_flow.py, iOS18/states.py, coreml_dialect/ops.py.
Blocks read what is around them directly. States that they touch are handed in and out of them. A list is one tensor,
whose axis 0 counts the elements.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir import BOOL, Graph, TensorType, Value
from ...limits import current
from ..core.common import FARTHEST, truth
from .call import Call
from .common import reals
from .convert import run
from .scope import Scope
from .signatures import Formulas, formulas, rule
from .types import mil_type


def _assign(c: Call, states: Sequence[str], values: Sequence[Value]) -> None:
    for state, value in zip(states, values, strict=True):
        c.scope.assign(state, value, c.where)


def _results(c: Call, before: Sequence[Value]) -> list[Value]:
    """Fresh values for the operator's outputs, and for states like those `before`."""
    return [c.fresh(v.type) for v in (*c.outputs, *before)]


def _check(c: Call, graph: Graph, outputs: int, what: str) -> None:
    if len(graph.outputs) != outputs:
        c.fail(f"expected {what} with {outputs} outputs, found {len(graph.outputs)}")


def _block(c: Call, index: int, args: Sequence[Value] | None, states: Sequence[str]) -> Graph:
    """Nested block `index`, converted. It reads values of the scopes around it directly (captures).

    With `args` they stand for the block's inputs, and the graph has none of its own (branches of an `if`); without,
    the graph's inputs are the block's. For each name of `states` (see `touched`) the graph has an output more, the
    state's value after, and, without `args`, an input more, its value before.
    """
    current().count(32, c.where)
    proto, scope, reader = c.blocks[index], c.scope, c.scope.reader
    inner = Scope(reader, f"{c.where}: block {index}", scope)
    if args is not None and len(args) != len(proto.inputs):
        c.fail(f"expected a block of {len(args)} inputs, found {len(proto.inputs)}")
    own: list[Value] = []
    for i, declared in enumerate(proto.inputs):
        kind = mil_type(declared.type, f"{inner.where}: input {declared.name!r}")
        if kind.kind == "state" and args is None:
            c.unsupported("of a block whose inputs are states")
        value = Value(reader.unique(declared.name), kind.held) if args is None else args[i]
        if args is None:
            reader.declared[value] = kind
            own.append(value)
        inner.define(declared.name, value, inner.where)
    for state in states:
        before = scope.present(state)
        if args is None:
            before = Value(reader.unique(state), reader.states[state])
            own.append(before)
        inner.current[state] = before
    run(inner, proto)
    outputs = [*inner.results(proto), *(inner.current[state] for state in states)]
    return Graph(c.name, own, outputs, inner.nodes, reader.source)


@rule("cond: pred")
def cond(c: Call, pred: Value) -> list[Value]:
    """Block 0 where the condition holds, else block 1."""
    if len(c.blocks) != 2:
        c.fail(f"expected two blocks, found {len(c.blocks)}")
    states, count = c.scope.touched(c.blocks, c.where), len(c.outputs)
    branches = [_block(c, i, (), states) for i in range(2)]
    for branch in branches:
        _check(c, branch, count + len(states), "branches")
    results = _results(c, [c.scope.present(state) for state in states])
    c.add("if", [truth(c, pred)], results, then_branch=branches[0], else_branch=branches[1])
    _assign(c, states, results[count:])
    return results[:count]


@rule("while_loop:")
def while_loop(c: Call) -> list[Value]:
    """Block 1 as long as block 0 gives True. The canonical body ends with the condition, which is also computed once
    before the loop.
    """
    loop_vars = c.values("loop_vars")
    count = len(loop_vars)
    if len(c.blocks) != 2 or len(c.outputs) != count:
        c.fail(
            f"expected two blocks and as many outputs as loop_vars, found {len(c.blocks)} blocks, {len(c.outputs)} "
            f"outputs and {count} loop_vars"
        )
    states = c.scope.touched(c.blocks, c.where)
    first, begun = _condition(c, loop_vars, states)
    body = _block(c, 1, None, states)
    _check(c, body, count + len(states), "a body")
    if len(body.inputs) != len(begun):
        c.fail(f"expected a body with {count} inputs, found {len(body.inputs) - len(states)}")
    for value, start in zip(body.inputs, begun, strict=True):
        value.type = value.type if value.type.dtype is not None else start.type
    before = [c.scope.present(state) for state in states]
    nodes, c.nodes = c.nodes, body.nodes
    _assign(c, states, body.outputs[count:])
    again, after = _condition(c, body.outputs[:count], states)
    c.nodes = nodes
    _assign(c, states, before)
    turn, alive = c.fresh(TensorType(np.dtype(np.int64), ())), c.fresh(TensorType(BOOL, ()))
    loop = Graph(body.name, [turn, alive, *body.inputs], [again, *after], body.nodes, body.source)
    results = _results(c, before)
    c.add("loop", [c.number(FARTHEST), first, *begun], results, body=loop)
    _assign(c, states, results[count:])
    return results[:count]


def _condition(c: Call, values: Sequence[Value], states: Sequence[str]) -> tuple[Value, list[Value]]:
    """Write the condition for `values`: (its result, the values and the states after it)."""
    graph = _block(c, 0, values, states)
    _check(c, graph, 1 + len(states), "a condition")
    c.nodes += graph.nodes
    answer, *after = graph.outputs
    _assign(c, states, after)
    return truth(c, answer), [*values, *after]


# -- states, which live from run to run, and lists


def _update(c: Call, key: str, value: Value) -> list[Value]:
    """Assign a state. coreml_update_state also returns the value; write_state, its form in files, returns nothing."""
    _assign(c, [c.state(key)], [value])
    return [value][: len(c.outputs)]


@rule("make_list: init_length? dynamic_length:flag=1")
def make_list(c: Call, init_length: Value | None, dynamic_length: bool) -> Value:
    """Zeros. Extents of the elements that only a run knows (text) are 0 until something is written."""
    extents = [n for value in c.values("elem_shape") for n in reals(c, value).reshape(-1).tolist()]
    extents = [0 if isinstance(n, str) else int(n) for n in extents]
    dtype = c.declared[0].held.dtype
    if dtype is None or any(n < 0 for n in extents):
        c.unsupported(f"of elements {c.declared[0]} {extents}")
    count = c.number(1) if init_length is None else init_length
    return c("list_make", count, element=tuple(extents), dtype=dtype, grows=int(dynamic_length))


def _read(c: Call, ls: Value, index: Value) -> Value:
    return c.pick(ls, c("checked_indices", index, ls, axis=0))


def _write(c: Call, ls: Value, index: Value, value: Value) -> Value:
    """Lists grow, unless they were made with a fixed length."""
    fixed = ls.type.shape is not None and isinstance(ls.type.shape[0], int)
    return c("list_write", ls, index, value, grows=int(not fixed))


FORMULAS: Formulas = {
    "read_state: input": lambda c, _: c.scope.present(c.state("input")),
    "write_state: input data": lambda c, _, value: _update(c, "input", value),
    "coreml_update_state: state value": lambda c, _, value: _update(c, "state", value),
    "list_length: ls": lambda c, ls: c("reshape", c("shape", ls, start=0, end=1), c.vector()),
    "list_read: ls index:Int64": _read,
    "list_gather: ls indices:Int64": _read,
    "list_write: ls index:Int64 value": _write,
    "list_scatter: ls indices:Int64 value": _write,
}
formulas(FORMULAS)
