"""Loops: slices at the round's number, and loops whose body may end them early."""

from __future__ import annotations

import numpy as np

from ..freedoms import free
from ..ir import INT64, Graph, Node, TensorType, Value, copy
from ..ops.evaluate import infer_node
from ..rules.sweep import Sweep

STEPS = frozenset({"identity", "cast", "reshape", "squeeze", "unsqueeze"})
"""Operators that pass a number on unchanged."""


def sliced_by_rounds(node: Node) -> None:
    """Given ``loop(n, go, ..)`` whose body has ``slice(x, i, i + 1)``, i the round's number, and x of at least n
    elements there; in the body the slice becomes ``gather_slices(x, i)``, whose shape is known before the run."""
    most = node.const(0)
    if node.op != "loop" or most is None:
        return
    body: Graph = copy(node.attrs["body"])
    makers = {value: each for each in body.nodes for value in each.outputs}
    own = {*makers, *body.inputs}
    found = [_gathered(each, makers, own, body.inputs[0], int(most.reshape(-1)[0])) for each in body.nodes]
    if any(found):
        body.nodes = [new or old for new, old in zip(found, body.nodes, strict=True)]
        node.attrs = {**node.attrs, "body": body}


def _gathered(node: Node, makers: dict[Value, Node], own: set[Value], number: Value, rounds: int) -> Node | None:
    """The gather that replaces a slice of one axis of a captured value, where it is inside in all rounds."""
    if node.op != "slice" or node.x in own or not node.x.type.concrete or node.x.type.quant is not None:
        return None
    _, start, end, axes, step = (node.input(i) for i in range(5))
    chosen = np.zeros(int(start is not None and start.type.shape == (1,))) if axes is None else axes.data
    if start is None or end is None or chosen is None or chosen.size != 1:
        return None
    if step is not None and (step.data is None or step.data.reshape(-1).tolist() != [1]):
        return None
    dims = list(node.x.type.dims)
    axis = int(chosen.reshape(-1)[0]) % len(dims)
    (first, begin), (last, stop) = root_of(start, makers), root_of(end, makers)
    if first is not number or last is not number or not 0 <= begin < stop or rounds - 1 + stop > dims[axis]:
        return None
    dims[axis] = stop - begin
    kind = {
        "offset_dims": tuple(range(len(dims))), "collapsed_dims": (), "start_map": (axis,), "index_vector_dim": 0,
        "slice_sizes": tuple(dims),
    }  # fmt: skip
    return node.with_([node.x, start], op="gather_slices", attrs=kind)


def root_of(value: Value, makers: dict[Value, Node]) -> tuple[Value, int]:
    """(root, n) of a value that is root + n."""
    plus = 0
    while value in makers:
        node = makers[value]
        if node.op in STEPS and not _too_narrow(node.out):
            value = node.x
            continue
        other = None if node.op not in ("add", "sub") else whole(node.inputs[1])
        if other is not None:
            value, plus = node.x, plus + (other if node.op == "add" else -other)
        elif node.op == "add" and (other := whole(node.x)) is not None and node.inputs[1] is not None:
            value, plus = node.inputs[1], plus + other
        else:
            break
    return value, plus


def _too_narrow(value: Value) -> bool:
    """Whether the value's type is too narrow to count all rounds."""
    dtype = value.type.dtype
    return dtype is not None and dtype not in (np.int32, np.int64)


def whole(value: Value | None) -> int | None:
    """The one number of an integer constant."""
    data = None if value is None else value.data
    return (
        int(data.reshape(-1)[0])
        if data is not None and data.size == 1 and np.issubdtype(data.dtype, np.integer)
        else None
    )


ROOM = 1 << 24
"""The most bytes of a buffer for the results of all rounds of a loop."""


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
    rooms = [
        Value(f"{v.name}.room", TensorType(p.type.dtype, (rounds, *p.type.dims)))
        for v, p in zip(wholes, parts, strict=True)
    ]
    count = Value(f"{out.name}.rounds", TensorType(INT64, (1,)))
    _write_rounds(node, body, count, rooms)
    first = [Value.constant(v.name, np.zeros(v.type.dims, v.type.dtype)) for v in (count, *rooms)]
    loop = node.with_([*node.inputs, *first], [*node.outputs[:own], count, *rooms], attrs={"body": body})
    infer_node(loop)
    begin = Value.constant("begin", np.zeros(1, np.int64))
    pairs = zip(rooms, wholes, strict=True)
    return [loop, *(node.with_([room, begin, count, begin], [whole], "slice", {}) for room, whole in pairs)]


def _all_known(body: Graph) -> bool:
    """Whether all values of the body have concrete types with elements."""
    values = (*body.inputs, *body.outputs, *(v for node in body.nodes for v in node.outputs))
    return all(v.type.concrete and v.type.dtype != object and v.type.size for v in values)


def _write_rounds(loop: Node, body: Graph, count: Value, rooms: list[Value]) -> None:
    """Let the body of a loop carry buffers that each round writes its results into, and count its rounds."""
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
