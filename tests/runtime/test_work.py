"""Which runs are worth a team: by products, by weights that come from memory, and by the run before."""

import numpy as np
import pytest

from fastgraph.plan.describe import macs
from fastgraph.plan.program import Step
from fastgraph.runtime import pool
from fastgraph.runtime.pool import ASLEEP, AWAITED, WORTH_WAKING, Runner
from fastgraph.runtime.work import work_of
from tests.nets import Net
from tests.runtime.toys import Ring


def works(net: Net) -> tuple[float, int]:
    """Multiply-adds of a network, and what its run is taken to be worth."""
    steps = [step for step in net.load().plan.program.steps if isinstance(step, Step)]
    return sum(map(macs, steps)), sum(work_of(steps))


def work(rows: int, k: int, n: int) -> tuple[float, int]:
    """Those of a dense layer."""
    net = Net()
    weights = net.const(np.ones((k, n), np.float32))
    net.output(net("MatMul", net.input("x", (rows, k)), weights))
    return works(net)


def test_one_row_by_large_weights_is_worth_a_team() -> None:
    products, worth = work(1, 512, 2048)
    assert products < WORTH_WAKING < worth


def test_weights_that_stay_in_the_cache_are_not() -> None:
    products, worth = work(1, 512, 512)
    assert products < worth < WORTH_WAKING


def test_small_layers_are_not() -> None:
    products, worth = work(1, 64, 64)
    assert products < worth < WORTH_WAKING


def test_many_rows_are_worth_their_products() -> None:
    products, worth = work(256, 128, 128)
    assert 0.7 * products < worth < 1.1 * products  # three products of bfloat16 on tiles take a bit less


def test_few_output_channels_take_as_long_as_a_vector_of_them() -> None:
    assert work(256, 128, 1)[1] > 0.9 * work(256, 128, 16)[1]


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_what_is_no_product_is_worth_more_than_its_bytes(dtype: type) -> None:
    net = Net()
    net.output(net("MaxPool", net.input("x", (1, 64, 128, 128), dtype), kernel_shape=[3, 3], pads=[1] * 4))
    steps = [step for step in net.load().plan.program.steps if isinstance(step, Step)]
    least = 4 * np.dtype(dtype).itemsize << 20
    assert all(work in (0, least) for work in work_of(steps)) and max(work_of(steps)) == least


@pytest.mark.parametrize("batch", [1, 8])
def test_threads_dont_share_one_sequence(batch: int) -> None:
    net, hidden = Net(), 128
    weights = net.weight(1, 4 * hidden, 8), net.weight(1, 4 * hidden, hidden)
    net.output(net("LSTM", net.input("x", (1000, batch, 8)), *weights, hidden_size=hidden))
    products, worth = works(net)
    assert worth < products / 5 if batch == 1 else worth > products


def test_short_runs_have_a_team_when_they_follow_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_pool", mine := pool._Pool())
    ring, work = Ring(steps=2, n=8), [2 * WORTH_WAKING] * 2
    long, short = (Runner(ring.table, 2, work=[n * each for each in work], worth=WORTH_WAKING) for n in (ASLEEP, 1))
    threads = []
    for runner, awake in ((short, 1e-9), (short, 100.0), (long, 1e-9)):
        monkeypatch.setattr(pool, "AWAKE", awake)
        mine.stop()
        ring.start()
        runner.run()
        np.testing.assert_array_equal(ring.result, ring.expected)
        threads.append(mine.threads)
    mine.stop()
    assert threads == [1, 2, 2]


def test_what_is_done_in_parts_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_pool", pool._Pool())
    ring, worth = Ring(steps=40, n=8), 20 * AWAITED
    for parts, threads in (((), 1), ([1] * 20 + [2] * 20, 2), ([1] * 10 + [2] * 10 + [0] * 20, 1)):
        assert Runner(ring.table, 2, work=[AWAITED] * 40, worth=worth, parts=parts).threads == threads
