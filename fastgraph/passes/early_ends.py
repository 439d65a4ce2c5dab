"""Loops that a body may end before the last round: how many rounds there were depends on data, not what each gives."""

from __future__ import annotations

import numpy as np

from ..freedoms import free
from ..ir import Graph, Node, TensorType, Value, copy
from ..ops.evaluate import infer_node

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
    _write_rounds(body, own, count, rooms)
    first = [Value.constant(v.name, np.zeros(v.type.dims, v.type.dtype)) for v in (count, *rooms)]
    loop = Node("loop", [*node.inputs, *first], [*node.outputs[:own], count, *rooms], {"body": body}, node.name)
    infer_node(loop)
    begin = Value.constant("begin", np.zeros(1, np.int64))
    return [loop, *(Node("slice", [room, begin, count, begin], [whole], {}, node.name)
                    for room, whole in zip(rooms, wholes, strict=True))]  # fmt: skip


def _all_known(body: Graph) -> bool:
    """Whether all types of the body's values are known, and they have elements."""
    values = (*body.inputs, *body.outputs, *(v for node in body.nodes for v in node.outputs))
    return all(v.type.concrete and v.type.dtype != object and v.type.size for v in values)


def _write_rounds(body: Graph, own: int, count: Value, rooms: list[Value]) -> None:
    """Let a body that carries `own` values carry rooms, into which it writes what it gave, and count its rounds."""
    turn, parts = body.inputs[0], body.outputs[1 + own :]
    at, after = Value("turn", count.type), Value("rounds", count.type)
    one, zero = (Value.constant(str(n), np.array([n], np.int64)) for n in (1, 0))
    body.nodes += [Node("reshape", [turn, one], [at], {}, "turn"), Node("add", [at, one], [after], {}, "rounds")]
    body.inputs.append(Value(f"{count.name}.before", count.type))
    body.outputs[1 + own :] = [after]
    for part, room in zip(parts, rooms, strict=True):
        row, begin, before, filled = (
            Value(f"{room.name}.{what}", type_)
            for what, type_ in (
                ("row", part.type.with_shape((1, *part.type.dims))),
                ("place", TensorType(INT64, (len(room.type.dims),))),
                ("before", room.type),
                ("filled", room.type),
            )
        )
        shape = Value.constant("shape", np.array(row.type.dims, np.int64))
        body.nodes += [
            Node("reshape", [part, shape], [row], {}, part.name),
            Node("concat", [at, *[zero] * len(part.type.dims)], [begin], {"axis": 0}, part.name),
            Node("dynamic_update_slice", [before, row, begin], [filled], {}, part.name),
        ]
        body.inputs.append(before)
        body.outputs.append(filled)
