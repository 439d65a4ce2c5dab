"""Shares are dealt out: who is not scheduled keeps nobody waiting, and who comes late disturbs nothing."""

import ctypes
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from fastgraph.runtime import pool
from fastgraph.runtime.pool import Runner
from tests.runtime.toys import Ring

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="suspends threads with the C library's functions")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pool._Pool]:
    """A pool for this test."""
    monkeypatch.setattr(pool, "_pool", pool._Pool())
    yield pool._pool


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """Other processes that want the CPUs for themselves."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(0.2)
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def right(ring: Ring, runner: Runner) -> None:
    ring.start()
    runner.run()
    np.testing.assert_array_equal(ring.result, ring.expected)


def various_runs(runs: int, seed: int) -> None:
    """Runs of tables and teams of all sizes in turn; some are deleted in between, and their memory used again."""
    pick = random.Random(seed)
    made: list[tuple[Ring, Runner]] = []
    for _ in range(runs):
        if len(made) < 4 or pick.random() < 0.05:
            ring = Ring(steps=pick.randint(1, 12), n=pick.randint(1, 40))
            made.append((ring, Runner(ring.table, pick.choice((2, 3, 4, 8)))))
        if len(made) > 6:
            made.pop(pick.randrange(len(made)))
        right(*pick.choice(made))


def test_various_tables_in_turn(fresh: pool._Pool) -> None:
    various_runs(2000, seed=1)
    fresh.stop()


def test_more_threads_than_cpus_while_others_are_busy(fresh: pool._Pool) -> None:
    with hogs(2):
        started = time.perf_counter()
        various_runs(3000, seed=2)
    assert time.perf_counter() - started < 20
    fresh.stop()


def test_many_steps_while_others_are_busy(fresh: pool._Pool) -> None:
    """Steps that each wait for the slowest would take a time slice each."""
    ring = Ring(steps=150, n=2000)
    runner = Runner(ring.table, 2)
    right(ring, runner)
    with hogs(2):
        started = time.perf_counter()
        for _ in range(20):
            right(ring, runner)
        assert time.perf_counter() - started < 20 * 0.15
    fresh.stop()


def test_the_caller_does_everything_when_nobody_comes(fresh: pool._Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """And those that come when all is over, and the tables are gone, do nothing; then they take part."""
    late: list[threading.Thread] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda thread: late.append(thread))
        for steps, threads in ((7, 4), (3, 8), (9, 2)):
            ring = Ring(steps=steps, n=101)
            runner = Runner(ring.table, threads)
            for _ in range(3):
                right(ring, runner)
            assert runner.threads == threads
            del runner, ring
    gc.collect()
    assert len(late) == 7
    for thread in late:
        thread.start()
    various_runs(300, seed=3)
    fresh.stop()
    assert not any(thread.is_alive() for thread in late)


@contextmanager
def suspended(threads: list[threading.Thread]) -> Iterator[Callable[[], None]]:
    """Stop threads where they are until the function that this gives is called.

    A signal may come late on a busy machine: the harmless handlers stay, and threads are resumed repeatedly.
    """
    libc = ctypes.CDLL(None)
    libc.signal.argtypes, libc.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    libc.signal(signal.SIGUSR2, ctypes.cast(libc.getpid, ctypes.c_void_p))
    libc.signal(signal.SIGUSR1, ctypes.cast(libc.pause, ctypes.c_void_p))

    def send(number: int, seconds: float) -> None:
        for thread in threads:
            signal.pthread_kill(thread.ident or 0, number)
        time.sleep(seconds)

    def resume() -> None:
        libc.signal(signal.SIGUSR1, ctypes.cast(libc.getpid, ctypes.c_void_p))
        for _ in range(5):
            send(signal.SIGUSR2, 0.01)

    try:
        send(signal.SIGUSR1, 0.05)
        yield resume
    finally:
        resume()


@LINUX
@pytest.mark.parametrize("threads", [2, 4])
def test_suspended_workers_are_not_waited_for(fresh: pool._Pool, threads: int) -> None:
    ring = Ring(steps=100, n=101)
    runner = Runner(ring.table, threads)
    right(ring, runner)
    time.sleep(0.02)
    with suspended(list(fresh._workers)) as resume:
        for _ in range(20):
            right(ring, runner)
        del runner, ring
        gc.collect()
        resume()
        various_runs(100, seed=4)
    fresh.stop()


@LINUX
def test_workers_stopped_anywhere_outside_a_share(fresh: pool._Pool) -> None:
    """Suspended while runs go on: whoever has begun a share is waited for until it is resumed."""
    ring = Ring(steps=30, n=64)
    runner = Runner(ring.table, 3)
    right(ring, runner)
    over = threading.Event()

    def disturb() -> None:
        while not over.is_set():
            with suspended(list(fresh._workers)):
                pass

    other = threading.Thread(target=disturb)
    other.start()
    for _ in range(300):
        right(ring, runner)
        time.sleep(0.001)
    over.set()
    other.join()
    fresh.stop()


@LINUX
def test_a_sleeping_thread_wakes_beside_its_caller(fresh: pool._Pool) -> None:
    """Not on the caller's CPU, where it last ran; afterwards it may run there again. Else it stays where it must."""
    before = os.sched_getaffinity(0)
    here, *others = sorted(before)
    ring = Ring(steps=150, n=20000)
    runner = Runner(ring.table, 2)
    right(ring, runner)
    (worker,) = (t.native_id or 0 for t in threading.enumerate() if t.name == "fastgraph" and t in fresh._workers)
    try:
        os.sched_setaffinity(0, {here})
        for cpus in ({here}, {here, *others[:1]}):
            os.sched_setaffinity(worker, {here})
            time.sleep(0.05)
            os.sched_setaffinity(worker, cpus)
            ends = time.perf_counter() + 10
            while time.perf_counter() < ends:
                right(ring, runner)
                time.sleep(0.01)
                where = _cpu(worker)
                if os.sched_getaffinity(worker) == cpus and where in (cpus - {here} or {here}):
                    break
            else:
                pytest.fail(f"on {where} of {os.sched_getaffinity(worker)}, not {cpus}")
    finally:
        os.sched_setaffinity(0, before)
    fresh.stop()


