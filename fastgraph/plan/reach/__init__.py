"""What each kernel reaches in memory, from its name, parameters and record alone: a rule per row of the kernels' table.

Written from the kernels themselves; shares nothing with the lowerings that write records.
"""

from . import amx, attention, gemm, move, pointwise, recurrent, window
from .call import RULES, Call, Misfit, Reach
from .custom import custom

NO_STEPS = frozenset({"execute", "call", "team", "chain", "vector_op"})
"""Kernels that run the others and are no step of a program."""

__all__ = [
    "Call", "Misfit", "NO_STEPS", "RULES", "Reach", "amx", "attention", "custom", "gemm", "move", "pointwise",
    "recurrent", "window",
]  # fmt: skip
