"""A plan one step at a time: each node gives what its reference makes of the very inputs that lie in memory.

So nothing adds up from node to node, and what is allowed is the rounding of one node.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from fastgraph.ir import Node, Value, read_by
from fastgraph.ir.types import BFLOAT16
from fastgraph.kernels.amx.pack_real import widened
from fastgraph.ops.evaluate import operands, run_node
from fastgraph.plan.lower.build import KEEP
from fastgraph.plan.program import AnyStep, HostStep, Ref, Scratch, Step
from fastgraph.plan.storage import byte_strides
from fastgraph.runtime.executable import Executable
from fastgraph.runtime.stepwise import bodies, groups, is_held, rounded_by, single_runs
from tests.nets import assert_close

POISON = 0xFF
"""Fills memory with NaN (or -1)."""

Runs = list[tuple[Step | HostStep, Callable[[], object]]]
Close = Callable[[np.ndarray, np.ndarray, list[Node]], None]
Reference = Callable[[Node, list[Any]], list[Any]]


def within(rtol: float = 1e-4) -> Close:
    return lambda found, wanted, nodes: assert_close([found], [wanted], rtol, f"{nodes[-1]}")


def poison(plan: Executable) -> None:
    plan.memory.arena[...] = POISON


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


def grouped(plan: Executable) -> Iterator[tuple[list[Node], Runs]]:
    """Nodes with their steps; those in one whose steps take turns, or whose values never lie in memory (bands)."""
    runs = list(single_runs(plan))
    found: list[tuple[list[Node], list[int]]] = []
    for nodes, numbers in groups(plan):
        if found and not all(_has_memory(plan, v) for node in nodes for v in read_by(node)):
            found[-1] = found[-1][0] + nodes, found[-1][1] + numbers
        elif nodes[0].op != KEEP:
            found.append((nodes, numbers))
    for nodes, numbers in found:
        yield nodes, [runs[i] for i in numbers]


def check_steps(
    plan: Executable, feeds: Mapping[str, np.ndarray], close: Close, reference: Reference = run_node
) -> None:
    """Every step writes only what is its own, makes what it should, and leaves alone what is read later.

    `reference`: what a node makes of operands; those in bfloat16 are given as f32.
    """
    nodes = plan.graph.nodes
    last: dict[Value, int] = {}
    for i, node in enumerate(nodes):
        last.update(dict.fromkeys(read_by(node), i))
    last.update(dict.fromkeys((*plan.graph.outputs, *plan.graph.inputs), len(nodes)))
    poison(plan)
    plan.reset_states()
    plan.fill(feeds)
    made, done, copied = list(plan.graph.inputs), 0, dict[Value, Any]()
    for mine, runs in grouped(plan):
        expected: dict[Value, Any] = {}
        for node in mine:
            known = expected | copied
            given = [None if v is None else known[v] if v in known else _now(plan, v) for v in operands(node)]
            with np.errstate(all="ignore"):
                expected.update(zip(node.outputs, reference(node, given), strict=True))
        done += len(mine)
        free = {*copied, *(rounded_by(step) for step, _ in runs)}
        kept = {v: _now(plan, v) for v in made if last.get(v, -1) >= done and v not in free and _has_memory(plan, v)}
        for step, run in runs:
            if (value := rounded_by(step)) is not None and _has_memory(plan, value):
                copied[value] = _now(plan, value)
            before = plan.memory.arena.copy()
            run()
            stray = np.flatnonzero((plan.memory.arena != before) & ~owned(plan, step))
            assert not stray.size, f"a step of {step.node} wrote bytes {stray[:8]} of {plan.memory.arena.size}"
        for value, array in kept.items():
            np.testing.assert_array_equal(_now(plan, value), array, f"{mine[-1]} changed {value}, which is read later")
        for node in mine:
            for value in node.outputs:
                if value in last and _has_memory(plan, value) and (last[value] >= done or node is mine[-1]):
                    close(np.asarray(_now(plan, value)), np.asarray(expected[value]), mine)
        made += [v for node in mine for v in node.outputs]


def _has_memory(plan: Executable, value: Value) -> bool:
    """Whether the value lies in memory, which NumPy need not read."""
    at = plan.program.storage.get(value)
    return is_held(plan, value) or at is not None and at.root in plan.program.offsets


def _now(plan: Executable, value: Value) -> Any:
    held = plan.memory.held(value)
    if value.type.dtype == BFLOAT16:
        return widened(held.view(np.uint16))
    return held.copy() if isinstance(held, np.ndarray) else held
