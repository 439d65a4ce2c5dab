"""Runs are stopped between steps, by a deadline or by what the handler of a signal raises; the next run is right."""

import ctypes
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

from fastgraph import RunTimeout, deadline
from fastgraph.runtime import function, pool
from fastgraph.runtime.pool import Runner
from tests.runtime.toys import Counter, Ring

SIGNALS = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="POSIX signals")
LONG, WORK = 20_000, 400_000
"""Steps, and the work of each: a run of all takes several seconds, so that what should come midway does. Who lets a
run end sets the work to 0."""


class Alarm(Exception):
    """What a handler raises."""


@contextmanager
def alarm(counter: Counter, action: Callable[[], object]) -> Iterator[None]:
    """Call `action` from the handler of a signal that comes when a run of the counter is under way."""
    before = signal.signal(signal.SIGALRM, lambda *_: action())
    over = threading.Event()

    def ring() -> None:
        while counter.counts[0, 0] < 2:  # the caller's thread is in its third step, all others had a first one
            if over.wait(0.001):
                return
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    thread = threading.Thread(target=ring)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGALRM, before)


def ring_ring() -> None:
    raise Alarm


def denormals_live() -> bool:
    return bool(np.float32(1.5e-38) * np.float32(0.5) > 0)


def stopped_by_a_deadline(counter: Counter, threads: int, run: Callable[[], object]) -> None:
    """A short one, and longer ones where the system gave a thread no time to start before."""
    for seconds in (0.05, 0.2, 0.8):
        with pytest.raises(RunTimeout), deadline.within(seconds):
            run()
        if min(counter.done(threads)[0]):
            break
    stopped_midway(counter, threads)


def stopped_midway(counter: Counter, threads: int) -> None:
    """Some steps ran, not all; each share of a step ran once, but in the last one some may be missing."""
    slow, _ = counter.done(threads)
    assert 0 < min(slow) and max(slow) < len(counter.table) and max(slow) - min(slow) <= 1
    assert denormals_live()


def then_right(counter: Counter, threads: int, run: Callable[[], object]) -> None:
    """The next runs, of this table and of another, do all."""
    counter.counts[:], counter.args[:, 1] = 0, 0
    run()
    assert counter.done(threads)[0] == [len(counter.table)] * threads
    ring = Ring(steps=7, n=101)
    ring.start()
    Runner(ring.table, threads).run()
    np.testing.assert_array_equal(ring.result, ring.expected)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_deadline_stops_a_run(threads: int) -> None:
    counter = Counter(LONG, WORK)
    runner = Runner(counter.table, threads)
    stopped_by_a_deadline(counter, threads, partial(runner.run, timed=True))
    then_right(counter, threads, runner.run)
    with deadline.within(1000):
        then_right(counter, threads, partial(runner.run, timed=True))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_no_step_runs_when_the_time_is_over_before(threads: int) -> None:
    counter = Counter(5, 0)
    runner = Runner(counter.table, threads)
    with pytest.raises(RunTimeout), deadline.within(0):
        runner.run(timed=True)
    assert counter.done(threads)[0] == [0] * threads
    with deadline.within(float("inf")):
        assert runner.run(timed=True) == 0
    assert counter.done(threads)[0] == [5] * threads


