"""Control flow: operators that run sub-graphs. Semantics: ONNX If, Loop, Scan, SequenceMap.

References get the arrays of `evaluate.operands(node)`: the inputs, then what the sub-graphs capture.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from .. import deadline
from ..errors import ModelError
from ..ir import BOOL, INT64, UNKNOWN, Dim, Graph, Node, TensorType, Value
from ..room import LARGE, need
from . import check
from .evaluate import evaluate, infer_graph, operands
from .inference import Types, axis_of, join
from .registry import REQUIRED, attr, define, fail

ROUNDS = 12
"""Enough rounds of inference for carried types to converge: each round but the last drops a known extent or a rank."""

_WIDEST: ContextVar[dict[Graph, list[TensorType]] | None] = ContextVar("widest", default=None)
"""Carried types of the bodies nested in the outermost one at hand. Types only ever widen, so inference of a nested body
continues from these: n nested bodies converge in n rounds, and not in 2 ** n."""


BRANCHES = ("then_branch", "else_branch")
REFUSED = "refused"
"""The attribute of an `if` that maps branches that are invalid for its operands, and so can't be run, to the reason."""


def merged(a: TensorType, b: TensorType) -> TensorType:
    """The type of a value that is one of two: element type and extents that both agree on."""
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return TensorType(a.dtype if a.dtype == b.dtype else None, None)
    shape = tuple(d if d == e else None for d, e in zip(a.shape, b.shape, strict=True))
    return TensorType(a.dtype if a.dtype == b.dtype else None, shape)


def _outer(node: Node, arrays: Sequence[Any]) -> dict[Value, Any]:
    """The arrays of the captured values."""
    n = len(node.inputs)
    return {v: a for v, a in zip(operands(node)[n:], arrays[n:], strict=True) if v is not None}


def _call(graph: Graph, arguments: Sequence[Any], outer: dict[Value, Any]) -> list[Any]:
    deadline.check()  # a body may have no nodes
    return evaluate(graph, {v.name: a for v, a in zip(graph.inputs, arguments, strict=True)}, outer)


def _check_body(node: Node, body: Graph, inputs: int, outputs: int) -> None:
    if len(body.inputs) != inputs:
        fail(node, f"the body must take {inputs} inputs, found {len(body.inputs)}")
    if len(body.outputs) < outputs:
        fail(node, f"the body must give at least {outputs} outputs, found {len(body.outputs)}")


@check.takes("condition b one, captured*")
def _infer_if(node: Node, types: Types) -> list[TensorType]:
    branches = [attr(node, name) for name in BRANCHES]
    for branch in branches:
        if len(branch.outputs) != len(node.outputs):
            fail(node, f"branches must give {len(node.outputs)} outputs, found {len(branch.outputs)}")
    chosen, refused = node.const(0), node.attrs.get(REFUSED, {})
    if chosen is not None:
        branches = [branches[0 if chosen.reshape(-1)[0] else 1]]
    elif len(refused) == len(BRANCHES):
        fail(node, f"no branch fits its operands: {'; '.join(refused.values())}")
    else:
        branches = [branch for name, branch in zip(BRANCHES, branches, strict=True) if name not in refused]
    possible = _possible(branches)
    return [merged(values[0].type, values[-1].type) for values in zip(*(b.outputs for b in possible), strict=True)]


def _possible(branches: list[Graph]) -> list[Graph]:
    """The branches whose types can be inferred, with these types set. ModelError when there is none. A branch that is
    never taken may be written for other shapes.
    """
    found, errors = [], []
    for branch in branches:
        try:
            infer_graph(branch)
            found.append(branch)
        except ModelError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    return found


def _if(node: Node, inputs: list[Any]) -> list[Any]:
    branch = attr(node, "then_branch" if np.asarray(inputs[0]).reshape(-1)[0] else "else_branch")
    return _call(branch, [], _outer(node, inputs))


