"""Compares each operator of a file with its NumPy reference, whatever steps it became.

The reference of an operator knows nothing of the rules that write it as others, unless what they write is its meaning
(`define` without a reference): such operators are for other engines to check. It gets the values that the plan had for
the operator's operands, so that errors don't add up, or where the plan had none (they were within a kernel) what the
references before it gave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..compile import planned
from ..errors import GraphError
from ..ir import Graph, Node, Value, copy
from ..ops.evaluate import operands, pure, run_node
from ..ops.registry import OPS
from ..rules.sweep import How, Notes, noted
from ..runtime.check_feeds import checked_feeds
from ..runtime.executable import Executable
from ..runtime.feeds import without_overlap
from ..runtime.keys import Key
from ..runtime.model import Model
from ..runtime.stepwise import is_held
from .differences import difference, flip, magnitude

SLACK = 10
"""Factor on the error allowed for a step: an operator's result may come from several steps."""
STORES = "quantize_linear"
"""ONNX's operator that stores reals as whole numbers of steps."""
HALF = 4 * 2.0**-10
"""The same for float16: references round after each operator, kernels where a value is stored."""


@dataclass(frozen=True)
class OperatorCheck:
    """An operator of the file (an ONNX node, ...) compared with its reference.

    `became`: the plan's operators that compute it. `compared`: whether the plan has its result; an operator whose
    result is inside a kernel is checked with the first one after it that the plan has, whose `within` names it.
    `constant`: whether it is computed when the file is loaded. `error`, `allowed`: in the units of `StepCheck`.
    """

    name: str
    op: str
    became: str
    within: tuple[str, ...]
    compared: bool
    error: float
    allowed: float
    ok: bool
    constant: bool = False


class Margin(NamedTuple):
    """The error that a result may have: `magnitude` and `flip` of its operator and of those before it whose results the
    plan does not have (`within`: their names). rounded: whether the results of these are reals.
    """

    size: float = 0.0
    flip: float = 0.0
    rounded: bool = False
    within: tuple[str, ...] = ()


class Kept(NamedTuple):
    """A value of the plan after its step, and how much it may differ because its kernel rounds (`differences.flip`)."""

    array: Any
    flip: float = 0.0


def keep(plan: Executable, value: Value, flip: float = 0.0) -> Kept:
    """A copy of a value that the plan has now."""
    held = plan.memory.held(value)
    return Kept(held.copy() if isinstance(held, np.ndarray) else held, flip)


class Origin(NamedTuple):
    """A value of the plan, and a function from it to the value of the file."""

    value: Value
    hows: tuple[How, ...]


class Traced(NamedTuple):
    """The graph before the stages; where the plan has its values; the plan's operators by node name."""

    graph: Graph
    places: Mapping[Value, Origin]
    became: Mapping[str, str]

    def wanted(self) -> set[Value]:
        """The values of the plan that `checks` needs."""
        return {place.value for place in self.places.values()}

    def origin(self, nodes: Sequence[Node]) -> str:
        """The operators of the file that nodes of the plan were written for, where they are others; but for moves."""
        names, ops = {node.name for node in nodes if node.name}, {node.op for node in nodes}
        found = [node for node in self.graph.nodes if node.name in names and not OPS[node.op].moves]
        return "" if {node.op for node in found} <= ops else ", ".join(title(node.op, node.name) for node in found)


@contextmanager
def prepared(model: Model, feeds: Mapping[str, Any]) -> Iterator[tuple[Executable, dict[str, np.ndarray], Traced]]:
    """The plan of a model for these feeds, the arrays that it is fed, and its operators, while nobody else runs it;
    states are afterwards what they were.
    """
    with model._lock:
        arrays = without_overlap(checked_feeds(model.signature, feeds), model._written())
        key = model._keys.of(arrays)
        model._use(key)
        plan = model.plan
        found = traced(model, key, plan)
        states = [place.copy() for place, _ in plan.states]
        try:
            yield plan, arrays, found
        finally:
            for (place, _), before in zip(plan.states, states, strict=True):
                place[...] = before


