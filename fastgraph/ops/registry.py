"""The operators of the graph: what each computes, and the type of what it gives.

How it becomes machine work is said in `fastgraph.plan.lower`, by operator name; an operator that is not there runs
its NumPy reference as a host step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir import Node, TensorType

Infer = Callable[[Node, list[TensorType | None]], list[TensorType]]
Reference = Callable[[Node, list[Any]], list[Any]]


@dataclass(frozen=True)
class Op:
    """`infer(node, input types) -> output types`: an output whose shape hangs on data gets shape None.

    `reference(node, input arrays) -> output arrays`: NumPy, the meaning of the operator, used to fold constants, to
    run what has no kernel, and as the oracle of tests. `pure` is False for what must not be folded (random numbers).
    """

    name: str
    infer: Infer
    reference: Reference
    pure: bool = True


OPS: dict[str, Op] = {}


def define(name: str, infer: Infer, reference: Reference, pure: bool = True) -> None:
    """Add an operator; a second definition of a name is a defect."""
    assert name not in OPS, f"operator {name} is defined twice"
    OPS[name] = Op(name, infer, reference, pure)


def known(node: Node, index: int) -> np.ndarray | None:
    """The constant array of input `index`, or None: what infer may use of a parameter that is an input."""
    return node.const(index)
