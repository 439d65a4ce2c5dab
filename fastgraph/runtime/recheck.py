"""Verifies the records of a stored plan: what its steps read and write lies within its buffers and constants.

The checksums say that a file is as it was written; this says, on request (FASTGRAPH_CHECK), that it was written right.
That each step keeps to the values of its node, and reads what has been written, was verified when the plan was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..errors import PlanError
from ..ir import Node
from ..kernels.core.kernel import Kernel
from ..kernels.core.slots import JUMP
from ..kernels.isa.tiers import Tier
from ..plan.program import ERROR, Arg, Ref, Scratch, Step, Table, record_of
from ..plan.reach import WALK, Call, Misfit, Reach, reaches_of
from ..room import SLACK
from ..saved.flat import Flat, Part


def recheck(flat: Flat, kernels: Sequence[Kernel], tier: Tier, threads: int) -> None:
    """Return None when all steps of the plan keep to its memory; else PlanError. `kernels`: those of `flat.kernels`."""
    number, name = -1, "a table"
    try:
        words = _Words(flat, kernels)
        for part in flat.parts:
            for number in range(part.first, part.first + part.steps):
                kernel, first, _ = flat.steps[number].tolist()
                name = "a jump" if kernel < 0 else str(kernels[kernel])
                if kernel < 0:
                    _jump(words, flat, part, number, first)
                    continue
                args = words.read(first, len(record_of(kernels[kernel])))
                _reaches(
                    flat, Call(Step(kernels[kernel], args, Node("identity", [], [])), tier, threads, flat.constants)
                )
    except (Misfit, LookupError, TypeError, ValueError) as error:
        raise PlanError(f"step {number}, {name}: {error}") from None


class _Words:
    """The words of a plan as a program has them: numbers, and addresses with what they are in."""

    def __init__(self, flat: Flat, kernels: Sequence[Kernel]) -> None:
        self.flat = flat
        self.bases: dict[int, int] = dict(flat.addresses.tolist())
        starts = [*flat.tables.tolist(), len(flat.words)]
        buffers = [Scratch(f"buffer {number}", int(size)) for number, (_, size) in enumerate(flat.buffers.tolist())]
        self.owners: list[Any] = [-1, *buffers, *range(len(flat.constants)), *kernels]
        for first, end in pairwise(starts):
            self.owners.append(Table(self.read(first, end - first)))  # type: ignore[arg-type]

    def read(self, first: int, count: int) -> tuple[Arg, ...]:
        """The words from `first` on. IndexError when there are fewer."""
        if count < 0 or first + count > len(self.flat.words):
            raise IndexError(f"its record of {count} words ends behind the last")
        return tuple(self._word(number) for number in range(first, first + count))

    def _word(self, number: int) -> Arg:
        value = int(self.flat.words[number])
        if number not in self.bases:
            return value
        owner = self.owners[self.bases[number]]
        if isinstance(owner, Kernel | Table):
            if value:
                raise Misfit(f"word {number} is an address within {owner}")
            return owner
        return ERROR if owner == -1 and not value else Ref(owner, value)


def _jump(words: _Words, flat: Flat, part: Part, number: int, first: int) -> None:
    cell, _, by = words.read(first, len(JUMP))
    if not isinstance(by, int) or not part.first <= number + by <= part.first + part.steps:
        raise Misfit(f"it leads {by} steps from here, out of its part")
    if isinstance(cell, Ref):
        if not 0 <= cell.offset < _size(flat, cell.base):
            raise Misfit(f"its byte lies outside of {cell.base}")
    elif cell != 0:
        raise Misfit(f"its byte is at {cell}, expected an address")


def _reaches(flat: Flat, call: Call) -> None:
    """Misfit when a call reaches out of its memory."""
    reached = reaches_of(call)
    known = {reach.slot for reach in reached}
    for name, arg in call.slots.items():
        if isinstance(arg, Ref) and name not in known and arg != ERROR:
            raise Misfit(f"{name} holds an address, expected a number")
        if isinstance(arg, Kernel | Table) and name not in WALK:
            raise Misfit(f"{name} holds {arg}, expected a number or an address of memory")
    for reach in reached:
        if not reach.empty:
            _within(flat, reach, call.slots[reach.slot])


def _within(flat: Flat, reach: Reach, arg: Any) -> None:
    if not isinstance(arg, Ref):
        raise Misfit(f"{reach.slot} is {arg}, expected an address")
    size = _size(flat, arg.base)
    low, end = (arg.offset + at for at in reach.span())
    if low < 0 or end > size or end + reach.over > size + SLACK:
        raise Misfit(f"{reach.slot} reaches bytes {low}..{end} and {reach.over} more of {size}")
    if reach.kind != "read" and isinstance(arg.base, int) and arg.base >= 0:
        raise Misfit(f"{reach.slot} writes into a constant")


def _size(flat: Flat, base: Any) -> int:
    if isinstance(base, Scratch):
        return base.nbytes
    return 8 if base == -1 else int(np.asarray(flat.constants[base]).nbytes)
