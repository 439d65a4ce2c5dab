"""The steps that a walked chain is made of, each a kernel `vector_op`. Imports nothing that compiles."""

from __future__ import annotations

from ..isa.math import OPS
from .chain import Chain

COMPOSED: dict[str, Chain] = {
    "mul_add": (("mul", 0, 1), ("add", 3, 2)),
}
"""Steps that often follow one another, as one; its name -> what it does with its operands."""

STEPS: dict[str, Chain] = {
    **{name: ((name, *range(op.arity)),) for name, op in OPS.items()},
    **COMPOSED,
}
"""Every step by its name: a chain over its operands."""


def arity(step: str) -> int:
    """How many operands a step takes."""
    chain = STEPS[step]
    if len(chain) == 1:
        return len(chain[0]) - 1
    made = len(chain) - 1
    return max(o for _, *operands in chain for o in operands if isinstance(o, int)) + 1 - made
