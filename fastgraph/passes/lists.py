"""Loops that count, and that put what rounds give into lists: with a known number of rounds, and tensors."""

from __future__ import annotations

import numpy as np

from ..ir import UNKNOWN, Graph, Node, Value, copy
from ..ops.control import unchanged
from ..ops.evaluate import infer_node
from ..ops.registry import attr
from ..rules.rule import rule
from ..rules.sweep import Sweep, sweep
from .loops import root_of, whole
from .specialize import specialize

FAR = 1 << 29
"""Sums of a few numbers up to it don't wrap around."""


def tensors(graph: Graph) -> bool:
    """Count the rounds of loops, and make tensors of what they put into lists; whether any."""
    found = False
    for phase in ("counts", "lists"):
        if sweep(graph, phase):
            specialize(graph, {})
            found = True
    return found


@rule("counts", "loop")
def counted(g: Sweep, node: Node) -> bool:
    """Given ``loop(none, go, 0)`` whose body gives ``i + 1 < n, i + 1``; result ``loop(n, go, 0)``, in whose body the
    round's number stands for i."""
    body = copy(node.attrs["body"])
    makers, inputs = body.producers(), [*node.inputs, None, None][: max(2, len(node.inputs))]
    most = _rounds(inputs, body, makers)
    if most is None:
        return False
    body.outputs[0] = body.inputs[1]
    body.replace(_counters(inputs, body, makers))
    return g.again(node, [g.number(np.array(most)), *inputs[1:]], body=body)


@rule("lists", "loop")
def listed(g: Sweep, node: Node) -> bool:
    """Given ``y = loop(n, go, sequence_empty())`` whose body gives ``sequence_insert(s, part)``; result ``parts =
    loop(n, go)`` and ``y = split_to_sequence(parts)``."""
    body, inputs, outputs = copy(node.attrs["body"]), list(node.inputs), list(node.outputs)
    makers, made = body.producers(), []
    for i in reversed(range(len(inputs) - 2)):
        part = _appended_part(g, inputs[2 + i], body, i, makers)
        if part is not None:
            del inputs[2 + i], body.inputs[2 + i], body.outputs[1 + i]
            body.outputs.append(part)
            made.append((outputs.pop(i), Value(f"{node.outputs[i].name}.parts", UNKNOWN)))
    if not made:
        return False
    body.prune()
    loop = node.with_(inputs, [*outputs, *(parts for _, parts in made)], attrs={**node.attrs, "body": body})
    infer_node(loop)
    g.write(loop)
    for old, parts in made:
        g.write(node.with_([parts], [old], "split_to_sequence", {"axis": 0, "keepdims": 0}))
    return True


def _rounds(inputs: list[Value | None], body: Graph, makers: dict[Value, Node]) -> int | None:
    """The number of rounds of a loop that goes on while a counter, which grows by a constant, is below a constant."""
    test, (most, begun) = makers.get(unchanged(body, body.outputs[0])), inputs[:2]
    if test is None or test.op != "less" or begun is not None and (begun.data is None or not begun.data.all()):
        return None
    (root, plus), limit, at_most = root_of(test.x, makers), whole(test.inputs[1]), whole(most)
    if root not in body.inputs or root.type.dtype not in (np.int32, np.int64) or most is not None and at_most is None:
        return None
    at = body.inputs.index(root)
    first, (old, step) = (whole(inputs[at]), root_of(body.outputs[at - 1], makers)) if at else (0, (root, 1))
    if old is not root or first is None or limit is None or max(map(abs, (first, limit, plus, step))) > FAR or step < 1:
        return None
    rounds = 1 + max(0, -(-(limit - first - plus) // step))
    return rounds if at_most is None else min(rounds, max(0, at_most))


def _counters(inputs: list[Value | None], body: Graph, makers: dict[Value, Node]) -> dict[Value, Value]:
    """The carried values that count rounds, beginning at 0, each with the round's number that replaces it."""
    turn, pairs = body.inputs[0], zip(body.inputs[2:], inputs[2:], body.outputs[1:], strict=False)
    counts = [v for v, first, after in pairs if whole(first) == 0 and root_of(after, makers) == (v, 1)]
    return {v: turn for v in counts if v.type == turn.type}


def _appended_part(g: Sweep, first: Value | None, body: Graph, i: int, makers: dict[Value, Node]) -> Value | None:
    """What each round appends to a carried list that is empty at first, if the body does nothing else with the list."""
    insert, inside, uses = makers.get(body.outputs[1 + i]), body.inputs[2 + i], body.uses()
    if g.made_by(first, "sequence_empty") is None or insert is None or insert.op != "sequence_insert" or insert.has(2):
        return None
    once = uses.get(inside) == [insert] and insert.out not in uses and body.outputs.count(insert.out) == 1
    part = insert.inputs[1]
    alone = insert.x is inside and once and inside not in body.outputs
    return part if alone and part is not None and part.type.concrete else None


@rule("lists", "concat_from_sequence")
def joined_parts(g: Sweep, node: Node) -> bool:
    """Given ``concat_from_sequence(split_to_sequence(x))``; result a transpose and reshape of x."""
    split = g.made_by(node.x, "split_to_sequence")
    if split is None or split.has(1) or attr(split, "keepdims") or attr(split, "axis") or not split.x.type.concrete:
        return False
    count, *dims = split.x.type.dims
    new, rank = bool(attr(node, "new_axis")), len(dims)
    axis = attr(node, "axis") % (rank + new)
    y = g.transpose(split.x, *range(1, axis + 1), 0, *range(axis + 1, rank + 1))
    g.replace(node.out, y if new else g.shape(y, *dims[:axis], count * dims[axis], *dims[axis + 1 :]))
    return True
