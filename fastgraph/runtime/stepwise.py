"""Runs a plan's steps one at a time, so that its memory can be looked at in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..ir import Node, Value
from ..ir.types import BFLOAT16
from ..plan.program import AnyStep, HostStep, Step
from .bind import bind_steps, host_run, out_of_range, records
from .executable import Executable
from .pool import Runner

Run = Callable[[], Any]


def single_runs(plan: Executable) -> Iterator[tuple[AnyStep, Run]]:
    """Each step with a function that runs it alone; InputError where a lookup fails. All steps of a node of control
    flow run together, with the first of them.
    """
    together = bodies(plan)
    end = 0
    for i, step in enumerate(plan.program.steps):
        if i < end:
            yield step, lambda: None
            continue
        if isinstance(step, HostStep):
            yield step, host_run(plan.compiled, plan.memory, step.node)
            continue
        if i in together:
            end = together[i][1].stop
            yield step, bind_steps(plan.compiled, plan.memory, plan.program.steps[i:end], plan.threads).run
            continue
        assert isinstance(step, Step)
        table, words = records(plan.compiled, plan.memory, [step])
        runner = Runner(table, plan.threads, plan.memory.error.ctypes.data, words, parts=[step.part])
        yield step, partial(_run, plan, step, runner)


def _run(plan: Executable, step: Step, runner: Runner) -> None:
    if runner.run():
        raise out_of_range(plan.graph, [step.node])


def bodies(plan: Executable) -> dict[int, tuple[Node, range]]:
    """The outermost nodes of control flow with the steps of their bodies, by the first of those steps."""
    nodes = plan.program.bodies
    return {nodes[node].start: (node, nodes[node]) for node in plan.graph.nodes if node in nodes}


def is_held(plan: Executable, value: Value) -> bool:
    """Whether the value has memory that NumPy reads: not if it is empty and unused, in bands only, in bfloat16, or what
    control flow gives to no one.
    """
    if value.type.dtype == BFLOAT16 or value in plan.unread:
        return False
    at = plan.program.storage.get(value)
    return value.data is not None or value in plan.memory.loose or at is not None and at.root in plan.program.offsets


def rounded_by(step: AnyStep) -> Value | None:
    """The value that a step rounds to bfloat16 for all its readers; its own memory may be reused from then on."""
    return step.node.x if isinstance(step, Step) and step.kernel.name == "round_bf16" else None


def groups(plan: Executable) -> list[tuple[list[Node], list[int]]]:
    """The nodes in order, each with the numbers of its steps (none if its result is a view); nodes whose steps
    alternate are one group. The last group copies states.
    """
    steps: dict[Node, list[int]] = {node: [] for node in plan.graph.nodes}
    within = {i: node for node, numbers in bodies(plan).values() for i in numbers}
    for i, step in enumerate(plan.program.steps):
        steps.setdefault(within.get(i, step.node), []).append(i)
    found: list[tuple[list[Node], list[int]]] = []
    end = -1
    for node, mine in steps.items():
        if mine and mine[0] < end:
            nodes, before = found.pop()
            found.append(([*nodes, node], sorted(before + mine)))
        else:
            found.append(([node], mine))
        end = max([end, *mine])
    return found
