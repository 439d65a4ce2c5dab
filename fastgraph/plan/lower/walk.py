"""Chains as the kernel `chain` walks them: tables of operands and steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from ...kernels.core.kernel import Kernel
from ...kernels.core.table import row
from ...kernels.pointwise.chain import Chain
from ...kernels.pointwise.rows import CHAIN, MOST_VALUES, READ, ROOM, STEP, value
from ..program import Ref, Table
from .registry import Emit
from .steps import steps_of

BLOCK = 31
"""Most parts of 64 f32 of a temporary: several stay in the first-level cache with what is read and written."""
X, Y, FIRST = 0, 1, 2
"""Numbers of a walk's values: what it begins with, its result, its operands."""
SIZES = {"f32": 4, "i32": 4, "i16": 2, "u16": 2, "u8": 1, "s8": 1, "bool": 1}
"""Bytes of an element."""


class Read(NamedTuple):
    """Where an operand is read: its address, bytes from place to place of each loop, and its element type."""

    address: Ref
    d0: int = 0
    d1: int = 0
    image: int = 0
    row: int = 0
    column: int = 0
    element: str = "f32"


class Out(NamedTuple):
    """The element type of a result, and how it is rounded: the stored number for 0.0, the least and the greatest.

    bounded: no result is so large that it would have to be held within bounds before.
    """

    element: str = "f32"
    zero: int = 0
    low: int = 0
    high: int = 0
    bounded: bool = False


def walker(e: Emit) -> Kernel:
    """The kernel that a slot `walk` names."""
    return row("chain").kernel(e.tier, {})


def table(e: Emit, chain: Chain, operands: Sequence[Read | None], out: Out = Out()) -> Table:  # noqa: B008
    """The table of a chain over these operands; None: the `x` of the walk. It has a step, or f32 become others."""
    elements = ["f32" if r is None else "u8" if r.element == "bool" else r.element for r in operands]
    rounding = () if out.element in ("f32", "bool") else (float(out.zero), float(out.low), float(out.high))
    steps = steps_of(chain, elements, out.element, rounding, out.bounded)
    reads = [read for read in operands if read is not None]
    numbers = list(dict.fromkeys(f32_bits(o) for _, *taken in steps for o in taken if isinstance(o, float)))
    first_number = FIRST + len(reads)
    if numbers:
        held = e.packed(("numbers", *numbers), lambda: np.array(numbers, np.int32))
        reads += [Read(Ref(held.base, held.offset + 4 * i)) for i in range(len(numbers))]
    places, at = dict[int, int](), FIRST
    for i, read in enumerate(operands):
        places[i], at = (X, at) if read is None else (at, at + 1)
    temporaries = _place_results(steps, len(operands), FIRST + len(reads), places)
    # An odd number of parts: what lies a multiple of 4096 bytes apart hinders one another.
    block = 64 * ((min(BLOCK, ROOM // max(temporaries, 1) // 64) - 1) | 1)
    assert block > 0 and FIRST + len(reads) + temporaries <= MOST_VALUES
    words: list[Any] = CHAIN.filled(
        operands=len(reads), steps=len(steps), item=SIZES[out.element], temporaries=temporaries, block=block
    )
    for r in reads:
        words += READ.filled(
            operand=r.address, operand_d0=r.d0, operand_d1=r.d1, operand_image=r.image, operand_row=r.row,
            operand_column=r.column,
        )  # fmt: skip
    for i, (name, *rest) in enumerate(steps):
        taken = cast("list[int | float]", rest)
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
