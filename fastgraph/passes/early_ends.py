"""Loops that a body may end before the last round: how many rounds there were depends on data, not what each gives."""

from __future__ import annotations

import numpy as np

from ..freedoms import free
from ..ir import Graph, Node, TensorType, Value, copy
from ..ops.evaluate import infer_node
from ..rules.sweep import Sweep

INT64 = np.dtype(np.int64)
ROOM = 1 << 24
"""Bytes that what all rounds of a loop give may take."""


def early_ends(graph: Graph) -> bool:
    """Given ``z, ys = loop(most, go, a)`` of at most `most` rounds, each of which gives a y; result ``z, n, room =
    loop(most, go, a, 0, zeros)``, whose rounds write y into the room, and ``ys = slice(room, 0, n)``.
    """
    before = graph.nodes
    if free("control"):
        graph.nodes = [made for node in before for made in _with_room(node)]
    return len(graph.nodes) > len(before)


def _with_room(node: Node) -> list[Node]:
    most = node.const(0) if node.op == "loop" else None
    if most is None:
        return [node]
    own = len(node.inputs) - 2
    rounds, parts, wholes = int(most.reshape(-1)[0]), node.attrs["body"].outputs[1 + own :], node.outputs[own:]
    if not wholes or all(v.type.concrete for v in wholes) or rounds < 1 or not _all_known(node.attrs["body"]):
        return [node]
    if rounds * sum(v.type.nbytes for v in parts) > ROOM:
        return [node]
    body, out = copy(node.attrs["body"]), node.outputs[0]
    rooms = [Value(f"{v.name}.room", TensorType(p.type.dtype, (rounds, *p.type.dims)))
             for v, p in zip(wholes, parts, strict=True)]  # fmt: skip
    count = Value(f"{out.name}.rounds", TensorType(INT64, (1,)))
    _write_rounds(node, body, count, rooms)
    first = [Value.constant(v.name, np.zeros(v.type.dims, v.type.dtype)) for v in (count, *rooms)]
    loop = node.with_([*node.inputs, *first], [*node.outputs[:own], count, *rooms], attrs={"body": body})
    infer_node(loop)
    begin = Value.constant("begin", np.zeros(1, np.int64))
    pairs = zip(rooms, wholes, strict=True)
    return [loop, *(node.with_([room, begin, count, begin], [whole], "slice", {}) for room, whole in pairs)]


def _all_known(body: Graph) -> bool:
    """Whether all types of the body's values are known, and they have elements."""
    values = (*body.inputs, *body.outputs, *(v for node in body.nodes for v in node.outputs))
    return all(v.type.concrete and v.type.dtype != object and v.type.size for v in values)


def _write_rounds(loop: Node, body: Graph, count: Value, rooms: list[Value]) -> None:
    """Let the body of a loop carry rooms, into which it writes what it gave, and count its rounds."""
    own = len(loop.inputs) - 2
    turn, parts = body.inputs[0], body.outputs[1 + own :]
    g = Sweep(body)
    g.node = loop
    for node in body.nodes:
        g.keep(node)
    with g:
        at = g.shape(turn, 1)
        befores = [Value(f"{v.name}.before", v.type) for v in (count, *rooms)]
        filled = [at + 1]
        for part, before in zip(parts, befores[1:], strict=True):
            place = g.join([at, *[g.vector(0)] * len(part.type.dims)], axis=0)
            filled.append(g("dynamic_update_slice", before, g.shape(part, 1, *part.type.dims), place))
    body.nodes = g.written()
    body.inputs += befores
    body.outputs[1 + own :] = filled
