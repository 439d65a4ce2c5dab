"""Loops: the steps of a round, and a jump back to them.

Carried values share the storage of the node's results: initial values are copied there, a round reads them there, and
their next values are computed in place or copied over them at the round's end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ....freedoms import free
from ....ir import BOOL, INT64, Graph, Node, TensorType, Value, captured, read_by
from ....ops.control import known_rounds, scan_axes
from ...program import Jump
from ...storage import MOVES, overwritten, same_form
from ..graph import emit_copies, emit_graph
from ..registry import Emit, Matches, Slot, lowers
from .common import CARRY, finish, is_one, native, same_types, within

COUNT, PART = "count", "part"
"""Operators of the nodes whose steps count rounds, and copy slices."""
MOST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Slice:
    """The slice `part` of `whole` along an axis that a round reads or writes: at the round's number, from the front or
    the end."""

    whole: Value
    part: Value
    axis: int
    backwards: bool

    @property
    def fits(self) -> bool:
        """Whether `part` has the type of a slice of `whole`."""
        dims, dtype = self.whole.type.dims, self.whole.type.dtype
        return self.part.type.dims == (*dims[: self.axis], *dims[self.axis + 1 :]) and self.part.type.dtype == dtype


@dataclass(frozen=True)
class Rounds:
    """The control of a loop. `turn`: the round's number. The next round begins while it is below `most`, and `begin`,
    later `again`, is true; `count`: the number of rounds, where it is known.

    `carried`: (value in the body, initial value, next value, result).
    """

    body: Graph
    turn: Value
    carried: Sequence[tuple[Value, Value | None, Value, Value]]
    most: Value
    begin: Value
    again: Value
    reads: Sequence[Slice] = ()
    writes: Sequence[Slice] = ()
    count: int | None = None

    @property
    def counts(self) -> bool:
        """Whether rounds have to be counted."""
        if self.reads or self.writes or self.most.data is None or self.most.data.min() < MOST:
            return True
        return self.turn in self.body.outputs or any(self.turn in read_by(node) for node in self.body.nodes)


def _number(name: str, number: int) -> Value:
    return Value.constant(name, np.array(number, np.int64))


def _true() -> Value:
    return Value.constant("true", np.array(True))


def _match_loop(node: Node) -> tuple[Matches, Rounds] | None:
    body, (most, begin, *first) = node.attrs["body"], (*node.inputs, None, None)[: max(len(node.inputs), 2)]
    own, count = len(first), known_rounds(node)
    results, after = node.outputs[:own], body.outputs[1 : 1 + own]
    if not (free("control") and is_one(begin, BOOL) and is_one(body.outputs[0], BOOL) and is_one(most, INT64)):
        return None
    if not all(same_types(values, results) for values in (first, body.inputs[2:], after)):
        return None
    writes = [Slice(whole, v, 0, False) for whole, v in zip(node.outputs[own:], body.outputs[1 + own :], strict=True)]
    if writes and (count is None or not all(w.whole.type.concrete and w.part.type.concrete and w.fits for w in writes)):
        return None
    match = native(body)
    if match is None or not is_one(body.inputs[0], INT64):
        return None
    carried = list(zip(body.inputs[2:], first, after, results, strict=True))
    most, begin = most or _number("most", MOST), begin or _true()
    return match, Rounds(body, body.inputs[0], carried, most, begin, body.outputs[0], (), writes, count)


def _match_scan(node: Node) -> tuple[Matches, Rounds] | None:
    body, count = node.attrs["body"], node.attrs["num_scan_inputs"]
    own = len(node.inputs) - count
    first, wholes, results = node.inputs[:own], node.inputs[own:], node.outputs[:own]
    values = (*node.inputs, *node.outputs)
    if not free("control") or not all(v is not None and v.type.concrete for v in values):
        return None
    if not all(same_types(values, results) for values in (first, body.inputs[:own], body.outputs[:own])):
        return None
    match = native(body)
    if match is None:
        return None
    reads = _slices(node, "scan_input", wholes, body.inputs[own:])
    writes = _slices(node, "scan_output", node.outputs[own:], body.outputs[own:])
    turns = {each.whole.type.dims[each.axis] for each in (*reads, *writes)}
    if len(turns) != 1 or not all(each.fits for each in (*reads, *writes)):
        return None
    carried = list(zip(body.inputs, first, body.outputs, results, strict=False))
    turn, most = Value(f"{node.out.name}.turn", TensorType(INT64, ())), turns.pop()
    return match, Rounds(body, turn, carried, _number("most", most), _true(), _true(), reads, writes, most)


def _slices(node: Node, which: str, wholes: Sequence[Value | None], parts: Sequence[Value]) -> list[Slice]:
    axes, backwards = (scan_axes(node, f"{which}_{what}", len(wholes)) for what in ("axes", "directions"))
    return [
        Slice(whole, part, axis % len(whole.type.dims), bool(back))
        for whole, part, axis, back in zip(wholes, parts, axes, backwards, strict=True)
        if whole is not None
    ]


@lowers("loop", match=_match_loop)
@lowers("scan", match=_match_scan)
def loop(e: Emit, node: Node, plan: tuple[Matches, Rounds]) -> None:
    """Write the initial values of the carried ones; then, jumped over unless there is a round, the steps of a round and
    a jump back to them."""
    match, r = plan
    start = len(e.program.steps)
    emit_copies(e, {result: first for _, first, _, result in r.carried if first is not None}, CARRY)
    places = {v: e.storage(result) for v, _, _, result in r.carried}
    if free("in_place"):
        pairs = [(v, after) for v, first, after, _ in r.carried if after is not first]
        places |= {new: places[old] for new, old in in_place(r.body, match, pairs).items()}
    places |= {each.whole: e.storage(each.whole) for each in (*r.reads, *r.writes) if each.whole.data is None}
    inner = within(e, r.body, match, places)
    if r.count != 0:
        _loop(inner, node, r)
    finish(e, node, start)


def _loop(e: Emit, node: Node, r: Rounds) -> None:
    go = Value(f"{node.out.name}.go", TensorType(BOOL, ())) if r.counts else None
    begins = _next(e, r, go, r.begin, first=True)
    leave = None if r.count or begins.data is not None else e.jump(Jump(node, e.address(begins), wanted=False))
    head = len(e.program.steps)
    for each in r.reads:
        _slice(e, r.turn, each, each.whole, each.part)
    emit_graph(e, r.body)
    for each in r.writes:
        _slice(e, r.turn, each, each.part, each.whole)
    moved = {v: after for v, first, after, _ in r.carried if after is not first}
    again = r.again
    if again.data is None and e.storage(again).root in {e.storage(v).root for v in moved}:
        again = Value(f"{again.name}.again", again.type)
        moved[again] = r.again
    emit_copies(e, moved, CARRY)
    goes = _next(e, r, go, again, first=False)
    if goes.data is None or goes.data.any():
        e.jump(Jump(node, None if goes.data is not None else e.address(goes)), head)
    if leave is not None:
        e.land(leave)


def _next(e: Emit, r: Rounds, go: Value | None, test: Value, first: bool) -> Value:
    """Increment the round's number, where it is needed; the condition of another round."""
    if go is None:
        return test
    e.node = Node(COUNT, [r.most, test], [r.turn, go])
    places = {"turn": r.turn, "go": go, "limit": r.most, "test": test}
    e.kernel("round", {}, {**{name: e.address(value) for name, value in places.items()}, "first": int(first)})
    return go


