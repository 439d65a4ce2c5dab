"""Tables of operands and steps, by which the kernel `chain` walks a chain."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import copysign, inf
from struct import Struct
from typing import Any, NamedTuple, cast

import numpy as np

from ...kernels.core.kernel import Kernel
from ...kernels.core.table import row
from ...kernels.isa.tiers import Tier
from ...kernels.pointwise.chain import Chain
from ...kernels.pointwise.rows import CHAIN, MOST_VALUES, ROOM, STEP, value
from ..program import Ref, Table
from .registry import Emit
from .steps import steps_of

BLOCK = 31
"""The most parts of 64 f32 of a temporary: several temporaries fit the first-level cache beside operands and results.
"""
X, Y, FIRST = 0, 1, 2
"""Numbers of a walk's values: x, the result, the first operand."""
SIZES = {"f32": 4, "i32": 4, "i16": 2, "u16": 2, "bf16": 2, "u8": 1, "s8": 1, "bool": 1}
"""Bytes of an element."""
_F64, _F32, _I32 = Struct("<d"), Struct("<f"), Struct("<i")


class Read(NamedTuple):
    """An operand: its address, byte strides by loop, and element type."""

    address: Ref
    d0: int = 0
    d1: int = 0
    image: int = 0
    row: int = 0
    column: int = 0
    element: str = "f32"


class Out(NamedTuple):
    """The element type of a result, and its rounding: zero point, least and greatest stored number. bounded: no result
    is so large that it has to be clamped before rounding."""

    element: str = "f32"
    zero: int = 0
    low: int = 0
    high: int = 0
    bounded: bool = False


def walker(e: Emit) -> Kernel:
    """The kernel for a slot `walk`."""
    return row("chain").kernel(e.tier, {})


def table(e: Emit, chain: Chain, operands: Sequence[Read | None], out: Out = Out()) -> Table:  # noqa: B008
    """The table of a chain over these operands, of which None is the `x` of the walk. It has at least one step, or
    converts f32."""
    elements = tuple(None if r is None else "u8" if r.element == "bool" else r.element for r in operands)
    form = _form(_hashable(chain), elements, out, e.tier)
    reads = [read for read in operands if read is not None]
    if form.numbers:
        held = e.packed(_words, form.numbers)
        reads += [Read(held.plus(4 * i)) for i in range(len(form.numbers))]
    words: list[Any] = [*form.head]
    for r in reads:
        words += [r.address, r.d0, r.d1, r.image, r.row, r.column]  # in the order of READ
    return Table((*words, *form.steps))


def _words(numbers: tuple[int, ...]) -> np.ndarray:
    return np.array(numbers, np.int32)


class _Form(NamedTuple):
    """The part of a table that does not depend on its operands' addresses: f32 numbers, as bits, that follow the
    operands, and the words before and after all of these."""

    numbers: tuple[int, ...]
    head: tuple[Any, ...]
    steps: tuple[Any, ...]


def _hashable(chain: Chain) -> tuple[tuple[str | int | bytes, ...], ...]:
    """A chain with floats as their bytes, for use as a key: Python takes 1 and 1.0, and 0.0 and -0.0, for equal."""
    return tuple(tuple(o if isinstance(o, str | int) else _F64.pack(o) for o in step) for step in chain)


@lru_cache(1024)
def _form(
    spelled: tuple[tuple[str | int | bytes, ...], ...], elements: tuple[str | None, ...], out: Out, tier: Tier
) -> _Form:
    """The form of a chain over operands of these element types; None: the `x` of the walk."""
    chain = tuple(tuple(_F64.unpack(o)[0] if isinstance(o, bytes) else o for o in step) for step in spelled)
    rounding = () if out.element in ("f32", "bf16", "bool") else (float(out.zero), float(out.low), float(out.high))
    steps = steps_of(chain, [each or "f32" for each in elements], out.element, rounding, out.bounded)
    numbers = list(dict.fromkeys(f32_bits(o) for _, *taken in steps for o in taken if isinstance(o, float)))
    places, first_number = dict[int, int](), FIRST
    for i, element in enumerate(elements):
        places[i], first_number = (X, first_number) if element is None else (first_number, first_number + 1)
    read = first_number - FIRST + len(numbers)
    temporaries = _place_results(steps, len(elements), FIRST + read, places)
    # An odd number of parts: what lies a multiple of 4096 bytes apart hinders one another.
    block = 64 * ((min(BLOCK, ROOM // max(temporaries, 1) // 64) - 1) | 1)
    assert block > 0 and FIRST + read + temporaries <= MOST_VALUES
    words: list[Any] = []
    for i, (name, *rest) in enumerate(steps):
        taken = cast("list[int | float]", rest)
        numbered = [first_number + numbers.index(f32_bits(o)) if isinstance(o, float) else places[o] for o in taken]
        named = [value(n) for n in (places[len(elements) + i], *numbered)]
        kernel = row("vector_op").kernel(tier, {"op": name})
        words += [*STEP.filled(kernel=kernel, words=len(STEP) + len(named)), *named]
    head = CHAIN.filled(operands=read, steps=len(steps), item=SIZES[out.element], temporaries=temporaries, block=block)
    return _Form(tuple(numbers), tuple(head), tuple(words))


def f32_bits(x: float) -> int:
    """The nearest f32 as the int that a slot holds."""
    try:
        bits = _F32.pack(x)
    except OverflowError:
        bits = _F32.pack(copysign(inf, x))
    found: int = _I32.unpack(bits)[0]
    return found


def _place_results(steps: Chain, inputs: int, first: int, places: dict[int, int]) -> int:
    """Assign a temporary to each step's result, numbered from `first` on; returns how many there are."""
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
