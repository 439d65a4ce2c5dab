"""The bytes that each kernel reads and writes, from its name, parameters and record alone.

Most of it is declared with the slots of its record, in the family's `rows.py` (`declared.py`); ranges that can't be
declared there have a rule here. Both are derived from the kernels, and share nothing with the lowerings that write
records.
"""

from ...kernels.pointwise.rows import WALK
from ..program import UserKernel
from . import amx, attention, gemm, move, pointwise, recurrent, window
from .call import RULES, Call, Misfit, Reach, need
from .custom import custom
from .declared import declared

NO_STEPS = frozenset({"execute", "call", "team", "chain", "vector_op"})
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
