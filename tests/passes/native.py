"""Whether a model is native from end to end."""

from __future__ import annotations

import fastgraph as fg
from fastgraph.plan.program import HostStep


def host_operators(model: fg.Model) -> list[str]:
    """The operators that NumPy computes in a run of the plan in use."""
    steps = [step.node.op for step in model.plan.program.steps if isinstance(step, HostStep)]
    return steps + [node.op for node in (model.plan.tail.nodes if model.plan.tail else [])]