def _settle(body: Graph, fixed: Sequence[TensorType], carried: list[TensorType], skip: int) -> list[TensorType]:
    """Types of carried values that hold before and after every round; sets the types of the body's values.

    The body takes the first `skip` of `fixed`, the carried values, the rest of `fixed`. It gives a condition
    (if `skip` is not 0), the carried values, and others.
    """
    widest = _WIDEST.get()
    if widest is None:
        token = _WIDEST.set({})
        try:
            return _settle(body, fixed, carried, skip)
        finally:
            _WIDEST.reset(token)
    carried = [merged(a, b) for a, b in zip(carried, widest.get(body, carried), strict=True)]
    carried = widest[body] = _settled(body, fixed, carried, skip)
    return carried


def _settled(body: Graph, fixed: Sequence[TensorType], carried: list[TensorType], skip: int) -> list[TensorType]:
    lead = min(skip, 1)
    for _ in range(ROUNDS):
        for value, t in zip(body.inputs, [*fixed[:skip], *carried, *fixed[skip:]], strict=True):
            value.type = TensorType(t.dtype, t.shape, value.type.quant)
        infer_graph(body)
        after = [v.type for v in body.outputs[lead : lead + len(carried)]]
        wider = [merged(a, b) for a, b in zip(carried, after, strict=True)]
        if wider == [TensorType(t.dtype, t.shape) for t in carried]:
            return carried
        carried = wider
    return carried


@check.takes("trip_count? iu one, condition? b one, carried*")
def _infer_loop(node: Node, types: Types) -> list[TensorType]:
    body, carried = attr(node, "body"), list(types[2:])
    _check_body(node, body, 2 + len(carried), 1 + len(carried))
    carried = _settle(body, [TensorType(INT64, ()), TensorType(BOOL, ())], carried, skip=2)
    count = known_rounds(node)
    return [*carried, *(stacked(v.type, count, 0) for v in body.outputs[1 + len(carried) :])]


def unchanged(body: Graph, value: Value) -> Value:
    """The value that a value of a body equals, seen through any number of identities."""
    makers = {node.out: node for node in body.nodes if node.op == "identity"}
    while value in makers:
        value = makers[value].x
    return value


def known_rounds(node: Node) -> int | None:
    """The number of a loop's rounds where no data decides it: the condition always holds, or fails before the first
    round."""
    body, most, begun = attr(node, "body"), node.const(0), node.const(1)
    if begun is not None and not begun.reshape(-1)[0]:
        return 0
    again = unchanged(body, body.outputs[0])
    always = again is body.inputs[1] or again.data is not None and bool(again.data.reshape(-1)[0])
    if most is None or not always or node.has(1) and begun is None:
        return None
    return max(int(most.reshape(-1)[0]), 0)


def stacked(t: TensorType, count: Dim, axis: int) -> TensorType:
    """The type of `count` values of one type put together along a new axis."""
    if t.shape is None:
        return TensorType(t.dtype, None)
    axis = axis % (len(t.shape) + 1)
    return TensorType(t.dtype, (*t.shape[:axis], count, *t.shape[axis:]))


def _loop(node: Node, inputs: list[Any]) -> list[Any]:
    body, outer = attr(node, "body"), _outer(node, inputs)
    most, condition, *carried = inputs[: len(node.inputs)]
    limit = None if most is None else int(np.asarray(most).reshape(-1)[0])
    go = True if condition is None else bool(np.asarray(condition).reshape(-1)[0])
    scans: list[list[Any]] = [[] for _ in body.outputs[1 + len(carried) :]]
    turn = grown = 0
    while go and (limit is None or turn < limit):
        result = _call(body, [np.array(turn, np.int64), np.array(go), *carried], outer)
        go, carried = bool(np.asarray(result[0]).reshape(-1)[0]), result[1 : 1 + len(carried)]
        for parts, part in zip(scans, result[1 + len(carried) :], strict=True):
            parts.append(part)
            grown += getattr(part, "nbytes", 0)
        if grown >= LARGE:  # put together, they take as much again
            need(grown)
            grown = 0
        turn += 1
    finals = body.outputs[1 + len(carried) :]
    return [*carried, *(_stack(parts, v.type, 0) for parts, v in zip(scans, finals, strict=True))]


def _stack(parts: list[Any], t: TensorType, axis: int) -> np.ndarray:
    if parts:
        need(sum(part.nbytes for part in parts))
        return np.stack(parts, axis)
    shape = [d if isinstance(d, int) else 0 for d in t.shape or ()]
    shape.insert(axis % (len(shape) + 1), 0)
    return np.zeros(shape, t.dtype or np.float32)


