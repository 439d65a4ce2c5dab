"""The executor and the pool: same bits on any number of threads, no CPU between runs, forks survived."""

import gc
import os
import platform
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

from fastgraph import cpus
from fastgraph.runtime import function, pool
from fastgraph.runtime.pool import Runner
from tests.processes import python
from tests.runtime.toys import Ring, toys

HERE = Path(__file__).parents[2]


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_every_step_sees_the_step_before(threads: int) -> None:
    ring = Ring(steps=7, n=101)
    runner = Runner(ring.table, threads)
    for _ in range(500 if threads < 3 else 100):
        ring.start()
        assert runner.run() == 0
        np.testing.assert_array_equal(ring.result, ring.expected)


@pytest.mark.parametrize("native", [True, False])
def test_a_function_runs_without_the_lock_and_keeps_what_it_needs(
    native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As CPython's own kind of function, and by ctypes where there is none."""
    if not native:
        monkeypatch.setattr(function, "_native", lambda *_: None)
    ring = Ring(steps=2000, n=2000)
    ring.start()
    alive = weakref.ref(owner := Owner())
    runner = Runner(ring.table, 1, 0, owner)
    alone, empty = runner.alone, Runner(ring.table[:0]).alone
    assert (type(alone) is type(len)) == (native and sys.implementation.name == "cpython")
    del owner, runner
    gc.collect()
    assert alive() is not None
    others: list[bool] = []
    done = threading.Event()

    def count() -> None:
        while not done.is_set():
            others.append(running)

    running = False
    thread = threading.Thread(target=count)
    thread.start()
    for _ in range(20):
        running = True
        assert alone() is None
        running = False
    done.set()
    thread.join()
    assert any(others)
    ring.start()
    alone()
    np.testing.assert_array_equal(ring.result, ring.expected)
    before = sys.getrefcount(None)
    for _ in range(500):
        empty()
    assert abs(sys.getrefcount(None) - before) < 100
    del alone
    gc.collect()
    assert alive() is None


class Owner:
    """Something that a weak reference can point to."""


def test_back_to_back_runs_keep_apart() -> None:
    """A worker that is late out of one run must not disturb the next."""
    ring = Ring(steps=1, n=2)
    runner = Runner(ring.table, 2)
    ring.start()
    for _ in range(2000):
        ring.buffers[1] = -1
        runner.run()
        assert ring.result.tolist() == ring.expected.tolist()


@pytest.mark.parametrize("threads", [1, 4])
def test_an_empty_table_runs(threads: int) -> None:
    assert Runner(np.zeros((0, 2), np.int64), threads).run() == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_denormals_are_flushed_within_a_run_only(threads: int) -> None:
    cells = np.zeros(1 + threads, np.int64)
    cells[0] = np.float32(1.5e-38).view(np.int32)
    cells[1:] = -1
    args = np.array([cells.ctypes.data], np.int64)
    Runner(np.array([[toys()["denormal"], args.ctypes.data]], np.int64), threads).run()
    half = np.float32(1.5e-38) * np.float32(0.5)
    assert half > 0, "the caller's own denormals must survive a run"
    flushed = platform.machine().lower() in ("x86_64", "amd64")
    assert cells[1:].tolist() == [0 if flushed else int(half.view(np.int32))] * threads


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_is_returned_once(threads: int) -> None:
    error = np.zeros(1, np.int64)
    args = np.array([error.ctypes.data, 77], np.int64)
    table = np.array([[toys()["fail"], args.ctypes.data]], np.int64)
    runner = Runner(table, threads, error.ctypes.data)
    assert runner.run() == 77
    args[1] = 0
    assert runner.run() == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_profile_gives_seconds_per_step(threads: int) -> None:
    short, long = Ring(steps=1, n=10), Ring(steps=1, n=100_000)
    runner = Runner(np.concatenate([short.table, long.table]), threads)
    runner.run()
    started = time.perf_counter()
    seconds = runner.profile()
    elapsed = time.perf_counter() - started
    assert seconds.shape == (2,) and (seconds >= 0).all()
    assert 1e-5 < seconds[1] < elapsed
    assert seconds.sum() < elapsed * 1.05


def test_no_cpu_between_runs() -> None:
    ring = Ring(steps=5, n=100)
    runner = Runner(ring.table, 3)
    for _ in range(20):
        runner.run()
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.01


def test_threads_of_the_program_share_the_pool() -> None:
    """Runs from several Python threads, on one or more pool threads each, all come out right."""
    wrong: list[int] = []

    def work(threads: int) -> None:
        ring = Ring(steps=5, n=64)
        runner = Runner(ring.table, threads)
        for _ in range(100):
            ring.start()
            runner.run()
            if not (ring.result == ring.expected).all():
                wrong.append(threads)

    callers = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3, 2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30)
        assert not caller.is_alive()
    assert not wrong


def test_a_pool_that_cannot_have_threads_runs_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Ring(steps=3, n=20)
    monkeypatch.setattr(pool, "_pool", pool._Pool())
    monkeypatch.setattr(pool, "_system", lambda: None)
    runner = Runner(ring.table, 4)
    ring.start()
    runner.run()
    assert runner.threads == 1
    np.testing.assert_array_equal(ring.result, ring.expected)


