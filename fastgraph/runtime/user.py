"""Errors of users' kernels: a native run only reports that one of them raised."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from ..compile import Compiled
from ..errors import InputError, ModelError
from ..ops.evaluate import run_node
from ..plan.program import Jump, Step, UserKernel
from .memory import Memory


def failures(steps: Sequence[Step | Jump], records: np.ndarray) -> list[Step]:
    """The steps whose kernels have raised, by the addresses of their records; clears their flags."""
    found = []
    for step, address in zip(steps, records.tolist(), strict=True):
        if isinstance(step, Step) and isinstance(step.kernel, UserKernel):
            cell = ctypes.c_int64.from_address(address)
            found += [step] * (cell.value != 0)
            cell.value = 0
    return found


def raised(plan: Compiled, memory: Memory, step: Step, first: Callable[[int], object]) -> InputError:
    """The error of a step whose kernel raised. `first(count)` runs the first steps again, as the buffers of its
    operands may have been reused; then Python calls the function to see the exception.
    """
    source, node = plan.graph.source or plan.graph.name, step.node
    at = plan.program.steps.index(step)
    why = f"node {node.name}: {node.op}: its kernel raised an exception: load with isa='numpy' to see which"
    if not any(isinstance(each, Jump) for each in plan.program.steps[:at]):
        first(at)
        held = [None if v is None else memory.held(v) for v in node.inputs]
        try:
            with np.errstate(all="ignore"):
                run_node(node, [v.copy() if isinstance(v, np.ndarray) else v for v in held])
        except ModelError as error:
            why = str(error)
    return InputError(f"{source}: {why}: check what was fed to the model")