@SIGNALS
@pytest.mark.parametrize("way", ["call", "ctypes", "timed", 2, 3])
def test_what_a_handler_raises_stops_a_run(way: int | str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a function of the interpreter's own kind, by ctypes, with a deadline, and as a team."""
    threads = way if isinstance(way, int) else 1
    if way == "ctypes":
        monkeypatch.setattr(function, "_native", lambda *_: None)
    counter = Counter(LONG, WORK)
    runner = Runner(counter.table, threads)
    run = runner.alone if threads == 1 else runner.run
    if way == "timed":
        run = partial(runner.run, timed=True)
    with deadline.within(1000):
        with pytest.raises(Alarm), alarm(counter, ring_ring):
            run()
        stopped_midway(counter, threads)
        then_right(counter, threads, run)


@SIGNALS
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_handler_that_returns_is_called_within_the_run_and_stops_nothing(threads: int) -> None:
    """It may run other tables, and finds the caller's floating-point mode; then all steps are done once."""
    counter = Counter(LONG, WORK)
    runner = Runner(counter.table, threads)
    seen: list[object] = []

    def handle() -> None:
        seen.append(denormals_live() and 0 < counter.counts[0, 0] < len(counter.table))
        ring = Ring(steps=9, n=64)
        ring.start()
        Runner(ring.table, threads).run()
        seen.append((ring.result == ring.expected).all())
        counter.args[:, 1] = 0

    with alarm(counter, handle):
        runner.run()
    assert seen == [True, True]
    assert counter.done(threads)[0] == [len(counter.table)] * threads


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_firm_steps_are_all_done_or_none(threads: int) -> None:
    """And a run is late if and only if none of them is done, wherever the deadline falls."""
    counter = Counter(30, 2000, quick=300)
    runner = Runner(counter.table, threads, commit=30)
    seconds = float(np.median([runner.profile().sum() for _ in range(5)]))
    late = []
    for i in range(200):
        counter.counts[:] = 0
        try:
            with deadline.within(seconds * i / 100):
                runner.run(timed=True)
            late.append(False)
        except RunTimeout:
            late.append(True)
        assert counter.done(threads)[1] == [0 if late[-1] else 300] * threads
    assert late[0] and True in late
    assert runner.run() == 0


def test_waiting_for_the_pool_counts() -> None:
    """The one who waits is late; the one who has the pool goes on."""
    counter, other = Counter(LONG, WORK), Counter(5, 0)
    first, second = Runner(counter.table, 2), Runner(other.table, 2)
    second.run()
    thread = threading.Thread(target=first.run)
    thread.start()
    while not counter.counts[0, 0]:
        time.sleep(0.001)
    with pytest.raises(RunTimeout), deadline.within(0.02):
        second.run(timed=True)
    assert other.done(2)[0] == [5, 5]
    counter.args[:, 1] = 0
    thread.join()
    assert counter.done(2)[0] == [LONG, LONG]
    with deadline.within(1000):
        second.run(timed=True)
    assert other.done(2)[0] == [10, 10]


def test_the_error_of_a_stopped_run_is_not_the_next_ones() -> None:
    from tests.runtime.toys import toys

    error = np.zeros(1, np.int64)
    args = np.array([error.ctypes.data, 77], np.int64)
    counter = Counter(LONG, WORK)
    table = np.concatenate([np.array([[toys()["fail"], args.ctypes.data]], np.int64), counter.table])
    runner = Runner(table, 1, error.ctypes.data)
    with pytest.raises(RunTimeout), deadline.within(0.05):
        runner.run(timed=True)
    args[1] = counter.args[0, 1] = 0
    assert runner.run() == 0


@SIGNALS
def test_a_thread_that_is_interrupted_while_it_starts_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_pool", pool._Pool())
    start, thrown = threading.Thread.start, []

    def interrupted(thread: threading.Thread) -> None:
        if thrown:
            return start(thread)
        thrown.append(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    counter = Counter(5, 0)
    runner = Runner(counter.table, 3)
    with pytest.raises(KeyboardInterrupt):
        runner.run()
    then_right(counter, 3, runner.run)
    pool._pool.stop()
    assert not pool._pool._workers and not thrown[0].is_alive()


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"), reason="a mode of x86")
@pytest.mark.parametrize("threads", [1, 2])
def test_the_rounding_mode_of_the_caller_is_put_back(threads: int) -> None:
    """Whatever mode that was."""
    libm = ctypes.CDLL("libm.so.6")
    upward = 0x800
    counter = Counter(LONG, WORK)
    runner = Runner(counter.table, threads)
    assert libm.fesetround(upward) == 0
    try:
        with pytest.raises(RunTimeout), deadline.within(0.05):
            runner.run(timed=True)
        assert libm.fegetround() == upward
    finally:
        libm.fesetround(0)