def scan_axes(node: Node, name: str, count: int) -> list[int]:
    """An attribute of a scan with a number for each of `count` inputs or outputs."""
    found = list(attr(node, name) or (0,) * count)
    if len(found) != count:
        fail(node, f"{name} must have {count} numbers, found {found}")
    return found


def _infer_scan(node: Node, types: Types) -> list[TensorType]:
    body, m = attr(node, "body"), attr(node, "num_scan_inputs")
    n = len(types) - m
    if n < 0 or m < 1:
        fail(node, f"num_scan_inputs {m} does not fit {len(types)} inputs")
    _check_body(node, body, len(types), n)
    steps: Dim = None
    slices = []
    for t, axis in zip(types[n:], scan_axes(node, "scan_input_axes", m), strict=True):
        if t.shape is None:
            slices.append(TensorType(t.dtype, None))
            continue
        at = axis_of(node, axis, len(t.shape), "scan_input_axes")
        steps = join(node, steps, t.shape[at])
        slices.append(TensorType(t.dtype, (*t.shape[:at], *t.shape[at + 1 :])))
    carried = _settle(body, slices, list(types[:n]), skip=0)
    axes = scan_axes(node, "scan_output_axes", len(body.outputs) - n)
    return [*carried, *(stacked(v.type, steps, a) for v, a in zip(body.outputs[n:], axes, strict=True))]


def _scan(node: Node, inputs: list[Any]) -> list[Any]:
    body, m, outer = attr(node, "body"), attr(node, "num_scan_inputs"), _outer(node, inputs)
    own = inputs[: len(node.inputs)]
    n, k = len(own) - m, len(body.outputs) - (len(own) - m)
    carried, backwards = own[:n], scan_axes(node, "scan_input_directions", m)
    sources = [np.moveaxis(x, axis, 0) for x, axis in zip(own[n:], scan_axes(node, "scan_input_axes", m), strict=True)]
    sources = [s[::-1] if back else s for s, back in zip(sources, backwards, strict=True)]
    if len({len(s) for s in sources}) > 1:
        fail(node, f"scan inputs must have one length, found {[len(s) for s in sources]}")
    scans: list[list[Any]] = [[] for _ in range(k)]
    for step in zip(*sources, strict=True):
        result = _call(body, [*carried, *map(np.asarray, step)], outer)
        carried = result[:n]
        for parts, part in zip(scans, result[n:], strict=True):
            parts.append(part)
    finals, axes = body.outputs[n:], scan_axes(node, "scan_output_axes", k)
    reverse = scan_axes(node, "scan_output_directions", k)
    ordered = [parts[::-1] if back else parts for parts, back in zip(scans, reverse, strict=True)]
    return [*carried, *(_stack(parts, v.type, a) for parts, v, a in zip(ordered, finals, axes, strict=True))]


def _sequence_map(node: Node, inputs: list[Any]) -> list[Any]:
    """The body on every element of the first sequence, beside the others' elements or whole tensors."""
    body, outer = attr(node, "body"), _outer(node, inputs)
    own = inputs[: len(node.inputs)]
    results = [_call(body, [v[i] if isinstance(v, list) else v for v in own], outer) for i in range(len(own[0]))]
    return [[result[k] for result in results] for k in range(len(node.outputs))]


define("if", _infer_if, _if, attrs={"then_branch": REQUIRED, "else_branch": REQUIRED}, shaped_by=(0,))
define("loop", _infer_loop, _loop, pure=False, attrs={"body": REQUIRED}, shaped_by=(0, 1))
define(
    "scan", _infer_scan, _scan, inputs=(1, None),
    attrs={
        "body": REQUIRED, "num_scan_inputs": REQUIRED, "scan_input_axes": None, "scan_input_directions": None,
        "scan_output_axes": None, "scan_output_directions": None,
    },
)  # fmt: skip
define(
    "sequence_map",
    lambda node, types: [UNKNOWN] * len(node.outputs),
    _sequence_map,
    inputs=(1, None),
    attrs={"body": REQUIRED},
)
