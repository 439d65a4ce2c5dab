"""Layers of two networks side by side: values that both have inside, over the same feeds, paired by shape and value.

Values are those of the files, in their layouts, whatever a plan made of them; those that exist only within a kernel are
left out. In the order of the files, pairs are chosen for the largest sum of likeness (an alignment, as of two texts):
so layers after a fault, whose values tell nothing, still find their partners by shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..ir import Node, Value
from ..ir.quantization import to_real
from ..ops.evaluate import operands
from ..plan.program import Step
from ..runtime.bind import out_of_range
from ..runtime.executable import Executable
from ..runtime.feeds import without_overlap
from ..runtime.model import Model
from ..runtime.stepwise import groups, is_held, single_runs
from .operators import Kept, Origin, as_in_file, traced
from .pairing import Figures, Way, arranged, figures, layout, ways

SAMPLES = 1024
"""Numbers of a value that its likeness to others is judged by."""
CLEAR = 40.0
"""dB from which two values are the same."""
SHAPE, NAME, OPERATOR = 0.1, 0.3, 0.05
"""What a common shape, tensor name and operator add to the likeness of two values, which is 1 from CLEAR on."""
UNLIKE = 0.9
"""Cosine below which two values of which equal ones are made were no pair, where numbers are rounded to few bits."""


@dataclass(frozen=True)
class Layer:
    """A value of A and its partner of B: names of the tensors, the operators that make them ("conv 'name'"), those that
    lie between the value and the ones before it that are paired, the numbers of these among the layers, figures, and
    whether they are within the limits.
    """

    a: str
    b: str
    op_a: str
    op_b: str
    within: tuple[str, ...]
    before: tuple[int, ...]
    layout: str
    figures: Figures
    ok: bool


class Inner(NamedTuple):
    """A value inside a network, as real numbers."""

    value: Value
    node: Node
    array: np.ndarray


def inner(model: Model, feeds: Mapping[str, Any]) -> tuple[list[Inner], list[Node]]:
    """The real values inside a network, run step by step, in the order of its file; and the nodes of that. States are
    afterwards what they were.
    """
    with model._lock:
        arrays = without_overlap(model._checked(feeds), model._written())
        key = model._keys.of(arrays)
        model._use(key)
        plan = model.plan
        found = traced(model, key, plan)
        states = [place.copy() for place, _ in plan.states]
        try:
            kept = _kept(plan, arrays, found.wanted())
        finally:
            for (place, _), before in zip(plan.states, states, strict=True):
                place[...] = before
    made = [(value, node) for node in found.graph.nodes for value in node.outputs if value in found.places]
    reals = [(value, node, _real(value, found.places[value], kept)) for value, node in made]
    return [Inner(v, node, array) for v, node, array in reals if array is not None and array.any()], found.graph.nodes


def _kept(plan: Executable, feeds: Mapping[str, np.ndarray], wanted: set[Value]) -> dict[Value, Kept]:
    """Copies of the values of a plan, each right after its step."""
    plan.fill(feeds)
    runs, kept = list(single_runs(plan)), {}
    for nodes, numbers in groups(plan):
        for step, run in (runs[i] for i in numbers):
            if run() and isinstance(step, Step):
                raise out_of_range(plan.graph, [step.node])
        for value in (v for node in nodes for v in node.outputs):
            if value in wanted and value not in kept and is_held(plan, value):
                held = plan.memory.held(value)
                kept[value] = Kept(held.copy() if isinstance(held, np.ndarray) else held)
    return kept


def _real(value: Value, place: Origin, kept: Mapping[Value, Kept]) -> np.ndarray | None:
    """A value of the file as real numbers; None where it is no array of them, or a single one."""
    if place.value not in kept:
        return None
    array, quant = as_in_file(value, place, kept), value.type.quant
    if quant is None and not place.hows and (array is None or array.dtype.kind in "iu"):
        array, quant = kept[place.value].array, place.value.type.quant  # the plan knows what the stored numbers mean
    if not isinstance(array, np.ndarray) or array.size < 2:
        return None
    if quant is not None and array.dtype.kind in "iu":
        array = to_real(array, quant)
    return array.astype(np.float32) if array.dtype.kind == "f" else None


Pairs = list[tuple[int, int, Way]]
"""Numbers of a value of A and of one of B that belong together, and their layout."""


def _aligned(weights: np.ndarray, chosen: Mapping[tuple[int, int], Way]) -> Pairs:
    """The pairs of the largest sum of weights, in the order of both."""
    n, m = weights.shape
    best = np.zeros((n + 1, m + 1))
    for i in range(n):
        best[i + 1, 1:] = np.maximum.accumulate(np.maximum(best[i, 1:], best[i, :-1] + weights[i]))
    found, i, j = [], n, m
    while i and j:
        if best[i, j] == best[i - 1, j]:
            i -= 1
        elif best[i, j] == best[i, j - 1]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            found.append((i, j, chosen[i, j]))
    return found[::-1]


def _with_equal(pairs: Pairs, weights: np.ndarray, chosen: Mapping[tuple[int, int], Way]) -> Pairs:
    """The pairs, and those of equal values that the two files have in another order."""
    free = weights.copy()
    free[[i for i, _, _ in pairs]] = -np.inf
    free[:, [j for _, j, _ in pairs]] = -np.inf
    found = list(pairs)
    while free.size and free.max() >= 1:
        i, j = (int(k) for k in np.unravel_index(int(free.argmax()), free.shape))
        found.append((i, j, chosen[i, j]))
        free[i], free[:, j] = -np.inf, -np.inf
    return sorted(found)


def _likeness(a: Sequence[Inner], b: Sequence[Inner]) -> tuple[np.ndarray, dict[tuple[int, int], Way]]:
    """How alike each two values are, -inf where shapes differ; and the layout in which they are most."""
    weights, chosen = np.full((len(a), len(b)), -np.inf), {}
    rng = np.random.default_rng(0)
    for shape, rows in _by_shape(a).items():
        for other, columns in _by_shape(b).items():
            for way in ways(shape, other):
                size = int(np.prod(shape))
                at = rng.choice(size, min(size, SAMPLES), replace=False)
                from_ = arranged(np.arange(size).reshape(shape), way, other).reshape(-1)[at]
                ours = np.array([a[i].array.reshape(-1)[from_] for i in rows], np.float64)
                theirs = np.array([b[j].array.reshape(-1)[at] for j in columns], np.float64)
                for i, each in zip(rows, ours, strict=True):
                    with np.errstate(all="ignore"):
                        ratio = np.square(each).sum() / np.square(theirs - each).sum(-1)
                        near = np.nan_to_num(10 * np.log10(ratio), nan=0.0, posinf=CLEAR).clip(0, CLEAR) / CLEAR
                    for j, like in zip(columns, near + SHAPE, strict=True):
                        more = NAME * (a[i].value.name == b[j].value.name) + OPERATOR * (a[i].node.op == b[j].node.op)
                        if like + more > weights[i, j]:
                            weights[i, j], chosen[i, j] = like + more, way
    return weights, chosen


def _by_shape(values: Sequence[Inner]) -> dict[tuple[int, ...], list[int]]:
    found: dict[tuple[int, ...], list[int]] = {}
    for number, each in enumerate(values):
        found.setdefault(each.array.shape, []).append(number)
    return found


def layers(
    a: Sequence[Inner], b: Sequence[Inner], nodes: Sequence[Node], agrees: Callable[[Figures], bool], rounded: bool
) -> list[Layer]:
    """The values of two networks that belong together, in the order of A, whose nodes are `nodes`, and how far they
    differ. Values that differ, but of which equal ones are made, were no pair; with `rounded` only when they are unlike,
    as rounding errors fade.
    """
    weights, chosen = _likeness(a, b)
    made = {value: node for node in nodes for value in node.outputs}
    pairs = _aligned(weights, chosen)
    found = _beside(a, b, pairs, made, agrees)
    leads = [layer.ok for layer in found]
    for number in reversed(range(len(found))):
        for before in found[number].before if leads[number] else ():
            leads[before] = True
    wrong = [not each.ok and (not rounded or each.figures.cosine < UNLIKE) for each in found]
    kept = [pair for pair, bad, lead in zip(pairs, wrong, leads, strict=True) if not (bad and lead)]
    return _beside(a, b, _with_equal(kept, weights, chosen), made, agrees)


def _beside(
    a: Sequence[Inner], b: Sequence[Inner], pairs: Pairs, made: Mapping[Value, Node],
    agrees: Callable[[Figures], bool],
) -> list[Layer]:  # fmt: skip
    found = []
    numbers = {a[i].value: number for number, (i, _, _) in enumerate(pairs)}
    for i, j, way in pairs:
        x, y = a[i].array, b[j].array
        gap = figures([(arranged(x, way, y.shape), y)])._replace(argmax=None)
        names = a[i].value.name, b[j].value.name, _named(a[i].node), _named(b[j].node)
        found.append(Layer(*names, *_since(a[i], numbers, made), layout(x.shape, y.shape, way), gap, agrees(gap)))
    return found


def _named(node: Node) -> str:
    return f"{node.op} {node.name or node.out.name!r}"


def _since(
    each: Inner, numbers: Mapping[Value, int], made: Mapping[Value, Node]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The operators between a value and those before it that are paired, and the numbers of these."""
    within: dict[str, None] = {}
    before: set[int] = set()
    stack, seen = [each.node], {each.node}
    while stack:
        for value in operands(stack.pop()):
            if value is None:
                continue
            if value in numbers:
                before.add(numbers[value])
            elif value in made and made[value] not in seen:
                seen.add(made[value])
                within[_named(made[value])] = None
                stack.append(made[value])
    return tuple(reversed(within)), tuple(sorted(before))
