"""Chains as the kernel `chain` walks them: tables of operands and steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from ...kernels.core.kernel import Kernel
from ...kernels.core.table import row
from ...kernels.pointwise.chain import Chain
from ...kernels.pointwise.rows import CHAIN, MOST_VALUES, READ, ROOM, STEP, value
from ..program import Ref, Table
from .registry import Emit

BLOCK = 1024
"""f32 of a temporary: several stay in the first-level cache with what is read and written."""
X, Y, FIRST = 0, 1, 2
"""Numbers of a walk's values: what it begins with, its result, its operands."""


@dataclass(frozen=True)
class Read:
    """Where an operand is read: its address, and bytes from place to place of each loop."""

    address: Ref
    d0: int = 0
    d1: int = 0
    image: int = 0
    row: int = 0
    column: int = 0


def walker(e: Emit) -> Kernel:
    """The kernel that a slot `walk` names."""
    return row("chain").kernel(e.tier, {})


def table(e: Emit, chain: Chain, operands: Sequence[Read | None], item: int = 4) -> Table:
    """The table of a chain over these operands, at least one step long; None: the `x` of the walk.

    item: bytes of an element of the result.
    """
    steps = plain(chain, len(operands))
    reads = [read for read in operands if read is not None]
    numbers = list(dict.fromkeys(f32_bits(o) for _, *taken in steps for o in taken if isinstance(o, float)))
    if numbers:
        held = e.packed(("numbers", *numbers), lambda: np.array(numbers, np.int32))
        reads += [Read(Ref(held.base, held.offset + 4 * i)) for i in range(len(numbers))]
    first_number = FIRST + len(reads) - len(numbers)
    places = {i: X if read is None else FIRST + sum(o is not None for o in operands[:i])
              for i, read in enumerate(operands)}  # fmt: skip
    temporaries = _place_results(steps, len(operands), FIRST + len(reads), places)
    assert FIRST + len(reads) + temporaries <= MOST_VALUES
    block = min(BLOCK, ROOM // max(temporaries, 1) // 64 * 64)
    words: list[Any] = CHAIN.filled(
        operands=len(reads), steps=len(steps), item=item, temporaries=temporaries, block=block
    )
    for r in reads:
        words += READ.filled(
            operand=r.address, operand_d0=r.d0, operand_d1=r.d1, operand_image=r.image, operand_row=r.row,
            operand_column=r.column,
        )  # fmt: skip
    for i, (name, *taken) in enumerate(steps):
        numbered = [first_number + numbers.index(f32_bits(o)) if isinstance(o, float) else places[o] for o in taken]
        named = [value(n) for n in (places[len(operands) + i], *numbered)]
        kernel = row("vector_op").kernel(e.tier, {"op": name})
        words += [*STEP.filled(kernel=kernel, words=len(STEP) + len(named)), *named]
    return Table(tuple(words))


def f32_bits(x: float) -> int:
    """The nearest f32 as the int that a slot holds."""
    with np.errstate(over="ignore"):
        return int(np.float32(x).view(np.int32))


def _place_results(steps: Chain, inputs: int, first: int, places: dict[int, int]) -> int:
    """Where each step's result lies: temporaries are numbered from `first`; how many there are."""
    last = {o: i for i, (_, *taken) in enumerate(steps) for o in taken if isinstance(o, int)}
    unused: list[int] = []
    count = 0
    for i, (_, *taken) in enumerate(steps):
        # An operand that nobody needs any more may be overwritten: it has the same strides.
        unused += sorted({places[o] for o in taken if isinstance(o, int) and o >= inputs and last[o] == i})
        if i == len(steps) - 1:
            places[inputs + i] = Y
        elif unused:
            places[inputs + i] = unused.pop()
        else:
            places[inputs + i] = first + count
            count += 1
    return count


# -- steps as kernels take them


def plain(chain: Chain, inputs: int) -> Chain:
    """The chain with steps that kernels have, those that nobody needs left out."""
    steps: list[tuple[Any, ...]] = []
    places = list(range(inputs))
    for name, *taken in chain:
        operands = [places[o] if isinstance(o, int) else float(o) for o in taken]
        for step in _as_kernels_take(name, operands, inputs + len(steps)):
            steps.append(step)
        places.append(inputs + len(steps) - 1)
    return _needed(steps, inputs)


def _as_kernels_take(name: Any, operands: list[Any], following: int) -> list[tuple[Any, ...]]:
    """A step as one or two, of which the first makes value `following`.

    Of two operands an extreme gives the second where they compare as equal: bounds come first. Those of clip are
    numbers.
    """
    if name == "clip" and not all(_is_bound(o) for o in operands[1:]):
        x, low, high = operands
        return [_extreme("max", x, low), _extreme("min", following, high)]
    if name in ("min", "max"):
        return [_extreme(name, *operands)]
    return [(name, *operands)]


def _extreme(name: str, x: Any, y: Any) -> tuple[Any, ...]:
    return (name, y, x) if isinstance(y, float) else (name, x, y)


def _is_bound(operand: Any) -> bool:
    return isinstance(operand, float) and not isnan(operand)


def _needed(steps: list[tuple[Any, ...]], inputs: int) -> Chain:
    """The steps that the last one hangs on, renumbered."""
    needed = {inputs + len(steps) - 1}
    for i in reversed(range(len(steps))):
        if inputs + i in needed:
            needed.update(o for o in steps[i][1:] if isinstance(o, int))
    kept = [i for i in range(len(steps)) if inputs + i in needed]
    number = {**{i: i for i in range(inputs)}, **{inputs + i: inputs + n for n, i in enumerate(kept)}}
    return tuple((steps[i][0], *(number[o] if isinstance(o, int) else o for o in steps[i][1:])) for i in kept)