def _slice(e: Emit, turn: Value, each: Slice, source: Value, target: Value) -> None:
    """Copy a slice from the whole or to it."""
    dims, size = each.whole.type.dims, each.whole.type.itemsize
    turns, rows, run = dims[each.axis], prod(dims[: each.axis]), prod(dims[each.axis + 1 :]) * size
    if not rows * run:
        return
    if not e.dense(source):
        lying, source = source, Value(f"{source.name}.dense", source.type)
        emit_copies(e, {source: lying}, CARRY)
    far = (turns - 1) * run if each.backwards else 0
    step, pitch = -run if each.backwards else run, turns * run
    ends: dict[str, Slot] = {}
    for name, slot, value in (("src", "s", source), ("dst", "d", target)):
        offset, turn_step, row_step = (far, step, pitch) if value is each.whole else (0, 0, run)
        ends |= {name: e.address(value, offset), f"turn_{slot}": turn_step, f"row_{slot}": row_step}
    e.node = Node(PART, [turn, source], [target])
    e.kernel("slice", {}, {**ends, "turn": turn, "turns": turns, "rows": rows, "run": run})


VIEWS = MOVES - {"concat"}
"""Operators whose results may be views of their operand."""
GATHERED = frozenset({"concat", "conv"})
"""Operators whose result may be partly written before the node runs: by the nodes that compute its parts, by bands."""

