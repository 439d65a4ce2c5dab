"""Layers of two networks side by side: values that both have inside, over the same feeds, paired by shape and value.

Values are those of the files, in their layouts, whatever a plan made of them; those that exist only within a kernel are
left out, or of quantized networks what references make of the values before them. In the order of the files, pairs are
chosen for the largest sum of likeness (an alignment, as of two texts): so layers after a fault, whose values tell
nothing, still find their partners by shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ..ir import Graph, Node, Value
from ..ir.quantization import to_real
from ..ops.evaluate import operands
from ..ops.registry import OPS
from ..passes.explicit_quantization import LINEAR, linear_quant
from ..runtime.executable import Executable
from ..runtime.model import Model
from ..runtime.stepwise import groups, is_held, single_runs
from .operators import Kept, Origin, constants, in_file, keep, prepared, references
from .pairing import Figures, Way, arranged, figures, layout, ways

SAMPLES = 1024
"""Numbers of a value that its likeness to others is judged by."""
CLEAR = 40.0
"""dB from which two values are the same."""
SHAPE, NAME, OPERATOR, NODE = 0.1, 0.5, 0.05, 0.4
"""What a common shape, tensor name, operator, and node (its name and operator) add to the likeness of two values, which
is 1 from CLEAR on."""
UNLIKE = 0.9
"""Cosine below which values of quantized networks that differ, and do no harm, were no pair."""


@dataclass(frozen=True)
class Layer:
    """A value of A and its partner of B: names of the tensors; the operators that make them ("conv+relu 'name'");
    those that lie between the value and the ones before it that are paired, and the numbers of these among the layers;
    figures, and whether they are within the limits.
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


def inner(model: Model, feeds: Mapping[str, Any], whole: bool = False) -> tuple[list[Inner], Graph]:
    """The real values that operators of the file give, run step by step, in its order; and the graph that has them.
    States are afterwards what they were.

    Where QuantizeLinear and DequantizeLinear follow an operator, their result stands for its own. `whole`: with values
    that exist only within a kernel, computed by references.
    """
    with prepared(model, feeds) as (plan, arrays, found):
        kept = _kept(plan, arrays, found.wanted())
    graph = found.graph
    held = in_file(found, kept)
    if whole:
        for node, results, _ in references(graph, dict(held)):
            for value, array in zip(node.outputs, results, strict=False):
                held.setdefault(value, array)
    last = {node.name: node for node in graph.nodes}  # an operator may have been read as several nodes
    made = {v: node for node in graph.nodes for v in node.outputs}
    fixed = constants(graph)
    reals: dict[Value, Inner] = {}
    for value, node in made.items():
        if last[node.name] is node and value not in fixed:
            array = _real(value, node, held.get(value), found.places.get(value), kept)
            if array is not None and array.any():
                of = _stored_by(value, made)
                reals[of] = Inner(of, made[of], array)
    return [reals[value] for value in made if value in reals], graph


def _stored_by(value: Value, makers: Mapping[Value, Node]) -> Value:
    """The result of an operator that a value stores, or has again after it was stored."""
    node = makers[value]
    while node.op in LINEAR and node.inputs[0] in makers:
        value = node.x
        node = makers[value]
    return value


def _kept(plan: Executable, feeds: Mapping[str, np.ndarray], wanted: set[Value]) -> dict[Value, Kept]:
    """Copies of the values of a plan, each right after its step."""
    plan.fill(feeds)
    runs, kept = list(single_runs(plan)), {}
    for nodes, numbers in groups(plan):
        for i in numbers:
            runs[i][1]()
        for value in (v for node in nodes for v in node.outputs):
            if value in wanted and value not in kept and is_held(plan, value):
                kept[value] = keep(plan, value)
    return kept


def _real(value: Value, node: Node, array: Any, place: Origin | None, kept: Mapping[Value, Kept]) -> np.ndarray | None:
    """A value of the file as real numbers; None where it is no array of them, or a single one."""
    quant = value.type.quant
    if quant is None and node.op == "quantize_linear":
        known = node.const(2) is not None or not node.has(2)
        quant = linear_quant(node, node.const(1), node.const(2)) if known else None
    elif quant is None and place is not None and place.value in kept and not place.hows:
        if array is None or array.dtype.kind in "iu":
            array, quant = kept[place.value].array, place.value.type.quant  # the plan knows what stored numbers mean
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
    for (shape, rows), (other, columns) in product(_by_shape(a).items(), _by_shape(b).items()):
        size = int(np.prod(shape))
        for way in ways(shape, other):
            at = rng.choice(size, min(size, SAMPLES), replace=False)
            from_ = arranged(np.arange(size).reshape(shape), way, other).reshape(-1)[at]
            theirs = np.array([b[j].array.reshape(-1)[at] for j in columns], np.float64)
            for i in rows:
                near = _nearness(a[i].array.reshape(-1)[from_].astype(np.float64), theirs)
                for j, like in zip(columns, near + SHAPE, strict=True):
                    if like + (more := _common(a[i], b[j])) > weights[i, j]:
                        weights[i, j], chosen[i, j] = like + more, way
    return weights, chosen