def test_a_thread_that_cannot_start_leaves_a_smaller_team(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    started = []

    def scarce(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(pool, "_pool", pool._Pool())
    monkeypatch.setattr(threading.Thread, "start", scarce)
    ring = Ring(steps=3, n=20)
    runner = Runner(ring.table, 4)
    ring.start()
    runner.run()
    assert runner.threads == 2
    np.testing.assert_array_equal(ring.result, ring.expected)
    pool._pool.stop()
    assert not started[0].is_alive()


FORK = """
import os, sys, threading, time
from tests.runtime.toys import Ring
from fastgraph.runtime.pool import Runner
ring = Ring(steps=5, n=64)
runner = Runner(ring.table, 3)
ring.start(); runner.run()
busy = Ring(steps=5, n=64)
def forever():
    other = Runner(busy.table, 3)
    while True: other.run()
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.05)
for _ in range(3):
    child = os.fork()
    if not child:
        ring.start(); runner.run()
        os._exit(0 if (ring.result == ring.expected).all() else 1)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid: break
        time.sleep(0.005)
    else:
        os.kill(child, 9); sys.exit("the child hangs")
    assert status == 0, status
ring.start(); runner.run()
assert (ring.result == ring.expected).all()
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_has_threads_of_its_own() -> None:
    """Forked in the middle of another thread's runs; and the process ends while those go on."""
    assert python("-c", FORK, timeout=60) == "done\n"


EXIT = """
import atexit, sys
def late():
    ring.start(); runner.run()
    assert (ring.result == ring.expected).all()
    print("late", flush=True)
atexit.register(late)
from tests.runtime.toys import Ring
from fastgraph.runtime.pool import Runner
ring = Ring(steps=5, n=64)
runner = Runner(ring.table, 3)
runner.run()
"""


def test_a_run_after_the_pool_has_stopped_at_exit() -> None:
    assert python("-c", EXIT, timeout=60) == "late\n"


def test_a_stopped_pool_starts_again() -> None:
    ring = Ring(steps=5, n=64)
    runner = Runner(ring.table, 3)
    for _ in range(3):
        ring.start()
        runner.run()
        np.testing.assert_array_equal(ring.result, ring.expected)
        workers = pool._pool._workers
        assert len(workers) >= 2
        pool._pool.stop()
        assert not any(worker.is_alive() for worker in workers)


@pytest.mark.parametrize(("size", "near"), [("491520K", 30 << 20), ("32768K", 12 << 20), ("", 12 << 20)])
def test_caches_hold_a_part_of_the_third_level(size: str, near: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpus, "_text", lambda path: size + "\n")
    assert cpus.near_bytes.__wrapped__() == near


def test_the_default_is_what_this_process_may_use(tmp_path: Path) -> None:
    assert 1 <= cpus.default_threads() <= (os.cpu_count() or 1)
    group = tmp_path / "fs" / "a" / "b"
    group.mkdir(parents=True)
    member = tmp_path / "cgroup"
    member.write_text("9:cpuset:/x\n0::/a/b\n")
    assert cpus._cgroup_limit(str(tmp_path / "fs"), str(member)) == 1e9
    (group / "cpu.max").write_text("max 100000\n")
    (group.parent / "cpu.max").write_text("150000 100000\n")
    assert cpus._cgroup_limit(str(tmp_path / "fs"), str(member)) == 1.5
    old = tmp_path / "fs" / "cpu,cpuacct"
    old.mkdir()
    (old / "cpu.cfs_quota_us").write_text("50000\n")
    (old / "cpu.cfs_period_us").write_text("100000\n")
    member.write_text("4:cpu,cpuacct:/\n")
    assert cpus._cgroup_limit(str(tmp_path / "fs"), str(member)) == 0.5
    (old / "cpu.cfs_quota_us").write_text("-1\n")
    assert cpus._cgroup_limit(str(tmp_path / "fs"), str(member)) == 1e9


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes have no affinity here")
def test_the_default_follows_the_affinity() -> None:
    """A server's worker may get a CPU of its own after its parent asked."""
    before = os.sched_getaffinity(0)
    cpus.default_threads()
    try:
        os.sched_setaffinity(0, {max(before)})
        assert cpus.default_threads() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_interrupted_waits_go_on_waiting() -> None:
    """A signal that hits a parked worker wakes it from sem_wait without a job."""
    if not hasattr(os, "kill") or sys.platform == "win32":
        pytest.skip("no signals on this platform")
    import signal

    ring = Ring(steps=3, n=20)
    runner = Runner(ring.table, 3)
    runner.run()
    workers = [t for t in threading.enumerate() if t.name == "fastgraph"]
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    ring.start()
    try:
        for worker in workers:
            signal.pthread_kill(worker.ident or 0, signal.SIGUSR1)
        time.sleep(0.05)
        assert (ring.buffers[1] == -1).all(), "a worker ran without a job"
        runner.run()
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # drops those that no worker took yet
        signal.signal(signal.SIGUSR1, before)
    assert all(worker.is_alive() for worker in workers)
    np.testing.assert_array_equal(ring.result, ring.expected)


def test_a_call_costs_about_a_foreign_call() -> None:
    runner = Runner(np.zeros((0, 2), np.int64))
    best = min(_seconds(runner.run) for _ in range(500))
    assert best < 5e-6


def _seconds(call) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