def _cpu(thread: int) -> int:
    """The CPU where a thread of this process is, or was before it slept."""
    with open(f"/proc/self/task/{thread}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[36])


def test_a_profile_counts_what_others_did() -> None:
    """Each step's seconds are those until all its shares are done, whoever did them."""
    rings = [Ring(steps=1, n=n) for n in (10, 100_000)]
    runner = Runner(np.concatenate([ring.table for ring in rings]), 4)
    for _ in range(20):
        seconds = runner.profile()
        assert (seconds >= 0).all() and seconds[1] > 1e-5


PARTS = [0, 1, 1, 2, 2, 2, 1, 2, 3, 4, 0, 0, 1]
"""Rings that are done at once: of two parts, of four, of one; the others by the whole team."""


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_parts_of_a_table_are_done_at_once(fresh: pool._Pool, threads: int) -> None:
    """Each row once and as on one thread, and all of them timed: those of a group have the time of the group."""
    rings = [Ring(steps=1, n=10 + i) for i in range(len(PARTS))]
    table = np.concatenate([ring.table for ring in rings])
    runner = Runner(table, threads, parts=PARTS)
    for _ in range(50):
        for ring in rings:
            ring.start()
        runner.run()
        for ring in rings:
            np.testing.assert_array_equal(ring.result, ring.expected)
    seconds = runner.profile()
    assert (seconds >= 0).all() and (seconds[[0, 10, 11]] > 0).all() and seconds[1:10].sum() > 0
    with runner.clocked() as found:
        runner.run()
    assert (np.diff(found[:, 0]) >= 0).all()
    fresh.stop()
