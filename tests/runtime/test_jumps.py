"""Jumps between the steps of a table, on one thread and on teams."""

import random

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.deadline import within
from fastgraph.runtime.pool import AWAITED, Runner
from tests.runtime.toys import Laps, Ring
from tests.threads import at_once

THREADS = (1, 2, 4)


@pytest.mark.parametrize("worth", [0, 2, 1 << 40])
@pytest.mark.parametrize("threads", THREADS)
def test_laps(threads: int, worth: int) -> None:
    """Every step of every round is done once, be a team worth waking for all of it, for some, or for nothing."""
    for laps in (1, 2, 9):
        found = Laps(laps, steps=4, n=1000)
        runner = Runner(found.table, threads, work=[AWAITED * (each > 0) + each for each in found.work], worth=worth)
        assert runner.threads == (1 if worth > 2 else threads)
        for _ in range(5):
            found.start()
            assert runner.run() == 0
            np.testing.assert_array_equal(found.ring.buffers[0], found.expected)
            assert found.cells.tolist() == [0, 0]


def test_teams_of_all_sizes_take_turns() -> None:
    """Runs with jumps and without: the shares of each are claimed in it alone."""
    pick = random.Random(3)
    laps = [Laps(pick.randint(1, 9), 2 * pick.randint(1, 4), 500) for _ in range(4)]
    rings = [Ring(pick.randint(1, 9), 500) for _ in range(4)]
    runners = [(found, Runner(found.table, pick.choice(THREADS))) for found in (*laps, *rings)]
    for _ in range(300):
        found, runner = pick.choice(runners)
        found.start()
        assert runner.run() == 0
        result = found.ring.buffers[0] if isinstance(found, Laps) else found.result
        np.testing.assert_array_equal(result, found.expected)


def test_several_callers() -> None:
    wrong: list[int] = []

    def call(seed: int) -> None:
        found = Laps(7, 4, 300 + seed)
        runner = Runner(found.table, 2)
        for _ in range(40):
            found.start()
            runner.run()
            if not np.array_equal(found.ring.buffers[0], found.expected):
                wrong.append(seed)

    at_once(call, range(4))
    assert not wrong


@pytest.mark.parametrize("threads", THREADS)
def test_no_end(threads: int) -> None:
    """A table that jumps back for ever, from its first row on, runs until its time is over."""
    found = Laps(1 << 60, steps=2, n=100)
    runner = Runner(found.table, threads)
    found.start()
    for _ in range(3):
        with pytest.raises(fg.RunTimeout), within(0.02):
            runner.run(timed=True)


@pytest.mark.parametrize("threads", THREADS)
def test_a_profile_has_all_rounds(threads: int) -> None:
    found = Laps(100, steps=2, n=20_000)
    runner = Runner(found.table, threads)
    found.start()
    seconds = runner.profile()
    assert (seconds[:3] > 0).all() and not seconds[3:].any()
    np.testing.assert_array_equal(found.ring.buffers[0], found.expected)
