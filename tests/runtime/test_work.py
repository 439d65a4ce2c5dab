"""Which runs are worth waking a team: by products, or by weights that come from memory."""

from __future__ import annotations

import numpy as np

from fastgraph.plan.describe import macs
from fastgraph.plan.program import Step
from fastgraph.runtime.bind import work_of
from fastgraph.runtime.pool import WORTH_WAKING
from tests.nets import Net


def work(rows: int, k: int, n: int) -> tuple[float, int]:
    """Multiply-adds of a dense layer, and what its run is taken to be worth."""
    net = Net()
    weights = net.const(np.ones((k, n), np.float32))
    net.output(net("MatMul", net.input("x", (rows, k)), weights))
    steps = [step for step in net.load().plan.program.steps if isinstance(step, Step)]
    return sum(map(macs, steps)), sum(work_of(steps))


def test_one_row_by_large_weights_is_worth_a_team() -> None:
    products, worth = work(1, 512, 2048)
    assert products < WORTH_WAKING < worth


def test_small_layers_are_not() -> None:
    products, worth = work(1, 64, 64)
    assert products < worth < WORTH_WAKING


def test_many_rows_are_worth_their_products() -> None:
    products, worth = work(256, 128, 128)
    assert products <= worth < 1.1 * products
