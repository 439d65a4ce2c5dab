"""Run a plan one step at a time and look at all of its memory in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from fastgraph.ir import Value, read_by
from fastgraph.ops.evaluate import operands, run_node
from fastgraph.plan.program import AnyStep, Ref, Scratch, Step
from fastgraph.plan.storage import byte_strides
from fastgraph.runtime.executable import Executable
from fastgraph.runtime.stepwise import bodies, is_held, single_runs

POISON = 0xFF
"""Fills memory with NaN (or -1)."""


def poison(plan: Executable) -> None:
    plan.memory.arena[...] = POISON


def reference_values(plan: Executable, feeds: Mapping[str, np.ndarray]) -> dict[Value, np.ndarray]:
    """Every value of the lowered graph by the references."""
    arrays: dict[Value, np.ndarray] = {v: feeds[v.name] for v in plan.graph.inputs}
    for node in plan.graph.nodes:
        given = [None if v is None else v.data if v.data is not None else arrays[v] for v in operands(node)]
        with np.errstate(all="ignore"):
            arrays.update(zip(node.outputs, run_node(node, given), strict=True))
    return arrays


def owned(plan: Executable, step: AnyStep) -> np.ndarray:
    """A mask of the bytes of the arena that a step may write: its node's results and its scratch memory. The first step
    of a node of control flow may write what all of them may.
    """
    at = plan.program.steps.index(step)
    _, numbers = bodies(plan).get(at, (None, range(at, at + 1)))
    masks = [_owned(plan, plan.program.steps[i]) for i in numbers]
    return np.logical_or.reduce(masks)


def _owned(plan: Executable, step: AnyStep) -> np.ndarray:
    mask = np.zeros(plan.memory.arena.size, bool)
    for value in step.node.outputs:
        at = plan.program.storage.get(value)
        if at is not None and at.root in plan.program.offsets:
            dims, size = value.type.dims, value.type.dtype.itemsize
            start = plan.program.offsets[at.root] + at.offset
            np.ndarray((*dims, size), bool, mask, start, (*byte_strides(dims, size, at.stride), 1))[...] = True
    for arg in step.words() if isinstance(step, Step) else ():
        if isinstance(arg, Ref) and isinstance(arg.base, Scratch):
            start = plan.program.offsets[arg.base]
            mask[start : start + arg.base.nbytes] = True
    return mask


def check_steps(plan: Executable, feeds: Mapping[str, np.ndarray], close: Callable[..., None]) -> None:
    """Every step writes only what is its own; values are right when made and until they are last read."""
    expected = reference_values(plan, feeds)
    nodes = plan.graph.nodes
    needed = {v: len(nodes) for v in (*plan.graph.outputs, *plan.graph.inputs)}
    for i, node in enumerate(nodes):
        for value in read_by(node):
            needed[value] = max(needed.get(value, 0), i)
    poison(plan)
    plan.fill(feeds)
    steps, made = list(single_runs(plan)), list(plan.graph.inputs)
    for i, node in enumerate(nodes):
        for step, run in [s for s in steps if s[0].node is node]:
            before = plan.memory.arena.copy()
            run()
            written = plan.memory.arena != before
            stray = np.flatnonzero(written & ~owned(plan, step))
            assert not stray.size, f"step of {node} wrote bytes {stray[:8]} of {plan.memory.arena.size}"
        made += node.outputs
        for value in filter(partial(is_held, plan), made):
            if needed.get(value, -1) > i or value in node.outputs and needed.get(value, -1) >= i:
                close([plan.memory.held(value)], [expected[value]], what=f"{value} after {node}")
    in_order = [n for n in nodes for s in steps if s[0].node is n]
    assert [s[0].node for s in steps] == in_order, "steps in the nodes' order"