def _nearness(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """The SNR of each of several values against one: 1 from CLEAR dB on, 0 below 0 dB."""
    with np.errstate(all="ignore"):
        ratio = np.square(ours).sum() / np.square(theirs - ours).sum(-1)
        return np.nan_to_num(10 * np.log10(ratio), nan=0.0, posinf=CLEAR).clip(0, CLEAR) / CLEAR


def _common(one: Inner, other: Inner) -> float:
    """The likeness of a pair by names and operators."""
    same = one.node.op == other.node.op
    node = NODE * (one.node.name == other.node.name) if same and one.node.name else 0.0
    return NAME * (one.value.name == other.value.name) + OPERATOR * same + node


def _by_shape(values: Sequence[Inner]) -> dict[tuple[int, ...], list[int]]:
    found: dict[tuple[int, ...], list[int]] = {}
    for number, each in enumerate(values):
        found.setdefault(each.array.shape, []).append(number)
    return found


def layers(
    a: tuple[Sequence[Inner], Graph],
    b: tuple[Sequence[Inner], Graph],
    wrong: Sequence[int],
    agrees: Callable[[Figures], bool],
    rounded: bool,
) -> list[Layer]:
    """The values of two networks that belong together, in the order of A, and how far they differ.

    `wrong`: numbers of A's outputs that differ. Values that differ, but from which no such output is reached except
    through values that agree, were no pair; with `rounded` only when they are unlike, as rounding errors fade, and have
    other names.
    """
    weights, chosen = _likeness(a[0], b[0])
    pairs = _aligned(weights, chosen)
    found = _beside(a, b, pairs, agrees)
    harmful = _upstream(a, {a[0][i].value for (i, _, _), each in zip(pairs, found, strict=True) if each.ok}, wrong)
    kept = [
        pair
        for pair, each in zip(pairs, found, strict=True)
        if each.ok or a[0][pair[0]].value in harmful or rounded and (each.figures.cosine >= UNLIKE or each.a == each.b)
    ]
    return _beside(a, b, _with_equal(kept, weights, chosen), agrees)


def _upstream(a: tuple[Sequence[Inner], Graph], stops: set[Value], wrong: Sequence[int]) -> set[Value]:
    """The values that outputs are computed from, back to those in `stops`."""
    graph = a[1]
    made = {value: node for node in graph.nodes for value in node.outputs}
    stack, seen = [graph.outputs[number] for number in wrong], set()
    while stack:
        value = stack.pop()
        if value not in seen and value not in stops:
            seen.add(value)
            stack += [v for v in (operands(made[value]) if value in made else ()) if v is not None]
    return seen


def _beside(
    a: tuple[Sequence[Inner], Graph], b: tuple[Sequence[Inner], Graph], pairs: Pairs, agrees: Callable[[Figures], bool]
) -> list[Layer]:
    found = []
    numbers = {a[0][i].value: number for number, (i, _, _) in enumerate(pairs)}
    made = {value: node for node in a[1].nodes for value in node.outputs}
    mine, theirs = _labels(a[1]), _labels(b[1])
    for i, j, way in pairs:
        one, other = a[0][i], b[0][j]
        x, y = one.array, other.array
        within, before = _since(one, numbers, made)
        gap = figures([(arranged(x, way, y.shape), y)])._replace(argmax=None)
        names = one.value.name, other.value.name, mine[one.node.name], theirs[other.node.name]
        between = tuple(mine[name] for name in within)
        found.append(Layer(*names, between, before, layout(x.shape, y.shape, way), gap, agrees(gap)))
    return found


def _labels(graph: Graph) -> dict[str, str]:
    """By name, what an operator of the file was read as: "conv+relu 'name'"; without moves, unless it is one."""
    ops: dict[str, dict[str, None]] = {}
    for node in graph.nodes:
        ops.setdefault(node.name, {})[node.op] = None
    real = {name: [op for op in found if not OPS[op].moves] or list(found) for name, found in ops.items()}
    return {name: f"{'+'.join(found[:3])} {name!r}" for name, found in real.items()}


def _since(
    each: Inner, numbers: Mapping[Value, int], made: Mapping[Value, Node]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The names of other operators between a value and those before it that are paired, and the numbers of these."""
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
                if made[value].op not in LINEAR:
                    within[made[value].name] = None
                stack.append(made[value])
    within.pop(each.node.name, None)
    return tuple(reversed(within)), tuple(sorted(before))
