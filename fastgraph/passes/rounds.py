"""Parts that each round of a loop takes of what lies outside, at places that follow from its number."""

from __future__ import annotations

import numpy as np

from ..ir import Graph, Node, Value, copy

STEPS = frozenset({"identity", "cast", "reshape", "squeeze", "unsqueeze"})
"""Operators that leave a number what it is."""


def sliced_by_rounds(node: Node) -> None:
    """Given ``loop(n, go, ..)`` whose body has ``slice(x, i, i + 1)``, i the number of the round, and x of at least
    n there; the body gets ``gather_slices(x, i)``, whose shape is known before the run.
    """
    most = node.const(0)
    if node.op != "loop" or most is None:
        return
    body: Graph = copy(node.attrs["body"])
    makers = {value: each for each in body.nodes for value in each.outputs}
    own = {*makers, *body.inputs}
    found = [_part(each, makers, own, body.inputs[0], int(most.reshape(-1)[0])) for each in body.nodes]
    if any(found):
        body.nodes = [new or old for new, old in zip(found, body.nodes, strict=True)]
        node.attrs = {**node.attrs, "body": body}


def _part(node: Node, makers: dict[Value, Node], own: set[Value], number: Value, rounds: int) -> Node | None:
    """What stands for a slice of one axis of a value from outside that is met by all rounds."""
    if node.op != "slice" or node.x in own or not node.x.type.concrete or node.x.type.quant is not None:
        return None
    _, start, end, axes, step = (*node.inputs, None, None)[:5]
    chosen = None if axes is None else axes.data
    if start is None or end is None or chosen is None or chosen.size != 1:
        return None
    if step is not None and (step.data is None or step.data.reshape(-1).tolist() != [1]):
        return None
    dims = list(node.x.type.dims)
    axis = int(chosen.reshape(-1)[0]) % len(dims)
    (first, begin), (last, stop) = _number(start, makers), _number(end, makers)
    if first is not number or last is not number or not 0 <= begin < stop or rounds - 1 + stop > dims[axis]:
        return None
    dims[axis] = stop - begin
    kind = {
        "offset_dims": tuple(range(len(dims))), "collapsed_dims": (), "start_map": (axis,), "index_vector_dim": 0,
        "slice_sizes": tuple(dims),
    }  # fmt: skip
    return node.with_([node.x, start], op="gather_slices", attrs=kind)


def _number(value: Value, makers: dict[Value, Node]) -> tuple[Value, int]:
    """(root, n) of a value that is root + n."""
    plus = 0
    while value in makers:
        node = makers[value]
        if node.op in STEPS:
            value = node.x
            continue
        other = None if node.op not in ("add", "sub") else _whole(node.inputs[1])
        if other is not None:
            value, plus = node.x, plus + (other if node.op == "add" else -other)
        elif node.op == "add" and (other := _whole(node.x)) is not None and node.inputs[1] is not None:
            value, plus = node.inputs[1], plus + other
        else:
            break
    return value, plus


def _whole(value: Value | None) -> int | None:
    """The only number of a constant of whole ones."""
    data = None if value is None else value.data
    return (
        int(data.reshape(-1)[0])
        if data is not None and data.size == 1 and np.issubdtype(data.dtype, np.integer)
        else None
    )