def traced(model: Model, key: Key, plan: Executable) -> Traced:
    """What the operators of the file became in a plan, found by planning again."""
    seen: list[tuple[Graph, Graph, list[Value]]] = []

    def before(graph: Graph) -> None:
        seen.append((copy(graph), graph, _values(graph)))

    shapes, made = model._keys.shapes(key), plan.compiled
    with noted() as notes:
        again = planned(model.graph, shapes, model.tier, model.threads, made.shared, made.values, before).graph
    graph, _, now = seen[0]
    pairs = list(zip(again.nodes, plan.graph.nodes, strict=False))
    if len(again.nodes) != len(plan.graph.nodes) or any(a.op != b.op for a, b in pairs):
        raise GraphError(f"{model.graph.source or model.graph.name}: planned twice it is another plan; report it")
    held = dict(zip(_values(again), _values(plan.graph), strict=True))
    places = {}
    for value, live in zip(_values(graph), now, strict=True):
        place = _place(live, notes, held, plan)
        if place is not None:
            places[value] = place
    names: dict[str, dict[str, None]] = {}
    for node in plan.graph.nodes:
        names.setdefault(node.name, {})[node.op] = None
    return Traced(graph, places, {name: "+".join(ops) for name, ops in names.items()})


def _values(graph: Graph) -> list[Value]:
    return [*graph.inputs, *(v for node in graph.nodes for v in node.outputs)]


def _place(value: Value, notes: Notes, held: Mapping[Value, Value], plan: Executable) -> Origin | None:
    """Where a value is after the stages: itself, or the first value that replaced it and that the plan has."""
    hows: tuple[How, ...] = ()
    seen: set[Value] = set()
    while value not in seen:  # a transpose may be another's that was turned back
        seen.add(value)
        own = held.get(value)
        if own is not None and is_held(plan, own):
            return Origin(own, hows)
        if value not in notes:
            return None
        value, how = notes[value]
        hows = hows if how is None else (how, *hows)
    return None


def checks(found: Traced, kept: Mapping[Value, Kept]) -> list[OperatorCheck]:
    """Every operator compared with its reference. `kept`: the plan's values, right after their steps."""
    flips = {value: kept[place.value].flip for value, place in found.places.items() if place.value in kept}
    held = in_file(found, kept)
    results, fixed = [], constants(found.graph)
    for node, made, margin in references(found.graph, held):
        own = margin._replace(flip=margin.flip + sum(flips.get(v, 0.0) for v in node.outputs))
        results.append(_check(node, made, held, own, found.became, node.out in fixed))
    return results


def in_file(found: Traced, kept: Mapping[Value, Kept]) -> dict[Value, Any]:
    """The plan's contents of the values of the file that it has."""
    arrays = {value: as_in_file(value, place, kept) for value, place in found.places.items()}
    return {value: array for value, array in arrays.items() if array is not None}


def references(graph: Graph, held: Mapping[Value, Any]) -> Iterator[tuple[Node, Sequence[Any], Margin]]:
    """Each operator of the file, what its reference gives for values that are `held`, or else for what references
    before it gave, and what that may differ by; nothing where an operand is unknown.
    """
    now = dict(held)
    margins: dict[Value, Margin] = {}
    reads = Counter(v for node in graph.nodes for v in operands(node))
    for node in graph.nodes:
        made, margin = _reference(node, now, margins)
        yield node, made, margin
        for value, right in zip(node.outputs, made, strict=False):
            if value not in held:
                now[value] = right
                margins[value] = margin._replace(within=(*margin.within, title(node.op, node.name or node.out.name)))
        reads.subtract(operands(node))
        for read in operands(node):
            if read in margins and not reads[read]:
                now.pop(read, None)


def constants(graph: Graph) -> set[Value]:
    """The results of operators that follow from constants alone."""
    found = set[Value]()
    for node in graph.nodes:
        if pure(node) and all(v is None or v.data is not None or v in found for v in operands(node)):
            found.update(node.outputs)
    return found


