"""The bytes that each kernel reads and writes, from its name, parameters and record alone.

Most of it is declared with the slots of its record, in the family's `rows.py` (`declared.py`); ranges that can't be
declared there have a rule here. Both are derived from the kernels, and share nothing with the lowerings that write
records.
"""

from collections.abc import Iterator
from math import prod

import numpy as np

from ...kernels.pointwise.rows import WALK
from ..program import UserKernel
from . import amx, attention, gemm, move, pointwise, recurrent, window
from .call import RULES, Call, Misfit, Reach, need, read, write
from .declared import declared

NO_STEPS = frozenset({"execute", "call", "team", "parts", "chain", "vector_op"})
"""Kernels that are called by others and are no step of a program."""

__all__ = [
    "Call", "Misfit", "NO_STEPS", "RULES", "Reach", "WALK", "amx", "attention", "custom", "gemm", "move", "pointwise",
    "reaches_of", "recurrent", "window",
]  # fmt: skip


def reaches_of(c: Call) -> list[Reach]:
    """The ranges of memory that a call reads and writes; Misfit where its record doesn't fit its kernel."""
    need(c.kernel not in NO_STEPS, "the kernel runs other kernels")
    if isinstance(c.step.kernel, UserKernel):
        return list(custom(c))
    by_hand = RULES.get(c.kernel)
    return [*declared(c), *(by_hand and by_hand(c) or ())]


def custom(c: Call) -> Iterator[Reach]:
    """The ranges of a call of a user's kernel."""
    kernel = c.step.kernel
    assert isinstance(kernel, UserKernel)
    yield write(".error", 8)
    for name, form in kernel.forms.items():
        if form[0] == "array":
            extents = [f"{name}.{axis}" for axis in range(form[2])]
            r = c.record(" ".join(extents))
            size = np.dtype(form[1]).itemsize * prod(getattr(r, extent) for extent in extents)
            yield (write if form[3] else read)(name, size)
