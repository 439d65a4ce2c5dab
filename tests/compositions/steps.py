"""A plan one step at a time: each node gives what its reference makes of the very inputs that lie in memory.

So nothing adds up from node to node, and what is allowed is the rounding of one node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from plan.step_by_step import owned, poison

from fastgraph.ir import Node, Value, read_by
from fastgraph.ops.evaluate import operands, run_node
from fastgraph.plan.program import HostStep, Step
from fastgraph.runtime.executable import Executable
from fastgraph.runtime.stepwise import is_held, single_runs

Runs = list[tuple[Step | HostStep, Callable[[], object]]]
Close = Callable[[np.ndarray, np.ndarray, list[Node]], None]


def groups(plan: Executable, runs: Runs) -> Iterator[tuple[list[Node], Runs]]:
    """Nodes with their steps; those together whose steps take turns, or whose values never lie in memory (bands)."""
    first: dict[Node, int] = {}
    final: dict[Node, int] = {}
    for i, (step, _) in enumerate(runs):
        first.setdefault(step.node, i)
        final[step.node] = i
    together: list[Node] = []
    end = start = 0
    for node in plan.graph.nodes:
        if node in first and first[node] >= end and together and all(is_held(plan, v) for v in read_by(node)):
            yield together, runs[start:end]
            together, start = [], end
        together.append(node)
        end = max(end, final.get(node, -1) + 1)
    if together:
        yield together, runs[start:]


def check_steps(plan: Executable, feeds: dict[str, np.ndarray], close: Close) -> None:
    """Every step writes only what is its own, makes what it should, and leaves alone what is read later."""
    nodes = plan.graph.nodes
    last: dict[Value, int] = {}
    for i, node in enumerate(nodes):
        last.update(dict.fromkeys(read_by(node), i))
    last.update(dict.fromkeys((*plan.graph.outputs, *plan.graph.inputs), len(nodes)))
    poison(plan)
    plan.reset_states()
    plan.fill(feeds)
    made, done = list(plan.graph.inputs), 0
    for together, runs in groups(plan, [run for run in single_runs(plan) if run[0].node.op != "keep"]):
        expected: dict[Value, Any] = {}
        for node in together:
            given = [None if v is None else expected[v] if v in expected else _now(plan, v) for v in operands(node)]
            with np.errstate(all="ignore"):
                expected.update(zip(node.outputs, run_node(node, given), strict=True))
        done += len(together)
        kept = {v: _now(plan, v) for v in made if last.get(v, -1) >= done and is_held(plan, v)}
        for step, run in runs:
            before = plan._memory.copy()
            run()
            stray = np.flatnonzero((plan._memory != before) & ~owned(plan, step))
            assert not stray.size, f"a step of {step.node} wrote bytes {stray[:8]} of {plan._memory.size}"
        for value, array in kept.items():
            np.testing.assert_array_equal(
                _now(plan, value), array, f"{together[-1]} changed {value}, which is read later"
            )
        for node in together:
            for value in node.outputs:
                if value in last and is_held(plan, value) and (last[value] >= done or node is together[-1]):
                    close(np.asarray(_now(plan, value)), np.asarray(expected[value]), together)
        made += [v for node in together for v in node.outputs]


def _now(plan: Executable, value: Value) -> Any:
    held = plan._holder(value)
    return held.copy() if isinstance(held, np.ndarray) else held