def as_in_file(value: Value, place: Origin, kept: Mapping[Value, Kept]) -> Any:
    """The plan's content of a value of the file; None where it has none of the same type."""
    array = place.value.data
    if array is None:
        array = kept[place.value].array if place.value in kept else None
    if not isinstance(array, np.ndarray):
        return array
    for how in place.hows:
        array = how(array)
    return array if value.type.concrete and (array.dtype, array.shape) == (value.type.dtype, value.type.dims) else None


def _reference(node: Node, now: Mapping[Value, Any], margins: Mapping[Value, Margin]) -> tuple[Sequence[Any], Margin]:
    """The results of the reference for known operands; none if an operand is unknown, nor for random numbers."""
    read = operands(node)
    given = [None if v is None else v.data if v.data is not None else now.get(v) for v in read]
    unknown = any(v is not None and a is None for v, a in zip(read, given, strict=True))
    if unknown or not (pure(node) or node.graphs):
        return (), Margin()
    with np.errstate(all="ignore"):
        made = run_node(node, given)
        before = [margins[v] for v in read if v is not None and v in margins]
        size = max([magnitude(node, given), *(m.size for m in before)])
        reals = (_is_real(a) for v, a in zip(read, given, strict=True) if v in margins)
        rounded = any(m.rounded for m in before) or any(reals)
        within = tuple(dict.fromkeys(name for m in before for name in m.within))
        return made, Margin(size, flip(node, given, made[0]) + sum(m.flip for m in before), rounded, within)


def tally(found: Sequence[OperatorCheck]) -> tuple[int, int, int, int]:
    """How many operators are compared; have results within kernels, and so are compared with what follows; are
    computed when the file is loaded; are not compared.
    """
    inside = {name for each in found if each.compared for name in each.within}
    rest = [each for each in found if not each.compared]
    within = sum(title(each.op, each.name) in inside and not each.constant for each in rest)
    constant = sum(each.constant for each in rest)
    return len(found) - len(rest), within, constant, len(rest) - within - constant


def title(op: str, name: str) -> str:
    """The name of an operator of the file."""
    return f"{op} {name!r}"


def _is_real(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "f"


def _check(
    node: Node, made: Sequence[Any], held: Mapping[Value, Any], margin: Margin, became: Mapping[str, str],
    constant: bool,
) -> OperatorCheck:  # fmt: skip
    """The check of the result that differs most."""
    pairs = [(v, held[v], right) for v, right in zip(node.outputs, made, strict=False) if v in held]
    found = [
        _compared(node, mine, right, margin) for v, mine, right in pairs if _comparable(node, v, mine, right, margin)
    ]
    error, allowed = max(found, key=lambda each: each[0] - each[1], default=(0.0, 0.0))
    name = node.name or node.out.name
    parts = became.get(node.name, ""), margin.within
    return OperatorCheck(name, node.op, *parts, bool(found), error, allowed, error <= allowed, constant)


def _comparable(node: Node, value: Value, mine: Any, right: Any, margin: Margin) -> bool:
    """Whether a result is an array that may be compared: integers that follow from reals within a kernel, which rounds
    otherwise, may not, except where the operator is the first that stores these reals.
    """
    if not isinstance(mine, np.ndarray) or not isinstance(right, np.ndarray):
        return False
    if right.dtype.kind in "fc" or value.type.quant is not None or not margin.rounded:
        return True
    return node.op == STORES and not any(name.startswith(f"{STORES} ") for name in margin.within)


def _compared(node: Node, mine: np.ndarray, right: np.ndarray, margin: Margin) -> tuple[float, float]:
    error, allowed = difference(mine, right, node, margin.size, margin.flip)
    if right.dtype.kind in "fc":
        return error, max(SLACK * allowed, HALF if right.dtype == np.float16 else 0.0)
    return error, allowed + margin.rounded