Makers = dict[Value, tuple[int, Node]]


def in_place(body: Graph, match: Matches, carried: Iterable[tuple[Value, Value]]) -> dict[Value, Value]:
    """Next values of carried ones, and intermediate values that these overwrite -> the old value whose memory they can
    take.

    They can when the node that computes the first of them runs after all readers of the old value, or is the last
    reader and its kernel reads each element only where it is about to write. `carried`: old and next values.
    """
    found: dict[Value, Value] = {}
    makers = {v: (i, node) for i, node in enumerate(body.nodes) for v in node.outputs}
    for old, new in carried:
        line: list[Value] = []
        value: Value | None = new
        while value in makers and value not in found and same_form(old, value):
            at, maker = makers[value]
            if maker.op in GATHERED:
                break
            line.append(value)
            if _replaces(body, at, value, old, match):
                found |= dict.fromkeys(line, old)
                line = []
            value = _overwritten_operand(body, at, value, makers, match)
    return found


def _overwritten_operand(body: Graph, at: int, made: Value, makers: Makers, match: Matches) -> Value | None:
    """The operand of node `at`, computed in the body and no view, that the result `made` can overwrite."""
    node = body.nodes[at]
    for value in (node.inputs[i] for i in _overwritable(node, made, match)):
        if value in makers and makers[value][1].op not in MOVES and same_form(value, made):
            joined = any(other.op == "concat" and value in other.inputs for other in body.nodes[:at])
            if not joined and _replaces(body, at, made, value, match):
                return value
    return None


def _replaces(body: Graph, at: int, made: Value, old: Value, match: Matches) -> bool:
    """Whether node `at` can write its result over `old`, which no later node reads."""
    lying, end = {old}, -1
    for i, node in enumerate(body.nodes):
        if lying.isdisjoint(read_by(node)):
            continue
        end = i
        if node.op in VIEWS:
            lying.update(node.outputs)
    if not lying.isdisjoint(body.outputs):
        return False
    return end < at or end == at and _overwrites(body.nodes[at], made, old, lying, match)


def _overwrites(node: Node, made: Value, old: Value, lying: set[Value], match: Matches) -> bool:
    """Whether the node can write this result over an operand that is `old` itself."""
    where = _overwritable(node, made, match)
    within = {v for graph in node.graphs for v in captured(graph)}
    return lying.isdisjoint(within) and all(
        v not in lying or v is old and i in where for i, v in enumerate(node.inputs)
    )


def _overwritable(node: Node, made: Value, match: Matches) -> range:
    """The operands that the node can overwrite with this result; for a loop, the initial value of the carried one."""
    if node.op in ("loop", "scan") and match(node) is not None:
        carried = len(node.inputs) - (2 if node.op == "loop" else node.attrs["num_scan_inputs"])
        at = node.outputs.index(made)
        first = at + (2 if node.op == "loop" else 0)
        return range(first, first + (at < carried))
    return overwritten(node, match.abilities(node)) if len(node.outputs) == 1 and not node.graphs else range(0)
