"""Time and quality of the arena planner on instances that are hard, and on networks."""

from __future__ import annotations

from typing import Any

import pytest
import rivals
from instances import CAPACITY, CUTS, NETWORKS, cut, minimalloc, network

from fastgraph.plan.arena import lower_bound, plan
from fastgraph.plan.packing import Buffer
from fastgraph.plan.verify import verify

RATIO = 1.05


def residual_network(blocks: int) -> list[Buffer]:
    """Return the activations of a residual network: three layers and a shortcut a block, shrinking."""
    buffers, step, size = [], 0, 64 * 56 * 56 * 4
    for block in range(blocks):
        if block and block % (blocks // 4) == 0:
            size //= 2
        buffers.append(Buffer(f"block{block}.in", step, step + 3, size))
        buffers.append(Buffer(f"block{block}.a", step + 1, step + 2, size // 4))
        buffers.append(Buffer(f"block{block}.b", step + 2, step + 3, size // 4))
        step += 3
    return buffers


@pytest.mark.parametrize("name", [*CUTS, *"ABCDEF"])
def test_instance(benchmark: Any, goal: Any, name: str | int) -> None:
    buffers = cut(name) if isinstance(name, int) else minimalloc(name)
    target = RATIO * CAPACITY / lower_bound(buffers)
    options = {"target": target, "rounds": 2000, "effort": 1 << 40}
    result = benchmark.pedantic(plan, (buffers,), options, rounds=1)
    verify(buffers, result.offsets, result.size)
    goal(f"instance {name} ({result.heuristic}): arena, of its capacity", result.size / CAPACITY, "x", RATIO)
    goal(f"instance {name}: planned", benchmark.stats.stats.max, "s", 10.0)


@pytest.mark.parametrize("name", [*NETWORKS, 16, 130, 7000])
def test_network(benchmark: Any, goal: Any, name: str | int) -> None:
    buffers = residual_network(name) if isinstance(name, int) else network(name)
    result = plan(buffers)
    verify(buffers, result.offsets, result.size)
    goal(f"network of {len(buffers)} buffers: arena, of its bound", result.size / result.bound, "x", 1.02)
    each = 1e6 * rivals.typical(benchmark, lambda: plan(buffers)) / len(buffers)
    goal(f"network of {len(buffers)} buffers: planned", each, "us each", 25)
