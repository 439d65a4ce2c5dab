"""Time and quality of the arena planner on the MiniMalloc instances and on a typical network."""

import csv
from pathlib import Path

import pytest

from fastgraph.plan.arena import Buffer, lower_bound, plan
from fastgraph.plan.verify import verify

INSTANCES = Path(__file__).resolve().parents[1].parent / "shared" / "models" / "planner"
CAPACITY = 1_048_576
RATIO = 1.05
SECONDS_PER_INSTANCE = 10.0
SECONDS_PER_NETWORK = 0.010


def read_instance(name: str) -> list[Buffer]:
    path = INSTANCES / f"{name}.{CAPACITY}.csv"
    if not path.exists():
        pytest.skip(f"{path.name} is absent: the planner instances are not in {INSTANCES}")
    with path.open(newline="") as file:
        return [
            Buffer(row["id"], int(row["lower"]), int(row["upper"]) - 1, int(row["size"]), align=1)
            for row in csv.DictReader(file)
        ]


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


@pytest.mark.parametrize("name", "ABCDEF")
def test_instance(benchmark, name: str) -> None:
    buffers = read_instance(name)
    target = RATIO * CAPACITY / lower_bound(buffers)
    options = {"target": target, "rounds": 2000, "seconds": SECONDS_PER_INSTANCE - 0.5}
    result = benchmark.pedantic(plan, (buffers,), options, rounds=1)
    verify(buffers, result.offsets, result.size)
    benchmark.extra_info.update(ratio=round(result.size / CAPACITY, 4), heuristic=result.heuristic)
    assert result.size <= RATIO * CAPACITY
    assert benchmark.stats.stats.max <= SECONDS_PER_INSTANCE


@pytest.mark.parametrize("blocks", [16, 130])
def test_network(benchmark, blocks: int) -> None:
    buffers = residual_network(blocks)
    result = benchmark(plan, buffers)
    verify(buffers, result.offsets, result.size)
    benchmark.extra_info.update(buffers=len(buffers), ratio=round(result.size / result.bound, 4))
    assert result.size <= 1.02 * result.bound
    assert benchmark.stats.stats.median <= SECONDS_PER_NETWORK
