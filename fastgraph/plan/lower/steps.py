"""Chains as sequences of the steps that kernels have, with bit-identical results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from math import inf, isnan
from typing import Any, NamedTuple

from ...kernels.pointwise.chain import Chain
from ...kernels.pointwise.steps import COMPOSED, NUMBER, ROUNDED, Step, pattern

Steps = list[tuple[Any, ...]]
COMMUTE = frozenset({"add", "mul", "fma", "and", "or", "equal"})
"""Operations that commute in their first two operands."""


def steps_of(
    chain: Chain, elements: Sequence[str], out: str = "f32", rounding: Sequence[float] = (), bounded: bool = False
) -> Chain:
    """The steps of a chain over operands of these element types. A result of type `out` is rounded with the numbers
    zero, low and high. bounded: as of Step.
    """
    count = len(elements)
    steps: Steps = []
    places: list[Any] = [None if element != "f32" else i for i, element in enumerate(elements)]

    def place(o: Any) -> Any:
        if not isinstance(o, int):
            return float(o)
        if places[o] is None:
            steps.append((f"load_{elements[o]}", o))
            places[o] = count + len(steps) - 1
        return places[o]

    for name, *taken in chain:
        operands = [place(o) for o in taken]
        steps += _rewritten(name, operands, count + len(steps))
        places.append(count + len(steps) - 1)
    last = place(len(places) - 1 if chain else 0)
    if out != "f32":
        steps.append((f"{'round' if bounded else 'store'}_{out}", last, *rounding))
    *most, (name, *taken) = _composed(_needed(steps, count), count)
    return (*most, (str(name).replace("round_", "store_"), *taken))


def _rewritten(name: Any, operands: list[Any], following: int) -> Steps:
    """An operation as steps, of which the first gives value number `following`."""
    x, y, z = (*operands, None, None)[:3]
    match name:
        case "clip" if not _are_numbers(y, z):
            first = _rewritten("max", [x, y], following)
            return first + _rewritten("min", [following, z], following + len(first))
        case "min" | "max" if _are_numbers(x) or _are_numbers(y):
            number, x = (x, y) if isinstance(x, float) else (y, x)
            return [("clip", x, number, inf) if name == "max" else ("clip", x, -inf, number)]
        case "sub" if isinstance(y, float):
            return [("add", x, -y)]
        case "less" | "less_or_equal":
            return [(name.replace("less", "greater"), y, x)]
        case "prelu" | "leaky_relu":
            return [("leaky_relu" if isinstance(y, float) else "prelu", x, y)]
        case "selu":
            return [("elu", x, y), ("mul", z, following)]
        case "square":
            return [("mul", x, x)]
        case "rsqrt":
            return [("sqrt", x), ("reciprocal", following)]
        case "ceil":
            return [("mul", x, -1.0), ("floor", following), ("mul", following + 1, -1.0)]
        case "neg":
            return [("mul", x, -1.0)]
        case "softsign":
            return [("abs", x), ("add", following, 1.0), ("div", x, following + 1)]
        case "thresholded_relu":
            return [("greater", x, y), ("where", following, x, 0.0)]
        case "is_nan" | "not_equal":
            return [("equal", x, x if y is None else y), ("equal", following, 0.0)]
        case "is_inf":
            return [("abs", x), ("equal", following, inf)]
        case "not":
            return [("equal", x, 0.0)]
    return [(name, *operands)]


def _are_numbers(*operands: Any) -> bool:
    return all(isinstance(o, float) and not isnan(o) for o in operands)


def _needed(steps: Steps, inputs: int) -> Steps:
    """The steps that the last one depends on, renumbered."""
    needed = {inputs + len(steps) - 1}
    for i in reversed(range(len(steps))):
        if inputs + i in needed:
            needed.update(_values(steps[i]))
    return _kept(steps, inputs, [i for i in range(len(steps)) if inputs + i in needed])


def _kept(steps: Steps, inputs: int, kept: list[int]) -> Steps:
    number = {**{i: i for i in range(inputs)}, **{inputs + i: inputs + n for n, i in enumerate(kept)}}
    return [(steps[i][0], *(number[o] if isinstance(o, int) else o for o in steps[i][1:])) for i in kept]


def _values(step: tuple[Any, ...]) -> list[int]:
    return [o for o in step[1:] if isinstance(o, int)]


# -- steps that follow one another as one


@cache
def _patterns() -> dict[str, list[tuple[str, Step, Chain]]]:
    """The composed steps by the operation of their last step, the longest and those with numbers first."""
    found: dict[str, list[tuple[str, Step, Chain]]] = {}
    of = sorted(((name, step, pattern(step)) for name, step in COMPOSED.items()), key=_precedence)
    for name, step, chain in of:
        found.setdefault(str(chain[-1][0]), []).append((name, step, chain))
    return found


def _precedence(composed: tuple[str, Step, Chain]) -> tuple[int, int]:
    _, step, chain = composed
    return -len(chain), -step.elements.count(NUMBER)


def _composed(steps: Steps, inputs: int) -> Chain:
    gone: set[int] = set()
    for i in reversed(range(len(steps))):
        if i in gone:
            continue
        uses = _uses(steps, gone)
        for name, step, chain in _patterns().get(steps[i][0], ()):
            search = _Search(steps, inputs, uses, step, chain)
            found = next(_matches(search, i, len(chain) - 1, ({}, {})), None)
            if found is not None:
                operands, made = found
                steps[i] = (name, *(operands[k] for k in range(step.arity)))
                gone |= set(made.values()) - {i}
                break
    return tuple(_kept(steps, inputs, [i for i in range(len(steps)) if i not in gone]))


def _uses(steps: Sequence[tuple[Any, ...]], gone: set[int] | frozenset[int] = frozenset()) -> dict[int, int]:
    """The number of uses of each value."""
    uses: dict[int, int] = {}
    for i, step in enumerate(steps):
        for o in _values(step) if i not in gone else ():
            uses[o] = uses.get(o, 0) + 1
    return uses


Found = tuple[dict[int, Any], dict[int, int]]
"""A partial match: (values by operand of the pattern, steps by step of the pattern)."""


class _Search(NamedTuple):
    """Steps over `inputs` values, with the uses of each value, and the composed step whose chain is looked for."""

    steps: Steps
    inputs: int
    uses: dict[int, int]
    step: Step
    chain: Chain


def _matches(search: _Search, i: int, p: int, found: Found) -> Iterator[Found]:
    """The partial matches that extend `found` by step i, with the steps it uses, as step p of the pattern."""
    operands, made = found
    (operation, *order), (wanted_operation, *wanted_order) = search.steps[i], search.chain[p]
    if made.get(p, i) != i or operation != wanted_operation:
        return
    made = {**made, p: i}
    orders = [order]
    if operation in COMMUTE:
        orders.append([orders[0][1], orders[0][0], *orders[0][2:]])
    for order in orders:
        ways = [(operands, made)]
        for o, wanted in zip(order, wanted_order, strict=True):
            ways = [further for way in ways for further in _binds(search, o, wanted, way)]
        yield from ways


def _binds(search: _Search, o: Any, wanted: Any, found: Found) -> Iterator[Found]:
    """The partial matches that extend `found` by operand o as the operand `wanted` of the pattern."""
    (operands, made), step = found, search.step
    if not isinstance(wanted, int):
        if o == wanted and not isinstance(o, int):
            yield found
    elif wanted < step.arity:
        kinds = [*step.elements, *[NUMBER] * 3] if step.out in ROUNDED else step.elements
        same = wanted not in operands or (operands[wanted] == o and type(operands[wanted]) is type(o))
        if same and (kinds[wanted] != NUMBER or isinstance(o, float)):
            yield {**operands, wanted: o}, made
    elif isinstance(o, int) and o >= search.inputs and search.uses[o] == _uses(search.chain)[wanted]:
        yield from _matches(search, o - search.inputs, wanted - step.arity, found)
