"""Concrete types for given input shapes, and constant folding."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from ..errors import FastgraphError, InputError, ModelError, UnsupportedError
from ..ir import Graph, Node, Open, State, TensorType, Value, copy, fits, read_by
from ..limits import current
from ..ops.control import REFUSED
from ..ops.evaluate import fold, infer_node
from ..ops.registry import OPS, Layout
from ..ops.work import nbytes
from ..room import need


def specialize(
    graph: Graph, shapes: Mapping[str, Sequence[int | Open]], values: Mapping[str, np.ndarray] | None = None
) -> None:
    """Set the input shapes, infer every type and fold constants, in place. Unknown shapes stay unknown.

    `values`: what some inputs hold; nothing reads these any more.

    Given ``y = reshape(x, shape(x))`` and x: f32[2,3]; result ``y = reshape(x, const [2,3])``. The same in bodies; a
    branch that is always taken stands in the graph itself.
    """
    _set_shapes(graph, shapes)
    instead = {v: Value.constant(v.name, np.zeros(v.type.dims, v.type.dtype)) for v in graph.inputs if _is_empty(v)}
    if values:
        instead |= {v: Value.constant(v.name, values[v.name]) for v in graph.inputs if v.name in values}
    reads = Counter(chain(graph.outputs, *map(read_by, graph.nodes)))
    nodes = []
    waiting = deque(graph.nodes)
    while waiting:
        node = waiting.popleft()
        own = read_by(node)
        if instead:
            node.inputs = [None if v is None else instead.get(v, v) for v in node.inputs]
            for inner in node.graphs:
                inner.replace(instead)
        taken = _always_taken(node, instead) if node.op == "if" else None
        if taken is not None:
            reads.update(chain.from_iterable(map(read_by, taken)))
            waiting.extendleft(reversed(taken))
            continue
        try:
            node, folded = _inferred(node)
        except FastgraphError as error:
            raise type(error)(f"{graph.source or graph.name or 'model'}: {error}") from error
        if folded is None:
            nodes.append(node)
            continue
        made = any(v in instead for v in own)
        for value, data in zip(node.outputs, folded, strict=False):
            instead[value] = Value.constant(value.name, _compact(data) if made else data, value.type.quant)
        node.inputs = []  # the old list of nodes would keep every constant alive until the end
        _free_folded(own, reads, instead)
    graph.nodes = nodes
    graph.outputs = [instead.get(v, v) for v in graph.outputs]
    graph.prune()


def _set_shapes(graph: Graph, shapes: Mapping[str, Sequence[int | Open]]) -> None:
    """Give inputs the shapes that are known of them. InputError for a shape that an input can't have."""
    for value in graph.inputs:
        if value.name in shapes:
            known = (None if isinstance(d, Open) else int(d) for d in shapes[value.name])
            value.type = value.type.with_shape(tuple(known))
        if value.type.concrete:
            fits(value, value.type.dims)


def _inferred(node: Node) -> tuple[Node, list[np.ndarray] | None]:
    """The node with types inferred, in its bodies too; and its results where it can be folded."""
    _known_cast(node)
    if node.op == "loop":
        _known_slices(node)
    infer_node(node)
    if node.graphs:
        node = _with_bodies(node)
    return node, None if _stays_stored(node) else fold(node)


def _known_cast(node: Node) -> None:
    """Given ``y = cast_like(x, v)`` with v of a known type; result ``y = cast(x)``, which does not read v."""
    if node.op == "cast_like" and len(node.inputs) == 2 and node.inputs[1] is not None:
        dtype = node.inputs[1].type.dtype
        if dtype is not None:
            node.op, node.inputs, node.attrs = "cast", node.inputs[:1], {**node.attrs, "to": dtype.name}


def _is_empty(value: Value) -> bool:
    """Whether the value has no elements, so that it is constant."""
    kind = value.type
    return (
        kind.concrete and kind.quant is None and kind.dims == (0,) and kind.dtype is not None and kind.dtype.kind != "O"
    )


def _with_bodies(node: Node) -> Node:
    """The node with its bodies specialized, and the types that follow. A branch that is never taken may be invalid."""
    attrs = dict(node.attrs)
    for key, item in node.attrs.items():
        if isinstance(item, Graph):
            body = copy(item)
            try:
                specialize(body, {})
                attrs[key] = body
            except (ModelError, UnsupportedError) as error:
                if node.op != "if":
                    raise
                attrs[REFUSED] = {**attrs.get(REFUSED, {}), key: str(error)}
    found = node.with_(attrs=attrs)
    infer_node(found)
    return found


def _compact(data: np.ndarray) -> np.ndarray:
    """The array, copied where it is a view that would keep a much larger one alive."""
    base = data
    while isinstance(base.base, np.ndarray):
        base = base.base
    return data.copy() if base.nbytes > 4 * data.nbytes + 4096 else data


def _free_folded(read: list[Value], reads: Counter[Value], instead: dict[Value, Value]) -> None:
    """Free folded arrays after their last reader."""
    for value in read:
        reads[value] -= 1
        if not reads[value] and value in instead:
            data = instead.pop(value).data
            if data is not None:
                current().release(nbytes(data))


def _stays_stored(node: Node) -> bool:
    """Whether the node gives a layer's quantized weights, whose stored numbers integer kernels want."""
    return node.op == "dequantize_linear" and node.x.type.concrete and node.x.type.size > 1


def sizes_suit(graph: Graph, declared: Graph) -> None:
    """InputError when windows of a specialized graph slide over an extent of 0 that `declared` leaves open. MemoryError
    when inputs and outputs exceed memory."""
    values = [v for v in (*graph.inputs, *graph.outputs) if v.type.concrete]
    need(sum(v.type.nbytes for v in values))
    pairs = zip(graph.inputs, declared.inputs, strict=False)
    empty = [v for v, said in pairs if v.type.concrete and 0 in v.type.dims and 0 not in (said.type.shape or ())]
    if not empty:
        return
    for node in graph.nodes:
        if OPS[node.op].layout is Layout.WINDOW and node.x.type.concrete and 0 in node.x.type.dims[1:-1]:
            shape = f"input {empty[0].name!r} has shape {empty[0].type.dims}"
            raise InputError(f"{shape}, so that node {node.name} ({node.op}) has no pixels: feed some")


def states_fit(graph: Graph, states: Sequence[State], finals: Sequence[Value]) -> None:
    """ModelError unless the next value of each state has its type."""
    for state, final in zip(states, finals, strict=True):
        same = (final.type.dtype, final.type.shape) == (state.input.type.dtype, state.input.type.shape)
        if not same or not final.type.concrete or final.type.dtype == object:
            raise ModelError(
                f"{graph.source or graph.name}: the state {state.input.name!r} is {state.input.type}, but its next "
                f"value is {final.type}: a state keeps its type, and its shape must be known before the run"
            )


def missing_dims(graph: Graph) -> dict[str, TensorType]:
    """The inputs whose shapes are not numbers yet."""
    return {v.name: v.type for v in graph.inputs if not v.type.concrete}


def _known_slices(node: Node) -> None:
    from .loops import sliced_by_rounds  # few graphs have loops

    sliced_by_rounds(node)


def _always_taken(node: Node, instead: dict[Value, Value]) -> list[Node] | None:
    from .bodies import always_taken

    return always_taken(node, instead)
